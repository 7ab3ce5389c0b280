//! Timed messages on a broker without connections. The tests run the timer's rounds themselves and pass the time.

mod recalls;
mod trouble;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use store::RealDisk;
use store::timer::TimerFiles;

use super::delivery_time::{DeliveryTime, timed};
use super::fetch::{Fetch, Fetcher};
use super::scheduler::Scheduler;
use super::timed::asked_ms;
use crate::clock::Clock;
use crate::config::Timers;
use crate::engine::{Engine, Next};
use crate::names;
use crate::position_writer::{PositionWriter, PositionWrites};
use crate::testing::{Fixture, message};
use store::timer::TimerConfig;
use wire::properties::{self, key};

/// A time so far ahead of the real clock that no message is due by itself during a test.
fn start_ms(fixture: &Fixture) -> i64 {
    (fixture.broker.runtime.now_ms() / 1000 + 100) * 1000
}

/// The timer with the engines that work for it, all run by the test.
struct Timer {
    scheduler: Scheduler,
    fetcher: Fetcher,
    writes: PositionWrites,
}

impl Deref for Timer {
    type Target = Scheduler;

    fn deref(&self) -> &Scheduler {
        &self.scheduler
    }
}

impl DerefMut for Timer {
    fn deref_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }
}

impl Timer {
    /// Stops the timer cleanly, as the broker does.
    fn stop(mut self) {
        self.writes.stop();
        self.fetcher.stop();
        self.scheduler.stop();
    }
}

fn scheduler(fixture: &Fixture, change: impl FnOnce(&mut TimerConfig)) -> Timer {
    fixture.queue(names::TIMER_TOPIC, 0);
    let mut config = {
        let config = &fixture.broker.runtime.config;
        config.timers.files(&config.store, config.retention.reserved_ms)
    };
    config.log_file_bytes = 4096;
    change(&mut config);
    let files = TimerFiles::open(config, std::sync::Arc::new(RealDisk)).unwrap();
    let (position_writer, writes) = PositionWriter::new();
    let (fetch, fetcher) = Fetch::new(fixture.broker.engines.clone(), files.log().clone());
    let scheduler = Scheduler::new(fixture.broker.engines.clone(), files, fetch, position_writer).unwrap();
    Timer { scheduler, fetcher, writes }
}

/// Runs rounds of the timer and of the engines that work for it at `now_ms` until there is nothing more to do.
fn wind(timer: &mut Timer, now_ms: i64) {
    loop {
        let mut busy = timer.scheduler.round(now_ms) == Next::At(now_ms);
        while timer.fetcher.round(now_ms) == Next::At(now_ms) {
            busy = true;
        }
        timer.writes.round(now_ms);
        if !busy {
            return assert!(!timer.due_entries.is_loading());
        }
    }
}

/// Stores a timed message as a send does.
fn put(fixture: &Fixture, id: &str, due_ms: i64, more: &[(&str, &str)]) {
    let mut text = Vec::new();
    properties::append(&mut text, key::UNIQ_KEY, id.as_bytes());
    properties::append(&mut text, key::TAGS, b"TagA");
    properties::append(&mut text, key::TIMER_DELIVER_MS, due_ms.to_string().as_bytes());
    more.iter().for_each(|(name, value)| properties::append(&mut text, name, value.as_bytes()));
    timed(&mut text, store::timer::wheel_time(due_ms, 1000), "Real", 0);
    fixture.queue("Real", 0);
    let put = fixture.broker.delivery.put(names::TIMER_TOPIC, 0, &message(id.as_bytes(), &text));
    put.unwrap();
}

fn delivered(fixture: &Fixture) -> Vec<String> {
    let text = |(body, ..): (Vec<u8>, Vec<u8>, i32)| String::from_utf8(body).unwrap();
    fixture.messages("Real", 0).into_iter().map(text).collect()
}

#[test]
fn messages_come_at_their_millisecond_and_not_before() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    for (id, due) in [("c", 1500), ("a", 7), ("b", 1000), ("d", 20_001)] {
        put(&fixture, id, start + due, &[]);
    }
    let mut expected = Vec::new();
    for (due, id) in [(7, "a"), (1000, "b"), (1500, "c"), (20_001, "d")] {
        wind(&mut scheduler, start + due - 1);
        assert_eq!(delivered(&fixture), expected, "at {due} - 1");
        expected.push(id);
        wind(&mut scheduler, start + due);
        assert_eq!(delivered(&fixture), expected, "at {due}");
    }
    scheduler.stop();
}

#[test]
fn a_delivered_copy_says_when_it_waited_and_keeps_the_rest() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "x", start + 5, &[("WAIT", "true"), ("MY", "own")]);
    wind(&mut scheduler, start - 3000);
    wind(&mut scheduler, start + 9);
    let (body, text, _) = fixture.messages("Real", 0).remove(0);
    let values: BTreeMap<&str, &str> = properties::pairs(&text)
        .map(|(name, value)| (std::str::from_utf8(name).unwrap(), std::str::from_utf8(value).unwrap()))
        .collect();
    let (enqueue, dequeue, out) = ((start - 3000).to_string(), (start + 9).to_string(), start.to_string());
    let due = (start + 5).to_string();
    assert_eq!(body, b"x");
    let expected = [
        ("UNIQ_KEY", "x"),
        ("TAGS", "TagA"),
        ("WAIT", "true"),
        ("MY", "own"),
        ("REAL_TOPIC", "Real"),
        ("REAL_QID", "0"),
        ("TIMER_DELIVER_MS", &due),
        ("TIMER_OUT_MS", &out),
        ("TIMER_ENQUEUE_MS", &enqueue),
        ("TIMER_DEQUEUE_MS", &dequeue),
    ];
    assert_eq!(values, BTreeMap::from(expected));
    scheduler.stop();
}

#[test]
fn a_message_beyond_the_window_rolls_until_it_is_near() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |config| config.roll_window_slots = 10);
    wind(&mut scheduler, start);
    put(&fixture, "far", start + 33_345, &[]);
    put(&fixture, "gone", start + 33_345, &[]);
    put(&fixture, "cancel", start + 33_001, &[(key::TIMER_DEL_UNIQKEY, "gone")]);
    for ms in (0..33_300).step_by(100) {
        wind(&mut scheduler, start + ms);
    }
    wind(&mut scheduler, start + 33_344);
    assert_eq!(delivered(&fixture), Vec::<String>::new());
    wind(&mut scheduler, start + 33_345);
    assert_eq!(delivered(&fixture), ["far"]);
    let (_, text, _) = fixture.messages("Real", 0).remove(0);
    // The message is rolled at 10 s, at 20 s, and at half of the rest, 25 s.
    assert_eq!(properties::get_str(&text, key::TIMER_ROLL_TIMES), Some("3"));
    scheduler.stop();
}

#[test]
fn a_message_rolls_before_its_record_is_too_old_to_be_kept() {
    let store = store::Config::new("/s");
    let window_slots = |asked: i64, reserved_ms: i64| {
        Timers { roll_window_slots: asked, ..Timers::default() }.files(&store, reserved_ms).roll_window_ms()
            / 1000
    };
    const HOUR_MS: i64 = 3_600_000;
    assert_eq!(window_slots(172_800, 72 * HOUR_MS), 36 * 3600);
    assert_eq!(window_slots(172_800, 720 * HOUR_MS), 172_800);
    assert_eq!(window_slots(0, 7200 * HOUR_MS), 7 * 86_400 - 60);
    assert_eq!(window_slots(172_800, 0), 2);
}

#[test]
fn what_is_cancelled_does_not_come() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    for (id, due) in [("a", 100), ("b", 200), ("c", 300), ("d", 400), ("e", 1400)] {
        put(&fixture, id, start + due, &[]);
    }
    put(&fixture, "1", start + 1, &[(key::TIMER_DEL_UNIQKEY, "a")]);
    wind(&mut scheduler, start - 60_000);
    wind(&mut scheduler, start - 1000);
    // These come while the slot is in memory. Java 5.3 names the topic as well; a message of another slot is not cancelled.
    put(&fixture, "2", start + 1, &[(key::TIMER_DEL_UNIQKEY, "Real+b")]);
    put(&fixture, "3", start + 1, &[(key::TIMER_DEL_UNIQKEY, "e")]);
    wind(&mut scheduler, start + 350);
    put(&fixture, "4", start + 400, &[(key::TIMER_DEL_UNIQKEY, "d")]);
    wind(&mut scheduler, start + 5000);
    assert_eq!(delivered(&fixture), ["c", "e"]);
    scheduler.stop();
}

#[test]
fn a_message_for_a_deleted_topic_is_stored_and_makes_no_topic() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "x", start + 5, &[]);
    let delete = wire::codes::request::DELETE_TOPIC_IN_BROKER;
    assert_eq!(fixture.ask(delete, &[("topic", "Real")], b"").0, 0);
    wind(&mut scheduler, start + 5);
    assert!(fixture.broker.tables.topics.find("Real").is_none());
    assert_eq!(fixture.broker.store.find_queue("Real", 0).unwrap().max().get(), 1);
    scheduler.stop();
}

#[test]
fn queues_that_go_under_their_topic_hold_up_nothing() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "x", start + 5, &[]);
    fixture.broker.store.remove_topic("Real").unwrap();
    wind(&mut scheduler, start + 5);
    assert_eq!(delivered(&fixture), Vec::<String>::new());
    wind(&mut scheduler, start + 1005);
    assert_eq!(delivered(&fixture), ["x"]);
    scheduler.stop();
}

#[test]
fn nothing_is_delivered_behind_a_cancel_that_was_not_read() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "x", start + 5, &[]);
    wind(&mut scheduler, start - 1000);
    let cancels = fixture.broker.delivery.timer.recall_order().cancels;
    // The recall is appended after the timer read its queue and before it delivers.
    put(&fixture, "1", start + 5, &[(key::TIMER_DEL_UNIQKEY, "x")]);
    fixture.broker.delivery.timer.recall_order().cancels += 1;
    assert!(scheduler.deliver(start + 5, cancels));
    assert_eq!(delivered(&fixture), Vec::<String>::new());
    wind(&mut scheduler, start + 6);
    assert_eq!(delivered(&fixture), Vec::<String>::new());
    assert_eq!(
        fixture.broker.delivery.timer.recall_order().delivered_ms,
        0,
        "so it may still be answered as recalled"
    );
    scheduler.stop();
}

#[test]
fn a_restart_goes_on_where_it_stopped() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut first = scheduler(&fixture, |_| {});
    for number in 0..40 {
        put(&fixture, &format!("{number:02}"), start + 100 * number + 1, &[]);
    }
    wind(&mut first, start + 1550);
    assert_eq!(delivered(&fixture).len(), 16);
    first.stop();
    let fixture = fixture.reopened();
    let mut second = scheduler(&fixture, |_| {});
    put(&fixture, "new", start + 1700, &[]);
    wind(&mut second, start + 1750);
    assert_eq!(delivered(&fixture).len(), 19);
    wind(&mut second, start + 60_000);
    let mut all = delivered(&fixture);
    all.sort();
    let mut expected: Vec<String> = (0..40).map(|number| format!("{number:02}")).collect();
    expected.push("new".to_owned());
    assert_eq!(all, expected, "each once");
    second.stop();
}

#[test]
fn a_kill_repeats_only_what_was_not_saved() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut first = scheduler(&fixture, |_| {});
    for number in 0..40 {
        put(&fixture, &format!("{number:02}"), start + 100 * number + 1, &[]);
    }
    wind(&mut first, start + 3150);
    // The timer is not stopped cleanly: its files are as the first save left them, before anything was added.
    drop(first);
    let mut second = scheduler(&fixture, |_| {});
    wind(&mut second, start + 60_000);
    let mut all = delivered(&fixture);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 40, "none is lost");
    second.stop();
}

#[test]
fn a_kill_does_not_repeat_the_last_message_before_a_quiet_time() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut first = scheduler(&fixture, |_| {});
    put(&fixture, "only", start + 500, &[]);
    wind(&mut first, start - 2000);
    // The message is delivered, and the files are saved, in one round within the second of the message.
    wind(&mut first, start + 600);
    assert_eq!(delivered(&fixture), ["only"]);
    while first.changed {
        wind(&mut first, start + 1700);
    }
    // The save is completed, but the timer is not stopped cleanly.
    drop(first);
    let mut second = scheduler(&fixture, |_| {});
    wind(&mut second, start + 5000);
    assert_eq!(delivered(&fixture), ["only"]);
    second.stop();
}

#[test]
fn the_exact_time_is_what_was_asked() {
    let store_ms = 1_700_000_000_450;
    let check = |properties: &[(&str, i64)], out_ms: i64, expected: i64| {
        let fixture = Fixture::new();
        let mut text = Vec::new();
        for (name, value) in properties {
            wire::properties::append(&mut text, name, value.to_string().as_bytes());
        }
        wire::properties::append(&mut text, key::TIMER_OUT_MS, out_ms.to_string().as_bytes());
        wire::properties::append(&mut text, key::REAL_TOPIC, b"Real");
        wire::properties::append(&mut text, key::REAL_QUEUE_ID, b"0");
        let queue = fixture.queue(names::TIMER_TOPIC, 0);
        let mut batch = fixture.broker.store.batch();
        batch.push(&queue.index, &message(b"x", &text)).unwrap();
        fixture.broker.store.append(&mut batch, store_ms).unwrap();
        let mut bytes = Vec::new();
        fixture.broker.store.record_at(batch.append_result(0).log_offset, &mut bytes).unwrap();
        let record = wire::record::RecordView::parse(&bytes).unwrap();
        let due_ms = super::timed::Timed::of(&record, 1000).unwrap().due_ms;
        assert_eq!(due_ms, expected, "{properties:?}");
    };
    let out_ms = 1_700_000_003_000;
    check(&[(key::TIMER_DELIVER_MS, out_ms + 345)], out_ms, out_ms + 345);
    check(&[(key::TIMER_DELIVER_MS, out_ms + 1000)], out_ms, out_ms + 1000);
    check(&[(key::TIMER_DELAY_MS, 2777)], out_ms, out_ms + 227);
    check(&[(key::TIMER_DELAY_SEC, 3)], out_ms, out_ms + 450);
    check(&[(key::TIMER_DELAY_SEC, 3), (key::TIMER_DELIVER_MS, 5)], out_ms, out_ms + 450);
    // The record was stored just after the second the send was made in: the slot in `TIMER_OUT_MS` decides.
    check(&[(key::TIMER_DELAY_MS, 2560)], out_ms - 1000, out_ms);
    check(&[], out_ms, out_ms + 1000);
    let rolled = [(key::TIMER_DELAY_MS, 9), (key::TIMER_ROLL_TIMES, 1), (key::TIMER_DELIVER_MS, out_ms + 9)];
    check(&rolled, out_ms, out_ms + 9);
}

#[test]
fn a_send_is_taken_or_refused_as_java_does() {
    let fixture = Fixture::with(|config| config.timers.congest_num = 2);
    let now_ms = fixture.broker.runtime.now_ms();
    let texts: Vec<String> =
        [-1, 0, 100_000, 259_300_000].iter().map(|ms| (now_ms + ms).to_string()).collect();
    let ask = |value: &str, cancels: bool| {
        let value = value.to_owned();
        let asked = DeliveryTime { deliver_ms: Some(value.as_bytes()), cancels, ..DeliveryTime::default() };
        asked
            .out_ms(&fixture.broker.identity, &fixture.broker.delivery, &fixture.broker.runtime)
            .map_err(|refusal| (refusal.code, refusal.remark.into_owned()))
    };
    let illegal = "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; or if set del msg, the delay time should be bigger than the current time";
    assert_eq!(ask(&texts[0], false), Ok(None), "the past is now");
    assert_eq!(ask(&texts[1], false), Ok(None));
    assert_eq!(ask(&texts[1], true), Err((13, illegal.to_owned())));
    assert_eq!(ask("soon", false), Err((13, illegal.to_owned())));
    assert_eq!(ask(&texts[3], false), Err((13, illegal.to_owned())));
    let out_ms = (now_ms + 99_999) / 1000 * 1000;
    assert_eq!(ask(&texts[2], false), Ok(Some(out_ms)));
    fixture.broker.delivery.timer.counts().insert(out_ms, 4);
    let flow = "timer message is under flow control, max num limit is 4 or the current value is greater than 2 and less than 4, trigger random flow control";
    assert_eq!(ask(&texts[2], false), Err((1, flow.to_owned())));
    fixture.broker.delivery.timer.counts().insert(out_ms, 3);
    let refused = (0..1000).filter(|_| ask(&texts[2], false).is_err()).count();
    assert!((400..600).contains(&refused), "half way between the limits half are refused: {refused}");
    let off = Fixture::with(|config| config.timers.enabled = false);
    let asked = DeliveryTime { delay_ms: Some(b"5"), ..DeliveryTime::default() };
    let refusal = asked.out_ms(&off.broker.identity, &off.broker.delivery, &off.broker.runtime).unwrap_err();
    let remark = "accurate timer message is not enabled, timerWheelEnable is false";
    assert_eq!((refusal.code, &*refusal.remark), (1, remark));
    assert_eq!(asked_ms(key::TIMER_DELAY_SEC, b"3", 7), Some(3007));
}

#[test]
fn a_message_the_disk_does_not_give_is_given_up_after_a_minute() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "lost", start + 10, &[]);
    wind(&mut scheduler, start - 60_000);
    fixture.lose_log_file();
    put(&fixture, "next", start + 20, &[]);
    for second in 0..60 {
        wind(&mut scheduler, start + 30 + second * 1000);
        assert_eq!((delivered(&fixture), scheduler.due_entries.read_ms()), (vec!["next".to_owned()], start));
    }
    wind(&mut scheduler, start + 60_030);
    assert_eq!(scheduler.due_entries.read_ms(), start + 60_000);
    assert_eq!(fixture.broker.runtime.retention.undelivered.load(Ordering::Relaxed), 1);
    scheduler.stop();
}

#[test]
fn what_is_timed_after_the_clock_was_set_back_does_not_wait_for_its_old_time() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "a", start + 1500, &[]);
    put(&fixture, "c", start + 7_200_000, &[]);
    wind(&mut scheduler, start);
    wind(&mut scheduler, start + 3_600_000);
    assert_eq!(delivered(&fixture), ["a"]);
    put(&fixture, "b", start + 1600, &[]);
    wind(&mut scheduler, start + 1599);
    assert_eq!(delivered(&fixture), ["a"]);
    wind(&mut scheduler, start + 1600);
    assert_eq!(delivered(&fixture), ["a", "b"]);
    wind(&mut scheduler, start + 7_200_000);
    assert_eq!(delivered(&fixture), ["a", "b", "c"]);
    scheduler.stop();
}

#[test]
fn what_is_timed_after_the_clock_was_set_forward_by_more_than_a_year_comes_in_time() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |config| config.slots = 100_000);
    put(&fixture, "old", start + 86_400_000, &[]);
    wind(&mut scheduler, start);
    let now = start + 400 * 86_400_000;
    // Looking up one slot after the other would take 1,700 rounds.
    let is_there =
        |scheduler: &Timer| scheduler.due_entries.is_caught_up(now) && !delivered(&fixture).is_empty();
    let rounds = (0..200).take_while(|_| {
        wind(&mut scheduler, now);
        !is_there(&scheduler)
    });
    assert!(rounds.count() < 200);
    assert_eq!(delivered(&fixture), ["old"]);
    put(&fixture, "new", now + 3000, &[]);
    wind(&mut scheduler, now + 2999);
    assert_eq!(delivered(&fixture), ["old"]);
    wind(&mut scheduler, now + 3000);
    assert_eq!(delivered(&fixture), ["old", "new"]);
    // The clock is set back again.
    put(&fixture, "back", start + 10_000, &[]);
    wind(&mut scheduler, start + 9999);
    assert_eq!(delivered(&fixture), ["old", "new"]);
    wind(&mut scheduler, start + 10_000);
    assert_eq!(delivered(&fixture), ["old", "new", "back"]);
    assert_eq!(scheduler.pending, 0);
    scheduler.stop();
}

#[test]
fn a_message_without_room_for_more_properties_is_delivered_as_it_is() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |config| config.roll_window_slots = 10);
    put(&fixture, "x", start + 5345, &[("FULL", &"x".repeat(32_640))]);
    // The message is rolled before; its properties have no room for those of a rolled copy either.
    wind(&mut scheduler, start - 10_000);
    wind(&mut scheduler, start + 5344);
    assert_eq!(delivered(&fixture), [] as [String; 0]);
    wind(&mut scheduler, start + 5345);
    assert_eq!(delivered(&fixture), ["x"]);
    scheduler.stop();
}

/// Returns the progress for slaves: messages before this offset of the timer queue that are due before this time were
/// delivered.
fn told(fixture: &Fixture) -> (i64, i64) {
    let checkpoint = fixture.broker.delivery.timer.checkpoint().expect("the timer has begun");
    (checkpoint.read_ms, checkpoint.master_queue_offset)
}

#[test]
fn a_deposed_master_delivers_again_what_is_cut_off_its_log() {
    let (clock, directory) = (Clock::standing(1_000_000), tempfile::tempdir().unwrap());
    let fixture = Fixture::timed(std::sync::Arc::new(RealDisk), clock.clone(), directory, |config| {
        config.replication.controller.is_enabled = true;
    });
    let start = start_ms(&fixture);
    let mut timer = scheduler(&fixture, |_| {});
    put(&fixture, "a", start + 3500, &[]);
    put(&fixture, "b", start + 17_500, &[]);
    let mut run = |now_ms| {
        wind(&mut timer, now_ms);
        // A save begins, is written, and its outcome is taken.
        timer.scheduler.advance(now_ms + 1001);
        timer.writes.round(now_ms + 1001);
        wind(&mut timer, now_ms + 1001);
    };
    run(start);
    run(start + 4000);
    let proven = fixture.broker.store.appended();
    run(start + 18_000);
    assert_eq!(delivered(&fixture), ["a", "b"]);
    timer.stop();
    fixture.broker.store.start_following().unwrap();
    crate::replication::cut_log(
        &fixture.broker.tables,
        &fixture.broker.delivery,
        &fixture.broker.runtime,
        proven,
    );
    fixture.broker.store.stop_following().unwrap();
    assert_eq!(delivered(&fixture), ["a"]);
    // The queue has grown again when this broker is master the next time.
    put(&fixture, "c", start + 22_500, &[]);
    put(&fixture, "d", start + 23_500, &[]);
    clock.set(start + 20_000);
    let mut timer = scheduler(&fixture, |_| {});
    wind(&mut timer, start + 30_000);
    assert_eq!(delivered(&fixture), ["a", "b", "c", "d"]);
    timer.stop();
}

#[test]
fn slaves_are_told_of_no_message_that_still_waits() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut timer = scheduler(&fixture, |_| {});
    put(&fixture, "a", start + 500, &[]);
    wind(&mut timer, start);
    wind(&mut timer, start + 2_100);
    assert_eq!((told(&fixture), delivered(&fixture)), ((start + 2_000, 1), vec!["a".to_owned()]));
    // They come after their second is over, and the first cannot be delivered: the log takes nothing.
    put(&fixture, "late", start + 700, &[]);
    put(&fixture, "later", start + 900, &[]);
    fixture.broker.store.start_following().unwrap();
    timer.scheduler.advance(start + 2_200);
    assert_eq!(told(&fixture), (start + 2_000, 1));
    timer.scheduler.advance(start + 4_200);
    assert_eq!(told(&fixture), (start + 2_000, 1), "a slave must deliver both");
    fixture.broker.store.stop_following().unwrap();
    wind(&mut timer, start + 6_000);
    assert_eq!((told(&fixture), delivered(&fixture).len()), ((start + 6_000, 3), 3));
}
