//! The messages of one queue that were pulled and are not done (`ProcessQueue`).

use std::collections::BTreeMap;

/// The offsets of messages that were pulled and are not done, and the offset of the next pull.
///
/// Invariant: every message below [`Window::committable`] that was pulled since the start is done, was filtered out or
/// cannot be decoded. [`Window::restart`] is the exception: it forgets the messages that are not done.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Bytes of the body by offset, for messages that are not done.
    pending: BTreeMap<i64, usize>,
    bytes: usize,
    next: i64,
}

impl Window {
    /// Makes an empty window whose first pull begins at `offset`.
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
        let mut window = Window::new(10);
        assert_eq!((window.next(), window.committable()), (10, 10));
        window.extend([(10, 1), (11, 2), (13, 4)], 14);
        assert_eq!((window.load(), window.committable()), ((3, 7), 10));
        window.done([11]);
        assert_eq!(window.committable(), 10);
        window.done([10]);
        assert_eq!(window.committable(), 13);
        window.done([13, 13, 99]);
        assert_eq!((window.load(), window.committable()), ((0, 0), 14));
    }

    #[test]
    fn a_restart_goes_on_where_it_is_told() {
        let mut window = Window::new(5);
        window.extend([(5, 1)], 6);
        window.restart(2);
        assert_eq!((window.next(), window.load(), window.committable()), (2, (0, 0), 2));
    }

    #[test]
    fn a_message_pulled_twice_counts_once() {
        let mut window = Window::new(0);
        window.extend([(0, 5)], 1);
        window.extend([(0, 5)], 1);
        assert_eq!(window.load(), (1, 5));
    }
}
