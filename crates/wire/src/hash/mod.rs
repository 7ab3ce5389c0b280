//! The hashes RocketMQ stores and compares: Java's `String.hashCode`, the tags code and the body CRC.

/// Java's `String.hashCode`: `h = 31 * h + c` over UTF-16 code units, wrapping.
#[must_use]
pub fn java_hash(text: &str) -> i32 {
    if text.is_ascii() {
        return text.bytes().fold(0i32, |hash, c| step(hash, u16::from(c)));
    }
    text.encode_utf16().fold(0i32, step)
}

/// [`java_hash`] of bytes that should be UTF-8; malformed parts count as U+FFFD, as Java decodes them.
#[must_use]
pub fn java_hash_bytes(text: &[u8]) -> i32 {
    if text.is_ascii() {
        return text.iter().fold(0i32, |hash, c| step(hash, u16::from(*c)));
    }
    java_hash(&String::from_utf8_lossy(text))
}

fn step(hash: i32, unit: u16) -> i32 {
    hash.wrapping_mul(31).wrapping_add(i32::from(unit))
}

/// The tags code of a queue unit (`MessageExtBrokerInner.tagsString2tagsCode`): zero without tags,
/// else the hash sign-extended to 64 bits.
#[must_use]
pub fn tags_code(tags: Option<&[u8]>) -> i64 {
    i64::from(tags.map_or(0, java_hash_bytes))
}

/// CRC-32 (IEEE) with the sign bit cleared, as stored in records (`UtilAll.crc32`).
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes) & 0x7fff_ffff
}

#[cfg(test)]
mod tests;
