//! Refusal: the reason why an operation is not performed, with RocketMQ's response code.

use std::borrow::Cow;

use store::{AppendError, PushError, ReadError};
use wire::codes::response;
use wire::fields::FieldError;

use crate::change::{Change, Later, Then};
use crate::durability::Outcome;
use crate::refusal_counts::Cause;

/// Suffix of remarks that point the user to the public FAQ (`FAQUrl.suggestTodo`).
pub const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// Part of the remark with advice for a client whose request may or may not be stored.
const UNKNOWN: &str = "the outcome is unknown: the request may be stored and may be lost. Send it again, here when the broker was restarted or to another broker; what was stored then exists twice";

/// Outcome of an operation that may be refused.
pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Reason why a request is not performed, or not yet. The request has changed nothing so far.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code}: {remark}")]
pub struct Refusal {
    /// Response code.
    pub code: i32,
    /// Text for humans: expected and actual state.
    pub remark: Cow<'static, str>,
    /// When set, the request is valid and waits for this metadata change to be on disk. Code and remark are for callers that
    /// cannot wait.
    pub(crate) later: Option<Box<Later>>,
    /// The cause under which the runtime table counts the refusal, when the request itself was valid.
    pub(crate) cause: Option<Cause>,
}

impl Refusal {
    /// A refusal with `code`.
    pub fn new(code: i32, remark: impl Into<Cow<'static, str>>) -> Self {
        Self { code, remark: remark.into(), later: None, cause: None }
    }

    /// A refusal of a valid request, counted under `cause`.
    pub(crate) fn because(cause: Cause, code: i32, remark: impl Into<Cow<'static, str>>) -> Self {
        Self { cause: Some(cause), ..Self::new(code, remark) }
    }

    /// The request is served again from the start once `change` is on disk.
    pub(crate) fn after(change: impl Into<Change>) -> Self {
        Self::later(change.into(), Then::Again)
    }

    /// The request is done once `change` is on disk.
    pub(crate) fn done_after(change: impl Into<Change>) -> Self {
        Self::later(change.into(), Then::Done)
    }

    fn later(change: Change, then: Then) -> Self {
        let busy = Self::new(response::SYSTEM_BUSY, "a topic or group is being stored; try again");
        Self { later: Some(Box::new(Later { change, then })), ..busy }
    }

    /// Returns the refusal for senders whose records may not be durable, or `None` if they are durable. Records that
    /// are stored here but not on enough slaves count as durable, as in Java.
    pub(crate) fn not_durable(outcome: &Outcome) -> Option<Self> {
        let (code, remark) = match outcome {
            Outcome::Stored | Outcome::SlaveTimedOut => return None,
            Outcome::FlushTimedOut => (
                response::FLUSH_DISK_TIMEOUT,
                format!("the disk did not confirm the flush in time (syncFlushTimeout): {UNKNOWN}"),
            ),
            Outcome::Deposed => (
                response::SERVICE_NOT_AVAILABLE,
                format!("service not available now. This broker is no longer master: {UNKNOWN}"),
            ),
            Outcome::Failed(cause) => (
                response::SERVICE_NOT_AVAILABLE,
                format!(
                    "service not available now. The store is fenced until it is reopened ({cause}), {UNKNOWN}"
                ),
            ),
        };
        Some(Self::new(code, remark))
    }

    /// Returns the refusal for a producer whose message too few slaves have (`FLUSH_SLAVE_TIMEOUT`). `None` for every
    /// other outcome.
    pub(crate) fn not_stored_on_slaves(outcome: &Outcome) -> Option<Self> {
        let remark = "too few slaves have the message in time (slaveTimeout): it is stored here, and they get it when they follow again";
        (*outcome == Outcome::SlaveTimedOut).then(|| Self::new(response::FLUSH_SLAVE_TIMEOUT, remark))
    }

    /// A refusal with code 1 (`SYSTEM_ERROR`), for malformed requests.
    pub fn error(remark: impl Into<Cow<'static, str>>) -> Self {
        Self::new(response::SYSTEM_ERROR, remark)
    }
}

impl From<auth::AuthError> for Refusal {
    fn from(error: auth::AuthError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Self::error(error.to_string())
    }
}

impl From<wire::json::JsonError> for Refusal {
    fn from(error: wire::json::JsonError) -> Self {
        Self::error(format!("the request body is not the JSON expected: {error}"))
    }
}

/// Errors of storing a message that the broker made itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PutError {
    #[error(transparent)]
    Push(#[from] PushError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Topic(#[from] Refusal),
}

/// Refuses the lists of changes that were to be written together, except lists that are refused already.
pub(crate) fn refuse_all(outcomes: &mut [Result<(), Refusal>], refusal: &Refusal) {
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
        *outcome = Err(refusal.clone());
    }
}
