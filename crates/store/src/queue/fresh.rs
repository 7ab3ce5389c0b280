//! Copies a queue's units to the unit journal, and restores them from it after a crash.

use super::journal::GroupsRecord;
use super::registry::Queues;
use super::{Queue, Unit};
use crate::wake::lock;
use std::sync::Arc;

impl Queue {
    /// Copies the unjournaled units of records before log position `end`. If units remain, the queue stays on the
    /// list of queues with such units.
    pub(crate) fn copy_fresh(self: &Arc<Self>, end: u64, part: &mut GroupsRecord, queues: &Queues) {
        let mut tail = lock(&self.tail);
        tail.fresh = false;
        // A removed queue is copied too: a crash may restore it until its tombstone is durable. Units that left the tail are
        // in the files, as the checkpoint says.
        let first = tail.journaled.max(tail.first);
        let skip = usize::try_from(first - tail.first).expect("inside the tail");
        let until = tail.units_before(end).max(skip);
        if until > skip {
            part.add(&self.topic, self.queue_id, first, tail.units.range(skip, until));
        }
        tail.journaled = tail.first + until as u64;
        if until < tail.units.len() {
            tail.fresh = true;
            lock(&queues.fresh).push(self.clone());
        }
    }

    /// Adds the journal's units to the queue, from queue offset `first` on. Returns how many are new; `None` when they do not
    /// continue the queue.
    pub(crate) fn adopt(self: &Arc<Self>, first: u64, units: &[Unit], queues: &Queues) -> Option<u64> {
        let next = self.max().get();
        if first > next {
            if self.min().get() < next {
                return None;
            }
            self.start_at(first);
        }
        let known = usize::try_from(self.max().get() - first).unwrap_or(usize::MAX);
        let units = units.get(known..).unwrap_or_default();
        units.iter().for_each(|unit| {
            self.take_next(1);
            self.push(*unit, 1, queues);
        });
        let mut tail = lock(&self.tail);
        tail.journaled = tail.first + tail.units.len() as u64;
        Some(units.len() as u64)
    }
}
