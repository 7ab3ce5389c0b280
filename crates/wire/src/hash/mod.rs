//! The hashes RocketMQ stores and compares: Java's `String.hashCode`, the tags code and the body CRC. Also the choice of a
//! queue by the name of a message group or lite topic.

/// Increment of the linear congruential generator of the jump hash (Lamping and Veach).
const MULTIPLIER: u64 = 2_862_933_555_777_941_757;

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

/// Index of the queue of a message group or lite topic among `count` queues, 0 without queues: Java's string hash, then
/// the jump consistent hash of Guava (`LiteShardingImpl`, `SendMessageActivity.SendMessageQueueSelector`).
pub fn bucket(name: &str, count: i32) -> i32 {
    let mut state = i64::from(java_hash(name)) as u64;
    let mut candidate = 0;
    loop {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(1);
        let next_double = ((state >> 33) + 1) as f64 / f64::from(1u32 << 31);
        // A quotient that does not fit saturates, and ends the loop.
        let next = (f64::from(candidate + 1) / next_double) as i32;
        if next < 0 || next >= count {
            return candidate;
        }
        candidate = next;
    }
}

#[cfg(test)]
mod tests;
