use store::{AppendError, UsageLimit};
use wire::body::{ConsumerData, MessageModel};
use wire::codes::response;

use super::*;
use crate::change::TopicChange;
use crate::clients::{Beat, Member};
use crate::names;
use crate::refusal::PutError;
use crate::send::not_stored;
use crate::testing::Fixture;
use crate::topics::attributes;

/// A time long after all files were written, in milliseconds since the epoch.
const LATER_MS: i64 = 4_000_000_000_000;

/// Stores `count` messages of 100 KB, ten of which fill a file of the commit log, and makes a checkpoint of the store.
fn fill(fixture: &Fixture, topic: &str, count: usize) {
    for _ in 0..count {
        fixture.put(topic, 0, &[7; 100_000], b"");
    }
    fixture.broker.store.checkpoint().unwrap();
}

/// First offset of a queue.
fn min(fixture: &Fixture, topic: &str) -> u64 {
    fixture.queue(topic, 0).index.min().get()
}

fn clean_later(fixture: &Fixture) {
    clean(&fixture.broker.retention_parts(), LATER_MS, 4);
}

#[test]
fn records_of_pops_wait_for_who_brings_back_what_was_popped() {
    let fixture = Fixture::new();
    fill(&fixture, "T", 25);
    // The revive group is in no table of groups.
    fixture.broker.tables.offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", "T", 0, 12);
    clean_later(&fixture);
    assert_eq!(min(&fixture, "T"), 10);
    // The revive group's offset is that of the last record it has processed, although no further record follows.
    fixture.broker.tables.offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", "T", 0, 19);
    clean_later(&fixture);
    assert_eq!(min(&fixture, "T"), 20);
}

/// Creates a group that has consumed the messages before `offset`.
fn consumed(fixture: &Fixture, group: &str, topic: &str, offset: i64) {
    fixture.broker.tables.groups.make(group, 1).unwrap();
    fixture.broker.tables.offsets.commit(group, topic, 0, offset);
}

#[test]
fn files_wait_for_the_groups_that_have_not_consumed_them() {
    let fixture = Fixture::new();
    fill(&fixture, "T", 55);
    consumed(&fixture, "fast", "T", 40);
    consumed(&fixture, "slow", "T", 25);
    clean_later(&fixture);
    assert_eq!(min(&fixture, "T"), 20);
    let lags = Lags::of(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime);
    let oldest = lags.oldest().unwrap();
    assert_eq!((oldest.group.as_str(), oldest.from, lags.firsts()[&("T", 0)].get()), ("slow", 25, 25));
    consumed(&fixture, "slow", "T", 55);
    clean_later(&fixture);
    assert_eq!(min(&fixture, "T"), 40);
    // A deleted group protects no messages.
    fixture.broker.tables.offsets.forget_group("fast");
    clean_later(&fixture);
    assert_eq!(
        (
            min(&fixture, "T"),
            Lags::of(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime).first()
        ),
        (50, None)
    );
    assert_eq!(fixture.messages("T", 0).len(), 5);
}

#[test]
fn a_message_that_is_missed_holds_up_no_more_than_the_next_one() {
    let fixture = Fixture::new();
    fill(&fixture, "T", 25);
    consumed(&fixture, "slow", "T", 12);
    let root = fixture.config_path("..");
    let file = std::fs::File::options().write(true).open(root.join("consumequeue/T/0/00000000000000000000"));
    let blank = b"\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\0\0\0".repeat(2);
    std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), &blank, 12 * 20).unwrap();
    let fixture = fixture.reopened();
    clean_later(&fixture);
    assert_eq!(min(&fixture, "T"), 10);
}

#[test]
fn a_groups_retries_and_delayed_messages_hold_up_files_too() {
    let fixture = Fixture::new();
    fill(&fixture, "%RETRY%g", 15);
    fill(&fixture, "T", 25);
    consumed(&fixture, "g", "%RETRY%g", 3);
    clean_later(&fixture);
    assert_eq!(min(&fixture, "%RETRY%g"), 0);
    consumed(&fixture, "g", "%RETRY%g", 15);
    clean_later(&fixture);
    assert_eq!((min(&fixture, "%RETRY%g"), min(&fixture, "T")), (15, 15));
    fill(&fixture, names::SCHEDULE_TOPIC, 1);
    fill(&fixture, "T", 30);
    let before = fixture.broker.store.min();
    clean_later(&fixture);
    let delayed = fixture.queue(names::SCHEDULE_TOPIC, 0);
    assert_eq!((delayed.index.min().get(), delayed.index.max().get()), (0, 1));
    assert!(fixture.broker.store.min() > before);
}

#[test]
fn who_has_no_offset_was_deleted_or_broadcasts_holds_up_nothing() {
    let fixture = Fixture::new();
    fill(&fixture, "T", 25);
    fixture.broker.tables.offsets.commit("deleted", "T", 0, 3);
    let peer = Arc::new(net::ConnectionHandle::detached(1, crate::testing::ADDRESS));
    let member = Member {
        client_id: "c".to_owned(),
        language: None,
        version: 1,
        link: crate::remoting::link(&peer),
        seen_ms: 1,
    };
    let data = ConsumerData {
        group_name: "b".to_owned(),
        message_model: MessageModel::Broadcasting,
        ..ConsumerData::default()
    };
    let beat = Beat { fingerprint: 0, without_subscriptions: true };
    let _ = fixture.broker.sessions.clients.join_consumer(&data, member, beat);
    consumed(&fixture, "b", "T", 0);
    // The offset belongs to a topic that does not exist.
    consumed(&fixture, "g", "Gone", 0);
    assert_eq!(
        Lags::of(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime).first(),
        None
    );
    clean_later(&fixture);
    assert_eq!(min(&fixture, "T"), 20);
}

#[test]
fn by_policy_files_go_all_the_same_or_not_at_all() {
    for (policy, expected, lost) in [
        (UnconsumedPolicy::Drop, 30, 0),
        (UnconsumedPolicy::Reject, 0, 0),
        (UnconsumedPolicy::Protect, 30, 28),
    ] {
        let fixture = Fixture::with(|config| {
            config.retention.unconsumed = policy;
            if policy != UnconsumedPolicy::Drop {
                // The disk is always over the second level, and so over the third.
                config.retention.clean_at = UsageLimit::FreeBytes(u64::MAX);
            }
        });
        fill(&fixture, "T", 35);
        consumed(&fixture, "slow", "T", 2);
        let lags = Lags::of(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime);
        clean_later(&fixture);
        assert_eq!(min(&fixture, "T"), expected, "{policy:?}");
        if policy == UnconsumedPolicy::Protect {
            assert_eq!(lags.lost(&fixture.broker.store).get("slow"), Some(&lost));
        }
    }
}

fn reserve_an_hour(fixture: &Fixture, topic: &str) {
    let alterations = attributes::parse("+reserve.time=1").unwrap();
    let config = fixture.broker.tables.topics.find(topic).unwrap().config.clone();
    fixture
        .broker
        .tables
        .topics
        .commit(vec![vec![TopicChange::Put(config, alterations)]], 1)
        .remove(0)
        .unwrap();
}

#[test]
fn a_topic_with_a_time_of_its_own_begins_later() {
    let fixture = Fixture::new();
    fill(&fixture, "Short", 5);
    fill(&fixture, "Long", 5);
    reserve_an_hour(&fixture, "Short");
    let now_ms = fixture.broker.runtime.now_ms();
    topics::expire(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime, now_ms);
    assert_eq!(min(&fixture, "Short"), 0);
    consumed(&fixture, "g", "Short", 3);
    topics::expire(
        &fixture.broker.sessions,
        &fixture.broker.delivery,
        &fixture.broker.runtime,
        now_ms + 3_600_001,
    );
    assert_eq!(min(&fixture, "Short"), 3);
    consumed(&fixture, "g", "Short", 5);
    topics::expire(
        &fixture.broker.sessions,
        &fixture.broker.delivery,
        &fixture.broker.runtime,
        now_ms + 3_600_001,
    );
    assert_eq!((min(&fixture, "Short"), min(&fixture, "Long")), (5, 0));
}

#[test]
fn topics_with_a_time_of_their_own_are_looked_at_once_a_minute_or_when_an_operator_asks() {
    let fixture = Fixture::new();
    let later_ms = fixture.broker.runtime.now_ms() + 2 * 3_600_000;
    let begins = |now_ms: i64| {
        fill(&fixture, "T", 1);
        clean(&fixture.broker.retention_parts(), now_ms, 4);
        min(&fixture, "T")
    };
    assert_eq!(begins(later_ms - topics::PAUSE_MS), 0);
    reserve_an_hour(&fixture, "T");
    assert_eq!(begins(later_ms), 2);
    assert_eq!(begins(later_ms + topics::PAUSE_MS - 1), 2);
    assert_eq!(begins(later_ms + topics::PAUSE_MS), 4);
    delete_expired_log(&fixture.broker.runtime);
    assert_eq!(begins(later_ms + topics::PAUSE_MS + 1), 5);
    // The clock was set back.
    assert_eq!(begins(later_ms), 6);
}

#[test]
fn the_first_offset_of_a_queue_is_that_of_the_slowest_group() {
    let fixture = Fixture::new();
    fill(&fixture, "T", 5);
    fixture.put("U", 0, b"m", b"");
    // The slowest is neither the first nor the last by name.
    for (group, offset) in [("a", 4), ("b", 1), ("c", 3), ("d", 5)] {
        consumed(&fixture, group, "T", offset);
    }
    consumed(&fixture, "a", "U", 0);
    let lags = Lags::of(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime);
    let firsts = lags.firsts();
    assert_eq!((firsts[&("T", 0)].get(), firsts[&("U", 0)].get()), (1, 0));
    assert_eq!((firsts.len(), firsts.get(&("T", 1))), (2, None));
}

#[test]
fn an_operator_can_ask_for_it_at_any_hour() {
    // Independent of how full the real disk is.
    let fixture = Fixture::with(|config| config.retention.expire_at = UsageLimit::FreeBytes(0));
    fill(&fixture, "T", 25);
    clean(&fixture.broker.retention_parts(), LATER_MS, 12);
    assert_eq!(min(&fixture, "T"), 0);
    delete_expired_log(&fixture.broker.runtime);
    clean(&fixture.broker.retention_parts(), LATER_MS, 12);
    assert_eq!(
        (min(&fixture, "T"), fixture.broker.runtime.retention.asked.load(Ordering::Relaxed)),
        (20, 19)
    );
    clean_expired_queues(&fixture.broker.runtime);
}

#[test]
fn queues_of_topics_nobody_has_configured_go() {
    let fixture = Fixture::new();
    for topic in ["Kept", "%RETRY%g", "Gone", names::SCHEDULE_TOPIC, "%LMQ%light"] {
        fill(&fixture, topic, 1);
    }
    for topic in ["Gone", names::SCHEDULE_TOPIC, "%LMQ%light"] {
        let change = TopicChange::Remove(topic.to_owned());
        fixture.broker.tables.topics.commit(vec![vec![change]], 1).remove(0).unwrap();
    }
    clean_unused_topics(&fixture.broker.runtime);
    requests::remove_unused_topics(&fixture.broker.tables);
    let held = |topic| fixture.broker.store.find_queue(topic, 0).is_some();
    assert!(!held("Gone"));
    assert!(held("Kept") && held("%RETRY%g") && held(names::SCHEDULE_TOPIC) && held("%LMQ%light"));
}

#[test]
fn light_queues_hold_up_files_too() {
    let fixture = Fixture::new();
    fill(&fixture, "%LMQ%light", 25);
    fixture
        .broker
        .tables
        .topics
        .commit(vec![vec![TopicChange::Remove("%LMQ%light".to_owned())]], 1)
        .remove(0)
        .unwrap();
    consumed(&fixture, "%LMQ%group", "%LMQ%light", 15);
    assert!(
        Lags::of(&fixture.broker.sessions, &fixture.broker.delivery, &fixture.broker.runtime)
            .first()
            .is_some()
    );
    clean_later(&fixture);
    let queue = fixture.broker.store.find_queue("%LMQ%light", 0).unwrap();
    assert_eq!(queue.min().get(), 10);
}

#[test]
fn over_the_warning_level_senders_are_told_how_full_it_is() {
    let fixture = Fixture::with(|config| config.retention.refuse_at = UsageLimit::FreeBytes(u64::MAX));
    fixture.put("T", 0, b"before", b"");
    assert_eq!(watch(&fixture.broker.store, &fixture.broker.runtime), Level::Refuse);
    let refused = fixture.broker.delivery.put("T", 0, &crate::testing::message(b"x", b"")).unwrap_err();
    let PutError::Append(error) = refused else { panic!("{refused}") };
    assert!(matches!(error, AppendError::DiskFull { .. }));
    let refusal = not_stored(&fixture.broker.store, &error);
    assert_eq!(refusal.code, response::SERVICE_NOT_AVAILABLE);
    let space = fixture.broker.store.space();
    let ratio = format!("{:5.2}", space.log_percent() as f64 / 100.0);
    let start = format!(
        "service not available now. It may be caused by one of the following reasons: the broker's disk is full [CL: {ratio} CQ: {ratio} INDEX: {ratio}], messages are put to the slave, message store has been shut down, etc."
    );
    assert!(refusal.remark.starts_with(&start), "{}", refusal.remark);
    assert_eq!(fixture.messages("T", 0).len(), 1);
    let table = status(&fixture.broker.store, &fixture.broker.runtime);
    assert_eq!(table["sendsRefusedForSpace"], "true");
    assert_eq!(table["commitLogDiskRatio"], format!("{}", space.log_percent() as f64 / 100.0));
    let log = fixture.broker.runtime.config.store.commit_log.display();
    assert_eq!(table[&format!("commitLogDiskRatio_{log}")], table["commitLogDiskRatio"]);
    assert!(table["commitLogDirCapacity"].starts_with("Total : "));
}

/// The engine deletes files in its rounds and then gives their space back, without a request.
#[test]
fn the_engine_deletes_and_gives_space_back() {
    let fixture = Fixture::with(|config| {
        config.retention.log_bytes_max = 1 << 20;
        config.clean_resource_interval_ms = 100;
    });
    fill(&fixture, "T", 35);
    let mut deletion = Deletion::new(fixture.broker.retention_parts());
    let mut now_ms = fixture.broker.runtime.now_ms();
    let mut waited = 0;
    for _ in 0..100 {
        deletion.round(now_ms);
        waited = waited.max(fixture.broker.store.files_to_free());
        now_ms += 100;
    }
    assert_eq!(min(&fixture, "T"), 30);
    assert_eq!((waited > 0, fixture.broker.store.files_to_free()), (true, 0));
    assert_eq!(fixture.messages("T", 0).len(), 5);
}

#[test]
fn files_wait_for_timed_messages_that_were_added_when_the_log_was_kept_longer() {
    const HOUR_MS: i64 = 3_600_000;
    let fixture = Fixture::with(|config| config.retention.reserved_ms = 12 * HOUR_MS);
    let timer = &fixture.broker.delivery.timer;
    fill(&fixture, "T", 35);
    let now_ms = fixture.broker.runtime.now_ms();
    timer.window_ms.store(36 * HOUR_MS, Ordering::Relaxed);
    timer.pending.store(1, Ordering::Relaxed);
    clean(&fixture.broker.retention_parts(), now_ms + 71 * HOUR_MS, 4);
    assert_eq!(min(&fixture, "T"), 0);
    // The timer is late, so overdue messages are being delivered.
    timer.read_ms.store(now_ms + 73 * HOUR_MS - 61_000, Ordering::Relaxed);
    clean(&fixture.broker.retention_parts(), now_ms + 73 * HOUR_MS, 4);
    assert_eq!(min(&fixture, "T"), 0);
    timer.read_ms.store(now_ms + 73 * HOUR_MS, Ordering::Relaxed);
    clean(&fixture.broker.retention_parts(), now_ms + 73 * HOUR_MS, 4);
    assert_eq!(min(&fixture, "T"), 30);
}

#[test]
fn without_timed_messages_files_go_by_their_age_alone() {
    const HOUR_MS: i64 = 3_600_000;
    let fixture = Fixture::with(|config| config.retention.reserved_ms = 12 * HOUR_MS);
    let timer = &fixture.broker.delivery.timer;
    fill(&fixture, "T", 35);
    let now_ms = fixture.broker.runtime.now_ms() + 13 * HOUR_MS;
    timer.window_ms.store(36 * HOUR_MS, Ordering::Relaxed);
    timer.read_ms.store(now_ms, Ordering::Relaxed);
    // The latest slot counts even if the number of pending messages is wrong.
    timer.last_ms.store(now_ms, Ordering::Relaxed);
    clean(&fixture.broker.retention_parts(), now_ms, 4);
    assert_eq!(min(&fixture, "T"), 0);
    timer.last_ms.store(now_ms - 1, Ordering::Relaxed);
    clean(&fixture.broker.retention_parts(), now_ms, 4);
    assert_eq!(min(&fixture, "T"), 30);
}

#[test]
fn overdue_messages_do_not_keep_files_from_going_for_space() {
    let fixture = Fixture::with(|config| config.retention.clean_at = UsageLimit::FreeBytes(u64::MAX));
    fill(&fixture, "T", 35);
    fixture.broker.delivery.timer.read_ms.store(1, Ordering::Relaxed);
    fixture.broker.delivery.timer.pending.store(1, Ordering::Relaxed);
    clean_later(&fixture);
    assert_eq!(min(&fixture, "T"), 30);
}
