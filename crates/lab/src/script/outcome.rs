//! The result of a run as JSON.

use super::line;
use crate::load::{Latency, Percentiles, Snapshot};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Totals of a run, without its warm-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Messages acknowledged.
    pub messages: u64,
    /// Length of the measured part in seconds.
    pub seconds: f64,
    /// Messages per second.
    pub tps: f64,
    /// Failed requests: without an answer, or answered with an error code.
    pub failures: u64,
    /// Requests without an answer.
    pub send_failed: u64,
    /// Requests answered with an error code.
    pub response_failed: u64,
    /// Latency figures in microseconds.
    pub latency_us: Percentiles,
    /// Messages acknowledged in every second.
    pub series: Vec<u64>,
}

impl Outcome {
    /// Computes the result from the counts at the start and the end of the measured part.
    pub fn new(first: &Snapshot, last: &Snapshot, elapsed: Duration, latency: &Latency) -> Self {
        let messages = last.messages - first.messages;
        let send_failed = last.send_failed - first.send_failed;
        let response_failed = last.response_failed - first.response_failed;
        Self {
            messages,
            seconds: elapsed.as_secs_f64(),
            tps: line::rate(messages, elapsed),
            failures: send_failed + response_failed,
            send_failed,
            response_failed,
            latency_us: latency.percentiles(),
            series: Vec::new(),
        }
    }

    /// Writes the result as one JSON object.
    ///
    /// # Errors
    /// [`crate::Error::File`] when the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), crate::Error> {
        let text = serde_json::to_string_pretty(self).expect("numbers become JSON");
        crate::archive::write_whole(path, &(text + "\n"))
    }
}
