//! Tests against the texts that `TraceDataEncoder` of RocketMQ's Java client writes and reads.

use super::record::{ConsumeTrace, SendTrace, TransactionTrace};
use crate::{Properties, Received};
use std::collections::BTreeMap;
use wire::body::MessageQueue;
use wire::header::{Decision, EndTransaction};

fn shown(text: &str) -> String {
    text.replace('\u{1}', "|").replace('\u{2}', "$")
}

fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_send_has_fourteen_fields() {
    let check = |pairs: &[(&str, &str)], offset_id: &str, expected: &str, keys: &[&str]| {
        let properties = properties(pairs);
        let published = SendTrace {
            topic: "T",
            properties: &properties,
            region: "DefaultRegion",
            message_id: "ID",
            offset_id,
            store_host: "10.0.0.1:10911",
            body_bytes: 5,
            cost_ms: 3,
        };
        let record = published.record("PG", 1003);
        assert_eq!(shown(&record.text), expected);
        assert_eq!(record.keys, keys);
    };
    let place = "Pub|1000|DefaultRegion|PG|T|ID|TagA|k1 k2|10.0.0.1:10911|5|3|0|OFF|true$";
    check(&[("TAGS", "TagA"), ("KEYS", "k1 k2")], "OFF", place, &["ID", "k1", "k2"]);
    let failed = "Pub|1000|DefaultRegion|PG|T|ID|null|null|10.0.0.1:10911|5|3|0||false$";
    check(&[], "", failed, &["ID"]);
    let half = "Pub|1000|DefaultRegion|PG|T|ID|null|null|10.0.0.1:10911|5|3|1|OFF|true$";
    check(&[("TRAN_MSG", "true")], "OFF", half, &["ID"]);
    let delayed = "Pub|1000|DefaultRegion|PG|T|ID|null|null|10.0.0.1:10911|5|3|3|OFF|true$";
    check(&[("DELAY", "3")], "OFF", delayed, &["ID"]);
}

#[test]
fn an_end_of_a_transaction_has_thirteen_fields() {
    let end = EndTransaction {
        producer_group: "PG",
        topic: "T",
        queue_offset: 1,
        log_offset: 2,
        decision: Decision::Rollback,
        from_check: true,
        message_id: "ID",
        transaction_id: "TX",
    };
    let ending =
        TransactionTrace { end: &end, store_host: "h:1", region: Some("R"), tags: None, keys: Some("k") };
    let record = ending.record("PG", 7);
    assert_eq!(shown(&record.text), "EndTransaction|7|R|PG|T|ID|null|k|h:1|2|TX|ROLLBACK_MESSAGE|true$");
}

#[test]
fn a_consumption_is_two_records_per_message_and_none_where_traces_are_off() {
    let message = |id: &str, switch: &str| Received {
        topic: "T".to_owned(),
        queue: MessageQueue::new("T", "b", 0).into(),
        queue_offset: 0,
        log_offset: 0,
        body: b"x".to_vec(),
        flag: 0,
        sys_flag: 0,
        born_timestamp: 0,
        born_host: "127.0.0.1:1".parse().unwrap(),
        store_timestamp: 0,
        store_host: "127.0.0.1:2".parse().unwrap(),
        reconsume_times: 2,
        properties: Properties::new(
            format!("UNIQ_KEY\x01{id}\x02KEYS\x01k\x02MSG_REGION\x01R\x02TRACE_ON\x01{switch}\x02")
                .as_bytes(),
        ),
    };
    let messages = [message("A", "true"), message("B", "false"), message("C", "true")];
    let consumed = ConsumeTrace::new(&messages, 100);
    let before = consumed.before("G", &messages);
    assert_eq!(shown(&before.text), "SubBefore|100|R|G|A-100|A|2|k$SubBefore|100|R|G|A-100|C|2|k$");
    assert_eq!(before.keys, ["A", "k", "C", "k"]);
    let after = consumed.after("G", &messages, (130, true));
    assert_eq!(shown(&after.text), "SubAfter|A-100|A|10|true|k|0|130|G$SubAfter|A-100|C|10|true|k|0|130|G$");
    let failed = consumed.after("G", &messages[..1], (103, false));
    assert_eq!(shown(&failed.text), "SubAfter|A-100|A|3|false|k|4|103|G$");
}
