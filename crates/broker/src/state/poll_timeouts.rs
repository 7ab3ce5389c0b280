//! The long polling timeouts of suspended pulls.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::long_polling::{SUSPENDED_MAX, SuspendedPull};
use crate::topics::Queue;

#[derive(Default)]
struct Table {
    by_deadline: BTreeMap<(i64, u64), Arc<Queue>>,
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
    pub fn hold(&self, queue: &Arc<Queue>, mut pull: SuspendedPull) -> Option<u64> {
        let key = {
            let mut table = self.table.lock();
            if table.by_deadline.len() >= SUSPENDED_MAX {
                return None;
            }
            table.next_id += 1;
            (pull.deadline_ms, table.next_id)
        };
        pull.id = key.1;
        // The list comes first. Were the pull in the table first, its timeout could fire while the pull is not in the list, and
        // the pull would never be answered. The timeout of a pull that was answered in between finds nothing.
        queue.suspended.add(pull);
        let mut table = self.table.lock();
        table.by_deadline.insert(key, queue.clone());
        if table.by_deadline.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.earlier.notify_one();
        }
        Some(key.1)
    }

    /// Removes the timeout of a pull that was answered.
    pub fn forget(&self, deadline_ms: i64, id: u64) {
        self.table.lock().by_deadline.remove(&(deadline_ms, id));
    }

    /// Removes the pulls whose timeout has passed from the lists of their queues, and returns them.
    pub fn expired(&self, now_ms: i64) -> Vec<(Arc<Queue>, SuspendedPull)> {
        let mut table = self.table.lock();
        let later = table.by_deadline.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut table.by_deadline, later);
        drop(table);
        let taken = |((_, id), queue): ((i64, u64), Arc<Queue>)| {
            let pull = queue.suspended.take_one(id)?;
            Some((queue, pull))
        };
        due.into_iter().filter_map(taken).collect()
    }

    /// The earliest timeout, milliseconds since 1970.
    pub fn earliest(&self) -> Option<i64> {
        self.table.lock().by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }
}
