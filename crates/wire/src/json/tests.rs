use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(default)]
struct Key {
    id: i32,
    name: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
struct Sample {
    flag: bool,
    keyed: BTreeMap<Key, i64>,
    list: Vec<i32>,
    number: i64,
    numbered: BTreeMap<i64, String>,
    ratio: f64,
    text: Option<String>,
}

fn read(text: &str) -> Sample {
    from_str(text).unwrap()
}

fn check_text(text: &str, expected: &str) {
    assert_eq!(from_str::<String>(text).unwrap(), expected, "{text}");
}

fn check_error(text: &str, position: usize, reason: &str) {
    let error = from_str::<Sample>(text).unwrap_err();
    assert_eq!((error.position, error.reason.as_str()), (position, reason), "{text}");
}

#[test]
fn unquoted_and_quoted_integer_keys_are_the_same() {
    let expected = BTreeMap::from([(0, "a".to_owned()), (-1, "b".to_owned())]);
    assert_eq!(read(r#"{"numbered":{0:"a",-1:"b"}}"#).numbered, expected);
    assert_eq!(read(r#"{"numbered" : { "0" : "a" , "-1":"b"}}"#).numbered, expected);
}

#[test]
fn object_keys_are_read() {
    let keyed = read(r#"{"keyed":{{"name":"b","id":3}:5,{"id":"4"}:"6"}}"#).keyed;
    let key = |id, name: &str| Key { id, name: name.to_owned() };
    assert_eq!(keyed, BTreeMap::from([(key(3, "b"), 5), (key(4, ""), 6)]));
}

#[test]
fn scalars_are_converted() {
    assert_eq!(read(r#"{"list":["1",2,true," 4 ",""]}"#).list, [1, 2, 1, 4, 0]);
    assert_eq!(read(r#"{"text":12}"#).text.unwrap(), "12");
    assert_eq!(read(r#"{"number":5.0}"#).number, 5);
    assert_eq!(read(r#"{"number":1732728000123.5}"#).number, 1_732_728_000_123);
    assert_eq!(read(r#"{"number":-5.9}"#).number, -5);
    assert_eq!(read(r#"{"list":{ },"number":1}"#), Sample { number: 1, ..Sample::default() });
    assert!(read(r#"{"flag":"TRUE"}"#).flag);
    assert!(read(r#"{"flag":1}"#).flag);
    assert_eq!(read(r#"{"ratio":"1.5"}"#).ratio, 1.5);
}

#[test]
fn tuples_are_read_up_to_their_end() {
    let read = |text: &str| from_str::<Vec<(i64, i64)>>(text);
    assert_eq!(read("[[1,2] , [3, 4 ]]").unwrap(), [(1, 2), (3, 4)]);
    let error = read("[[1,2,3]]").unwrap_err().to_string();
    assert!(error.contains("expected the end of the container"), "{error}");
    assert!(read("[[1]]").is_err() && read("[[1,2").is_err());
}

#[test]
fn unknown_missing_and_null_members_are_defaults() {
    assert_eq!(read("{}"), Sample::default());
    assert_eq!(
        read(r#"{"new":{"a":[{1:2},{{"x":1}:null}]},"text":null,"list":null,"numbered":null,"number":null}"#),
        Sample::default()
    );
}

#[test]
fn members_are_found_whatever_the_case_of_their_names() {
    let expected =
        Sample { number: 1, list: vec![2], text: Some("a".to_owned()), flag: true, ..Sample::default() };
    assert_eq!(read(r#"{"Number":1,"LIST":[2],"te_xt":"a","f-lag":true,"other":3}"#), expected);
    let keyed = read(r#"{"Keyed":{{"Name":"b","ID":3}:5}}"#).keyed;
    assert_eq!(keyed, BTreeMap::from([(Key { id: 3, name: "b".to_owned() }, 5)]));
    // Keys of a map are no names of members.
    assert_eq!(from_str::<BTreeMap<String, i32>>(r#"{"Number":1}"#).unwrap()["Number"], 1);
}

#[test]
fn escapes_are_decoded() {
    check_text(r#""a\"\\\/\b\f\n\r\tz""#, "a\"\\/\u{8}\u{c}\n\r\tz");
    check_text(r#""\u4e2d\u0001""#, "中\u{1}");
    check_text(r#""\ud83d\ude00!""#, "😀!");
    check_text(r#""\ud83d!""#, "\u{fffd}!");
    check_text(r#""\ud83d\u0041""#, "\u{fffd}A");
}

#[test]
fn errors_name_the_position() {
    check_error(r#"{"number":x}"#, 10, "expected an integer, found `x`");
    check_error(r#"{"number":1"#, 11, "expected `,` or `}`, found the end of the text");
    check_error(r#"{"list":[1,]}"#, 11, "expected another element, found `]`");
    check_error(r#"{"list":{"a":1}}"#, 9, "expected the end of an empty list, found `\"`");
    check_error(r#"{"text":"a"#, 8, "expected a closing quote, found the end of the text");
    check_error(r#"{"text":"\x"}"#, 9, "expected an escape sequence, found another character");
    check_error("{} {}", 3, "expected the end of the text, found `{`");
    check_error("", 0, "expected an object, found the end of the text");
    check_error("{a:1}", 1, "expected text, found `a`");
    check_error(r#"{"list":[2147483648]}"#, 19, "invalid value: integer `2147483648`, expected i32");
    assert_eq!(from_slice::<Sample>(b"{\"a\":\"\xff\"}").unwrap_err().position, 6);
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(read(&nested(63)), Sample::default());
    let error = from_str::<Sample>(&nested(64)).unwrap_err();
    assert_eq!(error.reason, "expected at most 64 nested containers, found more");
    from_str::<Sample>(&"{".repeat(100_000)).unwrap_err();
}

#[test]
fn untyped_values_keep_integer_keys_as_text() {
    let value: serde_json::Value = from_str(r#"{"a":{0:1,"b":[true,null,1.5,"x",-2]}}"#).unwrap();
    assert_eq!(value, serde_json::json!({"a":{"0":1,"b":[true,null,1.5,"x",-2]}}));
}

#[test]
fn both_dialects_are_written() {
    let sample = Sample {
        flag: true,
        keyed: BTreeMap::from([(Key { id: 3, name: "b".to_owned() }, 5)]),
        list: vec![1, 2],
        number: -7,
        numbered: BTreeMap::from([(0, "中\u{1}\"".to_owned())]),
        ratio: 0.0,
        text: None,
    };
    let plain = r#"{"flag":true,"keyed":{{"id":3,"name":"b"}:5},"list":[1,2],"number":-7,"numbered":{0:"中\u0001\""},"ratio":0.0}"#;
    assert_eq!(String::from_utf8(to_vec(&sample)).unwrap(), plain);
    let standard = plain.replace("{0:", "{\"0\":").replace('中', "\\u4E2D");
    assert_eq!(String::from_utf8(to_vec_as(&sample, Dialect::Standard)).unwrap(), standard);
    assert_eq!(read(plain), sample);
    assert_eq!(read(&standard), sample);
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "[\\[\\]{}:,\"\\\\0-9a-z\\.u-]{0,60}") {
        let _ = from_str::<Sample>(&text);
        let _ = from_str::<serde_json::Value>(&text);
    }

    #[test]
    fn strict_json_is_read_like_serde_json(text in any::<String>(), number in any::<i64>(), ratio in -1e9..1e9f64) {
        let value = serde_json::json!({"t": text, "n": [number, ratio], "o": {text.clone(): {}}});
        prop_assert_eq!(&from_str::<serde_json::Value>(&value.to_string()).unwrap(), &value);
        for dialect in [Dialect::Plain, Dialect::Standard] {
            prop_assert_eq!(&from_slice::<serde_json::Value>(&to_vec_as(&value, dialect)).unwrap(), &value);
        }
    }
}

/// People write such files, and fastjson 2 reads them.
#[test]
fn comments_single_quotes_and_a_byte_order_mark_are_read() {
    let read = |text: &str| from_str::<serde_json::Value>(text);
    for text in [
        "{\"a\": 1}",
        "\u{feff}{\"a\": 1}",
        "// ports\n{\"a\": 1} // the end",
        "/* ports */ { /**/ 'a' /* \" */ : /* : */ 1 // }\n } /* * / */",
        "{\"a\"://\n1}",
        "\u{feff}// x\r\n{'a': '1'}",
    ] {
        assert_eq!(
            read(text).map(|value| value["a"].to_string().replace('"', "")),
            Ok("1".to_owned()),
            "{text}"
        );
    }
    let value =
        read("{'it\\'s': 'a \"word\" // no comment /* */', \"b\": \"it's\", 'c': '\\u4e2d'}").unwrap();
    let expected = serde_json::json!({"it's": "a \"word\" // no comment /* */", "b": "it's", "c": "中"});
    assert_eq!(value, expected);
    for text in [
        "{a: 1}",
        "{'a': 1,}",
        "[1,]",
        "{'a\": 1}",
        "{\"a\": 1} /*",
        "{\"a\": 1} /",
        "/",
        "{\"a\" / 1}",
        "# x\n{}",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
    assert!(from_slice::<serde_json::Value>(b"\xef\xbb\xbf").is_err());
}

#[test]
fn the_elements_of_a_text_are_bounded_and_members_of_structs_are_not() {
    let read = |text: &str, max| from_slice_within::<BTreeMap<String, Vec<i32>>>(text.as_bytes(), max);
    let text = r#"{"a":[1,2],"b":[]}"#;
    assert_eq!(read(text, 4).unwrap().len(), 2);
    let error = read(text, 3).unwrap_err();
    assert_eq!((error.position, error.reason.as_str()), (11, TOO_MANY_ELEMENTS));
    let mapping: crate::body::TopicQueueMapping =
        from_slice_within(br#"{"bname":"b","epoch":6,"dirty":false}"#, 0).unwrap();
    assert_eq!(mapping.bname, "b");
}
