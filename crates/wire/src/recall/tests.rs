//! Tests with handles that RocketMQ made, and with malformed ones.

use super::*;

#[test]
fn a_handle_is_java_s() {
    let mut handle = Vec::new();
    RecallHandle::append(&mut handle, "T", "broker-a", 1_700_000_000_001, b"7F0000010001");
    let text = "djEgVCBicm9rZXItYSAxNzAwMDAwMDAwMDAxIDdGMDAwMDAxMDAwMQ==";
    assert_eq!(std::str::from_utf8(&handle).unwrap(), text);
    let read = RecallHandle::decode(text).unwrap();
    assert_eq!((read.topic.as_str(), read.broker_name.as_str()), ("T", "broker-a"));
    assert_eq!((read.time.as_str(), read.message_id.as_str()), ("1700000000001", "7F0000010001"));
    assert_eq!(RecallHandle::decode(text.trim_end_matches('=')), Some(read), "Java's decoder forgives that");
}

#[test]
fn every_length_comes_back() {
    for length in 0..20 {
        let raw: Vec<u8> = (0..length).map(|byte| byte * 11 + 3).collect();
        assert_eq!(decode(&URL_SAFE, &encode(&URL_SAFE, &raw)), Some(raw), "{length}");
    }
}

#[test]
fn what_is_no_handle_is_refused() {
    for text in
        ["", "=", "A", "####", "djEgVA==", "djEgVCBicm9rZXItYSAxNzAwMDAwMDAwMDAxIDdGMDAwMDAxMDAwMQ=", "äöü"]
    {
        assert_eq!(RecallHandle::decode(text), None, "{text:?}");
    }
    assert_eq!(RecallHandle::decode(&encode(&URL_SAFE, b"v2 T b 1 id")), None);
}
