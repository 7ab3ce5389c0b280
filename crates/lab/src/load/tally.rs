//! The running counts of a tool: connections add to them, the printer reads them.

use super::{Latency, Refusal, Snapshot};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start. The atomics are plain counters; nothing is published through them.
#[derive(Debug, Default)]
pub struct Tally {
    succeeded: AtomicU64,
    messages: AtomicU64,
    send_failed: AtomicU64,
    response_failed: AtomicU64,
    bytes: AtomicU64,
    micros: AtomicU64,
    micros_max: AtomicU64,
    latency: Mutex<Latency>,
    /// Lateness of the requests of an open loop because of this process, microseconds.
    late: Mutex<Latency>,
    /// Counts at the end of the warm-up.
    from: Mutex<Option<Snapshot>>,
    /// The first refusal since the last call of `take_refusal`.
    refusal: Mutex<Option<Refusal>>,
}

impl Tally {
    /// Counts answered requests of `messages_each` messages by their latencies in microseconds.
    pub fn answered(&self, micros: &[u64], messages_each: u64) {
        if micros.is_empty() {
            return;
        }
        let count = micros.len() as u64;
        let max = micros.iter().copied().max().unwrap_or_default();
        let mut latency = self.latency.lock().expect("recording does not panic");
        micros.iter().for_each(|micros| latency.record(*micros));
        drop(latency);
        self.succeeded.fetch_add(count, Relaxed);
        self.messages.fetch_add(count * messages_each, Relaxed);
        self.micros.fetch_add(micros.iter().sum(), Relaxed);
        self.micros_max.fetch_max(max, Relaxed);
    }

    /// Adds the times in microseconds that requests without an answer waited. They count in the distribution only; the
    /// means and maxima of the scripts are about successes.
    pub fn expired(&self, micros: &[u64]) {
        if !micros.is_empty() {
            let mut latency = self.latency.lock().expect("recording does not panic");
            micros.iter().for_each(|micros| latency.record(*micros));
        }
    }

    /// Counts a one-way request with its messages and the bytes of their bodies. It has no latency.
    pub fn went(&self, messages: u64, bytes: u64) {
        self.succeeded.fetch_add(1, Relaxed);
        self.messages.fetch_add(messages, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes of bodies in acknowledged requests.
    pub fn stored_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Bytes of bodies in acknowledged requests.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Records how late requests of an open loop were sent, microseconds.
    pub fn late(&self, micros: &[u64]) {
        if !micros.is_empty() {
            let mut late = self.late.lock().expect("recording does not panic");
            micros.iter().for_each(|micros| late.record(*micros));
        }
    }

    /// Returns the latencies, and how late requests were sent, since the last call.
    pub fn take_latency(&self) -> (Latency, Latency) {
        let take = |latency: &Mutex<Latency>| {
            std::mem::take(&mut *latency.lock().expect("recording does not panic"))
        };
        (take(&self.latency), take(&self.late))
    }

    /// Counts requests without an answer: no connection, or no answer in time.
    pub fn unanswered(&self, count: u64) {
        self.send_failed.fetch_add(count, Relaxed);
    }

    /// Counts requests answered with an error code.
    pub fn refused(&self, count: u64) {
        self.response_failed.fetch_add(count, Relaxed);
    }

    /// Records the answer to a refused request, unless one is recorded already.
    pub fn refused_with(&self, code: i32, remark: Option<&str>) {
        let mut first = self.refusal.lock().expect("nothing panics while it is held");
        first.get_or_insert_with(|| Refusal::new(code, remark));
    }

    /// Returns the first refusal since the last call.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.refusal.lock().expect("nothing panics while it is held").take()
    }

    /// The counts at this time; `at_ms` is the time by the caller's clock.
    pub fn snapshot(&self, at_ms: u64) -> Snapshot {
        Snapshot {
            at_ms,
            succeeded: self.succeeded.load(Relaxed),
            messages: self.messages.load(Relaxed),
            send_failed: self.send_failed.load(Relaxed),
            response_failed: self.response_failed.load(Relaxed),
            micros: self.micros.load(Relaxed),
            micros_max: self.micros_max.load(Relaxed),
        }
    }

    /// Returns the largest latency since the last call, microseconds.
    pub fn take_max(&self) -> u64 {
        self.micros_max.swap(0, Relaxed)
    }

    /// Ends the warm-up: removes the latencies so far and keeps the counts `now`.
    pub fn measure_from(&self, now: Snapshot) {
        *self.from.lock().expect("nothing panics while it is held") = Some(now);
        self.latency.lock().expect("recording does not panic").clear();
        self.micros_max.store(0, Relaxed);
    }

    /// The counts at the end of the warm-up.
    pub fn measured_from(&self) -> Option<Snapshot> {
        *self.from.lock().expect("nothing panics while it is held")
    }

    /// A copy of the latencies so far.
    pub fn latency(&self) -> Latency {
        self.latency.lock().expect("recording does not panic").clone()
    }
}
