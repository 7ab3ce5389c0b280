//! Writes commands directly into an output buffer, field by field, in either encoding.

use super::{Encoding, FLAG_ONE_WAY, FLAG_RESPONSE};
use crate::codes::{Language, VERSION};
use crate::find::{control, equal, first};

/// Parts of a command except its fields and body.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Encoding of the header.
    pub encoding: Encoding,
    /// Request or response code. Codes above 32,767 do not fit the binary header and are written as JSON.
    pub code: i32,
    /// Request id.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`], [`FLAG_ONE_WAY`].
    pub flag: i32,
    /// Language that the command states.
    pub language: Language,
    /// The `remark`, a text for humans.
    pub remark: Option<&'a str>,
}

impl<'a> Head<'a> {
    /// Makes the head of a request that expects a response. The head names the language `JAVA`, because Java clients
    /// of 3.2.6 to 4.0.0 close their connection when fastjson (before 1.2.29) does not know a language.
    pub fn request(encoding: Encoding, code: i32, opaque: i32) -> Self {
        Self { encoding, code, opaque, flag: 0, language: Language::Java, remark: None }
    }

    /// The head of a one-way request, which gets no response.
    pub fn one_way(encoding: Encoding, code: i32, opaque: i32) -> Self {
        Self { flag: FLAG_ONE_WAY, ..Self::request(encoding, code, opaque) }
    }

    /// The head of a response. It states the language `JAVA`, which third-party clients compare as a string.
    pub fn response(encoding: Encoding, code: i32, opaque: i32) -> Self {
        Self { encoding, code, opaque, flag: FLAG_RESPONSE, language: Language::Java, remark: None }
    }

    /// Sets the remark.
    pub fn remark(self, remark: &'a str) -> Head<'a> {
        Head { remark: Some(remark), ..self }
    }

    /// Writes a command without fields.
    pub fn write(self, out: &mut Vec<u8>, body: &[u8]) {
        FrameWriter::begin(out, self).finish(body);
    }
}

/// Writes a command to the end of a buffer: add fields, then finish. Dropping an unfinished writer leaves a broken
/// frame in the buffer, hence the `must_use`.
#[must_use = "a frame must be finished"]
pub struct FrameWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    /// Position of the field map's length in the binary encoding. In JSON, the position after the last member of the
    /// head.
    map_at: usize,
    encoding: Encoding,
    fields: usize,
}

impl<'b> FrameWriter<'b> {
    /// Starts a command at the end of `out`.
    pub fn begin(out: &'b mut Vec<u8>, head: Head<'_>) -> Self {
        let start = out.len();
        let encoding = if i16::try_from(head.code).is_ok() { head.encoding } else { Encoding::Json };
        out.extend_from_slice(&[0; 8]);
        match encoding {
            Encoding::Binary => binary_head(out, &head),
            Encoding::Json => json_head(out, &head),
        }
        let map_at = out.len();
        if encoding == Encoding::Binary {
            out.extend_from_slice(&[0; 4]);
        }
        Self { out, start, map_at, encoding, fields: 0 }
    }

    /// Adds a text field.
    pub fn text(self, key: &str, value: &str) -> Self {
        self.bytes(key, value.as_bytes())
    }

    /// Adds a field whose value is UTF-8 bytes.
    pub fn bytes(mut self, key: &str, value: &[u8]) -> Self {
        self.key(key);
        match self.encoding {
            Encoding::Binary => {
                self.out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                self.out.extend_from_slice(value);
            }
            Encoding::Json => json_string(self.out, value),
        }
        self
    }

    /// Adds a field with a decimal number.
    pub fn number(self, key: &str, value: impl itoa::Integer) -> Self {
        let mut digits = itoa::Buffer::new();
        let text = digits.format(value);
        self.bytes(key, text.as_bytes())
    }

    /// Adds a boolean field.
    pub fn flag(self, key: &str, value: bool) -> Self {
        self.text(key, if value { "true" } else { "false" })
    }

    /// Adds a text field if there is a value.
    pub fn maybe(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    fn key(&mut self, key: &str) {
        match self.encoding {
            Encoding::Binary => {
                self.out.extend_from_slice(&(key.len() as u16).to_be_bytes());
                self.out.extend_from_slice(key.as_bytes());
            }
            Encoding::Json => {
                self.out.extend_from_slice(if self.fields == 0 { b",\"extFields\":{\"" } else { b",\"" });
                self.out.extend_from_slice(key.as_bytes());
                self.out.extend_from_slice(b"\":");
            }
        }
        self.fields += 1;
    }

    /// Completes the command with `body`, which may be empty.
    pub fn finish(self, body: &[u8]) {
        let out = self.close(body.len());
        out.extend_from_slice(body);
    }

    /// Completes the header of a command. The caller sends a body of `body_len` bytes after it.
    pub fn finish_header(self, body_len: usize) {
        self.close(body_len);
    }

    fn close(self, body_len: usize) -> &'b mut Vec<u8> {
        match self.encoding {
            Encoding::Binary => {
                let map_len = (self.out.len() - self.map_at - 4) as u32;
                self.out[self.map_at..self.map_at + 4].copy_from_slice(&map_len.to_be_bytes());
            }
            Encoding::Json => self.out.extend_from_slice(if self.fields == 0 { b"}" } else { b"}}" }),
        }
        let header_len = (self.out.len() - self.start - 8) as u32;
        let length = header_len + 4 + body_len as u32;
        let kind = u32::from(self.encoding == Encoding::Binary) << 24;
        self.out[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
        self.out[self.start + 4..self.start + 8].copy_from_slice(&(kind | header_len).to_be_bytes());
        self.out
    }
}

fn binary_head(out: &mut Vec<u8>, head: &Head<'_>) {
    let remark = head.remark.unwrap_or_default();
    out.extend_from_slice(&(head.code as i16).to_be_bytes());
    out.push(head.language as u8);
    out.extend_from_slice(&(VERSION as i16).to_be_bytes());
    out.extend_from_slice(&head.opaque.to_be_bytes());
    out.extend_from_slice(&head.flag.to_be_bytes());
    out.extend_from_slice(&(remark.len() as u32).to_be_bytes());
    out.extend_from_slice(remark.as_bytes());
}

/// The code in the frame that `bytes` begin with, read without decoding the frame. `None` when [`FrameWriter`] did not write it.
pub fn written_code(bytes: &[u8]) -> Option<i32> {
    let (prefix, header) = bytes.split_at_checked(8)?;
    if prefix[4] == Encoding::Binary as u8 {
        return header.first_chunk().map(|code| i16::from_be_bytes(*code).into());
    }
    let code = header.strip_prefix(b"{\"code\":")?;
    let digits = code.iter().take_while(|letter| **letter != b',').count();
    std::str::from_utf8(&code[..digits]).ok()?.parse().ok()
}

fn json_head(out: &mut Vec<u8>, head: &Head<'_>) {
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(digits.format(head.code).as_bytes());
    out.extend_from_slice(b",\"flag\":");
    out.extend_from_slice(digits.format(head.flag).as_bytes());
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(head.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    out.extend_from_slice(digits.format(head.opaque).as_bytes());
    if let Some(remark) = head.remark {
        out.extend_from_slice(b",\"remark\":");
        json_string(out, remark.as_bytes());
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    out.extend_from_slice(digits.format(VERSION).as_bytes());
}

/// Writes a JSON string with quotes; escapes only quotes, backslashes and control characters.
fn json_string(out: &mut Vec<u8>, value: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = value;
    let special = |word| equal(word, b'"') | equal(word, b'\\') | control(word);
    while let Some(stop) = first(rest, special) {
        out.extend_from_slice(&rest[..stop]);
        let byte = rest[stop];
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let hex = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&hex);
            }
        }
        rest = &rest[stop + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
