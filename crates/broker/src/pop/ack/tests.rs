//! Which values the fields of a handle may have in acknowledgements and changes of the invisible time.

use wire::codes::{request, response};

use super::{PoppedMessage, acks, change_invisible_time};
use crate::names;
use crate::pop::revive_records::ReviveRecords;
use crate::testing::{CALLER, Fixture};

const DAY_MS: i64 = 86_400_000;

/// A broker with one message, and the current time in milliseconds.
fn fixture() -> (Fixture, i64) {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("G", 1).unwrap();
    fixture.queue(names::TIMER_TOPIC, 0);
    fixture.queue(&fixture.broker.delivery.pops.revive_topic.clone(), 7);
    fixture.put("T", 0, b"m", b"");
    let now_ms = fixture.broker.runtime.now_ms();
    (fixture, now_ms)
}

/// Number of records in the timer topic and the revive topic together.
fn stored(fixture: &Fixture) -> u64 {
    let revive = &fixture.broker.delivery.pops.revive_topic;
    let queues = (0..8).filter_map(|queue_id| fixture.broker.tables.log_queue(revive, queue_id));
    let timer = fixture.broker.tables.log_queue(names::TIMER_TOPIC, 0);
    queues.chain(timer).map(|queue| queue.index.max().get()).sum()
}

/// Acknowledges message 0 of queue 0 with a handle, and changes its invisible time with the same handle. Checks that both
/// are answered with `code`, and that a refused request stores nothing.
fn check(handle: &str, code: i32) {
    let (fixture, now_ms) = fixture();
    let handle = handle.replace("NOW", &now_ms.to_string());
    let fields = [
        ("topic", "T"),
        ("queueId", "0"),
        ("offset", "0"),
        ("extraInfo", &handle),
        ("consumerGroup", "G"),
        ("invisibleTime", "60000"),
    ];
    for (request, records) in [(request::ACK_MESSAGE, 1), (request::CHANGE_MESSAGE_INVISIBLETIME, 2)] {
        let before = stored(&fixture);
        let (found, remark, _) = fixture.ask(request, &fields, b"");
        assert_eq!(found, code, "{request} {handle}: {remark}");
        let added = stored(&fixture) - before;
        assert_eq!(added, if code == 0 { records } else { 0 }, "{request} {handle}");
    }
}

#[test]
fn a_handle_says_only_what_a_pop_may_have_given_out() {
    check("0 NOW 60000 0 0 b 0 0", 0);
    check("0 NOW 60000 7 1 b", 0);
    // Start offset.
    for start in ["-1", "1", "9223372036854775807", "-9223372036854775808"] {
        check(&format!("{start} NOW 60000 0 0 b 0 0"), 13);
    }
    // Pop time. An acknowledgement of a pop long ago is late and has no effect.
    check("0 0 60000 0 0 b 0 0", 0);
    for pop in ["-1", "9223372036854775807", "-9223372036854775808", "4102444800000000"] {
        check(&format!("0 {pop} 60000 0 0 b 0 0"), 13);
    }
    // Invisible time.
    check("0 NOW 259200000 0 0 b 0 0", 0);
    for invisible in ["-1", "259300000", "9223372036854775807", "-9223372036854775808"] {
        check(&format!("0 NOW {invisible} 0 0 b 0 0"), 13);
    }
    // Revive queue.
    for queue in ["-1", "8", "998", "2147483647", "-2147483648"] {
        check(&format!("0 NOW 60000 {queue} 0 b 0 0"), 1);
    }
    // The queue and offset of the request are used, not those of the handle, as in Java.
    check("0 NOW 60000 0 0 b 7 9", 0);
    check("0 NOW 60000 0 2 b -1 9223372036854775807", 0);
    for text in [
        "",
        "0",
        "x NOW 60000 0 0 b",
        "0 NOW 60000 0 3 b",
        "0 NOW 60000 0 0",
        "0 9223372036854775808 1 0 0 b",
    ] {
        check(text, 1);
    }
}

#[test]
fn messages_of_one_pop_are_acknowledged_by_one_record() {
    let (fixture, now_ms) = fixture();
    fixture.put("T", 0, b"n", b"");
    let handle = |pop_ms: i64, offset: i64| format!("0 {pop_ms} 60000 0 0 b 0 {offset}");
    let [first, second, earlier] = [handle(now_ms, 0), handle(now_ms, 1), handle(now_ms - 1, 0)];
    let message = |offset, handle| PoppedMessage {
        caller: &CALLER,
        group: "G",
        topic: "T",
        queue_id: 0,
        offset,
        handle,
    };
    let mut records = ReviveRecords::new(&fixture.broker.store);
    let messages = [
        message(0, &first),
        message(1, &second),
        message(0, &first),
        message(0, &earlier),
        message(9, &first),
    ];
    let outcomes = acks(&fixture.broker.pops, &mut records, &messages);
    let codes = outcomes.into_iter().map(|outcome| outcome.map_or_else(|refusal| refusal.code, |()| 0));
    assert_eq!(codes.collect::<Vec<_>>(), [0, 0, 0, 0, response::NO_MESSAGE]);
    assert_eq!(records.len(), 2);
}

#[test]
fn a_pop_time_in_the_future_stays_within_the_longest_delay() {
    let (_, now_ms) = fixture();
    check(&format!("0 {} 60000 0 0 b 0 0", now_ms + 2 * DAY_MS), 0);
    check(&format!("0 {} 60000 0 0 b 0 0", now_ms + 3 * DAY_MS), 13);
}

/// Acknowledges in one batch the messages whose bits are set in `bits`; returns the response code and the number of records
/// stored.
fn batch(entry: &str, bits: &str) -> (i32, u64) {
    let (fixture, now_ms) = fixture();
    let entry = entry.replace("NOW", &now_ms.to_string());
    let body = format!(r#"{{"brokerName":"b","acks":[{{"c":"G","t":"T","q":0,"b":"{bits}",{entry}}}]}}"#);
    let before = stored(&fixture);
    let (code, ..) = fixture.ask(request::BATCH_ACK_MESSAGE, &[], body.as_bytes());
    (code, stored(&fixture) - before)
}

#[test]
fn an_entry_of_a_batch_says_only_what_a_pop_may_have_given_out() {
    let first = "AQ==";
    assert_eq!(batch(r#""r":"0","so":0,"rq":0,"pt":NOW,"it":60000"#, first), (0, 1));
    // With start offset -1, bit 1 stands for message 0.
    assert_eq!(batch(r#""r":"0","so":-1,"rq":0,"pt":NOW,"it":60000"#, "Ag=="), (13, 0));
    // Bits that stand for no message are skipped.
    assert_eq!(batch(r#""r":"0","so":9223372036854775807,"rq":0,"pt":NOW,"it":60000"#, first), (0, 0));
    assert_eq!(batch(r#""r":"0","so":0,"rq":0,"pt":NOW,"it":60000"#, ""), (0, 0));
    for (pop, invisible) in [("-1", "1"), ("NOW", "-1"), ("9223372036854775807", "1"), ("NOW", "259300000")] {
        let entry = format!(r#""r":"0","so":0,"rq":0,"pt":{pop},"it":{invisible}"#);
        assert_eq!(batch(&entry, first), (13, 0), "{entry}");
    }
    assert_eq!(batch(r#""r":"0","so":0,"rq":8,"pt":NOW,"it":60000"#, first), (1, 0));
    assert_eq!(batch(r#""r":"3","so":0,"rq":0,"pt":NOW,"it":60000"#, first), (1, 0));
}

#[test]
fn a_message_popped_in_order_gets_a_handle_also_where_nothing_is_known_of_the_pop() {
    let (fixture, now_ms) = fixture();
    let handle = format!("0 {now_ms} 60000 999 0 b 0 0");
    let message =
        PoppedMessage { caller: &CALLER, group: "G", topic: "T", queue_id: 0, offset: 0, handle: &handle };
    let changed = change_invisible_time(&fixture.broker.pops, &message, 30_000).ok().flatten().unwrap();
    assert_eq!((changed.pop_ms, changed.revive_queue), (now_ms, 999));
    assert!(changed.invisible_ms >= 30_000, "{}", changed.invisible_ms);
    fixture.broker.tables.offsets.commit("G", "T", 0, 1);
    assert!(change_invisible_time(&fixture.broker.pops, &message, 30_000).ok().unwrap().is_none());
}
