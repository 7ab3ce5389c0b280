//! The handle a producer takes a timed message back with (`RecallMessageHandle`): URL-safe base64 of
//! `v1 <topic> <broker> <time> <unique key>`.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a handle says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallHandle {
    /// Real topic of the message.
    pub topic: String,
    /// Broker that holds it.
    pub broker_name: String,
    /// A time within its slot of the wheel, as text.
    pub time: String,
    /// Its unique key.
    pub message_id: String,
}

impl RecallHandle {
    /// Reads a handle; `None` when it is none. The last letters may be missing their padding, as in Java.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let raw = String::from_utf8(decode(text.as_bytes())?).ok()?;
        let mut parts = raw.split(' ');
        if parts.next() != Some("v1") {
            return None;
        }
        let mut next = || parts.next().map(str::to_owned);
        let handle = Self { topic: next()?, broker_name: next()?, time: next()?, message_id: next()? };
        (!handle.message_id.is_empty()).then_some(handle)
    }

    /// Appends the handle of a message.
    pub fn append(out: &mut Vec<u8>, topic: &str, broker_name: &str, time_ms: i64, message_id: &[u8]) {
        let mut raw = format!("v1 {topic} {broker_name} {time_ms} ").into_bytes();
        raw.extend_from_slice(message_id);
        encode(out, &raw);
    }
}

fn encode(out: &mut Vec<u8>, raw: &[u8]) {
    for group in raw.chunks(3) {
        let mut bytes = [0; 4];
        bytes[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bytes);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place > group.len() { b'=' } else { letter });
        }
    }
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|letter| **letter == b'=').count();
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let letters = &text[..text.len() - padding];
    let mut raw = Vec::with_capacity(letters.len() * 3 / 4);
    for group in letters.chunks(4) {
        let mut bits = 0;
        for letter in group {
            bits = bits << 6 | u32::try_from(LETTERS.iter().position(|known| known == letter)?).ok()?;
        }
        let bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        match group.len() {
            4 => raw.extend_from_slice(&bytes[1..]),
            3 => raw.extend_from_slice(&bytes[1..3]),
            2 => raw.push(bytes[1]),
            _ => return None,
        }
    }
    Some(raw)
}

#[cfg(test)]
mod tests;
