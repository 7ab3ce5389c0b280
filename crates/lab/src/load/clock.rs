//! The clock of a run: it is read once per wake-up, and every form of the time is derived from that reading.

use client::calendar;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The start of a run, on the monotonic clock and on the wall clock. The wall clock is read only here, so that a step
/// of it does not disturb a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    epoch_us: u64,
}

impl Clock {
    /// Starts the clock of a run.
    #[must_use]
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), epoch_us: u64::try_from(since.as_micros()).unwrap_or_default() }
    }

    /// Makes the clock report wall-clock times of another machine, which is `us` microseconds behind this one.
    #[must_use]
    pub fn ahead(self, us: i64) -> Self {
        Self { epoch_us: self.epoch_us.saturating_add_signed(-us), ..self }
    }

    /// Nanoseconds since the run began.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Milliseconds since 1970 at a time of the run.
    #[must_use]
    pub fn epoch_ms(&self, now_ns: u64) -> u64 {
        (self.epoch_us + now_ns / 1000) / 1000
    }

    /// Microseconds since 1970 at a time of the run.
    #[must_use]
    pub fn epoch_us(&self, now_ns: u64) -> u64 {
        self.epoch_us + now_ns / 1000
    }

    /// Milliseconds since the begin of the month at a time of the run.
    #[must_use]
    pub fn month_ms(&self, now_ns: u64) -> u32 {
        calendar::month_ms(self.epoch_ms(now_ns))
    }
}
