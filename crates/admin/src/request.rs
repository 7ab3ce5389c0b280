//! Requests to servers, and reading their answers.

use crate::Error;
use client::Reply;
use serde::Deserialize;
use wire::codes::request;
use wire::frame::FrameWriter;
use wire::json;

/// A request: its code, header fields and body.
#[derive(Clone)]
pub(crate) struct Request {
    pub code: i32,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    is_secret: bool,
}

impl Request {
    /// A request without fields and body.
    pub fn new(code: i32) -> Self {
        Self { code, fields: Vec::new(), body: Vec::new(), is_secret: false }
    }

    /// Adds a header field.
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.fields.push((key, value.to_string()));
        self
    }

    /// Adds a header field if there is a value.
    pub fn maybe(self, key: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Sets the body.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Sets a body that must not be shown, because it has a password.
    pub fn secret(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), is_secret: true, ..self }
    }

    /// Writes the frame.
    pub fn write(&self, frame: FrameWriter<'_>) {
        self.fields.iter().fold(frame, |frame, (key, value)| frame.text(key, value)).finish(&self.body);
    }

    /// Name of the request (`RequestCode`).
    pub fn name(&self) -> String {
        request::name(self.code).map_or_else(|| self.code.to_string(), str::to_owned)
    }

    /// Fields and body as a line of text, without secrets.
    pub fn content(&self) -> String {
        let fields: Vec<_> = self.fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let body = if self.is_secret { "(not shown)".into() } else { String::from_utf8_lossy(&self.body) };
        [fields.join(" "), body.trim_end().replace('\n', " ")].join(" ").trim().to_owned()
    }
}

/// Reads the JSON body of an answer.
pub(crate) fn body<T: for<'a> Deserialize<'a>>(server: &str, reply: &Reply) -> Result<T, Error> {
    json::from_slice(&reply.body).map_err(|why| malformed(server, why.to_string()))
}

/// Reads a number from the header of an answer.
pub(crate) fn number(server: &str, reply: &Reply, field: &str) -> Result<i64, Error> {
    let text = reply.text(field);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| malformed(server, format!("expected a number as {field}, found {text:?}")))
}

fn malformed(server: &str, why: String) -> Error {
    client::Error::Answer { address: server.to_owned(), why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let request = Request::new(request::AUTH_CREATE_USER).with("username", "alice").secret("hidden");
        assert_eq!(
            (request.name(), request.content()),
            ("AUTH_CREATE_USER".into(), "username=alice (not shown)".into())
        );
        assert_eq!(Request::new(1).body("a=b\n").content(), "a=b");
    }
}
