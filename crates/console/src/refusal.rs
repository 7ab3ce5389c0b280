//! Why a request of a browser is not served.

use http::StatusCode;
use wire::codes::response;

/// Response codes of servers for objects that do not exist.
const MISSING: [i32; 3] =
    [response::TOPIC_NOT_EXIST, response::SUBSCRIPTION_GROUP_NOT_EXIST, response::QUERY_NOT_FOUND];

/// Advice for a console that the brokers refuse.
pub(crate) const KEYS: &str = "where brokers ask for authentication, start the console with --console-keys FILE, a file with accessKey and secretKey";

/// Why a request is not served, in words for the person who made it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub text: String,
}

impl Refusal {
    /// Something that the person may not do.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, text: text.into() }
    }

    /// Something that is not there.
    pub fn missing(text: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, text: text.into() }
    }

    /// Something that is not a valid request.
    pub fn wrong(text: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, text: text.into() }
    }
}

impl From<admin::Error> for Refusal {
    fn from(error: admin::Error) -> Self {
        let status = match &error {
            admin::Error::Usage(_) => StatusCode::BAD_REQUEST,
            admin::Error::NotFound(_) => StatusCode::NOT_FOUND,
            other => status(other.code()),
        };
        let is_refused = error.code() == Some(response::NO_PERMISSION);
        let text = if is_refused { format!("{error}; {KEYS}") } else { error.to_string() };
        Self { status, text }
    }
}

/// The status for the code of a server that refused, or for none.
fn status(code: Option<i32>) -> StatusCode {
    match code {
        Some(code) if MISSING.contains(&code) => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_GATEWAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_do_not_have_is_missing() {
        for code in
            [response::TOPIC_NOT_EXIST, response::SUBSCRIPTION_GROUP_NOT_EXIST, response::QUERY_NOT_FOUND]
        {
            assert_eq!(status(Some(code)), StatusCode::NOT_FOUND, "{code}");
        }
        for code in [Some(response::SYSTEM_ERROR), Some(response::NO_PERMISSION), None] {
            assert_eq!(status(code), StatusCode::BAD_GATEWAY, "{code:?}");
        }
    }
}
