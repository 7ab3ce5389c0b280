//! A request kept beyond its receive buffer.

use wire::codes::Language;
use wire::frame::{Command, Encoding, FrameWriter, Head};

/// A copy of a request. It is kept in the binary encoding, which any command can be written in and read from again.
pub(crate) struct Detached {
    frame: Vec<u8>,
    code: i32,
    encoding: Encoding,
    version: i32,
    language: Option<Language>,
    /// It came to the second port.
    fast: bool,
    /// How often it was served again.
    pub(super) rounds: u32,
}

impl Detached {
    pub(super) fn new(command: &Command<'_>, fast: bool, rounds: u32) -> Self {
        let mut frame = Vec::new();
        let head =
            Head { flag: command.flag, ..Head::request(Encoding::Binary, command.code, command.opaque) };
        let writer = FrameWriter::begin(&mut frame, head);
        let fields = command
            .fields
            .iter()
            .filter_map(|(key, value)| Some((std::str::from_utf8(key).ok()?, value)))
            .filter(|(key, _)| key.len() <= 255);
        fields.fold(writer, |writer, (key, value)| writer.bytes(key, value)).finish(command.body);
        let Command { code, encoding, version, language, .. } = *command;
        Self { frame, code, encoding, version, language, fast, rounds }
    }

    pub(super) fn code(&self) -> i32 {
        self.code
    }

    pub(crate) fn bytes(&self) -> usize {
        self.frame.len()
    }

    /// Calls `serve` with the request as it came, and whether that was on the second port.
    pub(super) fn with(&mut self, serve: impl FnOnce(&Command<'_>, bool)) {
        let (encoding, version, language) = (self.encoding, self.version, self.language);
        let command = Command::decode(&mut self.frame).expect("it was written by `new`");
        serve(&Command { encoding, version, language, ..command }, self.fast);
    }
}
