//! The checkpoints of one revive queue that are not over yet (`PopReviveService.consumeReviveMessage`). Pure.
//!
//! Records come in the order of the queue; a checkpoint comes a second before its messages are visible, its
//! acknowledgements behind it. The progress of the queue is the last record before which nothing is open: a restart
//! reads everything behind it again.

use std::collections::{BTreeMap, HashMap};

use wire::body::{Acks, Checkpoint};

/// Checkpoints kept; beyond it the queue is not read on.
pub(super) const OPEN_MAX: usize = 200_000;

/// What names a checkpoint: topic, group, broker; queue, start offset and time of the pop.
type Key = ((String, String, String), (i32, i64, i64));

/// One revive queue.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By offset of the record.
    open: BTreeMap<i64, Checkpoint>,
    offsets: HashMap<Key, i64>,
    /// Offset of the next record.
    pub next: i64,
}

impl Ledger {
    /// One whose records up to `done` are settled.
    pub(super) fn behind(done: i64) -> Self {
        Self { next: done + 1, ..Self::default() }
    }

    /// Whether nothing more shall be read before something is over.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= OPEN_MAX
    }

    /// Adds a checkpoint found at `offset`. After a crash the same one may come again; what is acknowledged stays so. One of a
    /// message of it that could not be brought back ([`put_off`](super::revive)) has the same name and stands beside it.
    pub(super) fn open(&mut self, offset: i64, mut checkpoint: Checkpoint) {
        self.next = self.next.max(offset + 1);
        let broker = checkpoint.broker_name.clone();
        let names = (checkpoint.topic.clone(), checkpoint.group.clone(), broker);
        let key = (names, (checkpoint.queue_id, checkpoint.start_offset, checkpoint.pop_ms));
        let is_same = |before: &Checkpoint| {
            (before.count, &before.diffs, &before.put_off)
                == (checkpoint.count, &checkpoint.diffs, &checkpoint.put_off)
        };
        if let Some(before) = self.offsets.insert(key, offset)
            && self.open.get(&before).is_some_and(is_same)
            && let Some(before) = self.open.remove(&before)
        {
            checkpoint.acked |= before.acked;
        }
        self.open.insert(offset, checkpoint);
    }

    /// Adds acknowledgements found at `offset`; what belongs to no open checkpoint has no effect.
    pub(super) fn ack(&mut self, offset: i64, acks: &Acks, own_broker: &str) {
        self.next = self.next.max(offset + 1);
        let broker = if acks.broker_name.trim().is_empty() { own_broker } else { &acks.broker_name };
        let names = (acks.topic.clone(), acks.group.clone(), broker.to_owned());
        let key = (names, (acks.queue_id, acks.start_offset, acks.pop_ms));
        let Some(checkpoint) = self.offsets.get(&key).and_then(|at| self.open.get_mut(at)) else { return };
        for offset in acks.all() {
            if let Some(index) = checkpoint.index_of(offset) {
                checkpoint.ack(index);
            }
        }
    }

    /// Passes a record that is neither.
    pub(super) fn skip(&mut self, offset: i64) {
        self.next = self.next.max(offset + 1);
    }

    /// When the messages of the first open checkpoint are visible.
    pub(super) fn first_ms(&self) -> Option<i64> {
        self.open.first_key_value().map(|(_, checkpoint)| checkpoint.revive_ms())
    }

    /// The first checkpoint, when its messages are visible at `until_ms`. It stays until [`Self::close`].
    pub(super) fn due(&self, until_ms: i64) -> Option<(i64, &Checkpoint)> {
        let (offset, checkpoint) = self.open.first_key_value()?;
        (checkpoint.revive_ms() <= until_ms).then_some((*offset, checkpoint))
    }

    /// Removes the checkpoint at `offset`.
    pub(super) fn close(&mut self, offset: i64) {
        let Some(checkpoint) = self.open.remove(&offset) else { return };
        let Checkpoint { topic, group, broker_name, queue_id, start_offset, pop_ms, .. } = checkpoint;
        let key = ((topic, group, broker_name), (queue_id, start_offset, pop_ms));
        if self.offsets.get(&key) == Some(&offset) {
            self.offsets.remove(&key);
        }
    }

    /// The last record before which nothing is open.
    pub(super) fn done(&self) -> i64 {
        self.open.first_key_value().map_or(self.next, |(first, _)| *first) - 1
    }
}

#[cfg(test)]
mod tests;
