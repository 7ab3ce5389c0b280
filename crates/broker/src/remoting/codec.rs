//! Conversions of remoting adapters: fields of a request, and responses from the value that an operation returns.

use std::sync::Arc;

use net::ConnectionHandle;
use serde::{Deserialize, Serialize};
use wire::codes::response;
use wire::frame::Head;

use super::answer::Answer;
use super::incoming::Request;
use super::sink::{Call, Form};
use crate::Result;
use crate::rpc_latency::{RpcLatency, Written};

/// Whether the key of a field may be copied into another frame. Frames have keys without escapes. A key that JSON
/// escapes would make a frame that its receiver cannot read, and the receiver would end the connection.
pub(super) fn is_plain_key(key: &str) -> bool {
    key.bytes().all(|letter| letter >= b' ' && !matches!(letter, b'"' | b'\\'))
}

impl<'a> Request<'a> {
    /// The text of a required field.
    pub fn need(&self, key: &'static str) -> Result<&'a str> {
        Ok(self.command.fields.need(key)?)
    }

    /// The text of a field; empty when the field is absent.
    pub fn text_or_empty(&self, key: &'static str) -> Result<&'a str> {
        Ok(self.command.fields.text_or_empty(key)?)
    }

    /// The text of a field; `None` when the field is absent or not UTF-8.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.command.fields.text(key)
    }

    /// Returns the trimmed text of a field, or `None` for empty text.
    pub fn word(&self, key: &str) -> Option<&'a str> {
        self.text(key).map(str::trim).filter(|word| !word.is_empty())
    }

    /// The number in a required field.
    pub fn number<T: TryFrom<i64>>(&self, key: &'static str) -> Result<T> {
        Ok(self.command.fields.need_number(key)?)
    }

    /// The number in a field, or `default` when the field is absent.
    pub fn number_or<T: TryFrom<i64>>(&self, key: &'static str, default: T) -> Result<T> {
        Ok(self.command.fields.number_or(key, default)?)
    }

    /// The number in a field; `None` when the field is absent.
    pub fn number_if<T: TryFrom<i64>>(&self, key: &'static str) -> Result<Option<T>> {
        self.command.fields.bytes(key).map(|_| self.number(key)).transpose()
    }

    /// The boolean in a field, or `default` when the field is absent.
    pub fn flag_or(&self, key: &str, default: bool) -> bool {
        self.command.fields.flag_or(key, default)
    }

    /// The boolean in a field; `None` when the field is absent.
    pub fn flag_if(&self, key: &str) -> Option<bool> {
        self.command.fields.bytes(key).map(|_| self.flag_or(key, false))
    }

    /// The body of the request, read as JSON.
    pub fn body<T: Deserialize<'a>>(&self) -> Result<T> {
        Ok(wire::json::from_request(self.command.body)?)
    }

    /// The body of the request, read as JSON; `None` when there is none.
    pub fn body_if<T: Deserialize<'a>>(&self) -> Result<Option<T>> {
        if self.command.body.is_empty() { Ok(None) } else { self.body().map(Some) }
    }

    /// Returns the requested entries of a table: the number of skipped entries, and the most entries to return
    /// (`None`: all).
    pub fn page(&self, first: &'static str, count: &'static str) -> Result<(usize, Option<usize>)> {
        let first = self.number_or(first, 0)?;
        Ok((first, usize::try_from(self.number_or(count, -1_i64)?).ok()))
    }

    /// The means to answer the request after the function of the route table has returned.
    pub fn late_reply(&self) -> LateReply {
        let latency = self.broker.figures.rpc_latency.clone();
        LateReply { peer: self.peer.clone(), call: Call::of(self, Form::Plain), latency }
    }
}

/// Answers a request from another thread, or later on the same.
pub(crate) struct LateReply {
    peer: Arc<ConnectionHandle>,
    call: Call,
    latency: Arc<RpcLatency>,
}

impl LateReply {
    /// Answers with success.
    pub fn success(self, remark: Option<&str>, body: &[u8]) {
        self.answer(response::SUCCESS, remark, body);
    }

    /// Answers with a response code. A disconnected client gets no response.
    pub fn answer(self, code: i32, remark: Option<&str>, body: &[u8]) {
        self.write(|call, out| Head { remark, ..call.head(code) }.write(out, body));
    }

    /// Answers. A disconnected client gets no response.
    pub fn give(self, answer: &Answer) {
        self.write(|call, out| answer.write_under(call.head(answer.code), out));
    }

    fn write(self, answer: impl FnOnce(&Call, &mut Vec<u8>)) {
        if self.call.is_one_way {
            return;
        }
        let _ = self.peer.push(|out| {
            let start = out.len();
            answer(&self.call, out);
            self.latency.count_frame(&self.call.measured, &out[start..], Written::Success);
        });
    }
}

/// Makes the response to a request whose operation returns no value.
pub(super) fn done((): ()) -> Answer {
    Answer::success()
}

/// Makes a response whose body is `value` in RocketMQ's JSON dialect.
pub(super) fn json(value: impl Serialize) -> Answer {
    Answer::success().body(wire::json::to_vec(&value))
}

/// Makes a response whose body is `value` in strict JSON.
pub(super) fn strict_json(value: serde_json::Value) -> Answer {
    Answer::success().body(value.to_string().into_bytes())
}
