//! The errors of operations.

use std::io;
use wire::codes::response;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};

/// Why an operation did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server could not be asked, refused, or answered with something that cannot be read.
    #[error("{0}")]
    Client(#[from] client::Error),
    /// The arguments are not valid; nothing was sent.
    #[error("{0}")]
    Usage(String),
    /// A name or message that does not exist.
    #[error("{0}")]
    NotFound(String),
    /// A change was made on some servers and then failed on another.
    #[error("{why}; done before that on {}", done.join(", "))]
    Partly {
        /// Addresses of the servers on which the change was made.
        done: Vec<String>,
        /// The failure.
        why: Box<Error>,
    },
    /// The answer was shown and lacks the part of the servers with these failures.
    #[error("the answer is not complete: {}", texts(.0).join("; "))]
    Incomplete(Vec<Error>),
    /// The system refused something, for example a thread or the standard output.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Text about the group if `text` names the retry or dead letter topic of a group; `None` for other texts.
fn missing_group(text: &str) -> Option<String> {
    let behind = |prefix| {
        let rest = text.split_once(prefix)?.1;
        rest.split(|letter: char| letter.is_whitespace() || ",;]'\"".contains(letter))
            .next()
            .filter(|group| !group.is_empty())
    };
    let unknown = behind(RETRY_PREFIX).map(|group| format!("no broker knows the group {group}"));
    unknown.or_else(|| behind(DLQ_PREFIX).map(|group| format!("the group {group} has no dead letters")))
}

/// The text of each failure, for answers in JSON.
pub(crate) fn texts(failures: &[Error]) -> Vec<String> {
    failures.iter().map(Error::to_string).collect()
}

impl Error {
    /// The response code of the server that refused; `None` for other errors.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Client(error) => error.code(),
            Self::Partly { why, .. } => why.code(),
            _ => None,
        }
    }

    /// Replaces failures about the retry or dead letter topic of a group, which operators do not name, by failures about the group.
    #[must_use]
    pub(crate) fn about_groups(self) -> Self {
        match self {
            Self::Client(client::Error::Refused { code: response::TOPIC_NOT_EXIST, address, remark }) => {
                match missing_group(&remark) {
                    Some(text) => Self::NotFound(text),
                    None => {
                        client::Error::Refused { code: response::TOPIC_NOT_EXIST, address, remark }.into()
                    }
                }
            }
            Self::NotFound(text) => Self::NotFound(missing_group(&text).unwrap_or(text)),
            Self::Partly { done, why } => Self::Partly { done, why: Box::new(why.about_groups()) },
            Self::Incomplete(failures) => {
                Self::Incomplete(failures.into_iter().map(Self::about_groups).collect())
            }
            other => other,
        }
    }

    /// Process exit code: 2 for wrong arguments, as `clap` does, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_the_group_that_was_asked_for() {
        let refused = |remark: &str| {
            let (address, remark) = ("ns:9876".to_owned(), remark.to_owned());
            Error::from(client::Error::Refused { address, code: response::TOPIC_NOT_EXIST, remark })
        };
        let retry = "No topic route info in name server for the topic: %RETRY%payments\nSee https://rocketmq.apache.org";
        let unknown = "no broker knows the group payments";
        assert_eq!(refused(&retry.replace('\n', " ")).about_groups().to_string(), unknown);
        assert_eq!(refused(retry).about_groups().to_string(), unknown);
        let dead = Error::NotFound("no broker has queues of the topic %DLQ%payments".to_owned());
        assert_eq!(dead.about_groups().to_string(), "the group payments has no dead letters");
        let other = refused("No topic route info in name server for the topic: payments");
        assert!(other.about_groups().to_string().ends_with("topic: payments"));
        let partly = Error::Partly { done: vec!["b:1".into()], why: Box::new(refused(retry)) };
        assert_eq!(partly.about_groups().to_string(), format!("{unknown}; done before that on b:1"));
    }
}
