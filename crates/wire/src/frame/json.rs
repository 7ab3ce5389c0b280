//! Decodes the JSON header in place.
//!
//! Supports only the structure of a command header: one object with scalar members and the member `extFields`, an object of
//! scalars. Strings are unescaped inside the buffer (unescaped text is never longer), so every value is a range of it.
//! Unknown members of any type are skipped. As fastjson does, the decoder takes single quotes, and a comma behind the last member.

use super::{FrameError, RawHeader};
use crate::codes::Language;
use crate::fields::{Pair, Pairs, decimal};
use crate::find::{equal, first};
use crate::json::escape;

/// Deepest nesting in members that are skipped.
const DEPTH_MAX: usize = 32;

type Range = (u32, u32);

/// A scalar member: the content of a string, or the text of a number or literal.
enum ScalarRange {
    Text(Range),
    Literal(Range),
    Null,
}

/// Parses a JSON header; positions are relative to `header`.
pub(super) fn decode(header: &mut [u8], pairs: &mut Pairs) -> Result<RawHeader, FrameError> {
    let mut parser = Parser { bytes: header, at: 0 };
    let mut raw = RawHeader { code: 0, language: None, version: 0, opaque: 0, flag: 0, remark: None };
    parser.object(|parser, key| parser.member(key, &mut raw, pairs))?;
    parser.blanks();
    if parser.at != parser.bytes.len() {
        return Err(parser.error("text after the header object"));
    }
    Ok(raw)
}

struct Parser<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Parser<'_> {
    fn error(&self, why: &'static str) -> FrameError {
        FrameError::Header { at: self.at, why }
    }

    fn slice(&self, (from, to): Range) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8, why: &'static str) -> Result<(), FrameError> {
        self.blanks();
        if self.peek() != Some(byte) {
            return Err(self.error(why));
        }
        self.at += 1;
        Ok(())
    }

    /// Parses an object; `each` is called at the value of every member.
    fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, Range) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        self.expect(b'{', "expected an object")?;
        loop {
            self.blanks();
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(());
            }
            let key = self.quoted().unwrap_or_else(|| Err(self.error("expected a member name")))?;
            self.expect(b':', "expected ':'")?;
            self.blanks();
            each(self, key)?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.error("expected ',' or '}'")),
            }
        }
    }

    fn member(&mut self, key: Range, raw: &mut RawHeader, pairs: &mut Pairs) -> Result<(), FrameError> {
        match self.slice(key) {
            b"code" => raw.code = self.int()?,
            b"version" => raw.version = self.int()?,
            b"opaque" => raw.opaque = self.int()?,
            b"flag" => raw.flag = self.int()?,
            b"language" => {
                raw.language = match self.scalar()? {
                    ScalarRange::Text(range) => Language::from_name(self.slice(range)),
                    ScalarRange::Literal(range) => parse_int(self.slice(range))
                        .and_then(|number| u8::try_from(number).ok())
                        .and_then(Language::from_byte),
                    ScalarRange::Null => None,
                }
            }
            b"remark" => {
                raw.remark = match self.scalar()? {
                    ScalarRange::Text(range) | ScalarRange::Literal(range) => Some(range),
                    ScalarRange::Null => None,
                }
            }
            b"extFields" => self.fields(pairs)?,
            _ => self.skip(0)?,
        }
        Ok(())
    }

    fn fields(&mut self, pairs: &mut Pairs) -> Result<(), FrameError> {
        if self.peek() == Some(b'n') {
            return self.skip(0);
        }
        self.object(|parser, key| {
            let value = match parser.peek() {
                Some(b'{' | b'[') => {
                    let from = parser.at as u32;
                    parser.skip(0)?;
                    (from, parser.at as u32)
                }
                _ => match parser.scalar()? {
                    ScalarRange::Text(range) | ScalarRange::Literal(range) => range,
                    ScalarRange::Null => return Ok(()),
                },
            };
            if pairs.push(Pair { key, value }) { Ok(()) } else { Err(parser.error("too many header fields")) }
        })
    }

    fn int(&mut self) -> Result<i32, FrameError> {
        let range = match self.scalar()? {
            ScalarRange::Text(range) | ScalarRange::Literal(range) => range,
            ScalarRange::Null => return Ok(0),
        };
        parse_int(self.slice(range)).ok_or_else(|| self.error("expected a 32-bit number"))
    }

    fn scalar(&mut self) -> Result<ScalarRange, FrameError> {
        if let Some(text) = self.quoted() {
            return text.map(ScalarRange::Text);
        }
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.')) {
            self.at += 1;
        }
        match &self.bytes[from..self.at] {
            b"" => Err(self.error("expected a value")),
            b"null" => Ok(ScalarRange::Null),
            _ => Ok(ScalarRange::Literal((from as u32, self.at as u32))),
        }
    }

    /// Parses a string; `None` when there is no quote.
    fn quoted(&mut self) -> Option<Result<Range, FrameError>> {
        match self.peek() {
            Some(b'"') => Some(self.string::<b'"'>()),
            Some(b'\'') => Some(self.string::<b'\''>()),
            _ => None,
        }
    }

    /// Parses a string from its opening quote on, and unescapes it in place.
    fn string<const QUOTE: u8>(&mut self) -> Result<Range, FrameError> {
        self.at += 1;
        let from = self.at;
        self.at = self.special::<QUOTE>()?;
        if self.bytes[self.at] == b'\\' {
            return self.escaped::<QUOTE>(from);
        }
        self.at += 1;
        Ok((from as u32, (self.at - 1) as u32))
    }

    /// Position of the next quote or backslash.
    fn special<const QUOTE: u8>(&self) -> Result<usize, FrameError> {
        let found = first(&self.bytes[self.at..], |word| equal(word, QUOTE) | equal(word, b'\\'));
        found.map(|at| self.at + at).ok_or_else(|| self.unterminated())
    }

    fn unterminated(&self) -> FrameError {
        FrameError::Header { at: self.bytes.len(), why: "unterminated string" }
    }

    /// Parses the rest of a string from its first escape on. Unescaped bytes are moved to `write`, which is
    /// at most the read position `self.at`.
    fn escaped<const QUOTE: u8>(&mut self, from: usize) -> Result<Range, FrameError> {
        let mut write = self.at;
        loop {
            let special = self.special::<QUOTE>()?;
            self.bytes.copy_within(self.at..special, write);
            write += special - self.at;
            self.at = special + 1;
            if self.bytes[special] == QUOTE {
                return Ok((from as u32, write as u32));
            }
            let sequence = escape(&self.bytes[self.at..]);
            let (character, length) = sequence.ok_or_else(|| self.error("expected an escape sequence"))?;
            self.at += length;
            let mut utf8 = [0; 4];
            let text = character.encode_utf8(&mut utf8);
            self.bytes[write..write + text.len()].copy_from_slice(text.as_bytes());
            write += text.len();
        }
    }

    /// Skips a value of any type.
    fn skip(&mut self, depth: usize) -> Result<(), FrameError> {
        if depth > DEPTH_MAX {
            return Err(self.error("nested too deeply"));
        }
        match self.peek() {
            Some(b'{') => self.object(|parser, _| parser.skip(depth + 1)),
            Some(b'[') => self.array(depth),
            _ => self.scalar().map(drop),
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), FrameError> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            self.skip(depth + 1)?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.error("expected ',' or ']'")),
            }
        }
    }
}

fn parse_int(text: &[u8]) -> Option<i32> {
    decimal(text).and_then(|number| i32::try_from(number).ok())
}
