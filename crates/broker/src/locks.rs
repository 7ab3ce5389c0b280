//! Queue locks of ordered consumption (`RebalanceLockManager`). A client of a group holds a queue until 60 s after
//! its last renewal. Locks are in memory only. After a restart the clients take them again with their next renewal.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::body::{LockBatchBody, MessageQueue};

use crate::{Result, names};

/// Milliseconds after which a lock that was not renewed is free (`rocketmq.broker.rebalance.lockMaxLiveTime`).
const LIFE_MS: i64 = 60_000;

/// Most locks kept. At the bound expired locks are dropped; when none is expired, further queues are not locked.
#[cfg(not(test))]
const LOCKS_MAX: usize = 1_000_000;
#[cfg(test)]
const LOCKS_MAX: usize = 4;

/// The queue locks of a broker.
#[derive(Default)]
pub(crate) struct Locks {
    table: Mutex<Table>,
}

/// A queue lock with its group, queue and holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueLock {
    pub group: String,
    pub queue: MessageQueue,
    pub client_id: Arc<str>,
    /// Milliseconds since the holder took or renewed the lock.
    pub age_ms: i64,
}

/// A request with a body of more bytes than this names some hundred queues and takes so long to read that the disk pool serves
/// it.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Table {
    groups: HashMap<String, HashMap<MessageQueue, Hold>>,
    /// Number of locks in `groups`, including expired locks.
    count: usize,
    /// Number of searches of all locks for expired locks.
    #[cfg(test)]
    sweeps: usize,
}

struct Hold {
    client_id: Arc<str>,
    renewed_ms: i64,
}

impl Hold {
    fn is_held(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.renewed_ms) <= LIFE_MS
    }
}

impl Locks {
    /// Locks queues for a client, or renews its locks. Returns the queues that the client holds now (`tryLockBatch`).
    pub(crate) fn lock(
        &self,
        group: &str,
        client_id: &str,
        queues: Vec<MessageQueue>,
        now_ms: i64,
    ) -> Vec<MessageQueue> {
        self.table.lock().lock(group, client_id, queues, now_ms)
    }

    /// Frees the queues the client holds (`unlockBatch`).
    pub(crate) fn unlock(&self, group: &str, client_id: &str, queues: &[MessageQueue]) {
        let mut table = self.table.lock();
        let Some(holds) = table.groups.get_mut(group) else { return };
        let before = holds.len();
        for queue in queues {
            if holds.get(queue).is_some_and(|hold| &*hold.client_id == client_id) {
                holds.remove(queue);
            }
        }
        let freed = before - holds.len();
        if holds.is_empty() {
            table.groups.remove(group);
        }
        table.count -= freed;
    }

    /// Whether any client of the group holds an unexpired lock (`isLockAllExpired`, negated). Removes a group whose
    /// locks have all expired, so that they are not examined again.
    pub(crate) fn is_locked_by_anyone(&self, group: &str, now_ms: i64) -> bool {
        let mut table = self.table.lock();
        let is_locked =
            table.groups.get(group).is_some_and(|holds| holds.values().any(|hold| hold.is_held(now_ms)));
        if !is_locked && let Some(expired) = table.groups.remove(group) {
            table.count -= expired.len();
        }
        is_locked
    }

    /// Returns at most `max` held locks by group and queue: locks of groups with `contains` in their name and behind
    /// `after`.
    pub(crate) fn held(&self, contains: &str, after: &str, max: usize, now_ms: i64) -> Vec<QueueLock> {
        let table = self.table.lock();
        let is_meant = |group: &str| group.contains(contains) && group > after;
        let mut groups: Vec<_> = table.groups.iter().filter(|(group, _)| is_meant(group)).collect();
        groups.sort_unstable_by_key(|(group, _)| *group);
        let mut found = Vec::new();
        for (group, holds) in groups {
            if found.len() >= max {
                break;
            }
            let mut holds: Vec<_> = holds.iter().filter(|(_, hold)| hold.is_held(now_ms)).collect();
            holds.sort_unstable_by_key(|(queue, _)| *queue);
            found.extend(holds.into_iter().map(|(queue, hold)| QueueLock {
                group: group.clone(),
                queue: queue.clone(),
                client_id: hold.client_id.clone(),
                age_ms: now_ms - hold.renewed_ms,
            }));
        }
        found.truncate(max);
        found
    }
}

impl Table {
    fn lock(
        &mut self,
        group: &str,
        client_id: &str,
        mut queues: Vec<MessageQueue>,
        now_ms: i64,
    ) -> Vec<MessageQueue> {
        if self.count + queues.len() > LOCKS_MAX {
            self.make_room(group, &queues, now_ms);
        }
        let client_id: Arc<str> = client_id.into();
        let mut refused = 0_usize;
        let holds = self.groups.entry(group.to_owned()).or_default();
        queues.retain(|queue| {
            let hold = || Hold { client_id: client_id.clone(), renewed_ms: now_ms };
            match holds.get_mut(queue) {
                Some(known) if known.client_id != client_id && known.is_held(now_ms) => return false,
                Some(known) => *known = hold(),
                None if self.count >= LOCKS_MAX => {
                    refused += 1;
                    return false;
                }
                None => {
                    holds.insert(queue.clone(), hold());
                    self.count += 1;
                }
            }
            true
        });
        if holds.is_empty() {
            self.groups.remove(group);
        }
        if refused > 0 {
            tracing::warn!(group, locks = self.count, refused, "too many queue locks; queues are not locked");
        }
        queues
    }

    /// Drops expired locks if these queues need more room than is free. A single search serves all the queues.
    fn make_room(&mut self, group: &str, queues: &[MessageQueue], now_ms: i64) {
        let known = self.groups.get(group);
        let is_new = |queue: &&MessageQueue| known.is_none_or(|holds| !holds.contains_key(*queue));
        let new = queues.iter().filter(is_new).count();
        if self.count + new <= LOCKS_MAX {
            return;
        }
        for holds in self.groups.values_mut() {
            holds.retain(|_, hold| hold.is_held(now_ms));
        }
        self.groups.retain(|_, holds| !holds.is_empty());
        self.count = self.groups.values().map(HashMap::len).sum();
        #[cfg(test)]
        {
            self.sweeps += 1;
        }
    }
}

/// Locks queues for a client, or renews its locks, and returns the queues that it holds now. Refuses names that no
/// client has.
pub(crate) fn lock(locks: &Locks, body: LockBatchBody, now_ms: i64) -> Result<Vec<MessageQueue>> {
    names::check_length("client id", &body.client_id, names::CLIENT_ID_BYTES_MAX)?;
    names::check_length("group name", &body.consumer_group, names::DERIVED_TOPIC_LENGTH_MAX)?;
    for queue in &body.mq_set {
        names::check_length("topic", &queue.topic, names::DERIVED_TOPIC_LENGTH_MAX)?;
        names::check_length("broker name", &queue.broker_name, names::DERIVED_TOPIC_LENGTH_MAX)?;
    }
    Ok(locks.lock(&body.consumer_group, &body.client_id, body.mq_set, now_ms))
}

#[cfg(test)]
mod tests;
