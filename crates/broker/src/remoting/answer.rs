//! Response to a request that has no special form of response. Sends, pulls and pops have one.

use std::borrow::Cow;

use wire::codes::{request, response};
use wire::frame::{Command, FRAME_BYTES_MAX, FrameWriter, Head};
use wire::units::LogOffset;

use crate::Refusal;

/// Response of any request except sends, pulls and pops, whose responses are written without this type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Response code.
    pub code: i32,
    /// Text for humans.
    pub remark: Option<Cow<'static, str>>,
    /// Header fields.
    pub fields: Vec<(&'static str, String)>,
    /// Body; empty when there is none.
    pub body: Vec<u8>,
    /// End of the request's records in the log. Under sync flush the response leaves when the log is on disk up to
    /// this offset.
    pub(crate) appended: LogOffset,
}

impl Answer {
    /// Makes a response with code 0 and no other content.
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

    /// Writes the response to `command` into `out`. A one-way request gets no response.
    pub fn write(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        if command.is_one_way() {
            return;
        }
        self.write_under(command.response(self.code), out);
    }

    /// Writes the response under the given head.
    pub(super) fn write_under<'a>(&'a self, plain: Head<'a>, out: &mut Vec<u8>) {
        let head = self.remark.as_deref().map_or(plain, |remark| plain.remark(remark));
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
            Head { code: response::SYSTEM_ERROR, remark: Some(&remark), ..plain }.write(out, b"");
        }
    }
}

/// Code 3 with Java's text; for a request that Vostok knows but does not serve, with the request's name.
pub(super) fn not_supported(code: i32) -> Refusal {
    let remark = match request::name(code) {
        Some(name) => format!(" request type {code} not supported: {name} is not served here"),
        None => format!(" request type {code} not supported"),
    };
    Refusal::new(response::REQUEST_CODE_NOT_SUPPORTED, remark)
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code, remark: Some(refusal.remark), ..Self::default() }
    }
}
