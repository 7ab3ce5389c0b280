//! Java properties text: the format of `broker.conf`, `namesrv.conf`, and of the bodies that read or change them.
//!
//! Each line holds `key=value`, `key: value` or `key value`. `#` and `!` begin comments. A backslash at the end of a
//! line continues the line. `\uXXXX` and the usual escapes stand for characters (`java.util.Properties.load`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

/// Error: a properties text is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected four hexadecimal digits after `\\u`")]
pub struct KeyValuesError {
    /// Number of the line, from 1.
    pub line: usize,
}

/// Parses a properties text; of a repeated key the last value counts. Bytes that are not UTF-8 are read as Latin-1.
///
/// # Errors
/// [`KeyValuesError`] when a `\u` escape lacks its digits.
pub fn parse_key_values(text: &[u8]) -> Result<BTreeMap<String, String>, KeyValuesError> {
    let text = decode(text);
    entries(&text).map(|entry| entry.map(|entry| (entry.key, entry.value))).collect()
}

/// The number of the line, from 1, that gives a key its value; `None` when no line does.
pub fn line_of_key(text: &[u8], key: &str) -> Option<usize> {
    let text = decode(text);
    let lines = entries(&text).filter_map(|entry| entry.ok().filter(|entry| entry.key == key));
    lines.last().map(|entry| entry.line)
}

/// Writes `key=value` lines, sorted by key (`MixAll.properties2String`).
pub fn format_key_values(values: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in values {
        text.push_str(&line(key, value));
    }
    text
}

/// Changes values in a properties text and keeps its comments and order; missing keys are added at the end.
///
/// # Errors
/// [`KeyValuesError`] when a `\u` escape in the text lacks its digits.
pub fn rewrite_key_values(text: &[u8], changes: &BTreeMap<String, String>) -> Result<String, KeyValuesError> {
    let text = decode(text);
    let mut rest = changes.clone();
    let mut rewritten = String::new();
    let mut copied = 0;
    for entry in entries(&text) {
        let entry = entry?;
        if let Some(value) = changes.get(&entry.key) {
            rewritten.push_str(&text[copied..entry.range.start]);
            // A repeated key is written once, so that a later line cannot contradict it.
            if rest.remove(&entry.key).is_some() {
                rewritten.push_str(&line(&entry.key, value));
            }
            copied = entry.range.end;
        }
    }
    rewritten.push_str(&text[copied..]);
    if !rest.is_empty() && !rewritten.is_empty() && !rewritten.ends_with('\n') {
        rewritten.push('\n');
    }
    rewritten.push_str(&format_key_values(&rest));
    Ok(rewritten)
}

fn decode(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(text) => text.to_owned(),
        Err(_) => text.iter().map(|&byte| char::from(byte)).collect(),
    }
}

fn line(key: &str, value: &str) -> String {
    format!("{}={}\n", escape(key, true), escape(value, false))
}

fn escape(text: &str, is_key: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, character) in text.chars().enumerate() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{c}' => escaped.push_str("\\f"),
            ' ' if is_key || at == 0 => escaped.push_str("\\ "),
            '=' | ':' | '#' | '!' if is_key => {
                let _ = write!(escaped, "\\{character}");
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

struct Line {
    key: String,
    value: String,
    /// Number of the entry's first line, from 1.
    line: usize,
    /// Position of the entry's lines in the text, line ends included.
    range: Range<usize>,
}

/// The entries of a text in order, without comments and empty lines.
fn entries(text: &str) -> impl Iterator<Item = Result<Line, KeyValuesError>> + '_ {
    let mut at = 0;
    let mut number = 0;
    std::iter::from_fn(move || {
        while at < text.len() {
            let start = at;
            let first = number + 1;
            let mut logical = String::new();
            loop {
                let length = text[at..].find('\n').map_or(text.len() - at, |end| end + 1);
                let natural = text[at..at + length].trim_end_matches(['\n', '\r']);
                at += length;
                number += 1;
                let natural = natural.trim_start_matches(BLANKS);
                if logical.is_empty() && natural.starts_with(['#', '!']) {
                    break;
                }
                let backslashes = natural.len() - natural.trim_end_matches('\\').len();
                if backslashes % 2 == 1 && at < text.len() {
                    logical.push_str(&natural[..natural.len() - 1]);
                } else {
                    logical.push_str(natural);
                    break;
                }
            }
            if !logical.is_empty() {
                let entry =
                    split(&logical).map(|(key, value)| Line { key, value, line: first, range: start..at });
                return Some(entry.ok_or(KeyValuesError { line: first }));
            }
        }
        None
    })
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// Splits a logical line at the first separator that is not escaped.
fn split(line: &str) -> Option<(String, String)> {
    let mut escaped = false;
    let end = line.find(|character: char| {
        let ends = !escaped && (matches!(character, '=' | ':') || BLANKS.contains(&character));
        escaped = character == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    Some((unescape(key)?, unescape(rest.trim_start_matches(BLANKS))?))
}

fn unescape(text: &str) -> Option<String> {
    let mut units = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => match characters.next() {
                Some('u') => {
                    let digits = characters.as_str().get(..4)?;
                    units.push(u16::from_str_radix(digits, 16).ok()?);
                    characters = characters.as_str()[4..].chars();
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            },
            _ => character,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}
