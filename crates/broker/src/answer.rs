//! What a handler returns: an answer that can be written at once, or a refusal with RocketMQ's response code.

use std::borrow::Cow;

use wire::codes::response;
use wire::fields::FieldError;
use wire::frame::{Command, FRAME_BYTES_MAX, FrameWriter};
use wire::units::LogOffset;

use crate::metadata_writer::{Change, Later, Then};
use crate::refused::Cause;

/// Suffix of remarks that point the user to the public FAQ (`FAQUrl.suggestTodo`).
pub const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// The answer of any request but sends, pulls and pops, whose answers are written without this type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Response code.
    pub code: i32,
    /// Text for humans.
    pub remark: Option<Cow<'static, str>>,
    /// Header fields.
    pub fields: Vec<(&'static str, String)>,
    /// Body; empty when there is none.
    pub body: Vec<u8>,
    /// End of what the request appended to the log; under sync flush the answer leaves once the log is on disk up to this offset.
    pub(crate) appended: LogOffset,
}

impl Answer {
    /// An answer with code 0 and nothing else.
    pub fn success() -> Self {
        Self::default()
    }

    /// Sets the log offset up to which the log must be on disk before the answer leaves under sync flush.
    pub(crate) fn appended(self, end: LogOffset) -> Self {
        Self { appended: end, ..self }
    }

    /// Adds a header field.
    pub fn field(mut self, key: &'static str, value: impl ToString) -> Self {
        self.fields.push((key, value.to_string()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// Sets the remark.
    pub fn remark(mut self, remark: impl Into<Cow<'static, str>>) -> Self {
        self.remark = Some(remark.into());
        self
    }

    /// Writes the answer to `command` into `out`; nothing when the request is one-way.
    pub fn write(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        if command.is_one_way() {
            return;
        }
        let head = command.reply(self.code);
        let head = self.remark.as_deref().map_or(head, |remark| head.remark(remark));
        let start = out.len();
        let writer = FrameWriter::begin(out, head);
        let writer = self.fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value));
        writer.finish(&self.body);
        let found = out.len() - start;
        if found > FRAME_BYTES_MAX {
            // A frame above 16 MiB makes clients close the connection, so a refusal goes instead.
            out.truncate(start);
            let remark = format!(
                "the answer is {found} bytes long, a frame holds at most {FRAME_BYTES_MAX}; ask for a part of the table (topicSeq and maxTopicNum, groupSeq and maxGroupNum)"
            );
            command.reply(response::SYSTEM_ERROR).remark(&remark).write(out, b"");
        }
    }
}

/// Why a request is not performed, or not yet. Nothing was changed for it so far.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code}: {remark}")]
pub struct Refusal {
    /// Response code.
    pub code: i32,
    /// Text for humans: what was expected and what was found.
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

    /// The request gets `answer` once `change` is on disk.
    pub(crate) fn answer_after(change: impl Into<Change>, answer: Answer) -> Self {
        Self::later(change.into(), Then::Answer(answer))
    }

    fn later(change: Change, then: Then) -> Self {
        let busy = Self::new(response::SYSTEM_BUSY, "a topic or group is being stored; try again");
        Self { later: Some(Box::new(Later { change, then })), ..busy }
    }

    /// A refusal with code 1 (`SYSTEM_ERROR`), for malformed requests.
    pub fn error(remark: impl Into<Cow<'static, str>>) -> Self {
        Self::new(response::SYSTEM_ERROR, remark)
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

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code, remark: Some(refusal.remark), ..Self::default() }
    }
}
