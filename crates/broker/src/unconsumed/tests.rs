use super::*;
use crate::testing::Fixture;

/// The result for messages with these tags, by subscription and committed offset.
fn check(tags: &[&str], expression: Option<&str>, committed: i64, expected: Option<(i64, bool)>) {
    let fixture = Fixture::new();
    for tag in tags {
        fixture.put("T", 0, b"body", format!("TAGS\u{1}{tag}\u{2}").as_bytes());
    }
    let subscription = expression.map(|text| Subscription::parse("T", text, 0).unwrap());
    let queue = fixture.queue("T", 0).index.clone();
    let found = Unconsumed::find(&queue, subscription.as_ref(), committed, queue.max().to_i64());
    let found = found.map(|message| (message.offset, message.is_bound));
    assert_eq!(found, expected, "{expression:?} from {committed} on");
}

#[test]
fn the_first_message_with_a_tag_of_the_group_counts() {
    let tags = ["A", "A", "B", "A"];
    check(&tags, None, 1, Some((1, false)));
    check(&tags, Some("*"), 1, Some((1, false)));
    check(&tags, Some("B"), 0, Some((2, false)));
    check(&tags, Some("B || C"), 2, Some((2, false)));
    check(&tags, Some("B"), 3, None);
    check(&tags, Some("C"), 0, None);
    check(&tags, Some("A"), 4, None);
    check(&tags, None, -1, Some((0, false)));
}

#[test]
fn sql_and_very_long_backlogs_give_a_bound() {
    let fixture = Fixture::new();
    let count = UNITS_MAX as i64 + 300;
    (0..count).for_each(|_| fixture.put("T", 0, b"", b"TAGS\x01A\x02"));
    let queue = fixture.queue("T", 0).index.clone();
    let find = |subscription: &Subscription, committed| {
        Unconsumed::find(&queue, Some(subscription), committed, count).map(|it| (it.offset, it.is_bound))
    };
    let rare = Subscription::parse("T", "B", 0).unwrap();
    assert_eq!(find(&rare, 0), Some((UNITS_MAX as i64, true)));
    assert_eq!(find(&rare, 300), None, "all units were compared");
    let sql = Subscription::parse_typed("T", "a > 1", "SQL92", 0).unwrap();
    assert_eq!(find(&sql, 7), Some((7, true)));
}

#[test]
fn the_time_is_that_of_the_message_and_0_if_none_waits() {
    let fixture = Fixture::new();
    (0..2).for_each(|_| fixture.put("T", 0, b"body", b""));
    let queue = fixture.queue("T", 0).index.clone();
    let time = |committed| {
        fixture.broker.sessions.unconsumed_time(&fixture.broker.store, "g", &queue, (committed, 2))
    };
    assert_eq!(time(1), (fixture.broker.tables.time_at("T", 0, 1).unwrap(), false));
    assert_eq!(time(2), (0, false));
    fixture.lose_log_file();
    assert_eq!(time(1), (UNKNOWN, false), "the message cannot be read");
}
