//! The messages of one queue that were pulled and are not done (`ProcessQueue`).

use std::collections::BTreeMap;

/// The offsets of messages that were pulled and are not done, and the offset of the next pull.
///
/// Invariant: every message below [`ProcessQueue::committable`] that was pulled since the start is done, was filtered out or
/// cannot be decoded. [`ProcessQueue::restart`] is the exception: it forgets the messages that are not done.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessQueue {
    /// Bytes of the body by offset, for messages that are not done.
    pending: BTreeMap<i64, usize>,
    bytes: usize,
    next: i64,
}

impl ProcessQueue {
    /// Makes an empty process queue whose first pull begins at `offset`.
    pub fn new(offset: i64) -> Self {
        Self { next: offset, ..Self::default() }
    }

    /// The offset at which the next pull begins.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// Adds the messages of a pull (offset and body bytes), and sets the offset of the next pull.
    pub fn extend(&mut self, messages: impl IntoIterator<Item = (i64, usize)>, next: i64) {
        for (offset, bytes) in messages {
            self.bytes += bytes;
            self.bytes -= self.pending.insert(offset, bytes).unwrap_or_default();
        }
        self.next = next;
    }

    /// Marks messages as done, in any order.
    pub fn done(&mut self, offsets: impl IntoIterator<Item = i64>) {
        for offset in offsets {
            self.bytes -= self.pending.remove(&offset).unwrap_or_default();
        }
    }

    /// Number and bytes of the messages that are not done.
    pub fn load(&self) -> (usize, usize) {
        (self.pending.len(), self.bytes)
    }

    /// The offset that the group may commit.
    pub fn committable(&self) -> i64 {
        self.pending.first_key_value().map_or(self.next, |(offset, _)| *offset)
    }

    /// Starts again at `offset`, because the broker refused the previous offset.
    pub fn restart(&mut self, offset: i64) {
        self.pending.clear();
        self.bytes = 0;
        self.next = offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_stored_never_passes_a_message_that_is_out() {
        let mut process_queue = ProcessQueue::new(10);
        assert_eq!((process_queue.next(), process_queue.committable()), (10, 10));
        process_queue.extend([(10, 1), (11, 2), (13, 4)], 14);
        assert_eq!((process_queue.load(), process_queue.committable()), ((3, 7), 10));
        process_queue.done([11]);
        assert_eq!(process_queue.committable(), 10);
        process_queue.done([10]);
        assert_eq!(process_queue.committable(), 13);
        process_queue.done([13, 13, 99]);
        assert_eq!((process_queue.load(), process_queue.committable()), ((0, 0), 14));
    }

    #[test]
    fn a_restart_goes_on_where_it_is_told() {
        let mut process_queue = ProcessQueue::new(5);
        process_queue.extend([(5, 1)], 6);
        process_queue.restart(2);
        assert_eq!((process_queue.next(), process_queue.load(), process_queue.committable()), (2, (0, 0), 2));
    }

    #[test]
    fn a_message_pulled_twice_counts_once() {
        let mut process_queue = ProcessQueue::new(0);
        process_queue.extend([(0, 5)], 1);
        process_queue.extend([(0, 5)], 1);
        assert_eq!(process_queue.load(), (1, 5));
    }
}
