//! The properties string of a message: `name 0x01 value 0x02 …`.
//!
//! Parsing follows `MessageDecoder.string2messageProperties`:
//! - A pair counts only if name and value both have at least one character.
//! - A missing last separator is accepted.
//! - A value may contain further `0x01`.
//! - The last of duplicate names counts.
//!
//! RocketMQ's test for "shorter than three characters" is redundant because empty parts do not count. So bytes can be
//! compared instead of characters.

pub mod key;

use crate::find::{equal, first};

const NAME_END: u8 = 1;
const PAIR_END: u8 = 2;

/// Longest properties string of a record, in bytes.
pub const PROPERTIES_BYTES_MAX: usize = 32_767;

/// A name and its value, as bytes of the properties string.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Iterates over the valid pairs of a properties string in order.
pub fn pairs(properties: &[u8]) -> Pairs<'_> {
    Pairs { segments: Segments { rest: properties } }
}

/// The iterator of [`pairs`].
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    segments: Segments<'a>,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        self.segments.find_map(|segment| {
            let at = first(segment, |word| equal(word, NAME_END))?;
            (at > 0 && at + 1 < segment.len()).then(|| (&segment[..at], &segment[at + 1..]))
        })
    }
}

/// Iterates over the parts of a properties string between pair separators.
#[derive(Clone, Debug)]
struct Segments<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = first(self.rest, |word| equal(word, PAIR_END)).unwrap_or(self.rest.len());
        let segment = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(segment)
    }
}

/// Returns the value of `name`, or the last of several values. `name` must not contain control characters.
pub fn get<'a>(properties: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = |segment: &'a [u8]| segment.strip_prefix(name.as_bytes())?.strip_prefix(&[NAME_END]);
    Segments { rest: properties }
        .filter_map(value)
        .filter(|value| !value.is_empty() && !name.is_empty())
        .last()
}

/// Returns a value as text, or `None` if it is missing or not UTF-8. See [`get`].
pub fn get_str<'a>(properties: &'a [u8], name: &str) -> Option<&'a str> {
    get(properties, name).and_then(|value| std::str::from_utf8(value).ok())
}

/// Returns the values of several names in one pass. See [`get`].
pub fn get_all<'a, const N: usize>(properties: &'a [u8], names: [&str; N]) -> [Option<&'a [u8]>; N] {
    let mut found = [None; N];
    for segment in (Segments { rest: properties }) {
        for (name, found) in names.iter().zip(&mut found) {
            // The first letters already tell almost all names apart.
            if segment.first() != name.as_bytes().first() {
                continue;
            }
            let value = segment.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(&[NAME_END]));
            *found = value.filter(|value| !value.is_empty()).or(*found);
        }
    }
    found
}

/// Appends one pair. A pair with an empty name or value is left out, as no reader accepts it.
pub fn append(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if name.is_empty() || value.is_empty() {
        return;
    }
    if out.last().is_some_and(|last| *last != PAIR_END) {
        out.push(PAIR_END);
    }
    out.extend_from_slice(name.as_bytes());
    out.push(NAME_END);
    out.extend_from_slice(value);
    out.push(PAIR_END);
}

/// Copies the valid pairs of `source` to the end of `out`, except those with names in `dropped` or `added`, then appends the
/// pairs of `added`. One pass, no map.
///
/// `out` may already hold complete pairs. The function does not examine them.
pub fn rewrite(out: &mut Vec<u8>, source: &[u8], dropped: &[&str], added: &[(&str, &[u8])]) {
    out.reserve(source.len() + 1 + added.iter().map(|(n, v)| n.len() + v.len() + 2).sum::<usize>());
    for (name, value) in pairs(source) {
        let is = |other: &str| other.as_bytes() == name;
        if dropped.iter().any(|other| is(other)) || added.iter().any(|(other, _)| is(other)) {
            continue;
        }
        out.extend_from_slice(name);
        out.push(NAME_END);
        out.extend_from_slice(value);
        out.push(PAIR_END);
    }
    for (name, value) in added {
        append(out, name, value);
    }
}

#[cfg(test)]
mod tests;
