//! The in-flight queues of all groups, and when each is checked next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use wire::body::OrderState;

use super::in_flight::InFlightQueue;
use crate::offsets::Offsets;

/// In-flight queue of a message queue and a group that pops it.
pub(crate) struct Cell {
    id: u64,
    /// Consumer group.
    pub group: Arc<str>,
    /// Topic the queue belongs to, which may be a retry topic.
    pub topic: Arc<str>,
    /// Id of the message queue.
    pub queue_id: i32,
    busy: AtomicBool,
    in_flight: Mutex<InFlightQueue>,
}

impl Cell {
    /// Locks the in-flight queue. The lock is held for short sections, never while a file is read or written.
    pub(crate) fn in_flight(&self) -> MutexGuard<'_, InFlightQueue> {
        self.in_flight.lock()
    }

    /// Sets the group's offset, unless the group or the topic was deleted.
    pub(crate) fn commit(&self, offsets: &Offsets, offset: i64) {
        let in_flight = self.in_flight();
        // Under the lock of the in-flight queue: a deletion ends all in-flight queues before it removes the group's offsets.
        if !in_flight.gone {
            offsets.commit(&self.group, &self.topic, self.queue_id, offset);
        }
    }

    /// Makes the caller the only popper of the queue. Returns `None` if another request is popping it
    /// (`PopMessageProcessor.QueueLockManager`).
    pub(crate) fn occupy(self: &Arc<Self>) -> Option<Busy> {
        let free = self.busy.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
        free.is_ok().then(|| Busy(self.clone()))
    }

    /// Whether a request is popping the queue now.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }
}

/// The exclusive right to pop a queue, released when this value is dropped.
pub(crate) struct Busy(Arc<Cell>);

impl std::ops::Deref for Busy {
    type Target = Arc<Cell>;

    fn deref(&self) -> &Arc<Cell> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::SeqCst);
    }
}

/// In-flight queues of a group in a topic, sorted by queue id.
type Queues = Arc<Mutex<Vec<Arc<Cell>>>>;

/// In-flight queues of a group by topic.
type Topics = BTreeMap<Arc<str>, Queues>;

/// The name as it stands in a map, so that thousands of in-flight queues share it.
fn shared<V>(map: &BTreeMap<Arc<str>, V>, name: &str) -> Arc<str> {
    map.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone())
}

fn place(cells: &[Arc<Cell>], queue_id: i32) -> Result<usize, usize> {
    cells.binary_search_by_key(&queue_id, |cell| cell.queue_id)
}

/// In-flight queues of all groups. Their number is bounded by that of groups and queues, because handlers only
/// request existing queues.
#[derive(Default)]
pub(crate) struct InFlightQueues {
    groups: RwLock<BTreeMap<Arc<str>, Topics>>,
    ids: AtomicU64,
    alarms: Mutex<BTreeMap<(i64, u64), Arc<Cell>>>,
    /// Number of checkpoints in memory, of all in-flight queues together.
    pub held: AtomicUsize,
}

impl InFlightQueues {
    /// The in-flight queue of a group and a message queue, made on first use.
    pub(crate) fn make(&self, group: &str, topic: &str, queue_id: i32) -> Arc<Cell> {
        if let Some(cell) = self.find(group, topic, queue_id) {
            return cell;
        }
        let mut groups = self.groups.write();
        let group = shared(&groups, group);
        let topics = groups.entry(group.clone()).or_default();
        let topic = shared(topics, topic);
        let mut cells = topics.entry(topic.clone()).or_default().lock();
        let at = match place(&cells, queue_id) {
            Ok(at) => at,
            Err(at) => {
                let id = self.ids.fetch_add(1, Ordering::Relaxed);
                let (busy, in_flight) = (AtomicBool::new(false), Mutex::default());
                cells.insert(at, Arc::new(Cell { id, group, topic, queue_id, busy, in_flight }));
                at
            }
        };
        cells[at].clone()
    }

    /// The in-flight queue of a group and a message queue. `None` if the group has not popped the
    /// queue since the start, or the in-flight queue was removed.
    pub(crate) fn find(&self, group: &str, topic: &str, queue_id: i32) -> Option<Arc<Cell>> {
        let queues = self.queues(group, topic)?;
        let cells = queues.lock();
        place(&cells, queue_id).ok().map(|at| cells[at].clone())
    }

    /// The in-flight queues of a group in a topic, by queue id.
    pub(crate) fn of_group(&self, group: &str, topic: &str) -> BTreeMap<i32, Arc<Cell>> {
        let cells = self.queues(group, topic).map(|queues| queues.lock().clone()).unwrap_or_default();
        cells.into_iter().map(|cell| (cell.queue_id, cell)).collect()
    }

    /// All in-flight queues, in the order of groups, topics and queue ids.
    pub(crate) fn all(&self) -> Vec<Arc<Cell>> {
        let groups = self.groups.read();
        let queues = groups.values().flat_map(BTreeMap::values);
        queues.flat_map(|queues| queues.lock().clone()).collect()
    }

    /// Removes all in-flight queues.
    pub(super) fn forget_all(&self) {
        let removed = std::mem::take(&mut *self.groups.write());
        self.end(removed.into_values().flat_map(BTreeMap::into_values));
    }

    /// Removes the in-flight queues of a deleted group. Pops that are still in flight no longer move its offsets.
    pub(crate) fn forget_group(&self, group: &str) {
        let removed = self.groups.write().remove(group);
        self.end(removed.into_iter().flat_map(BTreeMap::into_values));
    }

    /// Removes the in-flight queues of a deleted topic. Pops that are still in flight no longer move its offsets.
    pub(crate) fn forget_topic(&self, topic: &str) {
        let mut groups = self.groups.write();
        let removed: Vec<Queues> = groups.values_mut().filter_map(|topics| topics.remove(topic)).collect();
        groups.retain(|_, topics| !topics.is_empty());
        drop(groups);
        self.end(removed.into_iter());
    }

    /// Removes the in-flight queue of a lite topic without messages in flight, unless another request uses it. The next
    /// pop makes another. The caller has `own` handles of the in-flight queue.
    pub(crate) fn drop_idle(&self, group: &str, topic: &str, own: usize) {
        let mut groups = self.groups.write();
        let Some(topics) = groups.get_mut(group) else { return };
        let Some(queues) = topics.get(topic) else { return };
        // Handles are cloned only under the lock that is held here, so that a count of one means no other user.
        let is_idle = Arc::strong_count(queues) == 1
            && queues.lock().iter().all(|cell| {
                let mut in_flight = cell.in_flight();
                let is_done = in_flight.order.as_ref().is_none_or(is_done);
                if !is_done || !in_flight.is_empty() || cell.is_busy() {
                    return false;
                }
                if let Some(alarm_ms) = in_flight.alarm_ms.take() {
                    self.alarms.lock().remove(&(alarm_ms, cell.id));
                }
                drop(in_flight);
                Arc::strong_count(cell) == 1 + own
            });
        if is_idle {
            topics.remove(topic);
            if topics.is_empty() {
                groups.remove(group);
            }
        }
    }

    fn end(&self, removed: impl Iterator<Item = Queues>) {
        for queues in removed {
            for cell in queues.lock().iter() {
                let held = cell.in_flight().end();
                self.held.fetch_sub(held.len(), Ordering::Relaxed);
            }
        }
    }

    /// Schedules a check of an in-flight queue at `due_ms` at the latest. Returns true if that is earlier than all
    /// other checks.
    pub(crate) fn set_alarm(&self, cell: &Arc<Cell>, in_flight: &mut InFlightQueue, due_ms: i64) -> bool {
        if in_flight.alarm_ms.is_some_and(|alarm_ms| alarm_ms <= due_ms) {
            return false;
        }
        let mut alarms = self.alarms.lock();
        if let Some(later) = in_flight.alarm_ms.replace(due_ms) {
            alarms.remove(&(later, cell.id));
        }
        alarms.insert((due_ms, cell.id), cell.clone());
        alarms.first_key_value().is_some_and(|(first, _)| *first == (due_ms, cell.id))
    }

    /// Removes and returns the in-flight queues whose check is due at `now_ms`.
    pub(crate) fn due(&self, now_ms: i64) -> Vec<Arc<Cell>> {
        let due = {
            let mut alarms = self.alarms.lock();
            let later = alarms.split_off(&(now_ms + 1, 0));
            std::mem::replace(&mut *alarms, later)
        };
        due.into_iter()
            .map(|((alarm_ms, _), cell)| {
                let mut in_flight = cell.in_flight();
                if in_flight.alarm_ms == Some(alarm_ms) {
                    in_flight.alarm_ms = None;
                }
                drop(in_flight);
                cell
            })
            .collect()
    }

    /// Returns the earliest time of a check of an in-flight queue, in milliseconds since the epoch.
    pub(crate) fn earliest(&self) -> Option<i64> {
        self.alarms.lock().first_key_value().map(|((due_ms, _), _)| *due_ms)
    }

    fn queues(&self, group: &str, topic: &str) -> Option<Queues> {
        self.groups.read().get(group)?.get(topic).cloned()
    }
}

/// Whether all messages of an ordered pop are acknowledged.
fn is_done(state: &OrderState) -> bool {
    (0..state.offsets.len()).all(|index| index < 64 && state.acked & (1 << index) != 0)
}
