//! Which messages a pull returns, and with which code, status and next offset.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use net::ConnectionHandle;
use wire::codes::response;
use wire::frame::Command;

use wire::record::RecordView;
use wire::units::QueueOffset;

use super::*;
use crate::broker::Broker;
use crate::clients::Subscription;
use crate::remoting::Call;
use crate::testing::Fixture;

fn pull(fixture: &Fixture, offset: i64, expression: &str) -> Pull {
    let ask = PullAsk {
        reader: fixture.broker.tables.offsets.reader("g", "T"),
        filter: Arc::new(Subscription::parse("T", expression, 0).unwrap()),
        topic_sys_flag: 0,
        group_sys_flag: 0,
        read_from: (0, 1),
        offset,
        asked: offset,
        max_messages: 32,
    };
    Pull { queue: fixture.queue("T", 0), ask }
}

/// Code, status, next offset and number of messages of a scan.
fn scan(fixture: &Fixture, offset: i64, expression: &str) -> (i32, &'static str, i64, usize) {
    let mut units = Vec::new();
    let pull = pull(fixture, offset, expression);
    let scan = Scan::find_messages(&fixture.broker.pulls, &pull, Source::Disk, &mut units).unwrap();
    (scan.code, scan.status, scan.next, units.len())
}

fn fill(fixture: &Fixture, count: usize, body: &[u8]) {
    for number in 0..count {
        let tag = if number % 2 == 0 { "TAGS\u{1}even\u{2}" } else { "TAGS\u{1}odd\u{2}" };
        fixture.put("T", 0, body, tag.as_bytes());
    }
}

#[test]
fn offsets_outside_of_the_queue() {
    let fixture = Fixture::new();
    assert_eq!(scan(&fixture, 0, "*"), (response::PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0, 0));
    assert_eq!(scan(&fixture, 5, "*"), (response::PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE", 0, 0));
    fill(&fixture, 4, b"x");
    assert_eq!(scan(&fixture, 4, "*"), (response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 4, 0));
    assert_eq!(scan(&fixture, 5, "*"), (response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 4, 0));
    assert_eq!(scan(&fixture, -1, "*"), (response::PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0, 0));
}

/// A new master does not know yet which messages the former master confirmed and consumers have seen.
#[test]
fn a_consumer_ahead_of_what_is_confirmed_waits_and_is_not_set_back() {
    let fixture = Fixture::new();
    fill(&fixture, 4, b"x");
    let store = &fixture.broker.store;
    let second = store.find_queue("T", 0).unwrap().min();
    let mut units = Vec::new();
    store.find_queue("T", 0).unwrap().units_blocking(second, 1, &mut units).unwrap();
    for (confirmed, visible) in [(wire::units::LogOffset::ZERO, 0), (units[0].end(), 1)] {
        store.set_confirmed(Some(confirmed));
        for offset in visible..=4 {
            let found = scan(&fixture, offset, "*");
            assert_eq!(found, (response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset, 0), "{visible}");
        }
        assert_eq!(scan(&fixture, 5, "*"), (response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 4, 0));
    }
    store.set_confirmed(None);
    assert_eq!(scan(&fixture, 3, "*"), (response::SUCCESS, "FOUND", 4, 1));
}

#[test]
fn a_scan_without_a_match_moves_on() {
    let fixture = Fixture::new();
    fill(&fixture, 1000, b"x");
    assert_eq!(scan(&fixture, 0, "none"), (response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 800, 0));
    assert_eq!(
        scan(&fixture, 800, "none"),
        (response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 1000, 0)
    );
}

#[test]
fn tags_are_filtered_and_the_count_is_bounded() {
    let fixture = Fixture::new();
    fill(&fixture, 100, b"x");
    assert_eq!(scan(&fixture, 0, "*"), (0, "FOUND", 32, 32));
    let (code, _, next, found) = scan(&fixture, 0, "odd");
    assert_eq!((code, next, found), (0, 64, 32));
    assert_eq!(scan(&fixture, 90, "even || odd"), (0, "FOUND", 100, 10));
}

#[test]
fn bytes_are_bounded_but_one_large_message_is_returned() {
    let fixture = Fixture::new();
    fill(&fixture, 4, &[7; 100 << 10]);
    assert_eq!(scan(&fixture, 0, "*"), (0, "FOUND", 2, 2));
    let fixture = Fixture::new();
    fill(&fixture, 2, &[7; 300 << 10]);
    assert_eq!(scan(&fixture, 0, "*"), (0, "FOUND", 1, 1));
}

#[test]
fn sql_filters_look_at_the_properties_of_each_message() {
    let fixture = Fixture::new();
    for size in 0..40 {
        fixture.put("T", 0, b"x", format!("size\u{1}{size}\u{2}").as_bytes());
    }
    fixture.put("T", 0, b"x", b"");
    let mut pull = pull(&fixture, 0, "*");
    let filter =
        Subscription::parse_typed("T", "size BETWEEN 10 AND 12 OR size IS NULL", "SQL92", 1).unwrap();
    pull.ask.filter = Arc::new(filter);
    let mut units = Vec::new();
    let scan = Scan::find_messages(&fixture.broker.pulls, &pull, Source::Disk, &mut units).unwrap();
    assert_eq!((scan.status, scan.next, units.len()), ("FOUND", 41, 4));
    pull.ask.filter = Arc::new(Subscription::parse_typed("T", "size > 100", "SQL92", 1).unwrap());
    let scan = Scan::find_messages(&fixture.broker.pulls, &pull, Source::Memory, &mut units).unwrap();
    assert_eq!((scan.status, scan.next, units.len()), ("NO_MATCHED_MESSAGE", 41, 0));
}

#[test]
fn a_pull_with_an_expression_that_is_no_filter_is_refused() {
    let fixture = Fixture::with(|config| config.enable_property_filter = true);
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture.put("T", 0, b"x", b"a\x015\x02");
    let pull = |expression: &str| {
        let fields = [
            ("consumerGroup", "g"),
            ("topic", "T"),
            ("queueId", "0"),
            ("queueOffset", "0"),
            ("maxMsgNums", "1"),
            ("sysFlag", "4"),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "0"),
            ("subscription", expression),
            ("subVersion", "0"),
            ("expressionType", "SQL92"),
        ];
        fixture.ask(wire::codes::request::PULL_MESSAGE, &fields, b"").0
    };
    assert_eq!((pull("a = 5"), pull("a LIKE '5'")), (response::SUCCESS, response::PULL_RETRY_IMMEDIATELY));
    assert_eq!((pull("a NOT LIKE '6'"), pull("a ! 5")), (response::SUBSCRIPTION_PARSE_FAILED, 23));
}

#[test]
fn messages_far_behind_come_in_smaller_answers_and_suggest_the_groups_slave() {
    let fixture = Fixture::with(|config| {
        // All messages more than 2 MB behind the end of the log count as on the disk.
        config.transfer.memory_bytes = 2_000_000;
        config.transfer.memory_ratio = 100;
        config.slave_read_enable = true;
    });
    fill(&fixture, 40, &[7; 1 << 10]);
    fill(&fixture, 40, &[7; 100 << 10]);
    assert_eq!(scan(&fixture, 0, "*"), (0, "FOUND", 8, 8));
    assert_eq!(scan(&fixture, 45, "*"), (0, "FOUND", 46, 1), "64 KiB are less than one, which always fits");
    assert_eq!(scan(&fixture, 70, "*"), (0, "FOUND", 72, 2), "256 KiB of what counts as in memory");
    for (offset, suggested) in [(0, 1), (70, 0)] {
        let pull = pull(&fixture, offset, "*");
        let mut units = Vec::new();
        let scan = Scan::find_messages(&fixture.broker.pulls, &pull, Source::Disk, &mut units).unwrap();
        assert_eq!(scan.header(&fixture.broker.runtime, &pull).suggest_broker_id, suggested, "at {offset}");
    }
}

#[test]
fn what_was_read_ahead_comes_in_answers_as_large_as_the_end_of_the_log() {
    let fixture = Fixture::with(|config| {
        config.transfer.memory_ratio = 0;
        config.slave_read_enable = true;
    });
    fill(&fixture, 40, &[7; 1 << 10]);
    let pull = pull(&fixture, 0, "*");
    let mut units = Vec::new();
    let scan = Scan::find_messages(&fixture.broker.pulls, &pull, Source::Disk, &mut units).unwrap();
    assert_eq!(units.len(), 8);
    assert!(answer(
        &fixture.broker.pulls,
        &pull,
        &scan,
        &units,
        Source::Disk,
        &mut Call::first().writer(&mut Vec::new())
    ));
    let scan = Scan::find_messages(&fixture.broker.pulls, &pull, Source::Memory, &mut units).unwrap();
    assert_eq!(units.len(), 32);
    assert_eq!(scan.header(&fixture.broker.runtime, &pull).suggest_broker_id, 1, "still far behind");
}

#[test]
fn every_answer_carries_the_four_fields_and_the_records() {
    let fixture = Fixture::new();
    fill(&fixture, 3, b"hello");
    for (offset, code) in [(0, 0), (3, 19), (9, 21)] {
        let pull = pull(&fixture, offset, "*");
        let mut units = Vec::new();
        let scan = Scan::find_messages(&fixture.broker.pulls, &pull, Source::Memory, &mut units).unwrap();
        let mut out = Vec::new();
        assert!(answer(
            &fixture.broker.pulls,
            &pull,
            &scan,
            &units,
            Source::Memory,
            &mut Call::first().writer(&mut out)
        ));
        let command = Command::decode(&mut out).unwrap();
        assert_eq!(command.code, code);
        let reply = PullResponseHeader::decode(&command.fields).unwrap();
        assert_eq!((reply.min_offset, reply.max_offset, reply.next_offset), (0, 3, 3));
        assert_eq!(units.len(), if code == 0 { 3 } else { 0 });
        assert_eq!(command.body.len(), units.iter().map(|message| message.unit.size as usize).sum::<usize>());
    }
}

/// Damages a stored message by flipping a bit of its flag.
fn damage(fixture: &Fixture, offset: u64) {
    let mut units = Vec::new();
    let queue = fixture.queue("T", 0);
    queue.index.units_blocking(QueueOffset::new(offset), 1, &mut units).unwrap();
    let path = fixture.broker.store.config().commit_log.join("00000000000000000000");
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut flag = [0];
    let at = units[0].log_offset.get() + 19;
    file.read_exact_at(&mut flag, at).unwrap();
    file.write_all_at(&[flag[0] ^ 1], at).unwrap();
}

/// Code, next offset and the queue offsets of the messages in the answer.
fn answered(fixture: &Fixture, source: Source) -> (i32, i64, Vec<i64>) {
    let pull = pull(fixture, 0, "*");
    let (mut units, mut out) = (Vec::new(), Vec::new());
    let scan = Scan::find_messages(&fixture.broker.pulls, &pull, source, &mut units).unwrap();
    assert!(answer(&fixture.broker.pulls, &pull, &scan, &units, source, &mut Call::first().writer(&mut out)));
    let command = Command::decode(&mut out).unwrap();
    let next = PullResponseHeader::decode(&command.fields).unwrap().next_offset;
    let mut body = command.body;
    let mut offsets = Vec::new();
    while !body.is_empty() {
        let record = RecordView::parse(body).unwrap();
        offsets.push(record.raw_queue_offset());
        body = &body[record.size()..];
    }
    (command.code, next, offsets)
}

#[test]
fn a_damaged_message_is_passed_over_and_its_consumer_goes_on() {
    let fixture = Fixture::new();
    fill(&fixture, 4, b"hello");
    let fixture = fixture.reopened();
    for source in [Source::Memory, Source::Disk] {
        damage(&fixture, 2);
        assert_eq!(answered(&fixture, source), (0, 4, vec![0, 1, 3]));
        damage(&fixture, 2);
        assert_eq!(answered(&fixture, source), (0, 4, vec![0, 1, 2, 3]), "the bit is as it was");
    }
    (0..4).for_each(|offset| damage(&fixture, offset));
    assert_eq!(answered(&fixture, Source::Disk), (response::PULL_RETRY_IMMEDIATELY, 4, vec![]));
    assert_eq!(
        crate::stats::status(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime)["damagedMessages"],
        "4"
    );
}

#[test]
fn a_pull_held_at_a_light_queue_goes_on_waiting_there() {
    let fixture = Fixture::with(|config| config.store.multi_dispatch = true);
    fixture.queue("T", 0);
    fixture.put("T", 0, b"x", b"INNER_MULTI_DISPATCH\x01%LMQ%one\x02");
    fixture.broker.tables.groups.make("g", 1).unwrap();
    let queue = fixture.broker.tables.log_queue("%LMQ%one", 0).unwrap();
    let mut held = SuspendedPull {
        sink: Call::first()
            .later(&Arc::new(ConnectionHandle::detached(1, crate::testing::ADDRESS)), &Arc::default()),
        ask: pull(&fixture, 1, "*").ask,
        group: fixture.broker.tables.groups.find("g").unwrap(),
        brings_filter: true,
        deadline_ms: 0,
        id: 0,
    };
    assert!(check::renew(
        &fixture.broker.tables,
        &fixture.broker.sessions,
        &fixture.broker.runtime,
        &queue,
        &mut held
    ));
}

/// Messages that left the page cache are read by the disk pool, which must not answer a waiting pull that they do not match.
#[test]
fn a_waiting_pull_outlasts_messages_on_the_disk_that_do_not_match() {
    let disk = store::FakeDisk::new(512);
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::on(Arc::new(disk.clone()), directory, |_| {});
    let broker = &fixture.broker;
    broker.tables.groups.make("g", 1).unwrap();
    let queue = fixture.queue("T", 0);
    let mut ask = pull(&fixture, 0, "*").ask;
    ask.filter = Arc::new(Subscription::parse_typed("T", "a = 2", "SQL92", 1).unwrap());
    let peer = Arc::new(ConnectionHandle::detached(1, crate::testing::ADDRESS));
    let held = SuspendedPull {
        sink: Call::first().later(&peer, &Arc::default()),
        ask,
        group: broker.tables.groups.find("g").unwrap(),
        brings_filter: true,
        deadline_ms: broker.runtime.now_ms() + HOLD_MAX_MS,
        id: 0,
    };
    assert!(matches!(hold(&broker.sessions, &broker.replication, &queue, held), Suspension::Waits));
    disk.faults(|faults| faults.nothing_resident = true);
    let mut answer = Vec::new();
    fixture.put("T", 0, b"x", b"a\x011\x02");
    crate::testing::until("the pull waits again", || {
        answer.extend(peer.pushed());
        !answer.is_empty() || queue.suspended.is_waited_on()
    });
    assert_eq!(answer, b"", "it does not match");
    fixture.put("T", 0, b"x", b"a\x012\x02");
    crate::testing::until("an answer", || {
        answer.extend(peer.pushed());
        !answer.is_empty()
    });
    let command = Command::decode(&mut answer).unwrap();
    let next = PullResponseHeader::decode(&command.fields).unwrap().next_offset;
    assert_eq!((command.code, next), (response::SUCCESS, 2));
}

/// A waiting pull that continues in the disk pool is checked again there. The matching message is no longer for it.
#[test]
fn a_waiting_pull_that_is_refused_or_reset_gets_no_messages_from_the_disk() {
    let check = |change: fn(&Broker), expected: (i32, i64)| {
        let fixture = Fixture::new();
        let broker = &fixture.broker;
        fill(&fixture, 4, b"hello");
        broker.tables.groups.make("g", 1).unwrap();
        let peer = Arc::new(ConnectionHandle::detached(1, crate::testing::ADDRESS));
        let held = SuspendedPull {
            sink: Call::first().later(&peer, &Arc::default()),
            ask: pull(&fixture, 1, "*").ask,
            group: broker.tables.groups.find("g").unwrap(),
            brings_filter: true,
            deadline_ms: broker.runtime.now_ms() + HOLD_MAX_MS,
            id: 0,
        };
        change(broker);
        suspend::search_on_disk(&broker.pulls, fixture.queue("T", 0), held);
        let mut answer = Vec::new();
        crate::testing::until("an answer", || {
            answer.extend(peer.pushed());
            !answer.is_empty()
        });
        let command = Command::decode(&mut answer).unwrap();
        let next = PullResponseHeader::decode(&command.fields).unwrap().next_offset;
        assert_eq!((command.code, next, command.body.len()), (expected.0, expected.1, 0));
    };
    let remove = |broker: &Broker| {
        let change = crate::change::GroupChange::Remove { group: "g".to_owned(), clean_offsets: false };
        broker.tables.groups.commit(vec![vec![change]], 1);
    };
    check(remove, (response::PULL_RETRY_IMMEDIATELY, 1));
    check(|broker| broker.tables.offsets.set_reset("g", "T", 0, 3), (response::PULL_OFFSET_MOVED, 3));
}
