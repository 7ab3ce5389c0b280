//! Reason why a call, or an entry of it, fails, and the single conversion to a status (`ResponseBuilder`).

use broker::Refusal;
use grpc::messages::{Code, Status};
use wire::codes::response;

/// `LMQ_QUOTA_EXCEEDED`, a code of Java brokers.
const LITE_TOPIC_QUOTA: i32 = 2017;
/// `LITE_SUBSCRIPTION_QUOTA_EXCEEDED`, a code of Java brokers.
const LITE_SUBSCRIPTION_QUOTA: i32 = 2018;

/// Outcome of a call, or of an entry of it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// A call that is not performed; the client gets code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn status(&self) -> Status {
        Status::new(self.code, self.message.as_str())
    }
}

impl Failure {
    /// Makes the failure of a refused user.
    pub fn unauthorized(refusal: Refusal) -> Self {
        match refusal.code {
            response::SYSTEM_BUSY => refusal.into(),
            _ => Self::new(Code::Unauthorized, refusal.remark),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.code {
            response::TOPIC_NOT_EXIST => {
                let text = format!("CODE: {}  DESC: {}", refusal.code, refusal.remark);
                return Self::new(Code::TopicNotFound, text);
            }
            response::FLUSH_DISK_TIMEOUT => Code::MasterPersistenceTimeout,
            response::FLUSH_SLAVE_TIMEOUT => Code::SlavePersistenceTimeout,
            response::SLAVE_NOT_AVAILABLE => Code::HaNotAvailable,
            response::SYSTEM_BUSY => Code::TooManyRequests,
            response::REQUEST_CODE_NOT_SUPPORTED => Code::NotImplemented,
            response::SUBSCRIPTION_GROUP_NOT_EXIST => Code::ConsumerGroupNotFound,
            LITE_TOPIC_QUOTA => Code::LiteTopicQuotaExceeded,
            LITE_SUBSCRIPTION_QUOTA => Code::LiteSubscriptionQuotaExceeded,
            _ => Code::InternalServerError,
        };
        Self::new(code, refusal.remark)
    }
}

/// The single code of several statuses; `MULTIPLE_RESULTS` when they differ, `empty` when there are none.
pub fn common<'a>(statuses: impl IntoIterator<Item = &'a Status>, empty: &str) -> Status {
    let mut codes = statuses.into_iter().map(|status| status.code);
    let Some(first) = codes.next() else { return Status::new(Code::InternalServerError, empty) };
    match codes.all(|code| code == first) {
        true if first == Code::Ok as i32 => Status::ok(),
        true => Status::new(Code::try_from(first).unwrap_or(Code::InternalServerError), ""),
        false => Status::new(Code::MultipleResults, ""),
    }
}

#[cfg(test)]
mod tests;
