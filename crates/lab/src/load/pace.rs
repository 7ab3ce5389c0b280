//! When requests are due in an open loop.

/// Requests of a high rate are due together at the ends of intervals of this many nanoseconds.
const GRAIN_NS: u64 = 50_000;

/// A schedule of evenly spaced requests. Latency counts from the times it gives, whatever the answers do.
#[derive(Clone, Debug)]
pub struct Pace {
    per_second: f64,
    issued: u64,
}

impl Pace {
    /// A schedule of `per_second` requests, the first due at once.
    #[must_use]
    pub fn new(per_second: f64) -> Self {
        Self { per_second, issued: 0 }
    }

    /// Takes the next request if it is due by `now_ns`; returns its intended send time.
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns();
        if due_ns > now_ns {
            return None;
        }
        self.issued += 1;
        Some(due_ns)
    }

    /// When the next request is due.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        let due = self.issued as f64 * 1e9 / self.per_second;
        (due as u64).div_ceil(GRAIN_NS) * GRAIN_NS
    }
}
