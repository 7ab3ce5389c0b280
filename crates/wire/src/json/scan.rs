//! A cursor over JSON text: tokens, positions and the nesting limit.

use std::borrow::Cow;

use super::{DEPTH_MAX, JsonError, TOO_MANY_ELEMENTS};
use crate::find::{equal, first};

/// Mark that editors put before UTF-8 text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Position of an error that serde created without knowing the reader's position.
pub(super) const NOWHERE: usize = usize::MAX;

/// A value that is neither object nor array.
pub(super) enum Scalar<'de> {
    Null,
    Bool(bool),
    Number(&'de str),
    Text(Cow<'de, str>),
}

/// A position in a JSON text. Invariant: `position` is on a character boundary of `text`.
pub(super) struct Cursor<'de> {
    text: &'de str,
    position: usize,
    depth: u32,
    /// Whether the next value is a map key, which an untyped reader always gets as text.
    pub(super) at_key: bool,
    /// Elements that arrays and maps may still have.
    pub(super) elements_max: usize,
}

impl<'de> Cursor<'de> {
    pub(super) fn new(text: &'de str) -> Self {
        let position = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        Self { text, position, depth: 0, at_key: false, elements_max: usize::MAX }
    }

    /// Sets the position of an error that serde created to where reading stopped.
    pub(super) fn locate(&self, mut error: JsonError) -> JsonError {
        if error.position == NOWHERE {
            error.position = self.position;
        }
        error
    }

    /// Fails unless only blanks are left.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.wrong("the end of the text")),
        }
    }

    /// The next byte behind whitespace and comments, not consumed.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.position) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.position += 1,
                b'/' => match self.comment() {
                    Some(length) => self.position += length,
                    None => return Some(byte),
                },
                _ => return Some(byte),
            }
        }
        None
    }

    /// Length of the comment that begins at the current position; `None` when none does, or it has no end.
    fn comment(&self) -> Option<usize> {
        let rest = &self.text[self.position..];
        if rest.starts_with("//") {
            return Some(rest.find('\n').unwrap_or(rest.len()));
        }
        let inside = rest.strip_prefix("/*")?;
        inside.find("*/").map(|end| end + 4)
    }

    /// Makes an error at the current position, with the expected and the actual text.
    pub(super) fn wrong(&self, expected: &str) -> JsonError {
        let found = match self.text[self.position..].chars().next() {
            Some(found) if found.is_control() => format!("character {:#x}", u32::from(found)),
            Some(found) => format!("`{found}`"),
            None => "the end of the text".to_owned(),
        };
        JsonError { position: self.position, reason: format!("expected {expected}, found {found}") }
    }

    /// Consumes `byte` if it is the next byte. Returns whether it was.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.position += 1;
        }
        found
    }

    /// Consumes the colon between a key and its value.
    pub(super) fn colon(&mut self) -> Result<(), JsonError> {
        if self.take(b':') { Ok(()) } else { Err(self.wrong("`:`")) }
    }

    /// Consumes the opening bracket of an array or object; returns the depth outside it.
    pub(super) fn enter(&mut self) -> Result<u32, JsonError> {
        if self.depth == DEPTH_MAX {
            let reason = format!("expected at most {DEPTH_MAX} nested containers, found more");
            return Err(JsonError { position: self.position, reason });
        }
        self.depth += 1;
        self.position += 1;
        self.at_key = false;
        Ok(self.depth - 1)
    }

    /// Fails unless the array or object entered at `depth` was read to its end.
    pub(super) fn left(&mut self, depth: u32) -> Result<(), JsonError> {
        if self.depth == depth { Ok(()) } else { Err(self.wrong("the end of the container")) }
    }

    /// Leaves an array, like [`Self::left`]. The reader of a tuple asks for exactly as many elements as the tuple
    /// has.
    pub(super) fn leave_array(&mut self, depth: u32) -> Result<(), JsonError> {
        if self.depth > depth && self.peek() == Some(b']') {
            self.next_element(&mut false, b']')?;
        }
        self.left(depth)
    }

    /// Moves to the next element of an array or object; at its end consumes the bracket and returns false.
    pub(super) fn next_element(&mut self, first: &mut bool, close: u8) -> Result<bool, JsonError> {
        let first = std::mem::replace(first, false);
        match self.peek() {
            // Trailing commas are refused below, so this bracket follows an element, or the container is empty.
            Some(byte) if byte == close => {
                self.position += 1;
                self.depth -= 1;
                return Ok(false);
            }
            _ if first => return Ok(true),
            Some(b',') => self.position += 1,
            _ => return Err(self.wrong(if close == b'}' { "`,` or `}`" } else { "`,` or `]`" })),
        }
        if self.peek() == Some(close) { Err(self.wrong("another element")) } else { Ok(true) }
    }

    /// Counts an element of an array or a map.
    pub(super) fn count(&mut self) -> Result<(), JsonError> {
        let left = self.elements_max.checked_sub(1);
        self.elements_max =
            left.ok_or_else(|| JsonError { position: self.position, reason: TOO_MANY_ELEMENTS.to_owned() })?;
        Ok(())
    }

    /// Reads a scalar; `expected` describes it in error texts.
    pub(super) fn scalar(&mut self, expected: &str) -> Result<Scalar<'de>, JsonError> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => Ok(Scalar::Text(self.string(quote)?)),
            Some(b'-' | b'0'..=b'9') => Ok(Scalar::Number(self.number()?)),
            Some(b'n') => self.word("null").map(|()| Scalar::Null),
            Some(b't') => self.word("true").map(|()| Scalar::Bool(true)),
            Some(b'f') => self.word("false").map(|()| Scalar::Bool(false)),
            _ => Err(self.wrong(expected)),
        }
    }

    /// Consumes `null` if it is the next value; returns whether it was.
    pub(super) fn null(&mut self) -> Result<bool, JsonError> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.word("null").map(|()| true)
    }

    /// Skips one value and returns its text.
    pub(super) fn raw(&mut self) -> Result<&'de str, JsonError> {
        self.peek();
        let start = self.position;
        self.skip()?;
        Ok(&self.text[start..self.position])
    }

    fn skip(&mut self) -> Result<(), JsonError> {
        let close = match self.peek() {
            Some(b'{') => b'}',
            Some(b'[') => b']',
            _ => return self.scalar("a value").map(drop),
        };
        self.enter()?;
        let mut first = true;
        while self.next_element(&mut first, close)? {
            self.skip()?;
            if close == b'}' {
                self.colon()?;
                self.skip()?;
            }
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        if !self.text[self.position..].starts_with(word) {
            return Err(self.wrong(word));
        }
        self.position += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<&'de str, JsonError> {
        let rest = &self.text[self.position..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().take_while(|byte| is_part(byte)).count();
        let number = &rest[..length];
        if number.parse::<f64>().is_err() {
            return Err(self.wrong("a number"));
        }
        self.position += length;
        Ok(number)
    }

    fn string(&mut self, quote: u8) -> Result<Cow<'de, str>, JsonError> {
        let start = self.position + 1;
        let length = quote_or_backslash(quote, &self.text.as_bytes()[start..]);
        let end = start + length.ok_or_else(|| self.unclosed())?;
        if self.text.as_bytes()[end] == b'\\' {
            return self.escaped(quote, start, end).map(Cow::Owned);
        }
        self.position = end + 1;
        Ok(Cow::Borrowed(&self.text[start..end]))
    }

    fn unclosed(&self) -> JsonError {
        JsonError {
            position: self.position,
            reason: "expected a closing quote, found the end of the text".to_owned(),
        }
    }

    /// Reads the rest of a string that began at `start`, from its first backslash on.
    fn escaped(&mut self, quote: u8, start: usize, backslash: usize) -> Result<String, JsonError> {
        let bytes = self.text.as_bytes();
        let mut value = self.text[start..backslash].to_owned();
        let mut at = backslash;
        loop {
            let run = quote_or_backslash(quote, &bytes[at..]).ok_or_else(|| self.unclosed())?;
            value.push_str(&self.text[at..at + run]);
            at += run;
            if bytes[at] == quote {
                self.position = at + 1;
                return Ok(value);
            }
            if at + 1 == bytes.len() {
                return Err(self.unclosed());
            }
            let (character, length) = escape(&bytes[at + 1..]).ok_or_else(|| JsonError {
                position: at,
                reason: "expected an escape sequence, found another character".to_owned(),
            })?;
            value.push(character);
            at += 1 + length;
        }
    }
}

/// Reads an escape sequence, from the byte behind its backslash on. Returns the character and the length of the sequence without
/// the backslash. Two escaped halves of a surrogate pair are one character; a lone half becomes U+FFFD.
pub(crate) fn escape(text: &[u8]) -> Option<(char, usize)> {
    let plain = match *text.first()? {
        byte @ (b'"' | b'\'' | b'\\' | b'/') => char::from(byte),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(&text[1..]),
        _ => return None,
    };
    Some((plain, 1))
}

/// Reads the digits of a `\u` escape, and the second half of a surrogate pair.
fn unicode(digits: &[u8]) -> Option<(char, usize)> {
    let unit = hex(digits)?;
    if (0xd800..0xdc00).contains(&unit)
        && let Some(second) = digits[4..].strip_prefix(b"\\u")
    {
        let second = hex(second)?;
        if (0xdc00..0xe000).contains(&second) {
            let scalar = 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
            return Some((char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), 11));
        }
    }
    Some((char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 5))
}

/// Value of four hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u32> {
    let digits = digits.first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// Position of the first quote or backslash.
fn quote_or_backslash(quote: u8, bytes: &[u8]) -> Option<usize> {
    first(bytes, |word| equal(word, quote) | equal(word, b'\\'))
}
