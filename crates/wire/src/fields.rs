//! Header fields of a command: a list of borrowed key and value ranges, looked up by key without a map.

use std::borrow::Cow;
use std::str::FromStr;

/// Most fields a command may carry; a header with more is refused as malformed.
pub const FIELDS_MAX: usize = 1024;

/// Start and end of a key and of its value, relative to the header's buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pair {
    pub key: (u32, u32),
    pub value: (u32, u32),
}

/// Memory for the ranges of one command's fields; keep it and use it again.
#[derive(Clone, Debug, Default)]
pub struct Pairs(Vec<Pair>);

impl Pairs {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a pair; false when [`FIELDS_MAX`] is reached.
    #[inline]
    pub(crate) fn push(&mut self, pair: Pair) -> bool {
        if self.0.len() == FIELDS_MAX {
            return false;
        }
        self.0.push(pair);
        true
    }
}

/// The fields of one command. A repeated key counts by its last value, as in Java's map.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    base: &'a [u8],
    pairs: Cow<'a, [Pair]>,
}

/// Why a typed header could not be read from its fields.
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
        /// What was found, shortened to 64 characters.
        value: String,
        /// What the field must hold.
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

    /// Number of pairs, repeated keys included.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// True when the command carries no field.
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

    /// A required number.
    pub fn need_number<T: FromStr>(&self, key: &'static str) -> Result<T, FieldError> {
        number(key, self.bytes(key).ok_or(FieldError::Missing(key))?)
    }

    /// A number, or `default` when the field is absent.
    pub fn number_or<T: FromStr>(&self, key: &'static str, default: T) -> Result<T, FieldError> {
        self.bytes(key).map_or(Ok(default), |value| number(key, value))
    }

    /// A boolean as Java reads it: `true` in any case is true, anything else false.
    pub fn flag_or(&self, key: &str, default: bool) -> bool {
        self.bytes(key).map_or(default, boolean)
    }
}

fn slice(base: &[u8], (from, to): (u32, u32)) -> &[u8] {
    &base[from as usize..to as usize]
}

/// Reads a decimal number of a header field.
pub(crate) fn number<T: FromStr>(field: &'static str, value: &[u8]) -> Result<T, FieldError> {
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| FieldError::invalid(field, value, std::any::type_name::<T>()))
}

/// Reads the text of a header field.
pub(crate) fn text<'a>(field: &'static str, value: &'a [u8]) -> Result<&'a str, FieldError> {
    std::str::from_utf8(value).map_err(|_| FieldError::invalid(field, value, "UTF-8 text"))
}

/// Java's `Boolean.parseBoolean`.
pub(crate) fn boolean(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"true")
}
