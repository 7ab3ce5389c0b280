//! A copy of a request that outlives the buffer the request was received in.

use super::{Command, Encoding, FrameError, FrameWriter, HEADER_BYTES_MAX, Head};
use crate::codes::Language;

/// Bytes before a frame's header: the lengths of the frame and of the header.
const PREFIX_BYTES: usize = 8;

/// A copy of a request in the binary header encoding.
#[derive(Debug)]
pub struct OwnedCommand {
    /// Invariant: the header in the copy is at most [`HEADER_BYTES_MAX`] long, and states code 0. Codes above 32,767 have no place
    /// in the binary encoding, and JSON has no place for every key.
    frame: Vec<u8>,
    code: i32,
    encoding: Encoding,
    version: i32,
    language: Option<Language>,
}

/// The header is longer in the binary encoding than a frame can state. A header in JSON gets longer by some bytes for each short
/// field.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the request header is too long to be kept until it is served: expected at most {HEADER_BYTES_MAX} bytes in the binary \
     encoding, found {0}"
)]
pub struct HeaderTooLong(usize);

impl OwnedCommand {
    /// Copies a request.
    ///
    /// # Errors
    /// `HeaderTooLong` when the copy has no place for the header.
    pub fn new(command: &Command<'_>) -> Result<Self, HeaderTooLong> {
        let mut frame = Vec::new();
        let head = Head { flag: command.flag, ..Head::request(Encoding::Binary, 0, command.opaque) };
        let writer = FrameWriter::begin(&mut frame, head);
        let fields = command
            .fields
            .iter()
            .filter_map(|(key, value)| Some((std::str::from_utf8(key).ok()?, value)))
            .filter(|(key, _)| key.len() <= 255);
        fields.fold(writer, |writer, (key, value)| writer.bytes(key, value)).finish(command.body);
        let header_bytes = frame.len() - PREFIX_BYTES - command.body.len();
        if header_bytes > HEADER_BYTES_MAX {
            return Err(HeaderTooLong(header_bytes));
        }
        let Command { code, encoding, version, language, .. } = *command;
        Ok(Self { frame, code, encoding, version, language })
    }

    /// The request's code.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Bytes that the copy takes.
    pub fn bytes(&self) -> usize {
        self.frame.len()
    }

    /// The request as received.
    ///
    /// # Errors
    /// [`FrameError`] when the frame cannot be read again, which its invariant excludes.
    pub fn command(&mut self) -> Result<Command<'_>, FrameError> {
        let Self { code, encoding, version, language, .. } = *self;
        let command = Command::decode_own(&mut self.frame)?;
        Ok(Command { code, encoding, version, language, ..command })
    }
}
