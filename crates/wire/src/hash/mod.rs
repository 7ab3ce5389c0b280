//! The hashes RocketMQ stores and compares: Java's `String.hashCode`, the tags code and the body CRC.

/// Java's `String.hashCode`: `h = 31 * h + c` over UTF-16 code units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    java_hash_on(0, text.as_bytes())
}

/// [`java_hash`] of bytes that should be UTF-8; malformed parts count as U+FFFD, as Java decodes them.
pub fn java_hash_bytes(text: &[u8]) -> i32 {
    java_hash_on(0, text)
}

/// Continues [`java_hash_bytes`]: `hash` is the hash of the text before `text`.
pub fn java_hash_on(hash: i32, text: &[u8]) -> i32 {
    if text.is_ascii() {
        return ascii_hash_on(hash, text);
    }
    String::from_utf8_lossy(text).encode_utf16().fold(hash, step)
}

/// Like [`java_hash_on`] for ASCII text, four letters per step. Each step multiplies `h` once, and the
/// products of the letters do not depend on each other.
fn ascii_hash_on(mut hash: i32, text: &[u8]) -> i32 {
    const POWERS: [i32; 4] = [31 * 31 * 31, 31 * 31, 31, 1];
    let (fours, rest) = text.as_chunks::<4>();
    for four in fours {
        let letters: i32 = four.iter().zip(POWERS).map(|(letter, power)| i32::from(*letter) * power).sum();
        hash = hash.wrapping_mul(31 * POWERS[0]).wrapping_add(letters);
    }
    rest.iter().fold(hash, |hash, letter| step(hash, u16::from(*letter)))
}

fn step(hash: i32, unit: u16) -> i32 {
    hash.wrapping_mul(31).wrapping_add(i32::from(unit))
}

/// The tags code of a queue unit (`MessageExtBrokerInner.tagsString2tagsCode`): zero without tags,
/// else the hash sign-extended to 64 bits.
pub fn tags_code(tags: Option<&[u8]>) -> i64 {
    i64::from(tags.map_or(0, java_hash_bytes))
}

/// CRC-32 (IEEE) with the sign bit cleared, as stored in records (`UtilAll.crc32`).
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes) & 0x7fff_ffff
}

#[cfg(test)]
mod tests;
