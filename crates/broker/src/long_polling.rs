//! Suspended pulls: pulls that wait for the next message of their queue (long polling).
//!
//! A suspended pull stands in the list of its queue, which the next append to the queue takes, and in the table of long polling
//! timeouts, which a task of the broker works off. Whoever takes a pull out of the list answers it or puts it back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use net::ConnectionHandle;
use tokio::sync::Notify;
use wire::body::group::SubscriptionGroupConfig;

use crate::pull::Pull;
use crate::topics::Queue;

/// Most suspended pulls of a broker: twenty groups that wait at 50,000 queues. A further pull is answered as busy; Java has no
/// bound. Suspended pulls are not charged to their connections, which are read on.
pub const SUSPENDED_MAX: usize = 1_000_000;
/// All suspended pulls together take at most 256 MiB, not counting filters that pulls bring.
const _: () = assert!(size_of::<SuspendedPull>() * SUSPENDED_MAX <= 256 << 20);

/// A suspended pull.
pub struct SuspendedPull {
    /// The connection to answer.
    pub(crate) peer: Arc<ConnectionHandle>,
    /// The pull to run again; its offset moves past messages that did not match.
    pub(crate) pull: Pull,
    /// Configuration of the pull's group at the time of the pull.
    pub(crate) group: Arc<SubscriptionGroupConfig>,
    /// True when the pull brought its filter, so that the group's present subscription does not replace it.
    pub(crate) brings_filter: bool,
    /// Long polling timeout: when to answer without a message, milliseconds since 1970.
    pub(crate) deadline_ms: i64,
    /// Tells apart pulls with the same timeout.
    pub(crate) id: u64,
}

/// The suspended pulls of one queue.
#[derive(Default)]
pub struct SuspendedPulls {
    /// Number of suspended pulls. An appender that reads 0 after publishing the queue's new end need not wake anybody: a pull is
    /// counted before it looks at the queue's end for the last time.
    waiting: AtomicUsize,
    pulls: Mutex<Vec<SuspendedPull>>,
}

impl SuspendedPulls {
    /// True when a pull may be suspended at the queue.
    pub fn is_waited_on(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Takes all suspended pulls out of the list.
    pub fn take(&self) -> Vec<SuspendedPull> {
        let mut pulls = self.pulls();
        self.waiting.fetch_sub(pulls.len(), Ordering::SeqCst);
        std::mem::take(&mut *pulls)
    }

    /// Puts a pull into the list. The caller must look at the queue's end afterwards.
    pub(crate) fn add(&self, pull: SuspendedPull) {
        let mut pulls = self.pulls();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        pulls.push(pull);
        fence(Ordering::SeqCst);
    }

    /// Takes the pull with this id out of the list; `None` when somebody else did.
    pub(crate) fn take_one(&self, id: u64) -> Option<SuspendedPull> {
        let mut pulls = self.pulls();
        let position = pulls.iter().position(|pull| pull.id == id)?;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Some(pulls.swap_remove(position))
    }

    fn pulls(&self) -> MutexGuard<'_, Vec<SuspendedPull>> {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Table {
    by_deadline: BTreeMap<(i64, u64), Weak<Queue>>,
    next_id: u64,
}

/// The long polling timeouts of all suspended pulls of a broker.
#[derive(Default)]
pub struct PollTimeouts {
    table: Mutex<Table>,
    /// Signalled when a timeout earlier than all others was added.
    pub(crate) earlier: Notify,
}

impl PollTimeouts {
    /// Suspends a pull: puts it into its queue's list and returns its id; `None` when [`SUSPENDED_MAX`] is reached.
    ///
    /// The caller must look at the queue's end once more afterwards, because a message may have come in between.
    pub fn hold(&self, mut pull: SuspendedPull) -> Option<u64> {
        let key = {
            let mut table = self.table();
            if table.by_deadline.len() >= SUSPENDED_MAX {
                return None;
            }
            table.next_id += 1;
            (pull.deadline_ms, table.next_id)
        };
        pull.id = key.1;
        let queue = pull.pull.queue.clone();
        // The list comes first. Were the pull in the table first, its timeout could fire while the pull is not in the list, and
        // the pull would never be answered. The timeout of a pull that was answered in between finds nothing.
        queue.suspended.add(pull);
        let mut table = self.table();
        table.by_deadline.insert(key, Arc::downgrade(&queue));
        if table.by_deadline.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.earlier.notify_one();
        }
        Some(key.1)
    }

    /// Removes the timeout of a pull that was answered.
    pub fn forget(&self, deadline_ms: i64, id: u64) {
        self.table().by_deadline.remove(&(deadline_ms, id));
    }

    /// Takes the pulls whose timeout has passed out of their lists.
    pub fn expired(&self, now_ms: i64) -> Vec<SuspendedPull> {
        let mut table = self.table();
        let later = table.by_deadline.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut table.by_deadline, later);
        drop(table);
        due.into_iter().filter_map(|((_, id), queue)| queue.upgrade()?.suspended.take_one(id)).collect()
    }

    /// The earliest timeout, milliseconds since 1970.
    pub fn earliest(&self) -> Option<i64> {
        self.table().by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
