use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::json::{self, Dialect};

const JAVA_5_3_3: &[u8] = include_bytes!("golden/json-5.3.3.txt");
const JAVA_5_5_0: &[u8] = include_bytes!("golden/json-5.5.0.txt");

/// The line behind `## name` in the golden file, or the rest of the line that begins with `name `.
fn golden(file: &[u8], name: &str) -> String {
    let text = String::from_utf8_lossy(file);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("## ").is_some_and(|title| title == name) {
            return lines.next().unwrap().to_owned();
        }
        if let Some(rest) = line.strip_prefix(&format!("{name} ")) {
            return rest.to_owned();
        }
    }
    panic!("no golden text `{name}`");
}

/// RocketMQ's text is parsed and written again byte for byte; returns the value.
fn check<T: DeserializeOwned + Serialize + Debug + PartialEq>(name: &str) -> T {
    for file in [JAVA_5_3_3, JAVA_5_5_0] {
        let text = golden(file, name);
        let value: T = json::from_str(&text).unwrap();
        assert_eq!(String::from_utf8(json::to_vec(&value)).unwrap(), text, "{name}");
    }
    json::from_str(&golden(JAVA_5_5_0, name)).unwrap()
}

fn check_route(name: &str, dialect: Dialect, file: &[u8]) {
    let text = golden(file, name);
    let route = TopicRouteData::decode(text.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(route.encode(dialect)).unwrap(), text, "{name}");
}

#[test]
fn names_of_enums_are_read_by_their_place_too() {
    let check = |text: &str, expected: (ConsumeType, MessageModel, ConsumeFromWhere)| {
        let found: ConsumerData = json::from_str(text).unwrap();
        assert_eq!((found.consume_type, found.message_model, found.consume_from_where), expected, "{text}");
    };
    check(
        r#"{"consumeType":0,"messageModel":0,"consumeFromWhere":4}"#,
        (ConsumeType::ConsumeActively, MessageModel::Broadcasting, ConsumeFromWhere::ConsumeFromFirstOffset),
    );
    check(
        r#"{"consumeType":"2","messageModel":1,"consumeFromWhere":"5"}"#,
        (ConsumeType::ConsumePop, MessageModel::Clustering, ConsumeFromWhere::ConsumeFromTimestamp),
    );
    check(
        r#"{"consumeType":9,"messageModel":-1,"consumeFromWhere":1.5}"#,
        (ConsumeType::Unknown, MessageModel::Unknown, ConsumeFromWhere::Unknown),
    );
}

#[test]
fn routes_are_byte_exact_in_both_dialects() {
    check_route("route plain", Dialect::Plain, JAVA_5_3_3);
    check_route("route plain w mapping", Dialect::Plain, JAVA_5_3_3);
    check_route("route plain w mapping", Dialect::Plain, JAVA_5_5_0);
    check_route("route standard(fastjson1)", Dialect::Standard, JAVA_5_3_3);
    check_route("route standard(fastjson2)", Dialect::Standard, JAVA_5_5_0);
}

#[test]
fn name_server_bodies_are_byte_exact() {
    let cluster: ClusterInfo = check("clusterinfo");
    assert_eq!(cluster.broker_addr_table["broker-a"].broker_addrs[&0], "127.0.0.1:10911");
    check::<BrokerMemberGroupBody>("membergroup");
    check::<TopicList>("topiclist");
    check::<KvTable>("kvtable");
    check::<DataVersion>("dataversion");
    let body: RegisterBrokerBody = check("regbody json");
    assert_eq!(body.topic_config_serialize_wrapper.topic_config_table["T1"].topic_sys_flag, 1);
    check::<TopicConfigSerializeWrapper>("topicconfigwrapper");
}

#[test]
fn client_bodies_are_byte_exact() {
    let heartbeat: HeartbeatData = check("heartbeat");
    assert_eq!(heartbeat.consumer_data_set[0].consume_type, ConsumeType::ConsumePassively);
    check::<LockBatchBody>("lockreq");
    check::<LockBatchBody>("unlock");
    check::<LockBatchResponseBody>("lockresp");
    check::<ConsumerListByGroup>("consumerlist");
    check::<QueryAssignmentBody>("qassign");
    check::<QueryAssignmentResponseBody>("qassignresp");
    check::<BatchAckBody>("batchack");
    let reset: ResetOffsetBody = check("resetoffset");
    assert_eq!(reset.offset_table[&MessageQueue::new("T", "broker-a", 4)], 6);
    check::<ResetOffsetBodyForC>("resetC");
    check::<ConsumerStatus>("consumerstatus");
}

#[test]
fn subscriptions_of_lite_topics_are_byte_exact() {
    let text = golden(JAVA_5_5_0, "litesubscriptions");
    let body: LiteSubscriptions = json::from_str(&text).unwrap();
    assert_eq!(String::from_utf8(json::to_vec(&body)).unwrap(), text);
    let offset = LiteOffset { r#type: LiteOffsetType::TailN, value: 3 };
    assert_eq!(body.subscription_set[0].offset_option, Some(offset));
}

#[test]
fn admin_bodies_are_byte_exact() {
    check::<TopicStats>("topicstats");
    check::<ConsumeStats>("consumestats");
    check::<ConsumerRunningInfo>("runninginfo");
    check::<ConsumerConnection>("consumerconn");
    check::<GroupList>("grouplist");
    check::<TopicConfig>("topiccfg");
    check::<SubscriptionGroupConfig>("subgroup");
}

#[test]
fn the_packed_registration_is_byte_exact() {
    let hex = golden(JAVA_5_5_0, "hex");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let packed: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let body = RegisterBrokerBody::from_packed(&packed, MAPPING_VERSION_MIN, usize::MAX).unwrap();
    let topics = &body.topic_config_serialize_wrapper.topic_config_table;
    assert_eq!(topics["T2"].to_string(), golden(JAVA_5_5_0, "topicconfig encode"));
    assert_eq!(topics["T2"].attributes["message.type"], "FIFO");
    let older = &packed[..packed.len() - 4];
    assert_eq!(RegisterBrokerBody::from_packed(older, 353, usize::MAX).unwrap(), body);
    for end in 0..packed.len() {
        RegisterBrokerBody::from_packed(&packed[..end], MAPPING_VERSION_MIN, usize::MAX).unwrap_err();
    }
}

#[test]
fn the_ha_status_of_a_broker_of_rocketmq_is_read_and_written_again() {
    let text = r#"{"haClientRuntimeInfo":{"activated":true,"lastReadTimestamp":7,"lastWriteTimestamp":8,"masterAddr":"10.0.0.1:10912","masterFlushOffset":9,"maxOffset":10,"transferredByteInSecond":11},"haConnectionInfo":[{"addr":"10.0.0.2:5","diff":-1,"inSync":true,"slaveAckOffset":4,"transferFromWhere":-1,"transferredByteInSecond":3}],"inSyncSlaveNums":1,"master":true,"masterCommitLogMaxOffset":5}"#;
    let found: HaRuntimeInfo = json::from_str(text).unwrap();
    assert_eq!(String::from_utf8(json::to_vec(&found)).unwrap(), text);
    let slave = r#"{"haClientRuntimeInfo":{"masterAddr":null,"connectionAddr":"10.0.0.2:5"},"nowMs":6}"#;
    let found: HaRuntimeInfo = json::from_str(slave).unwrap();
    let own = &found.ha_client_runtime_info;
    assert_eq!((found.master, found.now_ms, own.master_addr.as_deref()), (false, Some(6), None));
    assert_eq!(own.connection_addr.as_deref(), Some("10.0.0.2:5"));
}

#[test]
fn code_sets_of_the_go_client_are_read() {
    let text =
        r#"{"topic":"T","subString":"TagA","codeSet":["2598919"],"tagsSet":["TagA"],"expressionType":null}"#;
    let subscription: SubscriptionData = json::from_str(text).unwrap();
    assert_eq!(subscription.code_set.into_iter().collect::<Vec<_>>(), [2598919]);
}

#[test]
fn registrations_of_old_brokers_take_defaults() {
    let text = r#"{"topicConfigTable":{"T":{"topicName":"T"}},"dataVersion":{"counter":"3","timestatmp":1,"timestamp":7}}"#;
    let wrapper: TopicConfigSerializeWrapper = json::from_str(text).unwrap();
    assert_eq!(wrapper.data_version, DataVersion { counter: 3, state_version: 0, timestamp: 7 });
    assert_eq!(wrapper.topic_config_table["T"], TopicConfig::new("T", 16, 6));
}

/// RocketMQ's file is parsed and written, and gives the same value when parsed again.
fn check_file<T: DeserializeOwned + Serialize + Debug + PartialEq>(text: &[u8]) -> T {
    let value: T = json::from_slice(text).unwrap();
    let strict = json::to_vec_as(&value, Dialect::Standard);
    let untyped: serde_json::Value = serde_json::from_slice(&strict).unwrap();
    assert_eq!(untyped, json::from_slice::<serde_json::Value>(text).unwrap());
    assert_eq!(json::from_slice::<T>(&strict).unwrap(), value);
    value
}

#[test]
fn config_files_of_java_survive_a_rewrite() {
    let topics: TopicTable = check_file(include_bytes!("golden/topics.json"));
    assert_eq!(topics.topic_config_table["DefaultCluster"].perm, 7);
    let groups: SubscriptionGroupTable = check_file(include_bytes!("golden/subscriptionGroup.json"));
    assert_eq!(groups.subscription_group_table["GID_2"].retry_max_times, 3);
    let offsets: ConsumerOffsetTable = check_file(include_bytes!("golden/consumerOffset.json"));
    assert_eq!(offsets.offset_table["TopicN@GID_1"], BTreeMap::from([(0, 4), (1, 4)]));
    assert!(offsets.extra.contains_key("groupTopicMap"));
    let delays: DelayOffsetTable = check_file(include_bytes!("golden/delayOffset.json"));
    assert_eq!(delays.offset_table, BTreeMap::from([(2, 1)]));
}

#[test]
fn unknown_members_of_config_files_are_kept() {
    let text =
        r#"{"dataVersion":{},"topicConfigTable":{"T":{"topicName":"T","newer":{0:[1]}}},"more":{"a":{1:2}}}"#;
    let topics: TopicTable = json::from_str(text).unwrap();
    assert_eq!(topics.extra["more"], serde_json::json!({"a": {"1": 2}}));
    assert_eq!(topics.topic_config_table["T"].extra["newer"], serde_json::json!({"0": [1]}));
}

#[test]
fn queues_sort_by_topic_broker_and_id() {
    let queue = MessageQueue::new;
    let sorted = [queue("A", "a", 9), queue("A", "b", 0), queue("A", "b", 10), queue("B", "a", 0)];
    assert!(sorted.is_sorted());
    let version = |state_version, counter, timestamp| DataVersion { counter, state_version, timestamp };
    assert!([version(0, 9, 9), version(1, 0, 5), version(1, 0, 6), version(1, 1, 0)].is_sorted());
}

proptest! {
    #[test]
    fn damaged_bodies_never_panic(cut in 0usize..2000, at in 0usize..2000, byte in any::<u8>()) {
        for name in ["route plain w mapping", "regbody json", "heartbeat", "resetoffset", "runninginfo"] {
            let mut text = golden(JAVA_5_5_0, name).into_bytes();
            let length = text.len();
            text[at % length] = byte;
            text.truncate(length - cut % length);
            let _ = json::from_slice::<TopicRouteData>(&text);
            let _ = json::from_slice::<RegisterBrokerBody>(&text);
            let _ = json::from_slice::<HeartbeatData>(&text);
            let _ = json::from_slice::<ResetOffsetBody>(&text);
            let _ = json::from_slice::<ConsumerRunningInfo>(&text);
            let _ = RegisterBrokerBody::from_packed(&text, MAPPING_VERSION_MIN, usize::MAX);
        }
    }

    #[test]
    fn random_packed_registrations_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = RegisterBrokerBody::from_packed(&bytes, MAPPING_VERSION_MIN, usize::MAX);
    }
}

fn check_properties(text: &str, expected: &[(&str, &str)]) {
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    assert_eq!(parse_key_values(text.as_bytes()).unwrap(), expected, "{text:?}");
    assert_eq!(parse_key_values(format_key_values(&expected).as_bytes()).unwrap(), expected, "{text:?}");
}

#[test]
fn properties_parse_like_in_java() {
    check_properties("a=1\nb: 2\r\nc 3\n  d  =  4 \n", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4 ")]);
    check_properties("#a=1\n!b=2\n\n \t\nc=#x!\n", &[("c", "#x!")]);
    check_properties("a=1,\\\n   2\\\n,3\nb=x\\\\\nc=y", &[("a", "1,2,3"), ("b", "x\\"), ("c", "y")]);
    check_properties("a\\=b\\ c=1\nd=\\u4e2d\\ud83d\\ude00\\t\\q", &[("a=b c", "1"), ("d", "中😀\tq")]);
    check_properties("a=1\na=2\nb\n=x", &[("a", "2"), ("b", ""), ("", "x")]);
    check_properties("a=1\\", &[("a", "1")]);
    assert_eq!(parse_key_values(b"a=1\n\nb=\\u12").unwrap_err(), KeyValuesError { line: 3 });
    assert_eq!(parse_key_values(b"a=\xe9").unwrap()["a"], "é");
    let text = b"# a\na=1\n\nb: 2\\\n  3\n a = 4\n#b=5\n";
    assert_eq!(["a", "b", "c"].map(|key| line_of_key(text, key)), [Some(6), Some(4), None]);
}

#[test]
fn properties_keep_comments_when_rewritten() {
    let text = b"# ours\na=1\n\n# twice\nb=2\\\n  3\nb=4\nc=5";
    let changes = BTreeMap::from([("b".to_owned(), "9".to_owned()), ("d".to_owned(), " x\\".to_owned())]);
    let rewritten = rewrite_key_values(text, &changes).unwrap();
    assert_eq!(rewritten, "# ours\na=1\n\n# twice\nb=9\nc=5\nd=\\ x\\\\\n");
}

proptest! {
    #[test]
    fn properties_never_panic_and_round_trip(text in ".{0,60}", key in "\\PC{1,8}", value in any::<String>()) {
        let _ = parse_key_values(text.as_bytes());
        let values = BTreeMap::from([(key, value)]);
        prop_assert_eq!(parse_key_values(format_key_values(&values).as_bytes()).unwrap(), values);
    }
}

#[test]
fn acknowledged_offsets_are_bits() {
    let ack = |bits: &str| BatchAck { bits: bits.to_owned(), start_offset: 100, ..BatchAck::default() };
    let all = i64::MIN..=i64::MAX;
    assert_eq!(ack("AQI=").offsets_in(all.clone()), [100, 109]);
    assert_eq!(ack("AQI=").offsets_in(101..=109), [109]);
    assert_eq!(ack("AQI=").offsets_in(101..=108), [] as [i64; 0]);
    assert_eq!(ack("").offsets_in(all.clone()), [] as [i64; 0]);
    assert_eq!(ack("!").offsets_in(all.clone()), [] as [i64; 0]);
    // A megabyte of set bits.
    assert_eq!(ack(&"/".repeat(1 << 20)).offsets_in(all), (100..356).collect::<Vec<_>>());
}

#[test]
fn a_batch_of_too_many_acknowledgements_is_refused_before_it_takes_memory() {
    let body = |count: usize| format!(r#"{{"acks":[{}]}}"#, vec!["{}"; count].join(","));
    assert_eq!(json::from_str::<BatchAckBody>(&body(ACKS_MAX)).unwrap().acks.len(), ACKS_MAX);
    let error = json::from_str::<BatchAckBody>(&body(ACKS_MAX + 1)).unwrap_err().to_string();
    assert!(error.contains("at most 16384 acknowledgements"), "{error}");
}

#[test]
fn records_of_the_revive_topic_are_byte_exact() {
    let text = r#"{"bm":0,"bn":"broker-a","c":"CG","d":[0,1],"it":60000,"n":2,"pt":1700000000000,"q":2,"reviveTime":1700000060000,"ro":0,"so":100,"t":"T"}"#;
    let mut checkpoint: Checkpoint = json::from_str(text).unwrap();
    assert_eq!(json::to_vec(&checkpoint), text.as_bytes());
    assert_eq!(checkpoint.revive_ms(), 1_700_000_060_000);
    assert_eq!([99, 100, 101, 102].map(|offset| checkpoint.index_of(offset)), [None, Some(0), Some(1), None]);
    checkpoint.ack(1);
    assert!(checkpoint.is_acked(1) && !checkpoint.is_done() && checkpoint.offset(1) == 101);
    checkpoint.ack(0);
    assert!(checkpoint.is_done());
    let old = r#"{"startOffset":5,"num":2,"popTime":1,"invisibleTime":2,"cId":"G","topic":"T","queueId":1}"#;
    let old: Checkpoint = json::from_str(old).unwrap();
    assert_eq!((old.index_of(6), old.offset(1), old.group.as_str()), (Some(1), 6, "G"));

    for (text, offsets) in [
        (r#"{"ao":101,"bn":"broker-a","c":"CG","pt":3,"q":2,"so":100,"t":"T"}"#, vec![101]),
        (
            r#"{"ao":-1,"aol":[100,101],"bn":"broker-a","c":"CG","pt":3,"q":2,"so":100,"t":"T"}"#,
            vec![100, 101],
        ),
    ] {
        let acks: Acks = json::from_str(text).unwrap();
        assert_eq!(json::to_vec(&acks), text.as_bytes());
        assert_eq!(acks.all().collect::<Vec<_>>(), offsets);
    }
    let long = r#"{"ackOffset":7,"startOffset":5,"consumerGroup":"G","topic":"T","queueId":1,"popTime":9,"brokerName":"b"}"#;
    let acks: Acks = json::from_str(long).unwrap();
    assert_eq!((acks.all().collect::<Vec<_>>(), acks.group.as_str(), acks.pop_ms), (vec![7], "G", 9));
}

#[test]
fn files_of_pop_consumption_are_read() {
    let text = r#"{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"POP","popShareQueueNum":-1,"topic":"T"}}}}"#;
    let table: RequestModeTable = json::from_str(text).unwrap();
    assert_eq!(table.message_request_mode_map["T"]["G"].pop_share_queue_num, -1);
    assert_eq!(json::to_vec(&table), text.as_bytes());
    let text = r#"{"table":{"T@G":{0:{"a":"x","cm":1,"i":60000,"l":7,"o":[100,1],"oc":{101:2},"ot":{101:9},"popTime":5}}}}"#;
    let table: OrderTable = json::from_str(text).unwrap();
    assert_eq!(table.table["T@G"][&0].offsets, [100, 1]);
    assert_eq!(json::to_vec(&table), text.as_bytes());
}
