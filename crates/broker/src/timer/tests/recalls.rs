//! A message is never delivered when its recall was answered with success, and is delivered when the recall was refused.

use std::sync::Arc;

use net::{ConnectionHandle, Service as _};
use wire::codes::request;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::recall::RecallHandle;

use super::*;
use crate::config::Config;
use crate::remoting::{Dispatcher, Port};
use crate::testing::{ADDRESS, answers};

fn with_recalls(change: impl FnOnce(&mut Config)) -> Fixture {
    let fixture = Fixture::with(|config| {
        config.timers.recall = true;
        change(config);
    });
    fixture.queue("Real", 0);
    fixture.queue(names::TIMER_TOPIC, 0);
    fixture
}

/// Changes settings while the broker runs.
fn set(fixture: &Fixture, change: impl FnOnce(&mut Config)) {
    let mut config = Config::clone(&fixture.broker.runtime.config);
    change(&mut config);
    fixture.broker.runtime.config.replace(config).unwrap();
}

fn handle(fixture: &Fixture, time_ms: i64, id: &str) -> String {
    let mut handle = Vec::new();
    RecallHandle::append(
        &mut handle,
        "Real",
        &fixture.broker.runtime.config.broker_name,
        time_ms,
        id.as_bytes(),
    );
    String::from_utf8(handle).unwrap()
}

fn recall(fixture: &Fixture, time_ms: i64, id: &str) -> (i32, String) {
    let handle = handle(fixture, time_ms, id);
    let fields = [("producerGroup", "PG"), ("topic", "Real"), ("recallHandle", handle.as_str())];
    let (code, remark, _) = fixture.ask(request::RECALL_MESSAGE, &fields, b"");
    (code, remark)
}

fn stored(fixture: &Fixture) -> u64 {
    fixture.queue(names::TIMER_TOPIC, 0).index.max().get()
}

#[test]
fn a_recall_that_would_not_be_looked_at_is_refused() {
    let fixture = with_recalls(|config| config.timers.stop_enqueue = true);
    let start = start_ms(&fixture);
    let remark = "recall failed, timed messages are not added to the wheel, timerStopEnqueue is true";
    assert_eq!(recall(&fixture, start + 1, "x"), (1, remark.to_owned()));
    assert_eq!(stored(&fixture), 0);
    set(&fixture, |config| config.timers.stop_enqueue = false);
    assert_eq!(recall(&fixture, start + 1, "x"), (0, String::new()));
    assert_eq!(stored(&fixture), 1);
}

#[test]
fn a_recall_counts_when_nothing_more_is_added_from_then_on() {
    let fixture = with_recalls(|_| {});
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "gone", start + 500, &[]);
    put(&fixture, "kept", start + 600, &[]);
    wind(&mut scheduler, start - 60_000);
    assert_eq!(recall(&fixture, start + 1, "gone").0, 0);
    set(&fixture, |config| config.timers.stop_enqueue = true);
    wind(&mut scheduler, start + 1000);
    assert_eq!(delivered(&fixture), ["kept"]);
    put(&fixture, "later", start + 700, &[]);
    wind(&mut scheduler, start + 2000);
    assert_eq!(delivered(&fixture), ["kept"], "the setting counts again");
    scheduler.stop();
}

#[test]
fn a_recall_that_comes_too_late_is_not_stored() {
    let fixture = with_recalls(|_| {});
    let start = start_ms(&fixture);
    fixture.broker.delivery.timer.recall_order().delivered_ms = start + 1;
    let late = (604, "recall failed, timestamp invalid".to_owned());
    assert_eq!((recall(&fixture, start + 1, "x"), stored(&fixture)), (late, 0));
    // The late recall is sent together with one that comes in time.
    let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    for (opaque, time_ms) in [(1, start + 1), (2, start + 2)] {
        let mut bytes = Vec::new();
        let writer =
            FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, request::RECALL_MESSAGE, opaque));
        let writer = writer.text("producerGroup", "PG").text("topic", "Real");
        writer.text("recallHandle", &handle(&fixture, time_ms, "y")).finish(b"");
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
    }
    dispatcher.end(&mut read_batch, &peer, &mut out);
    assert_eq!(answers(out), [(604, 1), (0, 2)]);
    assert_eq!((stored(&fixture), fixture.broker.delivery.timer.recall_order().recalled_end), (1, 1));
}

#[test]
fn a_recall_that_rolls_together_with_its_message_counts() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |config| config.roll_window_slots = 10);
    wind(&mut scheduler, start);
    put(&fixture, "gone", start + 15_345, &[]);
    wind(&mut scheduler, start + 500);
    put(&fixture, "1", start + 15_345, &[(key::TIMER_DEL_UNIQKEY, "gone")]);
    // The message rolls to its last slot, and both slots are in memory.
    for ms in (1000..=11_000).step_by(500) {
        wind(&mut scheduler, start + ms);
    }
    // Deliveries had stopped: both messages are due at once.
    wind(&mut scheduler, start + 16_000);
    assert_eq!(delivered(&fixture), [] as [String; 0]);
    assert_eq!(scheduler.pending, 0);
    scheduler.stop();
}

#[test]
fn a_cancelled_message_is_counted_once() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    let pending = || fixture.broker.delivery.timer.pending.load(Ordering::Relaxed);
    put(&fixture, "gone", start + 100, &[]);
    put(&fixture, "kept", start + 200, &[]);
    put(&fixture, "far", start + 60_000, &[]);
    wind(&mut scheduler, start - 60_000);
    assert_eq!(pending(), 3);
    put(&fixture, "1", start + 100, &[(key::TIMER_DEL_UNIQKEY, "gone")]);
    wind(&mut scheduler, start - 50_000);
    assert_eq!(pending(), 2);
    wind(&mut scheduler, start + 1000);
    assert_eq!((delivered(&fixture), pending()), (vec!["kept".to_owned()], 1));
    scheduler.stop();
}

#[test]
fn the_window_follows_the_time_the_log_is_kept() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    wind(&mut scheduler, start);
    let window_ms = || fixture.broker.delivery.timer.window_ms.load(Ordering::Relaxed);
    let before_ms = window_ms();
    assert_eq!(before_ms, fixture.broker.runtime.config.retention.reserved_ms / 2);
    set(&fixture, |config| config.retention.reserved_ms = 20_000);
    put(&fixture, "far", start + 33_345, &[]);
    for ms in (0..=33_500).step_by(500) {
        wind(&mut scheduler, start + ms);
    }
    let (_, text, _) = fixture.messages("Real", 0).remove(0);
    assert_eq!(properties::get_str(&text, key::TIMER_ROLL_TIMES), Some("3"));
    assert_eq!(window_ms(), before_ms, "what was added before may still wait so long");
    scheduler.stop();
}
