//! Open checkpoints of a revive queue: checkpoints whose messages are not all acknowledged or revived yet
//! (`PopReviveService.consumeReviveMessage`). Pure.
//!
//! Records are read in the order of the queue. A checkpoint is delivered one second before its messages are visible
//! again, its acknowledgements after it. The progress of the queue is the last record before the first open
//! checkpoint. A restart reads everything after it again.

use std::collections::{BTreeMap, HashMap};

use wire::body::{Acks, Checkpoint};

/// Most open checkpoints of a revive queue. At this number no further records are read until some are closed.
pub(super) const OPEN_MAX: usize = 200_000;

/// The name of a checkpoint: topic, group and broker; queue id, start offset and pop time in milliseconds.
type Key = ((String, String, String), (i32, i64, i64));

/// Open checkpoints of a revive queue, and the offset of the next record to read.
#[derive(Debug, Default)]
pub(super) struct OpenCheckpoints {
    /// Open checkpoints by the offset of their record in the revive queue.
    open: BTreeMap<i64, Checkpoint>,
    /// Offset of the latest record of each open checkpoint, by the checkpoint's name.
    offsets: HashMap<Key, i64>,
    /// Offset in the revive queue of the record that is read next.
    pub next: i64,
}

impl OpenCheckpoints {
    /// Starts behind record `done`, up to which no record need be read again.
    pub(super) fn behind(done: i64) -> Self {
        Self { next: done + 1, ..Self::default() }
    }

    /// Whether an open checkpoint must close before more records are read.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= OPEN_MAX
    }

    /// Adds a checkpoint whose record is at `offset`. After a crash the same checkpoint may return. It then replaces
    /// the former checkpoint and keeps its acknowledgements. The checkpoint of a message that could not be revived
    /// ([`put_off`](super::revive)) may have the name of the original but other content. Both are kept.
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

    /// Applies acknowledgements whose record is at `offset`. Acknowledgements without an open checkpoint have no
    /// effect.
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

    /// Passes the record at `offset`, which is neither a checkpoint nor an acknowledgement.
    pub(super) fn skip(&mut self, offset: i64) {
        self.next = self.next.max(offset + 1);
    }

    /// When the messages of the first open checkpoint are visible again, in milliseconds since the epoch.
    pub(super) fn first_ms(&self) -> Option<i64> {
        self.open.first_key_value().map(|(_, checkpoint)| checkpoint.revive_ms())
    }

    /// The first open checkpoint and the offset of its record, if its messages are visible again at `until_ms`. The checkpoint
    /// stays open until [`Self::close`].
    pub(super) fn due(&self, until_ms: i64) -> Option<(i64, &Checkpoint)> {
        let (offset, checkpoint) = self.open.first_key_value()?;
        (checkpoint.revive_ms() <= until_ms).then_some((*offset, checkpoint))
    }

    /// Removes the checkpoint whose record is at `offset`.
    pub(super) fn close(&mut self, offset: i64) {
        let Some(checkpoint) = self.open.remove(&offset) else { return };
        let Checkpoint { topic, group, broker_name, queue_id, start_offset, pop_ms, .. } = checkpoint;
        let key = ((topic, group, broker_name), (queue_id, start_offset, pop_ms));
        if self.offsets.get(&key) == Some(&offset) {
            self.offsets.remove(&key);
        }
    }

    /// The progress of the queue: the offset of the last record before the first open checkpoint.
    pub(super) fn done(&self) -> i64 {
        self.open.first_key_value().map_or(self.next, |(first, _)| *first) - 1
    }
}

#[cfg(test)]
mod tests;
