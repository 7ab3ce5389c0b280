//! The search of a pop through messages that do not match.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes of index units and records that a request reads without a match before its client is answered.
pub(super) const SEARCH_BYTES_MAX: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// Most concurrent searches in the disk pool. Pulls and pops whose messages are not in memory have the rest of its
/// queue.
pub(super) const SEARCHES_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// The search of a request, over all its slices until the request is answered or suspended.
#[derive(Default)]
pub(super) struct Search {
    /// Bytes of index units and records that were read without a match.
    pub bytes: u64,
    permit: Option<Permit>,
}

impl Search {
    /// Counts a search that continues in the disk pool, until the search is dropped. Returns false if there are too
    /// many searches, or this search has read too much.
    pub(super) fn admit(&mut self, searches: &Arc<AtomicUsize>) -> bool {
        if self.permit.is_none() {
            self.permit = Permit::take(searches);
        }
        self.permit.is_some() && self.bytes < SEARCH_BYTES_MAX
    }
}

/// Counts a search in the disk pool until it is dropped.
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn take(searches: &Arc<AtomicUsize>) -> Option<Self> {
        let before = searches.fetch_add(1, Ordering::Relaxed);
        // Dropped, and so given back, when the bound was reached before.
        let permit = Self(searches.clone());
        (before < SEARCHES_MAX).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
