//! Base64 with either alphabet.

/// The 64 letters of a base64 alphabet.
pub(crate) type Letters = [u8; 64];

/// The URL-safe alphabet.
pub(crate) const URL_SAFE: &Letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The standard alphabet, used in JSON bodies.
pub(crate) const STANDARD: &Letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `raw` in base64, with padding.
pub(crate) fn encode(letters: &Letters, out: &mut Vec<u8>, raw: &[u8]) {
    for group in raw.chunks(3) {
        let mut bytes = [0; 4];
        bytes[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bytes);
        for place in 0..4 {
            let letter = letters[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place > group.len() { b'=' } else { letter });
        }
    }
}

/// Decodes base64; the last letters may lack their padding. `None` when a letter is not in the alphabet.
pub(crate) fn decode(letters: &Letters, text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|letter| **letter == b'=').count();
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let found = &text[..text.len() - padding];
    let mut raw = Vec::with_capacity(found.len() * 3 / 4);
    for group in found.chunks(4) {
        let mut bits = 0;
        for letter in group {
            bits = bits << 6 | u32::try_from(letters.iter().position(|known| known == letter)?).ok()?;
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
