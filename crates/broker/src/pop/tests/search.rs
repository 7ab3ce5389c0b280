//! Pops of a group with a backlog of messages that do not match.

use net::ConnectionHandle;
use wire::codes::{request, response};
use wire::record::RecordView;

use super::super::search::{SEARCH_BYTES_MAX, SEARCHES_MAX, Search};
use super::super::serve::wait;
use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::testing::until;

const BACKLOG: usize = 5_000;
/// Messages that a pop examines in a round. A pop without progress is run eight times before it waits.
const ROUND: i64 = 100;
const TAG_A: &[u8] = b"TAGS\x01A\x02a\x011\x02";
const TAG_B: &[u8] = b"TAGS\x01B\x02a\x012\x02";
const BY_TAG: (&str, &str) = ("TAG", "B");
const BY_SQL: (&str, &str) = ("SQL92", "a > 1");

/// A broker with the queues that pops need, whose clock stands, and with `BACKLOG` messages of tag A in a queue of `topic`.
fn backlog(topic: &str, properties: &[u8], change: impl FnOnce(&mut Config)) -> Fixture {
    let (clock, directory) = (Clock::standing(1_000_000), tempfile::tempdir().unwrap());
    let fixture = Fixture::timed(Arc::new(store::RealDisk), clock, directory, |config| {
        config.transfer.scan_units = ROUND;
        change(config);
    });
    fixture.queue(crate::names::TIMER_TOPIC, 0);
    fixture.queue(&fixture.broker.delivery.pops.revive_topic.clone(), 7);
    fixture.queue("T", 0);
    fixture.queue(topic, 0);
    for _ in 0..BACKLOG {
        fixture.put(topic, 0, b"A", properties);
    }
    fixture
}

/// Pops with a poll of 20 seconds for a group, which is created. Returns the code and the bodies of the messages.
fn pop_of(
    fixture: &Fixture,
    topic: &str,
    group: &str,
    filter: (&str, &str),
    ordered: bool,
) -> (i32, Vec<String>) {
    fixture.broker.tables.groups.make(group, 1).unwrap();
    let ordered = ordered.to_string();
    let fields = [
        ("consumerGroup", group),
        ("topic", topic),
        ("queueId", "-1"),
        ("maxMsgNums", "8"),
        ("invisibleTime", "60000"),
        ("pollTime", "20000"),
        ("bornTime", "0"),
        ("initMode", "0"),
        ("expType", filter.0),
        ("exp", filter.1),
        ("order", &ordered),
    ];
    let (code, _, body) = fixture.ask(request::POP_MESSAGE, &fields, b"");
    (code, bodies_of(&body))
}

fn bodies_of(mut records: &[u8]) -> Vec<String> {
    let mut bodies = Vec::new();
    while let Ok(record) = RecordView::parse(records) {
        bodies.push(String::from_utf8(record.body().to_vec()).unwrap());
        records = &records[record.size()..];
    }
    bodies
}

fn found_b() -> (i32, Vec<String>) {
    (response::SUCCESS, vec!["B".to_owned()])
}

#[test]
fn a_message_behind_a_backlog_that_does_not_match_is_popped() {
    let fixture = backlog("T", TAG_A, |config| config.enable_property_filter = true);
    fixture.put("T", 0, b"B", TAG_B);
    let cases = [BY_TAG, BY_SQL].into_iter().flat_map(|filter| [(filter, false), (filter, true)]);
    for (number, (filter, ordered)) in cases.enumerate() {
        let found = pop_of(&fixture, "T", &format!("G{number}"), filter, ordered);
        assert_eq!(found, found_b(), "{filter:?}, ordered: {ordered}");
    }
}

#[test]
fn a_message_behind_a_backlog_of_a_retry_topic_is_popped() {
    let fixture = backlog("%RETRY%G_T", TAG_A, |_| {});
    fixture.put("%RETRY%G_T", 0, b"B", TAG_B);
    assert_eq!(pop_of(&fixture, "T", "G", BY_TAG, false), found_b());
}

#[test]
fn a_message_behind_a_backlog_of_a_light_queue_is_popped() {
    let to_light = |tag: &[u8]| [tag, b"INNER_MULTI_DISPATCH\x01%LMQ%one\x02"].concat();
    let fixture = backlog("T", &to_light(TAG_A), |config| config.store.multi_dispatch = true);
    fixture.put("T", 0, b"B", &to_light(TAG_B));
    assert_eq!(pop_of(&fixture, "%LMQ%one", "G", BY_TAG, false), found_b());
}

/// A search reads a limited number of bytes. Then the client gets a response at once, and its next pop continues
/// behind.
#[test]
fn a_pop_whose_search_reads_too_much_is_answered_at_once() {
    let long = [TAG_A, b"p\x01", &[b'x'; 1000], b"\x02"].concat();
    let fixture = backlog("T", &long, |config| config.enable_property_filter = true);
    fixture.put("T", 0, b"B", TAG_B);
    let (code, found) = pop_of(&fixture, "T", "G", BY_SQL, false);
    assert_eq!((code, found), (response::POLLING_TIMEOUT, vec![]));
    let passed = fixture.broker.tables.offsets.committed("G", "T", 0).unwrap();
    assert!((1..5000).contains(&passed), "{passed}");
    let mut pops = (0..5000).map(|_| pop_of(&fixture, "T", "G", BY_SQL, false));
    assert_eq!(pops.find(|(code, _)| *code != response::POLLING_TIMEOUT), Some(found_b()));
}

#[test]
fn a_waiting_pop_outlasts_messages_that_do_not_match_and_is_woken_by_one_that_does() {
    let fixture = backlog("T", TAG_A, |_| {});
    let broker = &fixture.broker;
    broker.tables.groups.make("G", 1).unwrap();
    let end = fixture.queue("T", 0).index.max().to_i64();
    broker.tables.offsets.commit("G", "T", 0, end);
    let peer = Arc::new(ConnectionHandle::detached(1, crate::testing::ADDRESS));
    let deadline_ms = broker.runtime.now_ms() + 20_000;
    let mut ask = Ask { deadline_ms, wait_until_ms: Some(deadline_ms), ..ask(&fixture, 60_000) };
    let Want::Pop(pop) = &mut ask.want else { unreachable!() };
    pop.filter = Arc::new(Subscription::parse("T", "B", 0).unwrap());
    let bounds = Bounds { all: 10, list: 10 };
    let sink = sink(&peer);
    broker.delivery.pops.poll_timeouts.hold(&sink, &Arc::new(ask), bounds).ok().unwrap();
    (0..BACKLOG).for_each(|_| fixture.put("T", 0, b"A", TAG_A));
    assert_eq!(peer.pushed(), b"", "the first of them has woken it");
    let is_waiting = || broker.tables.topics.find("T").unwrap().waiters.count_of("G", -1) == 1;
    until("the pop waits again", is_waiting);
    assert_eq!(peer.pushed(), b"");
    assert_eq!(broker.tables.offsets.committed("G", "T", 0), Some(2 * end));
    fixture.put("T", 0, b"B", TAG_B);
    let mut answer = Vec::new();
    until("an answer", || {
        answer.extend(peer.pushed());
        !answer.is_empty()
    });
    assert_eq!(crate::testing::answers(answer), [(response::SUCCESS, 1)]);
}

#[test]
fn pops_by_sql_are_served_whatever_pulls_may_do() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    fixture.queue(crate::names::TIMER_TOPIC, 0);
    fixture.queue(&fixture.broker.delivery.pops.revive_topic.clone(), 7);
    fixture.put("T", 0, b"A", TAG_A);
    fixture.put("T", 0, b"B", TAG_B);
    assert!(!fixture.broker.runtime.config.enable_property_filter);
    assert_eq!(pop_of(&fixture, "T", "G", BY_SQL, false), found_b());
    let (code, _) = pop_of(&fixture, "T", "G", ("SQL92", "a > > 1"), false);
    assert_eq!(code, response::SUBSCRIPTION_PARSE_FAILED);
}

/// An ordered pop that waits for a light queue continues when the earlier messages are acknowledged.
#[test]
fn an_ordered_pop_of_a_light_queue_is_woken_by_the_acknowledgement_before() {
    let fixture = backlog("T", TAG_A, |config| config.store.multi_dispatch = true);
    let broker = &fixture.broker;
    broker.tables.groups.make("G", 1).unwrap();
    for _ in 0..2 {
        fixture.put("T", 0, b"m", b"INNER_MULTI_DISPATCH\x01%LMQ%one\x02");
    }
    let light = broker.tables.topic("%LMQ%one").unwrap();
    let deadline_ms = broker.runtime.now_ms() + 20_000;
    let ordered = || {
        let ask = Ask {
            topic: "%LMQ%one".to_owned(),
            waiters: light.waiters.clone(),
            ordered: true,
            deadline_ms,
            wait_until_ms: Some(deadline_ms),
            ..ask(&fixture, 60_000)
        };
        let Ask { want: Want::Pop(pop), .. } = &ask else { unreachable!() };
        let (filter, count_max) = (pop.filter.clone(), 1);
        Ask { want: Want::Pop(Pop { count_max, invisible_ms: 60_000, from_end: false, filter }), ..ask }
    };
    let first = ordered();
    let Want::Pop(pop) = &first.want else { unreachable!() };
    let found = pick(&broker.pops, &light, (&first, pop), Source::Disk).ok().unwrap().popped;
    assert_eq!(found.queues[0].offsets, [0]);
    let peer = Arc::new(ConnectionHandle::detached(1, crate::testing::ADDRESS));
    let sink = sink(&peer);
    broker
        .delivery
        .pops
        .poll_timeouts
        .hold(&sink, &Arc::new(ordered()), Bounds { all: 10, list: 10 })
        .ok()
        .unwrap();
    let handle = format!("0 {} 60000 999 0 b 0 0", found.pop_ms);
    let acked = PoppedMessage {
        caller: &crate::testing::CALLER,
        group: "G",
        topic: "%LMQ%one",
        queue_id: 0,
        offset: 0,
        handle: &handle,
    };
    ack(&broker.pops, &mut ReviveRecords::new(&broker.store), &acked).unwrap();
    assert_eq!(crate::testing::answers(peer.pushed()), [(response::SUCCESS, 1)]);
}

#[test]
fn a_peek_passes_over_damaged_messages() {
    let fixture = fixture(40);
    let mut units = Vec::new();
    fixture.queue("T", 0).index.units_blocking(wire::units::QueueOffset::new(0), 40, &mut units).unwrap();
    let fixture = fixture.reopened();
    let path = fixture.broker.store.config().commit_log.join("00000000000000000000");
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    // The flag of a record is covered by its checksum.
    for unit in &units[..36] {
        std::os::unix::fs::FileExt::write_all_at(&file, &[9], unit.log_offset.get() + 19).unwrap();
    }
    let target = PopTarget { caller: &crate::testing::CALLER, topic: "T", group: "G", queue_id: 0 };
    let peeked = peek(&fixture.broker.pops, &target, 2).ok().unwrap();
    assert_eq!(bodies_of(&peeked.body), ["m36", "m37"]);
}

/// A pop of the group `G` by tag B that may wait for 20 seconds, and the connection that gets its answer.
fn waiting_for_b(fixture: &Fixture) -> (Arc<Ask>, Arc<ConnectionHandle>) {
    fixture.broker.tables.groups.make("G", 1).unwrap();
    let deadline_ms = fixture.broker.runtime.now_ms() + 20_000;
    let mut ask = Ask { deadline_ms, wait_until_ms: Some(deadline_ms), ..ask(fixture, 60_000) };
    let Want::Pop(pop) = &mut ask.want else { unreachable!() };
    pop.filter = Arc::new(Subscription::parse("T", "B", 0).unwrap());
    (Arc::new(ask), Arc::new(ConnectionHandle::detached(1, crate::testing::ADDRESS)))
}

/// A search that has used up its bytes ends, even if the request was about to be suspended in between.
#[test]
fn a_request_that_is_not_suspended_after_all_does_not_search_anew() {
    let fixture = backlog("T", TAG_A, |_| {});
    fixture.put("T", 0, b"B", TAG_B);
    let (ask, peer) = waiting_for_b(&fixture);
    let sink = sink(&peer);
    sink.write(&mut |out| {
        let mut search = Search::default();
        search.bytes = SEARCH_BYTES_MAX;
        assert!(!wait(&fixture.broker.pops, &sink, &ask, search, out), "it ends");
    });
    assert_eq!(crate::testing::answers(peer.pushed()), [(response::POLLING_TIMEOUT, 1)]);
}

#[test]
fn a_search_above_the_bound_is_answered_and_the_client_asks_again() {
    let fixture = backlog("T", TAG_A, |_| {});
    fixture.put("T", 0, b"B", TAG_B);
    let searches = &fixture.broker.delivery.pops.searches;
    searches.fetch_add(SEARCHES_MAX, Ordering::Relaxed);
    assert_eq!(pop_of(&fixture, "T", "G", BY_TAG, false), (response::POLLING_TIMEOUT, vec![]));
    let passed = fixture.broker.tables.offsets.committed("G", "T", 0).unwrap();
    assert!(passed > 0, "the next pop goes on behind");
    assert_eq!(searches.load(Ordering::Relaxed), SEARCHES_MAX);
    searches.fetch_sub(1, Ordering::Relaxed);
    assert_eq!(pop_of(&fixture, "T", "H", BY_TAG, false), found_b());
    until("its place is free again", || searches.load(Ordering::Relaxed) == SEARCHES_MAX - 1);
}

#[test]
fn a_search_without_a_place_in_the_disk_pool_is_not_refused_as_busy() {
    let fixture = backlog("T", TAG_A, |_| {});
    fixture.stop_disk_pool();
    assert_eq!(pop_of(&fixture, "T", "G", BY_TAG, false), (response::POLLING_TIMEOUT, vec![]));
    assert_eq!(fixture.broker.delivery.pops.searches.load(Ordering::Relaxed), 0);
}
