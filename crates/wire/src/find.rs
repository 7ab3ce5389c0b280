//! Searches bytes eight at a time: this code runs over the header and the properties of every message.
//!
//! A search marks a word of eight bytes: the result has the top bit of each matching byte set. Bytes above a match may be
//! marked without matching, so only the lowest mark of a word counts.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOP_BITS: u64 = ONES << 7;

/// Marks the bytes that equal `wanted`.
pub(crate) fn equal(word: u64, wanted: u8) -> u64 {
    let different = word ^ (ONES * u64::from(wanted));
    different.wrapping_sub(ONES) & !different & TOP_BITS
}

/// Marks the control characters.
pub(crate) fn control(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & TOP_BITS
}

/// Position of the first byte that `mark` marks.
pub(crate) fn first(bytes: &[u8], mark: impl Fn(u64) -> u64) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = mark(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(index * 8 + (marks.trailing_zeros() / 8) as usize);
        }
    }
    let marks = |byte: &u8| mark(u64::from(*byte)) & 0x80 != 0;
    rest.iter().position(marks).map(|at| words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_place_is_the_one_a_plain_search_finds(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0..4_u8, 0x1e..0x23_u8, 0x5b..0x5e_u8], 0..40),
            wanted in prop_oneof![any::<u8>(), 0..5_u8, 0x1e..0x23_u8],
        ) {
            prop_assert_eq!(first(&bytes, |word| equal(word, wanted)), bytes.iter().position(|byte| *byte == wanted));
            prop_assert_eq!(first(&bytes, control), bytes.iter().position(|byte| *byte < 0x20));
            let either = |word| equal(word, b'"') | equal(word, b'\\') | control(word);
            let plain = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(first(&bytes, either), bytes.iter().position(plain));
        }
    }
}
