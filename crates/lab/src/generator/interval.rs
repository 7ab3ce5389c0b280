//! The figures of generators in an interval.

use crate::archive::{LoadSecond, empty_histogram};
use crate::load::Refusal;
use hdrhistogram::Histogram;

/// The figures of one or several generators since the last call.
#[derive(Clone, Debug)]
pub struct IntervalSample {
    /// End of the interval, milliseconds since 1970.
    pub at_ms: u64,
    /// Length of the interval in milliseconds.
    pub lasted_ms: u64,
    /// Messages acknowledged.
    pub sent: u64,
    /// Bytes of the bodies of acknowledged messages.
    pub sent_bytes: u64,
    /// Requests that got no answer.
    pub failed: u64,
    /// Requests that were answered with an error code.
    pub refused: u64,
    /// Messages consumed by all groups together.
    pub consumed: u64,
    /// Bytes of the bodies of consumed messages.
    pub consumed_bytes: u64,
    /// Requests in flight at the end of the interval.
    pub in_flight: u64,
    /// Processor time of the generator, microseconds. Of several machines the highest, because one machine without
    /// headroom invalidates the load.
    pub cpu_us: u64,
    /// Send latencies, microseconds.
    pub latency: Histogram<u64>,
    /// Times from send to consumption, microseconds.
    pub end_to_end: Histogram<u64>,
    /// Lateness of the requests of an open loop, microseconds.
    pub late: Histogram<u64>,
    /// Answer to the first of the refused requests.
    pub refusal: Option<Refusal>,
}

impl Default for IntervalSample {
    fn default() -> Self {
        Self {
            at_ms: 0,
            lasted_ms: 0,
            sent: 0,
            sent_bytes: 0,
            failed: 0,
            refused: 0,
            consumed: 0,
            consumed_bytes: 0,
            in_flight: 0,
            cpu_us: 0,
            latency: empty_histogram(),
            end_to_end: empty_histogram(),
            late: empty_histogram(),
            refusal: None,
        }
    }
}

impl IntervalSample {
    /// Adds the figures of another generator for the same interval.
    pub fn add(&mut self, other: &Self) {
        self.at_ms = self.at_ms.max(other.at_ms);
        self.lasted_ms = self.lasted_ms.max(other.lasted_ms);
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.failed += other.failed;
        self.refused += other.refused;
        self.consumed += other.consumed;
        self.consumed_bytes += other.consumed_bytes;
        self.in_flight += other.in_flight;
        self.cpu_us = self.cpu_us.max(other.cpu_us);
        self.refusal = self.refusal.take().or_else(|| other.refusal.clone());
        let pairs = [
            (&mut self.latency, &other.latency),
            (&mut self.end_to_end, &other.end_to_end),
            (&mut self.late, &other.late),
        ];
        for (own, other) in pairs {
            own.add(other).expect("all histograms have the same bounds");
        }
    }

    /// The row of `load.csv` for this interval.
    pub fn second(&self) -> LoadSecond {
        let at = |histogram: &Histogram<u64>, quantile: f64| {
            if histogram.is_empty() { 0 } else { histogram.value_at_quantile(quantile) }
        };
        LoadSecond {
            at_ms: self.at_ms,
            lasted_ms: self.lasted_ms,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            failed: self.failed,
            refused: self.refused,
            consumed: self.consumed,
            consumed_bytes: self.consumed_bytes,
            in_flight: self.in_flight,
            mean_us: if self.latency.is_empty() { 0.0 } else { self.latency.mean() },
            p50_us: at(&self.latency, 0.5),
            p99_us: at(&self.latency, 0.99),
            p999_us: at(&self.latency, 0.999),
            max_us: if self.latency.is_empty() { 0 } else { self.latency.max() },
            end_to_end_p50_us: at(&self.end_to_end, 0.5),
            end_to_end_p99_us: at(&self.end_to_end, 0.99),
            end_to_end_max_us: if self.end_to_end.is_empty() { 0 } else { self.end_to_end.max() },
            lag_p99_us: at(&self.late, 0.99),
            lab_cores: self.cpu_us as f64 / 1000.0 / self.lasted_ms.max(1) as f64,
        }
    }
}
