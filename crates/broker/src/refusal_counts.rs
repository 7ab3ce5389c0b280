//! Counts of refused requests by cause.

use std::sync::atomic::{AtomicU64, Ordering};

use store::AppendError;

/// Reasons of refusing a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Writing the queues' index waits for the disk.
    Behind,
    /// The disk is full, or fuller than the configured limit.
    DiskFull,
    /// The store is fenced, since a write or flush failed.
    Fenced,
    /// The number of requests that wait for the disk pool is at its limit.
    ColdReads,
    /// The number of requests that wait for the metadata writer is at its limit.
    Changes,
    /// The number of suspended pulls is at its limit.
    HeldPulls,
    /// Any other cause: the broker stops, or the topic is being removed.
    Other,
}

/// The name of each count in the broker's runtime status, in the order of [`Cause`].
const NAMES: [(Cause, &str); 7] = [
    (Cause::Behind, "refusedBehind"),
    (Cause::DiskFull, "refusedDiskFull"),
    (Cause::Fenced, "refusedFenced"),
    (Cause::ColdReads, "refusedColdReads"),
    (Cause::Changes, "refusedChanges"),
    (Cause::HeldPulls, "refusedHeldPulls"),
    (Cause::Other, "refusedOther"),
];

/// Number of refused requests since the broker started, by cause.
#[derive(Default)]
pub(crate) struct RefusalCounts([AtomicU64; NAMES.len()]);

impl RefusalCounts {
    pub(crate) fn count(&self, cause: Cause, requests: usize) {
        self.0[cause as usize].fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// The counts, by the names they have in the broker's runtime status.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.iter().map(|(cause, name)| (*name, self.0[*cause as usize].load(Ordering::Relaxed)))
    }

    pub(crate) fn status(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.counts().map(|(name, count)| (name, count.to_string()))
    }
}

impl From<&AppendError> for Cause {
    fn from(error: &AppendError) -> Self {
        match error {
            AppendError::Busy { .. } => Self::Behind,
            AppendError::NoSpace(_) | AppendError::DiskFull { .. } => Self::DiskFull,
            AppendError::Fenced(_) => Self::Fenced,
            AppendError::Closed | AppendError::Following | AppendError::Removed { .. } => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_count() {
        let refused = RefusalCounts::default();
        for (index, (cause, name)) in NAMES.into_iter().enumerate() {
            assert_eq!(cause as usize, index, "{name} stands where its cause does");
            refused.count(cause, index + 1);
        }
        let counted: Vec<_> = refused.status().map(|(_, count)| count).collect();
        assert_eq!(counted, ["1", "2", "3", "4", "5", "6", "7"]);
    }
}
