//! Properties of stored timed messages, and of their copies. Pure.

use store::timer::due_times;
use wire::properties::{self, key};
use wire::record::RecordView;

use crate::names;

/// The fields of a record of the timer queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timed<'a> {
    /// Wheel time in milliseconds since the epoch: the start of the slot the message is due in.
    pub out_ms: i64,
    /// When the message is due, in milliseconds since the epoch.
    pub due_ms: i64,
    /// Topic the message is delivered to.
    pub topic: &'a str,
    /// Queue the message is delivered to.
    pub queue_id: i32,
    /// Unique key of the message.
    pub key: Option<&'a [u8]>,
    /// Key of the cancelled message, if the message cancels another.
    pub cancels: Option<&'a [u8]>,
}

impl<'a> Timed<'a> {
    /// Reads the fields of a record.
    ///
    /// # Errors
    /// Text about a missing property, or about a record of another topic.
    pub(super) fn of(record: &RecordView<'a>, precision_ms: i64) -> Result<Self, &'static str> {
        if record.topic() != names::TIMER_TOPIC.as_bytes() {
            return Err("it is not of the timer topic");
        }
        let text = record.properties();
        let number = |name| properties::get_str(text, name).and_then(|value| value.parse::<i64>().ok());
        let out_ms = number(key::TIMER_OUT_MS).ok_or("it names no delivery time")?;
        let queue_id = number(key::REAL_QUEUE_ID).and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            out_ms,
            due_ms: due_ms(text, out_ms, record.store_timestamp(), precision_ms),
            topic: properties::get_str(text, key::REAL_TOPIC).ok_or("it names no real topic")?,
            queue_id: queue_id.ok_or("it names no real queue")?,
            key: properties::get(text, key::UNIQ_KEY),
            cancels: properties::get(text, key::TIMER_DEL_UNIQKEY),
        })
    }
}

/// Returns the due time of a message, in milliseconds since the epoch. Java stores only the start of the slot, by
/// default a second (`TIMER_OUT_MS`). The requested time lies at the end of the slot at the latest, and is still in
/// the properties. A relative delay counts from the store time, which is slightly later than Java's start time, so
/// the result is kept within the slot.
fn due_ms(text: &[u8], out_ms: i64, store_ms: i64, precision_ms: i64) -> i64 {
    let number = |name| properties::get_str(text, name).and_then(|value| value.parse::<i64>().ok());
    let (first, last) = due_times(out_ms, precision_ms).into_inner();
    let relative = || {
        let delay_ms = match number(key::TIMER_DELAY_SEC) {
            Some(seconds) => seconds.saturating_mul(1000),
            None => number(key::TIMER_DELAY_MS)?,
        };
        Some(store_ms.saturating_add(delay_ms))
    };
    let absolute = || number(key::TIMER_DELIVER_MS);
    // A rolled copy has another store time; it got an absolute time when it was rolled.
    let rolled = properties::get(text, key::TIMER_ROLL_TIMES).is_some();
    let asked = if rolled { absolute().or(Some(last)) } else { relative().or_else(absolute) };
    asked.unwrap_or(last).clamp(first, last)
}

/// The time a delay or time in property `name` stands for when the message is sent at `now_ms`; `None` when the value is no
/// number (`HookUtils.transformTimerMessage`).
pub(super) fn asked_ms(name: &str, value: &[u8], now_ms: i64) -> Option<i64> {
    let number: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some(match name {
        key::TIMER_DELAY_SEC => now_ms.saturating_add(number.saturating_mul(1000)),
        key::TIMER_DELAY_MS => now_ms.saturating_add(number),
        _ => number,
    })
}

/// Writes the properties of a delivered copy, or with `roll` of a rolled copy.
pub(super) fn copy_properties(
    out: &mut Vec<u8>,
    text: &[u8],
    timed: &Timed<'_>,
    (enqueue_ms, dequeue_ms): (i64, i64),
    roll: bool,
) {
    let mut digits = (itoa::Buffer::new(), itoa::Buffer::new());
    let times = [
        (key::TIMER_ENQUEUE_MS, digits.0.format(enqueue_ms).as_bytes()),
        (key::TIMER_DEQUEUE_MS, digits.1.format(dequeue_ms).as_bytes()),
    ];
    if !roll {
        return properties::rewrite(out, text, &[], &times);
    }
    let number = |name| properties::get_str(text, name).and_then(|value| value.parse::<i64>().ok());
    let rolls = (number(key::TIMER_ROLL_TIMES).unwrap_or(0) + 1).to_string();
    let due = timed.due_ms.to_string();
    let [enqueued, dequeued] = times;
    let added = [
        enqueued,
        dequeued,
        (key::TIMER_ROLL_TIMES, rolls.as_bytes()),
        (key::TIMER_DELIVER_MS, due.as_bytes()),
    ];
    properties::rewrite(out, text, &[], &added);
}
