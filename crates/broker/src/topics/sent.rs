//! What producers sent to a queue, counted per request. Statistics sample these counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What producers sent to one queue since it was opened.
#[derive(Default)]
pub(crate) struct Sent {
    /// Bytes of the stored records.
    pub bytes: AtomicU64,
    /// Number of requests.
    pub requests: AtomicU64,
    /// Milliseconds it took to store the messages, of all requests that took at least one.
    pub ms: AtomicU64,
}

impl Sent {
    /// Counts a request whose records have this many bytes.
    pub(crate) fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the time it took to store the messages of one request.
    pub(crate) fn took(&self, time: Duration) {
        self.ms.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
