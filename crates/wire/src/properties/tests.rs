use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn decoded(text: &str) -> Vec<(String, String)> {
    let own = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    pairs(text.as_bytes()).map(|(name, value)| (own(name), own(value))).collect()
}

/// Java's algorithm on characters, as the reference for comparison.
fn java_decode(text: &str) -> HashMap<String, String> {
    let chars: Vec<char> = text.chars().collect();
    let index_of = |wanted: char, from: usize| (from..chars.len()).find(|at| chars[*at] == wanted);
    let mut map = HashMap::new();
    let mut index = 0;
    while index < chars.len() {
        let end = index_of('\u{2}', index).unwrap_or(chars.len());
        if end - index >= 3
            && let Some(at) = index_of('\u{1}', index)
            && at > index
            && at < end - 1
        {
            map.insert(chars[index..at].iter().collect(), chars[at + 1..end].iter().collect());
        }
        index = end + 1;
    }
    map
}

#[test]
fn odd_strings_decode_as_in_java() {
    let check = |text: &str, expected: &[(&str, &str)]| {
        let expected: Vec<_> = expected.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        assert_eq!(decoded(text), expected, "{text:?}");
    };
    check("", &[]);
    check("a\u{1}b\u{2}c\u{1}\u{2}d\u{1}e", &[("a", "b"), ("d", "e")]);
    check("ab\u{2}k\u{1}v", &[("k", "v")]);
    check("\u{1}v\u{2}k\u{1}v\u{1}w\u{2}", &[("k", "v\u{1}w")]);
    check("\u{2}\u{2}k\u{1}v\u{2}\u{2}", &[("k", "v")]);
    check("noseparator\u{2}k\u{1}v", &[("k", "v")]);
}

#[test]
fn the_last_duplicate_counts() {
    let text = b"k\x01first\x02TAGS\x01x\x02k\x01second\x02";
    assert_eq!(get_str(text, "k"), Some("second"));
    assert_eq!(get(text, key::TAGS), Some(&b"x"[..]));
    assert_eq!(get(text, "absent"), None);
}

#[test]
fn rewrite_drops_replaces_and_adds() {
    let mut out = Vec::new();
    rewrite(
        &mut out,
        b"POP_CK\x01old\x02KEYS\x01a b\x02bad\x02CLUSTER\x01c1\x02TAGS\x01t",
        &[key::POP_CK],
        &[(key::CLUSTER, b"c2"), (key::MSG_REGION, b"")],
    );
    assert_eq!(out, b"KEYS\x01a b\x02TAGS\x01t\x02CLUSTER\x01c2\x02");
}

#[test]
fn append_closes_an_open_pair() {
    let mut out = b"a\x01b".to_vec();
    append(&mut out, "c", b"d");
    append(&mut out, "", b"d");
    append(&mut out, "e", b"");
    assert_eq!(out, b"a\x01b\x02c\x01d\x02");
}

proptest! {
    #[test]
    fn every_string_decodes_as_in_java(text in "[ab\u{1}\u{2}é中]{0,40}") {
        let map: HashMap<String, String> = decoded(&text).into_iter().collect();
        prop_assert_eq!(map, java_decode(&text));
    }

    #[test]
    fn get_equals_a_map(text in "[ab\u{1}\u{2}é]{0,60}", name in "[ab]{1,2}") {
        let map = java_decode(&text);
        prop_assert_eq!(get_str(text.as_bytes(), &name), map.get(&name).map(String::as_str));
    }

    #[test]
    fn get_all_equals_each(text in "[ab\u{1}\u{2}é]{0,60}", names in prop::array::uniform3("[ab]{1,2}")) {
        let each = names.each_ref().map(|name| get(text.as_bytes(), name));
        prop_assert_eq!(get_all(text.as_bytes(), names.each_ref().map(String::as_str)), each);
    }

    #[test]
    fn rewrite_equals_a_map(text in "[ab\u{1}\u{2}é]{0,40}", dropped in "[ab]", added in "[ab]", value in "[a-z]{1,5}") {
        let mut expected = java_decode(&text);
        expected.remove(&dropped);
        expected.insert(added.clone(), value.clone());
        let mut out = Vec::new();
        rewrite(&mut out, text.as_bytes(), &[&dropped], &[(&added, value.as_bytes())]);
        prop_assert_eq!(java_decode(std::str::from_utf8(&out).unwrap()), expected);
    }
}
