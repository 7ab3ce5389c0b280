//! Queues locked for ordered consumption (`RebalanceLockManager`): one client of a group per queue, for 60 s after its
//! last renewal. Locks live in memory only; after a restart the next renewal takes them again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::body::{LockBatchBody, LockBatchResponseBody, MessageQueue};
use wire::frame::Command;
use wire::json;

use crate::{Answer, Refusal, names};

/// A lock that is not renewed for this long is free (`rocketmq.broker.rebalance.lockMaxLiveTime`).
const LIFE_MS: i64 = 60_000;

/// Most locks kept. At the bound expired ones are dropped; if none is, further queues are not locked.
#[cfg(not(test))]
const LOCKS_MAX: usize = 1_000_000;
#[cfg(test)]
const LOCKS_MAX: usize = 4;

/// The locks of a broker.
#[derive(Default)]
pub(crate) struct Locks {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    groups: HashMap<String, HashMap<MessageQueue, Hold>>,
    /// Locks in `groups`, expired ones included.
    count: usize,
}

struct Hold {
    client_id: String,
    renewed_ms: i64,
}

impl Hold {
    fn is_held(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.renewed_ms) <= LIFE_MS
    }
}

impl Locks {
    /// Locks queues for a client, or renews its locks; returns those it holds now (`tryLockBatch`).
    pub(crate) fn lock(
        &self,
        group: &str,
        client_id: &str,
        queues: Vec<MessageQueue>,
        now_ms: i64,
    ) -> Vec<MessageQueue> {
        let mut table = self.table();
        queues.into_iter().filter(|queue| table.lock(group, client_id, queue, now_ms)).collect()
    }

    /// Frees the queues the client holds (`unlockBatch`).
    pub(crate) fn unlock(&self, group: &str, client_id: &str, queues: &[MessageQueue]) {
        let mut table = self.table();
        let Some(holds) = table.groups.get_mut(group) else { return };
        let before = holds.len();
        for queue in queues {
            if holds.get(queue).is_some_and(|hold| hold.client_id == client_id) {
                holds.remove(queue);
            }
        }
        let freed = before - holds.len();
        if holds.is_empty() {
            table.groups.remove(group);
        }
        table.count -= freed;
    }

    /// True when some client of the group consumes in order (`isLockAllExpired`, negated).
    pub(crate) fn is_locked_by_anyone(&self, group: &str, now_ms: i64) -> bool {
        self.table().groups.get(group).is_some_and(|holds| holds.values().any(|hold| hold.is_held(now_ms)))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn lock(&mut self, group: &str, client_id: &str, queue: &MessageQueue, now_ms: i64) -> bool {
        if let Some(hold) = self.groups.get_mut(group).and_then(|holds| holds.get_mut(queue)) {
            if hold.client_id != client_id && hold.is_held(now_ms) {
                return false;
            }
            *hold = Hold { client_id: client_id.to_owned(), renewed_ms: now_ms };
            return true;
        }
        if self.count >= LOCKS_MAX {
            self.drop_expired(now_ms);
        }
        if self.count >= LOCKS_MAX {
            tracing::warn!(group, locks = self.count, "too many queue locks; a queue is not locked");
            return false;
        }
        let hold = Hold { client_id: client_id.to_owned(), renewed_ms: now_ms };
        self.groups.entry(group.to_owned()).or_default().insert(queue.clone(), hold);
        self.count += 1;
        true
    }

    fn drop_expired(&mut self, now_ms: i64) {
        for holds in self.groups.values_mut() {
            holds.retain(|_, hold| hold.is_held(now_ms));
        }
        self.groups.retain(|_, holds| !holds.is_empty());
        self.count = self.groups.values().map(HashMap::len).sum();
    }
}

/// `LOCK_BATCH_MQ` (41). Every queue lives on this broker alone, so `onlyThisBroker` makes no difference.
pub(crate) fn lock(locks: &Locks, command: &Command<'_>, now_ms: i64) -> Result<Answer, Refusal> {
    let body: LockBatchBody = json::from_slice(command.body)?;
    names::check_length("client id", &body.client_id, names::CLIENT_ID_BYTES_MAX)?;
    names::check_length("group name", &body.consumer_group, names::DERIVED_TOPIC_LENGTH_MAX)?;
    for queue in &body.mq_set {
        names::check_length("topic", &queue.topic, names::DERIVED_TOPIC_LENGTH_MAX)?;
        names::check_length("broker name", &queue.broker_name, names::DERIVED_TOPIC_LENGTH_MAX)?;
    }
    let held = locks.lock(&body.consumer_group, &body.client_id, body.mq_set, now_ms);
    Ok(Answer::success().body(json::to_vec(&LockBatchResponseBody { lock_ok_mq_set: held })))
}

/// `UNLOCK_BATCH_MQ` (42).
pub(crate) fn unlock(locks: &Locks, command: &Command<'_>) -> Result<Answer, Refusal> {
    let body: LockBatchBody = json::from_slice(command.body)?;
    locks.unlock(&body.consumer_group, &body.client_id, &body.mq_set);
    Ok(Answer::success())
}

#[cfg(test)]
mod tests;
