use std::sync::Arc;

use net::ConnectionHandle;
use wire::frame::Command;
use wire::properties::{self, key};

use super::check::check_all;
use super::*;
use crate::testing::{ADDRESS, Fixture};

/// Stores a half message as a producer's send does, and returns its half offset and log offset.
fn half(fixture: &Fixture, unique: &str, more: &str) -> (i64, i64) {
    let text = format!("TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{unique}\x02TAGS\x01t\x02{more}");
    let stored = format!("{text}REAL_TOPIC\x01T\x02REAL_QID\x011\x02__transactionId__\x01{unique}\x02");
    let born_timestamp = fixture.broker.runtime.now_ms();
    let message = crate::testing::message(unique.as_bytes(), stored.as_bytes());
    fixture.broker.delivery.put(names::HALF_TOPIC, 0, &Message { born_timestamp, ..message }).unwrap();
    let queue = fixture.queue(names::HALF_TOPIC, 0);
    let offset = queue.index.max().to_i64() - 1;
    let mut bytes = Vec::new();
    let at = read_half(&fixture.broker.tables, offset, &mut bytes).unwrap();
    (offset, at.to_i64())
}

/// Sends 37 `END_TRANSACTION`; returns the response code, or the remark of the refusal.
fn tell(fixture: &Fixture, (offset, at): (i64, i64), state: i32, group: &str) -> Result<i32, String> {
    let fields = [
        ("producerGroup", group),
        ("tranStateTableOffset", &offset.to_string()),
        ("commitLogOffset", &at.to_string()),
        ("commitOrRollback", &state.to_string()),
        ("msgId", "x"),
    ];
    let (code, remark, _) = fixture.ask(37, &fields, b"");
    if code == 0 { Ok(code) } else { Err(remark) }
}

fn commit(fixture: &Fixture, place: (i64, i64)) -> Result<i32, String> {
    tell(fixture, place, 8, "PG")
}

fn bodies(fixture: &Fixture, topic: &str, queue_id: i32) -> Vec<String> {
    let text = |(body, ..): (Vec<u8>, Vec<u8>, i32)| String::from_utf8(body).unwrap();
    fixture.messages(topic, queue_id).into_iter().map(text).collect()
}

/// Checks undecided messages as if this many seconds had passed.
fn check_after(fixture: &Fixture, seconds: i64) {
    check_all(&fixture.broker.engines, fixture.broker.runtime.now_ms() + seconds * 1000);
}

fn first(fixture: &Fixture) -> i64 {
    fixture.broker.delivery.transactions.lock().first
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.queue("T", 1);
    fixture
}

#[test]
fn a_commit_makes_the_message_visible_once() {
    let fixture = fixture();
    let place = half(&fixture, "A", "");
    assert!(bodies(&fixture, "T", 1).is_empty());
    assert_eq!(commit(&fixture, place), Ok(0));
    assert_eq!(commit(&fixture, place), Ok(0), "said twice");
    assert!(tell(&fixture, place, 12, "PG").unwrap_err().contains("the opposite was decided"));
    assert_eq!(bodies(&fixture, "T", 1), ["A"]);
    assert_eq!(bodies(&fixture, names::OP_HALF_TOPIC, 0), ["0,"]);
    let queue = fixture.queue("T", 1);
    let mut units = Vec::new();
    queue.index.units_blocking(queue.index.min(), 1, &mut units).unwrap();
    let mut bytes = Vec::new();
    fixture.broker.store.record_at(units[0].log_offset, &mut bytes).unwrap();
    let record = RecordView::parse(&bytes).unwrap();
    assert_eq!((record.sys_flag() & 0xc, record.prepared_transaction_offset()), (8, place.1));
    let get = |name| properties::get_str(record.properties(), name).unwrap();
    assert_eq!((get("TRAN_MSG"), get("__transactionId__")), ("true", "A"));
}

#[test]
fn a_message_for_a_deleted_topic_is_committed_and_makes_no_topic() {
    let fixture = fixture();
    let place = half(&fixture, "A", "");
    let delete = wire::codes::request::DELETE_TOPIC_IN_BROKER;
    assert_eq!(fixture.ask(delete, &[("topic", "T")], b"").0, 0);
    assert_eq!(commit(&fixture, place), Ok(0));
    assert!(fixture.broker.tables.topics.find("T").is_none());
    assert_eq!(fixture.broker.store.find_queue("T", 1).unwrap().max().get(), 1);
}

#[test]
fn a_rolled_back_message_is_never_visible() {
    let fixture = fixture();
    let place = half(&fixture, "A", "");
    assert_eq!(tell(&fixture, place, 12, "PG"), Ok(0));
    assert!(commit(&fixture, place).is_err());
    check_after(&fixture, 100);
    assert!(bodies(&fixture, "T", 1).is_empty());
    assert_eq!(bodies(&fixture, names::HALF_TOPIC, 0), ["A"], "nothing was checked");
    assert_eq!(first(&fixture), 1);
}

#[test]
fn an_unknown_state_changes_nothing() {
    let fixture = fixture();
    let place = half(&fixture, "A", "");
    assert_eq!(tell(&fixture, place, 0, "PG"), Ok(0));
    assert_eq!(first(&fixture), 0);
    assert_eq!(commit(&fixture, place), Ok(0));
    assert_eq!(bodies(&fixture, "T", 1), ["A"]);
}

#[test]
fn wrong_words_are_refused_as_in_java() {
    let fixture = fixture();
    let (offset, at) = half(&fixture, "A", "");
    let refusals = [
        (tell(&fixture, (offset, at + 1), 8, "PG"), "Find prepared transaction message failed"),
        (tell(&fixture, (offset, -1), 8, "PG"), "Find prepared transaction message failed"),
    ];
    for (found, expected) in refusals {
        assert_eq!(found, Err(expected.to_owned()));
    }
    let place = half(&fixture, "B", "");
    assert_eq!(tell(&fixture, place, 8, "other"), Err("The producer group wrong".to_owned()));
    let wrong = Err("The transaction state table offset wrong".to_owned());
    assert_eq!(tell(&fixture, (place.0 + 1, place.1), 8, "PG"), wrong);
    fixture.put("T", 0, b"plain", b"PGROUP\x01PG\x02");
    let plain = fixture.queue("T", 0);
    let mut units = Vec::new();
    plain.index.units_blocking(plain.index.min(), 1, &mut units).unwrap();
    let missing = Err("Find prepared transaction message failed".to_owned());
    assert_eq!(tell(&fixture, (0, units[0].log_offset.to_i64()), 8, "PG"), missing);
    assert!(bodies(&fixture, "T", 1).is_empty());
}

#[test]
fn an_undecided_message_is_asked_about_and_given_up_at_last() {
    let fixture = Fixture::with(|config| config.transaction.check_max = 2);
    fixture.queue("T", 1);
    let producer = Arc::new(ConnectionHandle::detached(7, ADDRESS));
    fixture.meet_producer("PG", &producer);
    half(&fixture, "A", "");
    check_after(&fixture, 5);
    assert!(producer.pushed().is_empty(), "younger than six seconds");
    for times in 1..=2 {
        check_after(&fixture, 10);
        let mut pushed = producer.pushed();
        let command = Command::decode(&mut pushed).unwrap();
        assert!(command.code == 39 && command.is_one_way());
        let field = |name| command.fields.need(name).unwrap().to_owned();
        assert_eq!(
            (field("tranStateTableOffset"), field("transactionId")),
            (times.to_string(), "A".to_owned())
        );
        let record = RecordView::parse(command.body).unwrap();
        assert_eq!((record.topic(), record.queue_id(), record.body()), (&b"T"[..], 1, &b"A"[..]));
        let get = |name| properties::get_str(record.properties(), name);
        assert_eq!(get(key::TRANSACTION_CHECK_TIMES), Some(times.to_string().as_str()));
        assert_eq!(get(key::TRANSACTION_PREPARED_QUEUE_OFFSET), None, "it was never immune");
    }
    check_after(&fixture, 10);
    assert!(producer.pushed().is_empty());
    assert_eq!(bodies(&fixture, names::CHECK_MAX_TIME_TOPIC, 0), ["A"]);
    assert_eq!(first(&fixture), 3);
    // An operator has the transaction checked again, as if it had never been checked.
    let queue = fixture.queue(names::CHECK_MAX_TIME_TOPIC, 0);
    let mut units = Vec::new();
    queue.index.units_blocking(queue.index.min(), 1, &mut units).unwrap();
    let id = wire::id::OffsetId {
        store_host: fixture.broker.identity.store_host,
        log_offset: units[0].log_offset,
    };
    let mut text = Vec::new();
    id.append_to(&mut text);
    let resume = |id: &str| fixture.ask(323, &[("topic", "T"), ("msgId", id)], b"");
    assert_eq!(resume(std::str::from_utf8(&text).unwrap()).0, 0);
    check_after(&fixture, 10);
    let mut pushed = producer.pushed();
    let command = Command::decode(&mut pushed).unwrap();
    assert_eq!((command.code, command.fields.text("tranStateTableOffset")), (39, Some("4")));
    let at = command.fields.need_number("commitLogOffset").unwrap();
    assert_eq!(commit(&fixture, (4, at)), Ok(0));
    assert_eq!(bodies(&fixture, "T", 1), ["A"]);
    // The id of any other message is refused.
    let (code, remark, _) = resume("7F00000100002A9F0000000000000000");
    assert!(code == 1 && remark.contains("is not the offset id of a message"), "{remark}");
}

#[test]
fn a_message_that_was_given_up_can_be_committed_once() {
    let fixture = Fixture::with(|config| config.transaction.check_max = 1);
    fixture.queue("T", 1);
    let place = half(&fixture, "A", "");
    check_after(&fixture, 10);
    check_after(&fixture, 10);
    assert_eq!(bodies(&fixture, names::CHECK_MAX_TIME_TOPIC, 0), ["A"]);
    let mut bytes = Vec::new();
    let last = (1, read_half(&fixture.broker.tables, 1, &mut bytes).unwrap().to_i64());
    for place in [place, last, place] {
        assert_eq!(commit(&fixture, place), Ok(0));
    }
    assert_eq!(self::bodies(&fixture, "T", 1), ["A"]);
    assert!(tell(&fixture, place, 12, "PG").unwrap_err().contains("the opposite was decided"));
}

#[test]
fn a_message_that_was_given_up_can_be_committed_once_after_a_restart() {
    let fixture = Fixture::with(|config| config.transaction.check_max = 1);
    fixture.queue("T", 1);
    let (one, other) = (half(&fixture, "A", ""), half(&fixture, "B", ""));
    assert_eq!(commit(&fixture, other), Ok(0));
    check_after(&fixture, 10);
    check_after(&fixture, 10);
    assert_eq!(bodies(&fixture, names::CHECK_MAX_TIME_TOPIC, 0), ["A"]);
    let mut fixture = fixture;
    for _ in 0..2 {
        fixture = fixture.reopened();
        load(&fixture.broker.engines).unwrap();
        assert_eq!((commit(&fixture, one), commit(&fixture, other)), (Ok(0), Ok(0)));
    }
    assert_eq!(bodies(&fixture, "T", 1), ["B", "A"]);
}

#[test]
fn the_first_decision_counts_and_another_one_is_refused() {
    let fixture = fixture();
    let (one, other) = (half(&fixture, "A", ""), half(&fixture, "B", ""));
    assert_eq!((commit(&fixture, one), tell(&fixture, other, 12, "PG")), (Ok(0), Ok(0)));
    assert_eq!((commit(&fixture, one), tell(&fixture, other, 12, "PG")), (Ok(0), Ok(0)), "said twice");
    assert!(tell(&fixture, one, 12, "PG").is_err());
    assert!(commit(&fixture, other).is_err());
    assert_eq!(bodies(&fixture, "T", 1), ["A"]);
}

#[test]
fn a_committed_message_has_nothing_of_its_half_message() {
    let fixture = fixture();
    let place = half(&fixture, "A", "");
    check_after(&fixture, 10);
    assert_eq!(commit(&fixture, place), Ok(0));
    let (_, stored, _) = fixture.messages("T", 1).remove(0);
    let has = |name| properties::get(&stored, name).is_some();
    assert!(has("TRAN_MSG") && has("UNIQ_KEY"));
    assert!(
        ![key::REAL_TOPIC, key::REAL_QUEUE_ID, key::TRANSACTION_PREPARED_QUEUE_OFFSET].into_iter().any(has)
    );
}

#[test]
fn a_decision_about_a_former_place_counts_once() {
    let fixture = fixture();
    let place = half(&fixture, "A", "");
    check_after(&fixture, 10);
    check_after(&fixture, 10);
    // The producer's own commit comes late, and so do its answers to the two checks.
    assert_eq!(commit(&fixture, place), Ok(0));
    let mut bytes = Vec::new();
    for offset in [1, 2] {
        let at = read_half(&fixture.broker.tables, offset, &mut bytes).unwrap().to_i64();
        assert_eq!(commit(&fixture, (offset, at)), Ok(0));
    }
    check_after(&fixture, 10);
    assert_eq!(bodies(&fixture, "T", 1), ["A"]);
    assert_eq!((first(&fixture), bodies(&fixture, names::HALF_TOPIC, 0).len()), (3, 3));
}

#[test]
fn an_immune_message_is_left_alone_and_does_not_hold_up_others() {
    let fixture = fixture();
    half(&fixture, "immune", "CHECK_IMMUNITY_TIME_IN_SECONDS\x011000\x02");
    half(&fixture, "other", "");
    check_after(&fixture, 10);
    assert_eq!(bodies(&fixture, names::HALF_TOPIC, 0), ["immune", "other", "other"]);
    // Asked about when its immunity is over, it names the offset at which it was before, at every check.
    for _ in 0..2 {
        check_after(&fixture, 1001);
    }
    let halves = fixture.messages(names::HALF_TOPIC, 0);
    let origins = halves.iter().map(|(body, stored, _)| {
        let origin = properties::get_str(stored, key::TRANSACTION_PREPARED_QUEUE_OFFSET);
        (std::str::from_utf8(body).unwrap(), origin)
    });
    let (immune, other) = (("immune", Some("0")), ("other", None));
    assert_eq!(origins.collect::<Vec<_>>(), [("immune", None), other, other, immune, other, immune, other]);
}

#[test]
fn behind_its_immunity_only_the_answer_to_a_check_counts() {
    let fixture = fixture();
    let stored =
        "PGROUP\x01PG\x02REAL_TOPIC\x01T\x02REAL_QID\x011\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x015\x02";
    let born_timestamp = fixture.broker.runtime.now_ms() - 6000;
    let message = crate::testing::message(b"A", stored.as_bytes());
    fixture.broker.delivery.put(names::HALF_TOPIC, 0, &Message { born_timestamp, ..message }).unwrap();
    let at = read_half(&fixture.broker.tables, 0, &mut Vec::new()).unwrap().to_i64();
    assert_eq!(commit(&fixture, (0, at)), Err(String::new()));
    assert!(bodies(&fixture, "T", 1).is_empty());
}

#[test]
fn a_delay_counts_from_the_commit() {
    let fixture = fixture();
    fixture.queue(names::SCHEDULE_TOPIC, 17);
    let place = half(&fixture, "A", "DELAY\x013\x02");
    assert_eq!(commit(&fixture, place), Ok(0));
    let delayed = fixture.messages(names::SCHEDULE_TOPIC, 2);
    let get = |name| properties::get_str(&delayed[0].1, name).unwrap();
    assert_eq!((get(key::DELAY), get(key::REAL_TOPIC), get(key::REAL_QUEUE_ID)), ("3", "T", "1"));
    assert!(bodies(&fixture, "T", 1).is_empty());
}

#[test]
fn a_time_counts_from_the_commit() {
    let fixture = fixture();
    let timers = fixture.queue(names::TIMER_TOPIC, 0);
    let place = half(&fixture, "A", "TIMER_DELAY_SEC\x01100\x02");
    assert_eq!(timers.index.max().get(), 0, "it is not decided yet");
    assert_eq!(commit(&fixture, place), Ok(0));
    let timed = fixture.messages(names::TIMER_TOPIC, 0);
    let get = |name| properties::get_str(&timed[0].1, name).unwrap();
    assert_eq!((get(key::REAL_TOPIC), get(key::REAL_QUEUE_ID)), ("T", "1"));
    assert!(get(key::TIMER_OUT_MS).parse::<i64>().unwrap() > fixture.broker.runtime.now_ms() + 90_000);
    assert!(bodies(&fixture, "T", 1).is_empty());
}

#[test]
fn decisions_survive_a_restart_also_before_they_were_noted() {
    let fixture = fixture();
    let places: Vec<_> = ["A", "B", "C"].iter().map(|unique| half(&fixture, unique, "")).collect();
    assert_eq!(commit(&fixture, places[0]), Ok(0));
    assert_eq!(tell(&fixture, places[2], 12, "PG"), Ok(0));
    let fixture = fixture.reopened();
    load(&fixture.broker.engines).unwrap();
    assert_eq!(first(&fixture), 1);
    assert_eq!(commit(&fixture, places[0]), Ok(0));
    assert_eq!(commit(&fixture, places[2]), Ok(0));
    assert_eq!(bodies(&fixture, "T", 1), ["A"]);
    assert_eq!(commit(&fixture, places[1]), Ok(0));
    assert_eq!(bodies(&fixture, "T", 1), ["A", "B"]);
    assert_eq!(first(&fixture), 3);
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    fixture.broker.store.checkpoint().unwrap();
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    assert_eq!(fixture.broker.tables.offsets.committed(GROUP, names::HALF_TOPIC, 0), Some(3));
    assert_eq!(fixture.broker.tables.offsets.committed(GROUP, names::OP_HALF_TOPIC, 0), Some(3));
}

#[test]
fn op_records_of_java_list_several_offsets() {
    let fixture = fixture();
    for unique in ["A", "B", "C", "D"] {
        half(&fixture, unique, "");
    }
    fixture.put(names::OP_HALF_TOPIC, 0, b"0,2,", b"TAGS\x01d\x02");
    fixture.put(names::OP_HALF_TOPIC, 0, b"3", b"TAGS\x01d\x02");
    load(&fixture.broker.engines).unwrap();
    let state = fixture.broker.delivery.transactions.lock();
    assert_eq!([0, 1, 2, 3].map(|offset| state.undecided(offset)), [None, Some(1), None, None]);
}

#[test]
fn a_step_that_a_crash_parted_is_completed() {
    // The log after each step when the op record of the step is lost.
    let committed = |fixture: &Fixture, at: i64| {
        let queue = fixture.queue("T", 1);
        let message = Message {
            sys_flag: 8,
            prepared_transaction_offset: at,
            ..crate::testing::message(b"A", b"UNIQ_KEY\x01A\x02")
        };
        let mut batch = fixture.broker.store.batch();
        batch.push(&queue.index, &message).unwrap();
        fixture.broker.store.append(&mut batch, 1).unwrap();
    };
    let again = |fixture: &Fixture, _: i64| {
        half(fixture, "A", "TRANSACTION_CHECK_TIMES\x011\x02");
    };
    let given_up = |fixture: &Fixture, _: i64| {
        fixture.put(names::CHECK_MAX_TIME_TOPIC, 0, b"A", b"UNIQ_KEY\x01A\x02");
    };
    type Step<'a> = &'a dyn Fn(&Fixture, i64);
    let steps: [(Step<'_>, Vec<i64>); 3] = [(&committed, vec![]), (&again, vec![2]), (&given_up, vec![])];
    for (number, (step, left)) in steps.into_iter().enumerate() {
        let fixture = fixture();
        let (_, at) = half(&fixture, "A", "");
        half(&fixture, "B", "");
        step(&fixture, at);
        let fixture = fixture.killed();
        load(&fixture.broker.engines).unwrap();
        let state = fixture.broker.delivery.transactions.lock();
        let undecided: Vec<i64> = (0..3).filter(|offset| state.undecided(*offset).is_some()).collect();
        let max = fixture.queue(names::HALF_TOPIC, 0).index.max().to_i64();
        let expected: Vec<i64> = [vec![1], left].concat();
        assert_eq!(
            undecided.into_iter().filter(|offset| *offset < max).collect::<Vec<_>>(),
            expected,
            "step {number}"
        );
    }
}

#[test]
fn a_clock_set_back_does_not_end_the_checks() {
    let fixture = fixture();
    half(&fixture, "A", "");
    check_after(&fixture, -3600);
    check_after(&fixture, -3596);
    assert_eq!(bodies(&fixture, names::HALF_TOPIC, 0), ["A"], "younger than six seconds");
    check_after(&fixture, -3590);
    assert_eq!(bodies(&fixture, names::HALF_TOPIC, 0), ["A", "A"]);
}

#[test]
fn a_half_message_without_room_for_a_number_is_asked_about_and_holds_up_no_others() {
    let fixture = fixture();
    let producer = Arc::new(ConnectionHandle::detached(7, ADDRESS));
    fixture.meet_producer("PG", &producer);
    let full = format!("P\x01{}\x02", "x".repeat(32_670));
    let place = half(&fixture, "A", &full);
    half(&fixture, "B", "");
    check_after(&fixture, 10);
    assert_eq!(bodies(&fixture, names::HALF_TOPIC, 0), ["A", "B", "B"]);
    let mut pushed = producer.pushed();
    let length = wire::frame::frame_length(&pushed).unwrap().unwrap();
    let command = Command::decode(&mut pushed[..length]).unwrap();
    let field = |name| command.fields.need_number::<i64>(name).unwrap();
    assert_eq!((field("tranStateTableOffset"), field("commitLogOffset")), place);
    assert_eq!(commit(&fixture, place), Ok(0));
    assert_eq!(bodies(&fixture, "T", 1), ["A"]);
}

/// Three half messages, of which the last two are committed.
fn decided() -> Fixture {
    let fixture = fixture();
    let places: Vec<_> = ["A", "B", "C"].iter().map(|unique| half(&fixture, unique, "")).collect();
    assert_eq!((commit(&fixture, places[1]), commit(&fixture, places[2])), (Ok(0), Ok(0)));
    fixture
}

fn undecided(fixture: &Fixture) -> Vec<i64> {
    let state = fixture.broker.delivery.transactions.lock();
    (0..3).filter(|offset| state.undecided(*offset).is_some()).collect()
}

#[test]
fn a_damaged_decision_does_not_keep_the_broker_from_starting() {
    let fixture = decided();
    let ops = fixture.queue(names::OP_HALF_TOPIC, 0);
    let mut units = Vec::new();
    ops.index.units_blocking(ops.index.min(), 1, &mut units).unwrap();
    let at = units[0].log_offset;
    let mut bytes = Vec::new();
    fixture.broker.store.record_at(at, &mut bytes).unwrap();
    let body = RecordView::parse(&bytes).unwrap().body();
    let inside = (body.as_ptr() as usize - bytes.as_ptr() as usize) as u64;
    let file = std::fs::File::options()
        .write(true)
        .open(fixture.config_path("../commitlog/00000000000000000000"))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"7", at.get() + inside).unwrap();
    load(&fixture.broker.engines).unwrap();
    assert_eq!(undecided(&fixture), [0, 1], "the second one is asked about again");
}

#[test]
fn lost_queue_files_of_decisions_are_waited_for() {
    let fixture = decided();
    fixture.broker.store.checkpoint().unwrap();
    let files = fixture.config_path("../consumequeue").join(names::OP_HALF_TOPIC);
    std::fs::remove_dir_all(files).unwrap();
    let fixture = fixture.reopened();
    load(&fixture.broker.engines).unwrap();
    assert_eq!(undecided(&fixture), [0]);
}

#[test]
fn a_copy_that_names_no_half_message_decides_none() {
    let fixture = fixture();
    assert_eq!(half(&fixture, "A", ""), (0, 0), "what a copy names");
    let copy = Message { sys_flag: 8, ..crate::testing::message(b"B", b"UNIQ_KEY\x01B\x02") };
    fixture.broker.delivery.put("T", 1, &copy).unwrap();
    let fixture = fixture.killed();
    load(&fixture.broker.engines).unwrap();
    assert_eq!(fixture.broker.delivery.transactions.lock().undecided(0), Some(0));
}
