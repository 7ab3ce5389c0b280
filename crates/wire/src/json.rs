//! The JSON dialect of RocketMQ bodies and configuration files.
//!
//! RocketMQ writes JSON with fastjson, which is not strict JSON. Integer map keys have no quotes (`{0:"a:1"}`), and
//! object map keys are object literals (`{{"brokerName":"b"}:5}`). Clients in other languages send numbers as strings
//! (`"codeSet":["2598919"]`). The reader accepts all of these, and the writer produces the dialect, so body types
//! only derive serde's traits.
//!
//! | situation | reader | writer, [`Dialect::Plain`] | writer, [`Dialect::Standard`] |
//! |---|---|---|---|
//! | integer map key | quoted or not | unquoted | quoted |
//! | object map key | literal | literal | literal |
//! | number where text is expected, or the reverse | converted | - | - |
//! | null or absent member | the type's default | omitted | omitted |
//! | unknown member | skipped | - | - |
//! | comment (`//`, `/* */`), byte order mark | skipped, as by fastjson 2 | - | - |
//! | text in single quotes | taken, as by fastjson 2 | in double quotes | in double quotes |
//! | name without quotes, comma behind the last member | refused, as by fastjson 2 | - | - |
//! | non-ASCII text | raw or `\uXXXX` | raw | `\uXXXX` |
//!
//! The writer emits no whitespace: the Go client splits route responses at commas and colons.

mod read;
mod scan;
mod write;

pub(crate) use scan::escape;

use serde::{Deserialize, Serialize};

/// Deepest nesting of objects and arrays that the reader accepts.
pub const DEPTH_MAX: u32 = 64;

/// Reason of the error for a text with more elements than [`from_slice_within`] takes.
pub const TOO_MANY_ELEMENTS: &str = "expected no further element, the text has too many";

/// Error of a text that is not valid JSON or has an unexpected structure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad json at byte {position}: {reason}")]
pub struct JsonError {
    /// Position of the error in the text, in bytes.
    pub position: usize,
    /// Expected and actual text, in lower case.
    pub reason: String,
}

/// Style of map keys and non-ASCII text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Dialect of fastjson's `toJSONString`: integer keys without quotes, non-ASCII text in UTF-8.
    #[default]
    Plain,
    /// fastjson's `BrowserCompatible` mode, strict JSON: integer keys in quotes, non-ASCII text escaped.
    Standard,
}

/// Parses a value from fastjson or strict JSON text.
///
/// # Errors
/// [`JsonError`] when the text is malformed or nested too deeply, or a value cannot be converted to the requested type.
pub fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, JsonError> {
    from_str(utf8(text)?)
}

fn utf8(text: &[u8]) -> Result<&str, JsonError> {
    std::str::from_utf8(text).map_err(|error| JsonError {
        position: error.valid_up_to(),
        reason: "expected utf-8 text".to_owned(),
    })
}

fn read<'de, T: Deserialize<'de>>(mut cursor: scan::Cursor<'de>) -> Result<T, JsonError> {
    let value = T::deserialize(&mut cursor).map_err(|error| cursor.locate(error))?;
    cursor.end()?;
    Ok(value)
}

/// Parses a value from fastjson or strict JSON text.
///
/// # Errors
/// [`JsonError`] when the text is malformed or nested too deeply, or a value cannot be converted to the requested type.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, JsonError> {
    read(scan::Cursor::new(text))
}

/// Parses a value from text of a peer. Arrays and maps together may have `elements_max` elements, because an empty element has
/// three bytes of text and a hundred in memory. Members of structs do not count.
///
/// # Errors
/// The errors of [`from_slice`], and an error if there are more elements.
pub fn from_slice_within<'de, T: Deserialize<'de>>(
    text: &'de [u8],
    elements_max: usize,
) -> Result<T, JsonError> {
    let mut cursor = scan::Cursor::new(utf8(text)?);
    cursor.elements_max = elements_max;
    read(cursor)
}

/// Most elements of the arrays and maps in the body of a request. Structs that keep unknown members are maps here: a list of
/// 100,000 topics has a million.
pub const REQUEST_ELEMENTS_MAX: usize = 1 << 20;

/// Parses the body of a request, which may have [`REQUEST_ELEMENTS_MAX`] elements.
///
/// # Errors
/// The errors of [`from_slice_within`].
pub fn from_request<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, JsonError> {
    from_slice_within(body, REQUEST_ELEMENTS_MAX)
}

/// Serializes a value in the plain fastjson dialect.
///
/// # Panics
/// Never for the types of [`crate::body`]. Panics when the `Serialize` implementation of another type fails.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    to_vec_as(value, Dialect::Plain)
}

/// Serializes a value in the given dialect.
///
/// # Panics
/// As [`to_vec`].
pub fn to_vec_as<T: Serialize + ?Sized>(value: &T, dialect: Dialect) -> Vec<u8> {
    let mut writer = write::Writer::new(dialect);
    value.serialize(&mut writer).expect("derived Serialize of plain data has no error of its own");
    writer.finish()
}

#[cfg(test)]
mod tests;
