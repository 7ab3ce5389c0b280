//! A request that is kept longer than its receive buffer.

use wire::codes::Language;
use wire::frame::{Command, Encoding, FrameWriter, Head};

/// A copy of a request in the binary header encoding, in which any command can be written and read again.
pub(crate) struct Detached {
    frame: Vec<u8>,
    code: i32,
    encoding: Encoding,
    version: i32,
    language: Option<Language>,
    /// The request came to the fast port.
    fast: bool,
    /// How often the request was served again.
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

    pub(crate) fn code(&self) -> i32 {
        self.code
    }

    pub(crate) fn bytes(&self) -> usize {
        self.frame.len()
    }

    /// Calls `serve` with the request as it came, and with whether it came to the fast port.
    pub(super) fn with(&mut self, serve: impl FnOnce(&Command<'_>, bool)) {
        let (encoding, version, language) = (self.encoding, self.version, self.language);
        let command = Command::decode_own(&mut self.frame).expect("it was written by `new`");
        serve(&Command { encoding, version, language, ..command }, self.fast);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_empty_are_kept() {
        let text = br#"{"code":310,"opaque":7,"flag":0,"version":5,"language":"JAVA","extFields":{"a":"","b":"T\u0001"}}"#;
        let mut frame = Vec::new();
        frame.extend_from_slice(&(text.len() as u32 + 4 + 2).to_be_bytes());
        frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
        frame.extend_from_slice(text);
        frame.extend_from_slice(b"hi");
        let command = Command::decode(&mut frame).unwrap();
        let mut detached = Detached::new(&command, true, 0);
        let mut served = 0;
        for _ in 0..2 {
            detached.with(|command, fast| {
                served += 1;
                assert_eq!((command.fields.text("a"), command.fields.text("b")), (Some(""), Some("T\u{1}")));
                let found = (command.code, command.opaque, command.encoding, command.body, fast);
                assert_eq!(found, (310, 7, Encoding::Json, b"hi".as_slice(), true));
            });
        }
        assert_eq!(served, 2);
    }
}
