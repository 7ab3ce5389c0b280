//! Work list of the healer: queues to check after opening, and queues whose files differ from the queue table.
//! Readers and the healer add queues. The healer ([`crate::recover`]) rebuilds them.

use crate::queue::Queue;
use crate::queue::registry::Queues;
use crate::wake::{Wake, lock};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// Progress of the healer. All fields are zero while the healer is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealProgress {
    /// Queues whose files are unchecked since the store was opened.
    pub unchecked_queues: u64,
    /// Queues that are being rebuilt from the commit log, or wait for it.
    pub lost_queues: u64,
    /// Log position that the rebuild has reached.
    pub rebuild_at: u64,
    /// Log position at which the rebuild will be done.
    pub rebuild_end: u64,
}

/// The healer's work list, and how the healer is woken and waited for.
#[derive(Default)]
pub(crate) struct LostQueues {
    pub(crate) wake: Arc<Wake>,
    pub(crate) work: Mutex<HealWork>,
    pub(crate) idle: Condvar,
}

/// Pending work of the healer.
#[derive(Default)]
pub(crate) struct HealWork {
    pub(crate) unchecked: Vec<Arc<Queue>>,
    /// Whether the log's minimum moved since the queue table recorded the queues' minimum offsets.
    pub(crate) correct_minima: bool,
    pub(crate) lost: Vec<Arc<Queue>>,
    pub(crate) retry: Option<Retry>,
    pub(crate) progress: HealProgress,
    pub(crate) is_busy: bool,
    pub(crate) stopped: bool,
}

/// When and how a failed rebuild is tried again.
#[derive(Clone, Copy)]
pub(crate) struct Retry {
    pub(crate) at: Instant,
    /// Length of the pause before it, in multiples of [`crate::Config::rebuild_pause`].
    pub(crate) pauses: u32,
    /// Unreadable bytes of a commit log file that the next attempt skips.
    pub(crate) tolerance: u64,
}

impl LostQueues {
    /// Adds queues whose files the healer checks.
    pub(crate) fn check_later(&self, queues: Vec<Arc<Queue>>, correct_minima: bool) {
        let mut work = lock(&self.work);
        work.unchecked = queues;
        work.correct_minima = correct_minima;
        work.is_busy = true;
    }

    pub(crate) fn progress(&self) -> HealProgress {
        let work = lock(&self.work);
        HealProgress {
            unchecked_queues: work.unchecked.len() as u64,
            lost_queues: work.lost.len() as u64,
            ..work.progress
        }
    }

    /// Whether some queue is lost or reported and not yet rebuilt.
    pub(crate) fn is_healing(&self, queues: &Queues) -> bool {
        !lock(&self.work).lost.is_empty() || queues.open.has_reports()
    }

    /// Waits until the healer is idle, pauses before the next attempt, or stops.
    pub(crate) fn wait_healed(&self, queues: &Queues) {
        let mut work = lock(&self.work);
        while !work.stopped && (work.is_busy || queues.open.has_reports()) {
            work = self.idle.wait(work).unwrap_or_else(|poison| poison.into_inner());
        }
    }

    /// Takes the units `from..until` of a queue out of service; the healer writes them again.
    pub(crate) fn mark_lost(&self, queue: &Arc<Queue>, from: u64, until: u64) {
        // Held while the queue and the list change, so that a rebuild that ends now does not miss this range.
        let mut work = lock(&self.work);
        if !queue.mark_lost(from, until) {
            return;
        }
        work.is_busy = true;
        if !work.lost.iter().any(|other| Arc::ptr_eq(other, queue)) {
            work.lost.push(queue.clone());
            work.retry = None;
        }
        drop(work);
        tracing::warn!(
            ?queue,
            from,
            until,
            "queue files are missing or damaged; rebuilding them from the log"
        );
        self.wake.wake();
    }
}
