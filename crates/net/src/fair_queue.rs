//! Round robin among the connections of a worker that move much at a time.
//!
//! A connection whose last wake-up handled many bytes is queued for the next one, and between two of them the sockets of
//! the worker are looked at. So whoever sends or fetches little waits for one large piece at most, however many connections
//! have large ones.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

/// The queue of one worker.
#[derive(Default)]
pub(crate) struct FairQueue {
    /// The connection that may go on: it was woken for that, or is being polled.
    current: Option<u64>,
    /// Invariant: empty while nobody is current.
    waiting: VecDeque<(u64, Waker)>,
}

impl FairQueue {
    /// Whether connection `id`, which is not in the queue, may go on.
    pub(crate) fn admits(&mut self, id: u64) -> bool {
        self.current.get_or_insert(id) == &id
    }

    /// Puts connection `id`, which was not admitted, at the end.
    pub(crate) fn push(&mut self, id: u64, waker: &Waker) {
        self.waiting.push_back((id, waker.clone()));
    }

    /// Lets the next connection go on after `id`; false when `id` is not the current one.
    pub(crate) fn advance(&mut self, id: u64) -> bool {
        if self.current != Some(id) {
            return false;
        }
        self.current = None;
        if let Some((next, waker)) = self.waiting.pop_front() {
            self.current = Some(next);
            wake_later(&waker);
        }
        true
    }

    /// Forgets connection `id`, which ended.
    pub(crate) fn remove(&mut self, id: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.advance(id);
    }
}

/// Wakes a task after the sockets of the worker were looked at.
pub(crate) fn wake_later(waker: &Waker) {
    // A task that yields is woken so.
    let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(waker));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_on_in_the_order_they_came() {
        let mut queue = FairQueue::default();
        let waker = Waker::noop();
        assert!(queue.admits(1) && queue.admits(1));
        for id in [2, 3, 4] {
            assert!(!queue.admits(id));
            queue.push(id, waker);
        }
        assert!(queue.advance(1) && !queue.advance(1));
        queue.push(1, waker);
        assert!(!queue.admits(3) && queue.admits(2));
        queue.remove(4);
        queue.remove(2);
        assert!(!queue.admits(1) && queue.admits(3));
        assert!(queue.advance(3) && queue.admits(1) && queue.advance(1));
        assert!(queue.admits(5), "nobody waits");
    }

    #[test]
    fn a_connection_that_ends_holds_up_nobody() {
        let mut queue = FairQueue::default();
        assert!(queue.admits(1));
        queue.push(2, Waker::noop());
        queue.remove(1);
        queue.remove(2);
        assert!(queue.admits(3));
    }
}
