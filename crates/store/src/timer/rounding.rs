//! Rounding of times to the slots of the timer wheel (`timerPrecisionMs`). Times are milliseconds since the epoch.
//!
//! | time of a message | slot |
//! |---|---|
//! | due time `d` | the slot that ends with `d`: its start, the *wheel time*, is below `d` |
//! | wheel time `w` | due times from `w + 1` to `w + precision` |

use std::ops::RangeInclusive;

/// Returns the start of the slot that contains a time.
pub fn slot_start(time_ms: i64, precision_ms: i64) -> i64 {
    time_ms.div_euclid(precision_ms) * precision_ms
}

/// Returns the wheel time of a message due at `due_ms` (`HookUtils.transformTimerMessage`).
pub fn wheel_time(due_ms: i64, precision_ms: i64) -> i64 {
    slot_start(due_ms - 1, precision_ms)
}

/// Returns the due times of messages with this wheel time.
pub fn due_times(wheel_ms: i64, precision_ms: i64) -> RangeInclusive<i64> {
    wheel_ms.saturating_add(1)..=wheel_ms.saturating_add(precision_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_due_time_lies_in_the_slot_that_ends_with_it() {
        for (due_ms, wheel_ms) in [(1, 0), (999, 0), (1000, 0), (1001, 1000), (2000, 1000), (0, -1000)] {
            assert_eq!(wheel_time(due_ms, 1000), wheel_ms, "{due_ms}");
            assert!(due_times(wheel_ms, 1000).contains(&due_ms));
            assert_eq!(slot_start(wheel_ms, 1000), wheel_ms);
        }
        assert_eq!(*due_times(i64::MAX - 1, 1000).end(), i64::MAX);
    }
}
