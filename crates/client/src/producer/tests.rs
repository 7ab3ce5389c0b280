//! Tests of validation, of added properties, and of the order of queues.

use super::prepare::{KeyGenerator, SendDraft};
use super::*;
use wire::properties;

fn prepared(message: &Message) -> Result<SendDraft, Error> {
    let keys = KeyGenerator::new([10, 0, 0, 1].into(), 7);
    SendDraft::single(message, &ProducerConfig::new("g"), &keys, 1_700_000_000_000)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn illegal_messages_are_refused_with_the_reason() {
    let check = |message: Message, expected: &str| {
        let text = refusal(prepared(&message));
        assert!(text.contains(expected), "{text}");
    };
    check(Message::new("", "x"), "topic \"\"");
    check(Message::new("a b", "x"), "topic \"a b\"");
    check(Message::new("t".repeat(128), "x"), "128 characters long, the limit is 127");
    check(Message::new("t", ""), "empty");
    check(Message::new("t", vec![0; (4 << 20) + 1]), "4194305 bytes long, the limit is 4194304");
    check(Message::new("t", "x").property("a\u{1}", "b"), "separator");
    check(Message::new("t", "x").property("a", "b".repeat(40_000)), "the limit is 32767");
    assert!(prepared(&Message::new("%RETRY%".to_owned() + &"t".repeat(200), "x")).is_ok());
}

#[test]
fn a_unique_key_is_added_and_kept() {
    let one = prepared(&Message::new("t", "x").tag("a").keys("k1 k2")).unwrap();
    assert_eq!(one.message_id.len(), 32);
    let get = |name| properties::get_str(&one.properties, name);
    assert_eq!(get("UNIQ_KEY"), Some(one.message_id.as_str()));
    assert_eq!((get("TAGS"), get("KEYS"), get("WAIT")), (Some("a"), Some("k1 k2"), Some("true")));
    let two =
        prepared(&Message::new("t", "x").property("UNIQ_KEY", "mine").property("WAIT", "false")).unwrap();
    assert_eq!(two.message_id, "mine");
    assert_eq!(properties::get_str(&two.properties, "WAIT"), Some("false"));
    let keys = KeyGenerator::new([10, 0, 0, 1].into(), 7);
    assert_ne!(keys.next(5), keys.next(5));
}

#[test]
fn large_bodies_are_compressed() {
    assert_eq!(prepared(&Message::new("t", vec![1; 4095])).unwrap().sys_flag, 0);
    let large = prepared(&Message::new("t", vec![1; 4096])).unwrap();
    assert_eq!(large.sys_flag, 0x301);
    assert_eq!(crate::decompress(Compression::Zlib, &large.body).unwrap(), vec![1; 4096]);
    assert_eq!(prepared(&Message::new("t", "x").property("TRAN_MSG", "true")).unwrap().sys_flag, 4);
}

#[test]
fn batches_must_agree() {
    let keys = KeyGenerator::new([10, 0, 0, 1].into(), 7);
    let batch = |messages: &[Message]| SendDraft::batch(messages, &ProducerConfig::new("g"), &keys, 1);
    let message = || Message::new("t", "x");
    assert!(refusal(batch(&[])).contains("at least one"));
    assert!(refusal(batch(&[message(), Message::new("u", "x")])).contains("same topic"));
    assert!(refusal(batch(&[message().delay_level(1)])).contains("delayed"));
    assert!(refusal(batch(&[message(), message().property("WAIT", "false")])).contains("wait"));
    assert!(refusal(batch(&[Message::new("%RETRY%g", "x")])).contains("retry"));
    let made = batch(&[message().tag("a"), message()]).unwrap();
    let entries: Vec<_> = wire::batch::entries(&made.body).map(Result::unwrap).collect();
    let ids: Vec<_> =
        entries.iter().map(|entry| properties::get_str(entry.properties, "UNIQ_KEY").unwrap()).collect();
    assert_eq!((entries.len(), ids.join(",")), (2, made.message_id));
}

#[test]
fn a_retry_leaves_the_broker_that_failed() {
    let queues: Vec<_> = ["A", "B", "A", "B"]
        .iter()
        .zip(0..)
        .map(|(broker, id)| MessageQueue::new("t", *broker, id))
        .collect();
    let check = |turn, failed, expected: Option<i32>| {
        assert_eq!(pick(&queues, turn, failed).map(|queue| queue.queue_id), expected);
    };
    check(0, None, Some(0));
    check(5, None, Some(1));
    check(1, Some("B"), Some(2));
    check(3, Some("B"), Some(0));
    check(2, Some("C"), Some(2));
    assert_eq!(pick(&queues[..1], 0, Some("A")).map(|queue| queue.queue_id), Some(0), "better than none");
    assert_eq!(pick(&[], 3, None), None);
}
