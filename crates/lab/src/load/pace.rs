//! The times at which requests of an open loop are due.

/// Length in nanoseconds of the intervals at whose ends the requests of a high rate are due together.
const GRAIN_NS: u64 = 50_000;

/// A schedule of requests. Latency is measured from the scheduled times, whether answers come or not.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Requests per second at the beginning.
    per_second: f64,
    /// Growth of the rate per second, in requests per second, and the seconds after which the growth ends.
    growth: (f64, f64),
    /// When the first request is due, nanoseconds of the run.
    origin_ns: u64,
    issued: u64,
}

impl Pace {
    /// A schedule of `per_second` requests, the first due at once.
    pub fn new(per_second: f64) -> Self {
        Self { per_second, growth: (0.0, 0.0), origin_ns: 0, issued: 0 }
    }

    /// A rate that grows (or falls) evenly from `first` to `last` within `seconds`, and then stays.
    pub fn ramp(first: f64, last: f64, seconds: f64) -> Self {
        Self { growth: ((last - first) / seconds, seconds), ..Self::new(first) }
    }

    /// Returns the same schedule, beginning at `origin_ns` of the run.
    pub fn starting(self, origin_ns: u64) -> Self {
        Self { origin_ns, ..self }
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

    /// When the next request is due, nanoseconds of the run.
    pub fn due_ns(&self) -> u64 {
        let due = self.seconds_until(self.issued as f64) * 1e9;
        self.origin_ns + (due as u64).div_ceil(GRAIN_NS) * GRAIN_NS
    }

    /// Seconds after which `issued` requests are due: the inverse of the integral of the rate.
    fn seconds_until(&self, issued: f64) -> f64 {
        let (growth, end) = self.growth;
        if growth == 0.0 {
            return issued / self.per_second;
        }
        let until_end = self.per_second * end + growth * end * end / 2.0;
        if issued > until_end {
            return end + (issued - until_end) / (self.per_second + growth * end);
        }
        let root = (self.per_second * self.per_second + 2.0 * growth * issued).max(0.0).sqrt();
        2.0 * issued / (self.per_second + root)
    }
}
