//! Latencies of a run in microseconds.

use hdrhistogram::Histogram;
use serde::Serialize;

/// A distribution of latencies with three significant digits.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
}

/// The latency figures of a result, all in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Mean latency.
    pub avg: f64,
    /// Median latency.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Largest latency.
    pub max: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Makes an empty distribution.
    pub fn new() -> Self {
        Self { histogram: crate::archive::empty_histogram() }
    }

    /// Adds one latency in microseconds.
    pub fn record(&mut self, micros: u64) {
        self.histogram.saturating_record(micros);
    }

    /// Returns the distribution as a histogram.
    pub fn into_histogram(self) -> Histogram<u64> {
        self.histogram
    }

    /// Removes all latencies, at the end of a warm-up.
    pub fn clear(&mut self) {
        self.histogram.clear();
    }

    /// The latency figures of the result.
    pub fn percentiles(&self) -> Percentiles {
        if self.histogram.is_empty() {
            return Percentiles::default();
        }
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        Percentiles {
            avg: (self.histogram.mean() * 1000.0).round() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: self.histogram.max(),
        }
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Latency(us): avg {:.1} | p50 {} | p90 {} | p99 {} | p99.9 {} | p99.99 {} | max {}",
            self.avg, self.p50, self.p90, self.p99, self.p999, self.p9999, self.max
        )
    }
}
