//! A remoting command: `length, type and header length, header, body` (`RemotingCommand`).
//!
//! ```text
//! 0      4  length of everything that follows
//! 4      1  header encoding: 0 JSON, 1 binary
//! 5      3  header length
//! 8      h  header
//! 8+h    b  body; empty means the command has none
//! ```
//! A header is decoded *in place*: JSON strings are unescaped inside the receive buffer, so in both encodings the fields are
//! ranges of the buffer, and no memory is allocated per command.

mod binary;
mod json;
mod owned;
#[cfg(test)]
mod tests;
mod writer;

pub use owned::OwnedCommand;
pub use writer::{FrameWriter, Head, written_code};

use crate::codes::Language;
use crate::fields::{Fields, Pairs};

/// Largest frame on the wire, its 4-byte length included (`NettyDecoder.FRAME_MAX_LENGTH`).
pub const FRAME_BYTES_MAX: usize = 16_777_216;
/// Longest header that a frame can state: the length has three bytes.
pub const HEADER_BYTES_MAX: usize = (1 << 24) - 1;

/// Flag bit of a response.
pub const FLAG_RESPONSE: i32 = 1;
/// Flag bit of a request that wants no response.
pub const FLAG_ONE_WAY: i32 = 2;

/// Encoding of a header (`SerializeType`); both kinds may be used on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Encoding {
    /// A JSON object, RocketMQ's default.
    #[default]
    Json,
    /// The binary `ROCKETMQ` layout.
    Binary,
}

/// Errors of a remoting command. The receiver closes the connection and sends no response.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The length prefix is negative, too small for a header, or above [`FRAME_BYTES_MAX`].
    #[error("frame length {0} is outside 4..={max}", max = FRAME_BYTES_MAX - 4)]
    Length(i32),
    /// The header does not fit in its frame.
    #[error("bad header length {header}: the frame holds {frame} bytes")]
    HeaderLength {
        /// Header length in the frame.
        header: usize,
        /// Bytes of the frame after its length prefix.
        frame: usize,
    },
    /// The encoding byte is neither 0 nor 1.
    #[error("unknown header encoding {0}, expected 0 (JSON) or 1 (ROCKETMQ)")]
    Encoding(u8),
    /// The header's text or layout is malformed.
    #[error("malformed header at byte {at}: {why}")]
    Header {
        /// Position of the error in the header.
        at: usize,
        /// Description of valid bytes.
        why: &'static str,
    },
}

/// Length of the first frame in `bytes`, its 4-byte prefix included; `None` while the prefix itself is incomplete.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(prefix) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_be_bytes(*prefix);
    match usize::try_from(length) {
        Ok(length) if (4..=FRAME_BYTES_MAX - 4).contains(&length) => Ok(Some(length + 4)),
        _ => Err(FrameError::Length(length)),
    }
}

/// A decoded command, borrowing the buffer it arrived in.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// Encoding of the header; a response uses the same.
    pub encoding: Encoding,
    /// Request code, or response code when [`Command::is_response`].
    pub code: i32,
    /// Implementation language of the sender, when it is known.
    pub language: Option<Language>,
    /// Version ordinal of the sender.
    pub version: i32,
    /// Request id; a response repeats it.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONE_WAY`].
    pub flag: i32,
    /// The `remark`, a text for humans.
    pub remark: Option<&'a str>,
    /// Header fields (`extFields`).
    pub fields: Fields<'a>,
    /// Body; empty when the command has none.
    pub body: &'a [u8],
}

/// Numbers and field positions of a header, found before the buffer is borrowed for reading.
pub(crate) struct RawHeader {
    code: i32,
    language: Option<Language>,
    version: i32,
    opaque: i32,
    flag: i32,
    remark: Option<(u32, u32)>,
}

impl<'a> Command<'a> {
    /// Decodes a whole frame; `bytes` starts at its length prefix. JSON strings are unescaped inside `bytes`.
    pub fn decode(bytes: &'a mut [u8]) -> Result<Self, FrameError> {
        let mut pairs = Pairs::default();
        let parts = decode_parts(bytes, &mut pairs, Empty::Null)?;
        let fields = Fields::owned(parts.header, pairs);
        Ok(parts.into_command(fields))
    }

    /// Decodes a frame that this process wrote. Unlike [`Command::decode`], empty fields count in the binary encoding
    /// too, so that a frame can hold any command.
    pub fn decode_own(bytes: &'a mut [u8]) -> Result<Self, FrameError> {
        let mut pairs = Pairs::default();
        let parts = decode_parts(bytes, &mut pairs, Empty::Kept)?;
        let fields = Fields::owned(parts.header, pairs);
        Ok(parts.into_command(fields))
    }

    /// Decodes like [`Command::decode`], but reuses memory for the fields, for callers that decode many commands.
    pub fn decode_with(bytes: &'a mut [u8], pairs: &'a mut Pairs) -> Result<Self, FrameError> {
        pairs.clear();
        let parts = decode_parts(bytes, pairs, Empty::Null)?;
        let fields = Fields::borrowed(parts.header, pairs);
        Ok(parts.into_command(fields))
    }

    /// Whether this is the response to a request.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether the sender wants no response, not even an error.
    pub fn is_one_way(&self) -> bool {
        self.flag & FLAG_ONE_WAY != 0
    }

    /// The head of the response to this command: with the same request id and encoding.
    pub fn response(&self, code: i32) -> Head<'static> {
        Head::response(self.encoding, code, self.opaque)
    }
}

/// Meaning of an empty value in the binary encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    /// The field is absent, as RocketMQ reads it.
    Null,
    /// The field is empty.
    Kept,
}

/// The parts of a frame, before its fields are bound to memory.
struct Parts<'a> {
    encoding: Encoding,
    raw: RawHeader,
    header: &'a [u8],
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn into_command(self, fields: Fields<'a>) -> Command<'a> {
        let Self { encoding, raw, header, body } = self;
        let remark = raw.remark.map(|(from, to)| &header[from as usize..to as usize]);
        Command {
            encoding,
            code: raw.code,
            language: raw.language,
            version: raw.version,
            opaque: raw.opaque,
            flag: raw.flag,
            remark: remark.map(|bytes| std::str::from_utf8(bytes).unwrap_or("(not UTF-8)")),
            fields,
            body,
        }
    }
}

fn decode_parts<'a>(bytes: &'a mut [u8], pairs: &mut Pairs, empty: Empty) -> Result<Parts<'a>, FrameError> {
    let available = bytes.len().saturating_sub(4);
    let prefix = bytes.get(4..8).ok_or(FrameError::HeaderLength { header: 0, frame: available })?;
    let encoding = prefix[0];
    let header_len = usize::from(prefix[1]) << 16 | usize::from(prefix[2]) << 8 | usize::from(prefix[3]);
    if header_len > available - 4 {
        return Err(FrameError::HeaderLength { header: header_len, frame: available });
    }
    let (header, body) = bytes[8..].split_at_mut(header_len);
    let (encoding, raw) = match encoding {
        0 => (Encoding::Json, json::decode(header, pairs)?),
        1 => (Encoding::Binary, binary::decode(header, pairs, empty)?),
        other => return Err(FrameError::Encoding(other)),
    };
    Ok(Parts { encoding, raw, header, body })
}
