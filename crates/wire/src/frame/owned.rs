//! A copy of a request that outlives the buffer the request was received in.

use super::Command;
use crate::fields::{Fields, Pairs};

/// A copy of a request, decoded. The remark is not kept.
#[derive(Debug)]
pub struct OwnedCommand {
    /// The request without its fields and body, which are in `bytes`.
    command: Command<'static>,
    /// Keys and values of the fields, then the body.
    bytes: Vec<u8>,
    pairs: Pairs,
    /// Position of the body in `bytes`.
    body: usize,
}

impl OwnedCommand {
    /// Copies a request.
    pub fn new(command: &Command<'_>) -> Self {
        let fields = &command.fields;
        let header_bytes: usize = fields.iter().map(|(key, value)| key.len() + value.len()).sum();
        let mut bytes = Vec::with_capacity(header_bytes + command.body.len());
        let pairs = fields.copy_to(&mut bytes);
        let body = bytes.len();
        bytes.extend_from_slice(command.body);
        let Command { encoding, code, language, version, opaque, flag, .. } = *command;
        let (remark, fields, body_of_none) = (None, Fields::default(), &[][..]);
        let command =
            Command { encoding, code, language, version, opaque, flag, remark, fields, body: body_of_none };
        Self { command, bytes, pairs, body }
    }

    /// The request's code.
    pub fn code(&self) -> i32 {
        self.command.code
    }

    /// Bytes that the copy takes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.pairs.bytes()
    }

    /// The request as received.
    pub fn command(&self) -> Command<'_> {
        let (header, body) = self.bytes.split_at(self.body);
        Command { fields: Fields::borrowed(header, &self.pairs), body, ..self.command.clone() }
    }
}
