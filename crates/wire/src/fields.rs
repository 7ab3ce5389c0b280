//! Header fields of a command: a list of borrowed key and value ranges, looked up by key without a map.

use std::borrow::Cow;

/// Most fields a command may carry; a header with more is refused as malformed.
pub const FIELDS_MAX: usize = 1024;

/// Start and end of a key and of its value, relative to the header's buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pair {
    pub key: (u32, u32),
    pub value: (u32, u32),
}

/// Reusable memory for the positions of one command's fields.
#[derive(Clone, Debug, Default)]
pub struct Pairs(Vec<Pair>);

impl Pairs {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes of memory that the positions take.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * size_of::<Pair>()
    }

    /// Adds a field; false when there are [`FIELDS_MAX`] already.
    #[inline]
    pub(crate) fn push(&mut self, pair: Pair) -> bool {
        if self.0.len() == FIELDS_MAX {
            return false;
        }
        self.0.push(pair);
        true
    }
}

/// Header fields of one command. The last value of a repeated key counts, as in RocketMQ's map.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    base: &'a [u8],
    pairs: Cow<'a, [Pair]>,
}

/// Errors when a typed header is read from its fields.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FieldError {
    /// A required field is absent.
    #[error("the request header has no field {0}, which is required")]
    Missing(&'static str),
    /// A field is present but is not of its type.
    #[error("the request header field {field} is {value:?}, expected {expected}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// Value of the field, shortened to 64 characters.
        value: String,
        /// Description of a valid value.
        expected: &'static str,
    },
}

impl FieldError {
    fn invalid(field: &'static str, value: &[u8], expected: &'static str) -> Self {
        let value = String::from_utf8_lossy(value).chars().take(64).collect();
        Self::Invalid { field, value, expected }
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn owned(base: &'a [u8], pairs: Pairs) -> Self {
        Self { base, pairs: Cow::Owned(pairs.0) }
    }

    pub(crate) fn borrowed(base: &'a [u8], pairs: &'a Pairs) -> Self {
        Self { base, pairs: Cow::Borrowed(&pairs.0) }
    }

    /// Appends keys and values to `out`, and returns their positions from its start.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) -> Pairs {
        let mut copy = |bytes: &[u8]| {
            let from = out.len();
            out.extend_from_slice(bytes);
            let position = |at: usize| u32::try_from(at).expect("a frame has at most 16 MiB");
            (position(from), position(out.len()))
        };
        Pairs(self.iter().map(|(key, value)| Pair { key: copy(key), value: copy(value) }).collect())
    }

    /// Number of fields, repeated keys included.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether the command has no header field.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Keys and values in wire order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + '_ {
        let base = self.base;
        self.pairs.iter().map(move |pair| (slice(base, pair.key), slice(base, pair.value)))
    }

    /// The value of `key` as bytes.
    pub fn bytes(&self, key: &str) -> Option<&'a [u8]> {
        self.iter().filter(|(found, _)| *found == key.as_bytes()).last().map(|(_, value)| value)
    }

    /// The value of `key` as text; `None` when absent or not UTF-8.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.bytes(key).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The text of a required field.
    pub fn need(&self, key: &'static str) -> Result<&'a str, FieldError> {
        text(key, self.bytes(key).ok_or(FieldError::Missing(key))?)
    }

    /// The text of a field; empty when the field is absent.
    pub fn text_or_empty(&self, key: &'static str) -> Result<&'a str, FieldError> {
        self.bytes(key).map_or(Ok(""), |value| text(key, value))
    }

    /// The number in a required field.
    pub fn need_number<T: TryFrom<i64>>(&self, key: &'static str) -> Result<T, FieldError> {
        number(key, self.bytes(key).ok_or(FieldError::Missing(key))?)
    }

    /// The number in a field, or `default` when the field is absent.
    pub fn number_or<T: TryFrom<i64>>(&self, key: &'static str, default: T) -> Result<T, FieldError> {
        self.bytes(key).map_or(Ok(default), |value| number(key, value))
    }

    /// The boolean in a field, as Java reads it: `true` in any case is true, anything else is false.
    pub fn flag_or(&self, key: &str, default: bool) -> bool {
        self.bytes(key).map_or(default, boolean)
    }
}

fn slice(base: &[u8], (from, to): (u32, u32)) -> &[u8] {
    &base[from as usize..to as usize]
}

/// Parses the decimal number in a header field.
pub(crate) fn number<T: TryFrom<i64>>(field: &'static str, value: &[u8]) -> Result<T, FieldError> {
    decimal(value)
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| FieldError::invalid(field, value, std::any::type_name::<T>()))
}

/// Most digits of a number that certainly fits 64 bits.
const DIGITS_SAFE: usize = 18;

/// Parses a number like `Long.parseLong`. UTF-8 is not checked because every message has seven such numbers.
pub(crate) fn decimal(value: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    if digits.len() <= DIGITS_SAFE {
        let number = digits.iter().try_fold(0_i64, |number, digit| {
            let digit = digit.wrapping_sub(b'0');
            (digit < 10).then(|| number * 10 + i64::from(digit))
        })?;
        return Some(if is_negative { -number } else { number });
    }
    digits.iter().try_fold(0_i64, |number, digit| {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        let tens = number.checked_mul(10).filter(|_| digit < 10)?;
        if is_negative { tens.checked_sub(digit) } else { tens.checked_add(digit) }
    })
}

/// The text in a header field.
pub(crate) fn text<'a>(field: &'static str, value: &'a [u8]) -> Result<&'a str, FieldError> {
    std::str::from_utf8(value).map_err(|_| FieldError::invalid(field, value, "UTF-8 text"))
}

/// Parses a boolean like Java's `Boolean.parseBoolean`.
pub(crate) fn boolean(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"true")
}

#[cfg(test)]
mod tests {
    use super::{FieldError, number};

    #[test]
    fn numbers_are_read_as_java_reads_them() {
        for value in [0, -1, 7, i64::MAX, i64::MIN] {
            assert_eq!(number("n", value.to_string().as_bytes()), Ok(value));
        }
        assert_eq!(number("n", b"+007"), Ok(7_i32));
        assert_eq!(number("n", b"-2147483648"), Ok(i32::MIN));
    }

    #[test]
    fn what_is_no_number_of_the_type_is_named() {
        let wrong: [&[u8]; 8] =
            [b"", b"-", b"+", b"1 ", b"0x1", b"1.0", b"9223372036854775808", b"-9223372036854775809"];
        for value in wrong {
            let error = number::<i64>("n", value).unwrap_err();
            assert!(matches!(error, FieldError::Invalid { field: "n", expected: "i64", .. }), "{error}");
        }
        assert!(number::<i32>("n", b"2147483648").is_err());
        assert!(number::<u32>("n", b"-1").is_err());
    }
}
