//! Counts sampled once a second, and the rates between the first and the last of ten samples, as the benchmark
//! scripts compute them (`org.apache.rocketmq.example.benchmark.Producer`).

use crate::load::Snapshot;
use std::collections::VecDeque;

/// Number of samples kept. A periodic line needs all of them.
pub const SAMPLES: usize = 10;

/// The last samples, over which rates are computed.
#[derive(Clone, Debug, Default)]
pub struct Window {
    samples: VecDeque<Snapshot>,
    /// Messages per second between consecutive samples, one entry per second since the start.
    series: Vec<u64>,
}

/// Rates between two samples. Failure counts are totals since the start, as in the scripts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Successful requests per second, truncated.
    pub tps: u64,
    /// Successful messages per second, truncated.
    pub mps: u64,
    /// Largest latency since the start, whole milliseconds.
    pub max_ms: u64,
    /// Mean latency of successful requests, milliseconds; NaN when there were none.
    pub average_ms: f64,
    /// Mean latency per message, milliseconds.
    pub average_message_ms: f64,
    /// Requests without an answer since the start.
    pub send_failed: u64,
    /// Requests answered with an error code since the start.
    pub response_failed: u64,
}

impl Window {
    /// Adds a sample and drops the eleventh.
    pub fn push(&mut self, sample: Snapshot) {
        if let Some(last) = self.samples.back() {
            self.series.push(Rates::between(last, &sample).mps);
        }
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// The rates over the window; `None` until it holds [`SAMPLES`] samples.
    pub fn full(&self) -> Option<Rates> {
        if self.samples.len() < SAMPLES { None } else { self.partial() }
    }

    /// The rates over the samples so far; `None` with fewer than two.
    pub fn partial(&self) -> Option<Rates> {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) if self.samples.len() >= 2 => Some(Rates::between(first, last)),
            _ => None,
        }
    }

    /// Returns the messages per second between consecutive samples so far, and clears them.
    pub fn take_series(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.series)
    }

    /// The newest sample.
    pub fn last(&self) -> Option<&Snapshot> {
        self.samples.back()
    }
}

impl Rates {
    /// The rates from `first` to `last`.
    pub fn between(first: &Snapshot, last: &Snapshot) -> Self {
        let elapsed_ms = last.at_ms.saturating_sub(first.at_ms).max(1);
        let succeeded = last.succeeded - first.succeeded;
        let messages = last.messages - first.messages;
        let millis = (last.micros - first.micros) as f64 / 1000.0;
        Self {
            tps: succeeded * 1000 / elapsed_ms,
            mps: messages * 1000 / elapsed_ms,
            max_ms: last.micros_max / 1000,
            average_ms: millis / succeeded as f64,
            average_message_ms: millis / messages as f64,
            send_failed: last.send_failed,
            response_failed: last.response_failed,
        }
    }
}
