//! Which part of the commit log timed messages still need: the wheel only refers to their records.

use std::sync::atomic::Ordering;

use store::UnconsumedPolicy;

use crate::parts::{Delivery, Runtime};

/// Milliseconds behind the clock from which on the timer counts as late.
const BEHIND_MS: i64 = 60_000;

/// Returns the age in milliseconds at which files of the commit log expire: `fileReservedTime`, or more while timed
/// messages are pending. Then it is at least twice the longest time a record stays in the wheel, which was half of
/// `fileReservedTime` when the messages were added. While overdue messages are being delivered, no file expires by
/// age. With `timerStopDequeue` they are not delivered, and files expire.
pub(super) fn reserved_ms(delivery: &Delivery, runtime: &Runtime, now_ms: i64) -> i64 {
    let (settings, timer) = (&runtime.config.retention, &delivery.timer);
    // Zero when timed messages are disabled, and until the timer is recovered.
    let read_ms = timer.read_ms.load(Ordering::Acquire);
    // The latest slot is checked besides the count, which is too low when a message was cancelled twice.
    let in_wheel = timer.last_ms.load(Ordering::Acquire) >= read_ms.max(1);
    if !in_wheel && timer.pending.load(Ordering::Relaxed) == 0 {
        return settings.reserved_ms;
    }
    let is_late = read_ms > 0 && now_ms.saturating_sub(read_ms) > BEHIND_MS;
    if is_late && !runtime.config.timers.stop_dequeue && settings.unconsumed != UnconsumedPolicy::Drop {
        return i64::MAX;
    }
    let window_ms = timer.window_ms.load(Ordering::Acquire);
    settings.reserved_ms.max(window_ms.saturating_mul(2))
}
