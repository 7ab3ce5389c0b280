//! State of sends between their checks and the append that stores them.

use std::ops::Range;
use std::sync::Arc;

use store::{AppendResult, Batch};
use wire::units::{LogOffset, QueueOffset};

use super::recall::Staged;
use crate::topics::{MessageKind, Queue, Topic};

/// Staged sends of a front, such as those of a read batch. `T` is the front's data for answering a send.
pub(crate) struct StagedSends<T> {
    /// The records of the staged messages.
    pub(super) batch: Batch,
    /// The requests of the staged messages.
    pub(super) pending: Vec<Pending<T>>,
    /// Unique keys of the pending messages, without separators.
    pub(super) ids: Vec<u8>,
    /// Buffer for the properties string that is being rewritten.
    pub(super) properties: Vec<u8>,
    /// Topic of the last send, and the generation of the table of topics in which it was found.
    pub(super) last: Option<(u64, Arc<Topic>)>,
    /// Whether a staged message cancels a timed message.
    pub(super) cancels: bool,
    /// The recalls of timed messages among the pending requests.
    pub(super) recalls: Vec<Staged>,
    /// Retry topics to which clients sent the staged messages that become dead letters.
    pub(super) dead_letters: Vec<Box<str>>,
    /// Grown queues whose suspended pulls and pops are not woken yet, because the producers are answered first.
    pub(super) grown: Vec<Arc<Queue>>,
}

/// A staged request that waits for its answer.
pub(super) struct Pending<T> {
    /// Front's data for answering the request.
    pub(super) ticket: T,
    /// Whether the answer waits for the disk with sync flush.
    pub(super) waits: bool,
    /// Queue id in the producer's response.
    pub(super) queue_id: i32,
    /// The queue the messages are stored in.
    pub(super) queue: Arc<Queue>,
    /// Range of the request's records in the batch. Empty for a recall that came too late.
    pub(super) records: Range<usize>,
    /// Range of the unique key in [`StagedSends::ids`], that of the first message for a client's batch; empty when there is none.
    pub(super) id: Range<usize>,
    /// Range of the recall handle of a timed message in [`StagedSends::ids`]; empty when there is none.
    pub(super) handle: Range<usize>,
    /// Kind of message that the request sends, for metrics.
    pub(super) kind: MessageKind,
    /// Messages of each record: 1, but for a batch that is stored as one record.
    pub(super) messages: u64,
    /// Whether the request is a batch that is stored as one record.
    pub(super) inner: bool,
    /// Earliest due time of the recalled message, in milliseconds since the epoch, if the request is a recall.
    pub(super) recalls_at: Option<i64>,
}

/// A send whose records are stored.
pub(crate) struct StoredSend<'a, T> {
    pub(super) staged: &'a StagedSends<T>,
    pub(super) pending: &'a Pending<T>,
}

impl<T> StoredSend<'_, T> {
    /// Whether the request was a recall. Then only the unique key is valid, which is that of the recalled message.
    pub fn is_recall(&self) -> bool {
        self.pending.recalls_at.is_some()
    }

    /// Returns the log offsets of the records: an offset for each message, or a single offset for a batch that is
    /// stored as one record.
    pub fn log_offsets(&self) -> impl Iterator<Item = LogOffset> {
        self.pending.records.clone().map(|index| self.staged.batch.append_result(index).log_offset)
    }

    /// Returns the queue in the producer's response.
    pub fn queue_id(&self) -> i32 {
        self.pending.queue_id
    }

    /// Queue offset of the first message.
    pub fn queue_offset(&self) -> QueueOffset {
        self.first().queue_offset
    }

    /// Returns the unique key of the message, or of a batch as a whole. Empty without a key.
    pub fn unique_key(&self) -> &[u8] {
        &self.staged.ids[self.pending.id.clone()]
    }

    /// The handle by which a timed message can be recalled; empty for every other message.
    pub fn recall_handle(&self) -> &[u8] {
        &self.staged.ids[self.pending.handle.clone()]
    }

    /// Whether the messages are stored as one record.
    pub fn is_inner_batch(&self) -> bool {
        self.pending.inner
    }

    fn first(&self) -> AppendResult {
        self.staged.batch.append_result(self.pending.records.start)
    }
}

impl<T> StagedSends<T> {
    pub(crate) fn new(batch: Batch) -> Self {
        Self {
            batch,
            pending: Vec::new(),
            ids: Vec::new(),
            properties: Vec::new(),
            last: None,
            cancels: false,
            recalls: Vec::new(),
            dead_letters: Vec::new(),
            grown: Vec::new(),
        }
    }

    /// Removes the requests and their records, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.pending.clear();
        self.ids.clear();
        self.cancels = false;
        self.recalls.clear();
        self.dead_letters.clear();
    }
}
