//! Lines and rates as the scripts print and compute them.

use super::line::CheckWindow;
use super::rates::{Rates, Window};
use super::sends::acknowledged;
use super::*;
use crate::generator::Checks;
use crate::load::{Snapshot, Tally};
use std::time::Duration;

fn sample(second: u64) -> Snapshot {
    Snapshot {
        at_ms: second * 1000,
        succeeded: second * 100,
        messages: second * 1600,
        send_failed: second / 5,
        response_failed: 0,
        micros: second * 100 * 1349,
        micros_max: 200_999,
    }
}

fn window(seconds: std::ops::Range<u64>) -> Window {
    let mut window = Window::default();
    seconds.for_each(|second| window.push(sample(second)));
    window
}

#[test]
fn a_report_needs_ten_samples() {
    assert_eq!(window(0..9).full(), None);
    let rates = window(0..10).full().unwrap();
    assert_eq!((rates.tps, rates.mps, rates.max_ms), (100, 1600, 200));
    assert_eq!(window(0..30).full().unwrap().send_failed, 5, "totals since the start");
    assert_eq!(window(0..1).partial(), None);
    assert!(window(0..2).partial().is_some());
}

#[test]
fn producer_lines() {
    let window = window(0..10);
    let rates = window.full().unwrap();
    assert_eq!(
        line::producer(0, &rates, LineFormat::V5),
        "Current Time: 1970-01-01 00:00:00,000 | Send TPS: 100 | Max RT(ms): 200 | Average RT(ms):   1.349 | \
         Send Failed: 1 | Response Failed: 0"
    );
    assert_eq!(
        line::producer(0, &rates, LineFormat::V4),
        "Current Time: 1970-01-01 00:00:00,000 Send TPS: 100 Max RT(ms): 200 Average RT(ms):   1.349 \
         Send Failed: 1 Response Failed: 0"
    );
    let last = window.last().unwrap();
    assert_eq!(
        line::producer_complete(last, Some(&rates), LineFormat::V5),
        "[Complete] Send Total: 901 | Send TPS: 100 | Max RT(ms): 200 | Average RT(ms):   1.349 | \
         Send Failed: 1 | Response Failed: 0"
    );
    assert_eq!(
        line::producer_complete(last, None, LineFormat::V5),
        "[Complete] Send Total: 901 Send Failed: 1 Response Failed: 0"
    );
    assert_eq!(
        line::batch_producer(0, &rates, 16, LineFormat::V5),
        "Current Time: 1970-01-01 00:00:00,000 | Send TPS: 100 | Send MPS: 1600 | Max RT(ms): 200 | \
         Average RT(ms):   1.349 | Average Message RT(ms):   0.084 | Send Failed: 1 | Send Message Failed: 16"
    );
    assert_eq!(
        line::batch_producer(0, &rates, 16, LineFormat::V4),
        "Current Time: 1970-01-01 00:00:00,000 Send TPS: 100 Send MPS: 1600 Max RT(ms): 200 \
         Average RT(ms):   1.349 Average Message RT(ms):   0.084 Send Failed: 1 Send Message Failed: 16"
    );
}

#[test]
fn an_idle_window_has_no_average() {
    let mut window = Window::default();
    (0..10).for_each(|second| window.push(Snapshot { at_ms: second * 1000, ..Snapshot::default() }));
    let text = line::producer(0, &window.full().unwrap(), LineFormat::V5);
    assert!(text.contains("Send TPS: 0 | Max RT(ms): 0 | Average RT(ms):     NaN |"), "{text}");
}

#[test]
fn the_result_has_the_agreed_keys() {
    let tally = Tally::default();
    tally.answered(&[100, 200, 300], 2);
    tally.unanswered(1);
    tally.refused(2);
    let first = Snapshot::default();
    let outcome = Outcome::new(&first, &tally.snapshot(5), Duration::from_secs(2), &tally.latency());
    assert_eq!((outcome.messages, outcome.tps, outcome.failures), (6, 3.0, 3));
    let value = serde_json::to_value(&outcome).unwrap();
    for key in ["messages", "seconds", "tps", "failures"] {
        assert!(value[key].is_number(), "{key}");
    }
    for key in ["avg", "p50", "p90", "p99", "p999", "p9999", "max"] {
        assert!(value["latency_us"][key].is_number(), "{key}");
    }
    assert_eq!(value["latency_us"]["max"], 300);
}

#[test]
fn every_second_has_its_rate() {
    let mut window = window(0..4);
    window.push(Snapshot { at_ms: 5_000, messages: sample(3).messages + 500, ..sample(3) });
    assert_eq!(window.take_series(), [1600, 1600, 1600, 250]);
    assert!(window.take_series().is_empty(), "what was taken is not told again");
}

#[test]
fn transaction_lines() {
    let mut rates = Rates::between(&Default::default(), &Default::default());
    (rates.tps, rates.average_ms, rates.send_failed) = (12, 1.26, 3);
    let line = |format| CheckWindow::default().line((0, format), &rates, (&Checks::default(), 7_999));
    assert_eq!(
        line(LineFormat::V5),
        "Current Time: 1970-01-01 00:00:00,000 | Send TPS:    12 | Max RT(ms):     7 | AVG RT(ms): 1.3 | \
         Send Failed: 3 | Check: 0 | UnexpectedCheck: 0 | DuplicatedCheck: 0"
    );
    assert_eq!(
        line(LineFormat::V4),
        "Current Time: 1970-01-01 00:00:00,000 Send TPS:   12 Max RT(ms):    7 AVG RT(ms):1.3 \
         Send Failed: 3 check: 0 unexpectedCheck: 0 duplicatedCheck: 0 "
    );
}

#[test]
fn a_run_of_which_nothing_was_acknowledged_is_an_error() {
    let ended = |total: Snapshot| acknowledged(&total).map_err(|error| error.to_string());
    let refused = Snapshot { response_failed: 7, send_failed: 2, ..Snapshot::default() };
    let why = "nothing was acknowledged: 7 requests were refused, 2 had no answer";
    assert_eq!(ended(refused), Err(why.to_owned()));
    assert_eq!(ended(Snapshot { messages: 1, ..refused }), Ok(()), "failures are counted");
    assert_eq!(ended(Snapshot::default()), Ok(()), "nothing was sent");
}
