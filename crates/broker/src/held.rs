//! Pulls that wait for the next message of their queue (long polling).
//!
//! A held pull stands in its queue's list, which the next append to that queue takes, and in the table of deadlines,
//! which a timer of the broker sweeps. Whoever takes a pull out of its list answers it or puts it back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use net::Peer;
use tokio::sync::Notify;
use wire::body::group::SubscriptionGroupConfig;

use crate::pull::Pull;
use crate::topics::Queue;

/// Pulls a broker holds at most, twenty groups that wait at 50,000 queues; beyond it a pull is answered as busy (Java has
/// no bound). They do not keep their connections from being read, as they wait for what may come there.
pub const HELD_MAX: usize = 1_000_000;
/// Bytes of all of them at most, beside the filters of those that bring one.
const _: () = assert!(size_of::<HeldPull>() * HELD_MAX <= 256 << 20);

/// One pull that waits.
pub struct HeldPull {
    /// Connection to answer.
    pub(crate) peer: Arc<Peer>,
    /// What to run again; its offset moves over messages that did not match.
    pub(crate) pull: Pull,
    /// Its group when it came.
    pub(crate) group: Arc<SubscriptionGroupConfig>,
    /// It came with its filter, and does not take the group's.
    pub(crate) brings_filter: bool,
    /// When to answer without a message, milliseconds.
    pub(crate) deadline_ms: i64,
    /// Distinguishes pulls with the same deadline.
    pub(crate) id: u64,
}

/// The pulls waiting at one queue.
#[derive(Default)]
pub struct Held {
    /// Number of waiting pulls. An appender that reads 0 after publishing its offset may go on: a pull is counted
    /// before it looks at the queue's end for the last time.
    waiting: AtomicUsize,
    pulls: Mutex<Vec<HeldPull>>,
}

impl Held {
    /// True when somebody may be waiting.
    pub fn is_waited_on(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Takes everybody who waits.
    pub fn take(&self) -> Vec<HeldPull> {
        let mut pulls = self.pulls();
        self.waiting.fetch_sub(pulls.len(), Ordering::SeqCst);
        std::mem::take(&mut *pulls)
    }

    /// Puts a pull into the list. The caller looks at the queue's end afterwards.
    pub(crate) fn add(&self, pull: HeldPull) {
        let mut pulls = self.pulls();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        pulls.push(pull);
        fence(Ordering::SeqCst);
    }

    /// Takes the pull `id`, unless somebody else did.
    pub(crate) fn take_one(&self, id: u64) -> Option<HeldPull> {
        let mut pulls = self.pulls();
        let position = pulls.iter().position(|pull| pull.id == id)?;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Some(pulls.swap_remove(position))
    }

    fn pulls(&self) -> MutexGuard<'_, Vec<HeldPull>> {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Table {
    by_deadline: BTreeMap<(i64, u64), Weak<Queue>>,
    next_id: u64,
}

/// Deadlines of all held pulls of a broker.
#[derive(Default)]
pub struct Deadlines {
    table: Mutex<Table>,
    /// Signalled when a deadline earlier than all others was added.
    pub(crate) earlier: Notify,
}

impl Deadlines {
    /// Puts a pull into its queue's list and returns its id; `None` when [`HELD_MAX`] is reached.
    ///
    /// The caller must look at the queue once more afterwards: a message may have come in between.
    pub fn hold(&self, mut pull: HeldPull) -> Option<u64> {
        let key = {
            let mut table = self.table();
            if table.by_deadline.len() >= HELD_MAX {
                return None;
            }
            table.next_id += 1;
            (pull.deadline_ms, table.next_id)
        };
        pull.id = key.1;
        let queue = pull.pull.queue.clone();
        // The list first: were it the table, a sweep could take the deadline and leave the pull behind. A deadline
        // whose pull was answered in between is found stale when it is due.
        queue.held.add(pull);
        let mut table = self.table();
        table.by_deadline.insert(key, Arc::downgrade(&queue));
        if table.by_deadline.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.earlier.notify_one();
        }
        Some(key.1)
    }

    /// Forgets the deadline of a pull that was taken out of its list for good.
    pub fn forget(&self, deadline_ms: i64, id: u64) {
        self.table().by_deadline.remove(&(deadline_ms, id));
    }

    /// Takes the pulls whose deadline has passed.
    pub fn expired(&self, now_ms: i64) -> Vec<HeldPull> {
        let mut table = self.table();
        let later = table.by_deadline.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut table.by_deadline, later);
        drop(table);
        due.into_iter().filter_map(|((_, id), queue)| queue.upgrade()?.held.take_one(id)).collect()
    }

    /// The earliest deadline, milliseconds.
    pub fn earliest(&self) -> Option<i64> {
        self.table().by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
