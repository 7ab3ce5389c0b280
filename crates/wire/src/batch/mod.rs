//! The body of a client batch: entries of `size, magic, crc, flag, body, properties` (`MessageDecoder.encodeMessages`). Size,
//! magic and CRC of an entry are ignored, as in RocketMQ's `MessageExtEncoder`: the parts tell where the next entry begins.

use thiserror::Error;

/// Bytes of an entry without its body and properties.
const ENTRY_FIXED: usize = 4 + 4 + 4 + 4 + 4 + 2;

/// Message of a batch body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The user-defined flag.
    pub flag: i32,
    /// The message body.
    pub body: &'a [u8],
    /// The properties string.
    pub properties: &'a [u8],
}

/// Error of a batch body that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("batch entry at byte {at} is malformed: {what}")]
pub struct BatchError {
    /// Position in the body where the entry starts.
    pub at: usize,
    /// Expected and actual content.
    pub what: &'static str,
}

/// Iterates over the entries of a batch body. Ends after the first error.
pub fn entries(body: &[u8]) -> Entries<'_> {
    Entries { body, at: 0 }
}

/// The iterator of [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.body[self.at..];
        if rest.is_empty() {
            return None;
        }
        match entry(rest) {
            Ok((entry, size)) => {
                self.at += size;
                Some(Ok(entry))
            }
            Err(what) => {
                let at = std::mem::replace(&mut self.at, self.body.len());
                Some(Err(BatchError { at, what }))
            }
        }
    }
}

fn entry(bytes: &[u8]) -> Result<(Entry<'_>, usize), &'static str> {
    let word = |at: usize| -> Option<i32> {
        Some(i32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
    };
    let length = |value: i32| usize::try_from(value).map_err(|_| "negative length");
    let flag = word(12).ok_or("shorter than its fixed fields")?;
    let body_length = length(word(16).ok_or("shorter than its fixed fields")?)?;
    let body_end = body_length.checked_add(20).ok_or("body length too large")?;
    let body = bytes.get(20..body_end).ok_or("body longer than the batch")?;
    let raw = bytes.get(body_end..body_end + 2).ok_or("no properties length")?;
    let raw = i16::from_be_bytes([raw[0], raw[1]]);
    let properties_length = usize::try_from(raw).map_err(|_| "negative properties length")?;
    let start = body_end + 2;
    let properties = bytes.get(start..start + properties_length).ok_or("properties longer than the batch")?;
    Ok((Entry { flag, body, properties }, ENTRY_FIXED + body_length + properties_length))
}

/// Appends one entry to a batch body.
///
/// # Errors
/// [`BatchError`] when a length does not fit its field.
pub fn append(out: &mut Vec<u8>, entry: &Entry<'_>) -> Result<(), BatchError> {
    let error = |what| BatchError { at: out.len(), what };
    let size = ENTRY_FIXED + entry.body.len() + entry.properties.len();
    let size = i32::try_from(size).map_err(|_| error("entry longer than 2 GiB"))?;
    let body = i32::try_from(entry.body.len()).map_err(|_| error("body longer than 2 GiB"))?;
    let properties =
        i16::try_from(entry.properties.len()).map_err(|_| error("properties longer than 32767 bytes"))?;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&entry.flag.to_be_bytes());
    out.extend_from_slice(&body.to_be_bytes());
    out.extend_from_slice(entry.body);
    out.extend_from_slice(&properties.to_be_bytes());
    out.extend_from_slice(entry.properties);
    Ok(())
}

#[cfg(test)]
mod tests;
