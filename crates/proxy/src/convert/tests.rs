use broker::api::Caller;
use bytes::Bytes;
use grpc::messages::{Code, Duration, Encoding, Message, Resource, SystemProperties, Timestamp};
use wire::record::{RecordFields, RecordView, encode, sys_flag};

use super::*;
use crate::config::Config;

const NOW: i64 = 1_700_000_000_000;

fn caller() -> Caller {
    Caller { remote: "10.0.0.1:5".parse().unwrap(), version: 0, user: broker::api::Subject::Off }
}

fn sent(change: impl FnOnce(&mut Message, &mut SystemProperties)) -> Message {
    let mut system = SystemProperties { message_id: "id".to_owned(), ..Default::default() };
    let mut message = Message {
        topic: Some(Resource::named("T")),
        body: Bytes::from_static(b"body"),
        ..Default::default()
    };
    change(&mut message, &mut system);
    message.system_properties = Some(system);
    message
}

/// The message as it comes back from the log.
fn back(message: &Message) -> Message {
    let sys_flag = outgoing(message, &caller(), NOW).sys_flag;
    stored(message, sys_flag)
}

/// Returns the message as it returns from the log with this `sysFlag`.
fn stored(message: &Message, sys_flag: i32) -> Message {
    let outgoing = outgoing(message, &caller(), NOW);
    let fields = RecordFields {
        topic: "T",
        queue_id: 3,
        flag: 0,
        sys_flag,
        born_timestamp: outgoing.born_ms,
        born_host: caller().remote,
        store_host: "10.0.0.2:10911".parse().unwrap(),
        reconsume_times: 1,
        prepared_transaction_offset: 0,
        body: &message.body,
        properties: &outgoing.properties,
        crc_property: false,
    };
    let mut bytes = Vec::new();
    encode(&fields, &mut bytes).unwrap();
    let bytes = Bytes::from(bytes);
    super::message(&bytes, &RecordView::parse(&bytes).unwrap(), NOW)
}

#[test]
fn a_message_comes_back_as_it_was_sent() {
    let message = sent(|message, system| {
        message.user_properties = [("color".to_owned(), "red".to_owned())].into();
        system.tag = Some("A".to_owned());
        system.keys = vec!["k1".to_owned(), "k2".to_owned()];
        system.born_timestamp = Some(Timestamp::of_ms(NOW - 5));
        system.message_group = Some("g".to_owned());
        system.trace_context = Some("t".to_owned());
        system.priority = Some(2);
    });
    let found = back(&message);
    assert_eq!((&found.topic, &found.body), (&message.topic, &message.body));
    // The two keys that the reference lets through as user properties as well.
    let keys: Vec<_> = found.user_properties.keys().map(String::as_str).collect();
    assert_eq!(keys, ["TRACE_CONTEXT", "__SHARDINGKEY", "color"]);
    let system = found.system_properties.unwrap();
    assert_eq!((system.tag.as_deref(), system.message_id.as_str()), (Some("A"), "id"));
    assert_eq!((system.keys.join(","), system.priority), ("k1,k2".to_owned(), Some(2)));
    assert_eq!((system.born_timestamp.unwrap().ms(), system.born_host.as_str()), (NOW - 5, "10.0.0.1"));
    assert_eq!((system.queue_id, system.delivery_attempt), (3, Some(2)));
    assert_eq!(system.message_type, MessageType::Fifo as i32);
    assert_eq!(system.store_host, "10.0.0.2:10911");
    assert_eq!(system.body_encoding, Encoding::Identity as i32);
}

#[test]
fn the_digest_is_md5_in_upper_case() {
    let system = back(&sent(|_, _| {})).system_properties.unwrap();
    assert_eq!(system.body_digest.unwrap().checksum, "841A2D689AD86BD1611447453C22C6FC");
}

#[test]
fn a_compressed_body_keeps_its_bytes() {
    let message = sent(|_, system| system.body_encoding = Encoding::Gzip.into());
    assert_eq!(outgoing(&message, &caller(), NOW).sys_flag, sys_flag::COMPRESSED);
    let found = back(&message);
    assert_eq!(found.body, message.body);
    assert_eq!(found.system_properties.unwrap().body_encoding, Encoding::Gzip as i32);
}

#[test]
fn bodies_that_are_compressed_as_no_client_of_the_protocol_knows_are_decompressed() {
    for kind in [client::Compression::Lz4, client::Compression::Zstd] {
        let packed = client::compress(kind, 3, b"body").unwrap();
        let flag = sys_flag::compressed_with(kind);
        let found = stored(&sent(|message, _| message.body = packed.clone().into()), flag);
        let system = found.system_properties.unwrap();
        assert_eq!((&found.body[..], system.body_encoding), (&b"body"[..], Encoding::Identity as i32));
        assert_eq!(system.body_digest.unwrap().checksum, "841A2D689AD86BD1611447453C22C6FC");
        // What is not of this kind, or would be too large, is passed on.
        let bomb = client::compress(kind, 3, &vec![0; 17 << 20]).unwrap();
        for body in [Bytes::from_static(b"no such format"), bomb.into()] {
            let found = stored(&sent(|message, _| message.body = body.clone()), flag);
            assert_eq!(
                (found.body, found.system_properties.unwrap().body_encoding),
                (body, Encoding::Gzip as i32)
            );
        }
    }
}

fn refused(change: impl FnOnce(&mut Message, &mut SystemProperties)) -> (Code, String) {
    let failure = check(&Config::default(), &sent(change), NOW).unwrap_err();
    (failure.code, failure.message)
}

#[test]
fn no_text_of_a_message_becomes_a_property_of_its_own() {
    let text = || "a\u{2}TRAN_MSG\u{1}true".to_owned();
    assert_eq!(refused(|_, system| system.message_id = text()).0, Code::IllegalMessageId);
    assert_eq!(refused(|_, system| system.born_host = text()).0, Code::BadRequest);
    assert_eq!(refused(|_, system| system.trace_context = Some(text())).0, Code::BadRequest);
    assert_eq!(refused(|_, system| system.tag = Some(text())).0, Code::IllegalMessageTag);
    assert_eq!(refused(|_, system| system.keys = vec![text()]).0, Code::IllegalMessageKey);
    assert_eq!(refused(|_, system| system.message_group = Some(text())).0, Code::IllegalMessageGroup);
    assert_eq!(refused(|_, system| system.lite_topic = Some(text())).0, Code::IllegalLiteTopic);
    let value =
        |it: &mut Message, _: &mut SystemProperties| it.user_properties = [("k".to_owned(), text())].into();
    assert_eq!(refused(value).0, Code::IllegalMessagePropertyKey);
}

#[test]
fn each_check_has_its_code_and_text() {
    assert_eq!(check(&Config::default(), &sent(|_, _| {}), NOW), Ok(()));
    let expect = |found: (Code, String), code: Code, text: &str| assert_eq!(found, (code, text.to_owned()));
    let pair = |index: usize| (format!("k{index}"), "v".to_owned());
    expect(refused(|it, _| it.body.clear()), Code::MessageBodyEmpty, "message body cannot be empty");
    let text = "message body cannot exceed the max 4194304";
    expect(refused(|it, _| it.body = vec![0; (4 << 20) + 1].into()), Code::MessageBodyTooLarge, text);
    let text = "too many user properties, max is 128";
    expect(
        refused(|it, _| it.user_properties = (0..129).map(pair).collect()),
        Code::MessagePropertiesTooLarge,
        text,
    );
    let text = "the total size of user property is too large, max is 16384";
    expect(
        refused(|_, system| system.keys = vec!["k".repeat(16_385)]),
        Code::MessagePropertiesTooLarge,
        text,
    );
    expect(
        refused(|_, system| system.message_id = " ".to_owned()),
        Code::IllegalMessageId,
        "message id cannot be empty",
    );
    let text = "the max transaction recovery time of message is too large, max is 3600";
    let long = |system: &mut SystemProperties| {
        system.message_type = MessageType::Transaction.into();
        system.orphaned_transaction_recovery_duration = Some(Duration::of_ms(3_601_000));
    };
    expect(refused(|_, system| long(system)), Code::BadRequest, text);
    let text = "the max delay time of message is too large, max is 86400000";
    expect(
        refused(|_, system| system.delivery_timestamp = Some(Timestamp::of_ms(NOW + 86_400_001))),
        Code::IllegalDeliveryTime,
        text,
    );
    let past = sent(|_, system| system.delivery_timestamp = Some(Timestamp::of_ms(1)));
    assert_eq!(check(&Config::default(), &past, NOW), Ok(()));
    // An earlier row wins.
    let both = refused(|it, system| {
        it.body.clear();
        system.message_id.clear();
    });
    assert_eq!(both.0, Code::MessageBodyEmpty);
}

#[test]
fn settings_of_0_and_less_are_no_maximum() {
    let large = sent(|message, system| {
        message.body = vec![0; (4 << 20) + 1].into();
        system.message_type = MessageType::Transaction.into();
        system.orphaned_transaction_recovery_duration = Some(Duration::of_ms(3_601_000));
        system.delivery_timestamp = Some(Timestamp::of_ms(NOW + 86_400_001));
    });
    for max in [0, -1] {
        let text = format!(
            r#"{{"maxMessageSize":{max},"maxTransactionRecoverySecond":{max},"maxDelayTimeMills":{max}}}"#
        );
        let (config, _) = Config::from_json(text.as_bytes()).unwrap();
        assert_eq!(check(&config, &large, NOW), Ok(()));
    }
}

#[test]
fn the_type_must_be_that_of_the_topic() {
    let kind = |change: fn(&mut SystemProperties)| {
        MessageKind::of(&outgoing(&sent(|_, system| change(system)), &caller(), NOW).properties)
    };
    let (normal, fifo) = (kind(|_| {}), kind(|system| system.message_group = Some("g".to_owned())));
    assert_eq!((normal.0, fifo.0), (MessageType::Normal, MessageType::Fifo));
    assert_eq!(normal.check(Some("NORMAL")), Ok(()));
    assert_eq!(fifo.check(Some("MIXED")), Ok(()));
    let failure = fifo.check(Some("NORMAL")).unwrap_err();
    assert_eq!(failure.code, Code::MessagePropertyConflictWithType);
    let text = "TopicMessageType validate failed, the expected type is NORMAL, but actual type is FIFO";
    assert_eq!(failure.message, text);
}

#[test]
fn what_a_topic_takes() {
    use MessageType::{Delay, Fifo, Normal, Transaction, Unspecified};
    assert_eq!(accepted_types(None), [Normal]);
    assert_eq!(accepted_types(Some("FIFO")), [Fifo]);
    assert_eq!(accepted_types(Some("MIXED")), [Normal, Fifo, Delay, Transaction]);
    assert_eq!(accepted_types(Some("x")), [Unspecified]);
}
