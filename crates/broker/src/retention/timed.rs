//! What timed messages still need of the log: a message in the wheel is there by its record alone.

use std::sync::atomic::Ordering;

use store::Unconsumed;

use crate::broker::Broker;

/// Deliveries that are so late are being caught up on.
const BEHIND_MS: i64 = 60_000;

/// How old files of the log must be to go: `fileReservedTime`, and while timed messages wait twice the longest time a
/// record waits, which was half of that setting as it was when they were added. While overdue messages are delivered
/// none goes by its age, but with `timerStopDequeue` nobody delivers them.
pub(super) fn reserved_ms(broker: &Broker, now_ms: i64) -> i64 {
    let (settings, timer) = (&broker.config.retention, &broker.timer);
    // Without timers this is zero, and before they are recovered.
    let read_ms = timer.read_ms.load(Ordering::Acquire);
    // The count may be too low by messages that were cancelled twice.
    let in_wheel = timer.last_ms.load(Ordering::Acquire) >= read_ms.max(1);
    if !in_wheel && timer.pending.load(Ordering::Relaxed) == 0 {
        return settings.reserved_ms;
    }
    let is_late = read_ms > 0 && now_ms.saturating_sub(read_ms) > BEHIND_MS;
    if is_late && !broker.config.timers.stop_dequeue && settings.unconsumed != Unconsumed::Drop {
        return i64::MAX;
    }
    let window_ms = timer.window_ms.load(Ordering::Acquire);
    settings.reserved_ms.max(window_ms.saturating_mul(2))
}
