//! The counts of a load at one time.

/// Counts since the start, at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Time of the sample in milliseconds, by any clock.
    pub at_ms: u64,
    /// Requests that were answered with success.
    pub succeeded: u64,
    /// Messages in the successful requests.
    pub messages: u64,
    /// Requests without an answer.
    pub send_failed: u64,
    /// Requests answered with an error code.
    pub response_failed: u64,
    /// Sum of the latencies of successful requests, microseconds.
    pub micros: u64,
    /// Largest latency so far, microseconds.
    pub micros_max: u64,
}
