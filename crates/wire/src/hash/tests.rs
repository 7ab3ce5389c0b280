use super::*;

#[test]
fn java_hash_matches_java() {
    let cases = [
        ("TagA", 2_598_919),
        ("TagB", 2_598_920),
        ("", 0),
        ("*", 42),
        ("中文", 646_394),
        ("polygenelubricants", i32::MIN),
        ("😀", 1_772_899),
    ];
    for (text, expected) in cases {
        let hash = java_hash(text);
        assert_eq!(hash, expected, "{text}");
        assert_eq!(java_hash_bytes(text.as_bytes()), hash, "{text}");
    }
}

#[test]
fn a_hash_goes_on_with_more_text() {
    let text = "TopicTest#7F00000100ABCD18B4AAC20000000000 中文 and more";
    let whole =
        text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    for (at, _) in text.char_indices() {
        let (first, rest) = text.split_at(at);
        assert_eq!(java_hash_on(java_hash(first), rest.as_bytes()), whole, "{at}");
    }
}

#[test]
fn index_key_hashes_match_java() {
    assert_eq!(java_hash("TopicA#k1").unsigned_abs(), 1_903_240_649);
    assert_eq!(java_hash("TopicA#k2").unsigned_abs(), 1_903_240_648);
}

#[test]
fn tags_code_is_sign_extended() {
    assert_eq!(tags_code(None), 0);
    assert_eq!(tags_code(Some(b"")), 0);
    assert_eq!(tags_code(Some(b"TagA")), 0x27_a807);
    assert_eq!(tags_code(Some(b"polygenelubricants")).cast_unsigned(), 0xffff_ffff_8000_0000);
}

#[test]
fn crc_clears_the_sign() {
    assert_eq!(crc32(b"hello"), 907_060_870);
    assert_eq!(crc32(b"hello rocketmq"), 0x7330_7b09);
}

#[test]
fn the_vectors_of_guava_hold() {
    let check = |group: &str, expected: [i32; 4]| {
        assert_eq!([4, 8, 16, 1000].map(|count| bucket(group, count)), expected, "{group}");
    };
    check("a", [0, 0, 0, 346]);
    check("order-1", [3, 3, 3, 489]);
    check("group-0", [1, 1, 1, 168]);
    check("fifo-group-A", [3, 4, 12, 411]);
    check("\u{8ba2}\u{5355}-1", [3, 4, 10, 308]);
    check("abcdefghijklmnopqrstuvwxyz", [1, 5, 5, 481]);
}
