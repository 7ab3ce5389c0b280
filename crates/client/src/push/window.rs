//! Messages of one queue that are out with the listener (`ProcessQueue`).

use std::collections::BTreeMap;

/// Offsets pulled and not done, and where pulling goes on.
///
/// Invariant: every message below [`Window::committable`] that was pulled since the start is done, was filtered out or
/// cannot be read; but [`Window::restart`] forgets those that are out.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Body bytes by offset.
    pending: BTreeMap<i64, usize>,
    bytes: usize,
    next: i64,
}

impl Window {
    /// Begins at `offset`.
    pub fn new(offset: i64) -> Self {
        Self { next: offset, ..Self::default() }
    }

    /// Where the next pull begins.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// Takes what a pull brought: offsets with body sizes, and where to go on.
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

    /// Messages and bytes not done.
    pub fn load(&self) -> (usize, usize) {
        (self.pending.len(), self.bytes)
    }

    /// The offset the group may store.
    pub fn committable(&self) -> i64 {
        self.pending.first_key_value().map_or(self.next, |(offset, _)| *offset)
    }

    /// Begins anew at `offset` after the broker refused the one before.
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
