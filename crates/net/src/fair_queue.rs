//! Round robin among the connections of a worker that move many bytes per poll.
//!
//! A connection that moved many bytes in its last poll is queued for its next poll. Between two queued polls the
//! worker serves its other sockets. So a connection with little traffic waits for at most one large poll, however
//! many connections have large polls.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

/// The queue of one worker.
#[derive(Default)]
pub(crate) struct FairQueue {
    /// The connection that may run: it was woken for this, or is being polled.
    current: Option<u64>,
    /// Waiting connections. Invariant: empty while `current` is `None`.
    waiting: VecDeque<(u64, Waker)>,
}

impl FairQueue {
    /// Whether connection `id`, which is not in the queue, may run. Makes it the current connection if there is
    /// none.
    pub(crate) fn try_enter(&mut self, id: u64) -> bool {
        self.current.get_or_insert(id) == &id
    }

    /// Appends connection `id`, which was not admitted.
    pub(crate) fn push(&mut self, id: u64, waker: &Waker) {
        self.waiting.push_back((id, waker.clone()));
    }

    /// Admits the next connection after `id`; false when `id` is not the current one.
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

    /// Removes connection `id`, which has ended.
    pub(crate) fn remove(&mut self, id: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.advance(id);
    }
}

/// Wakes a task after the worker has polled its sockets.
pub(crate) fn wake_later(waker: &Waker) {
    // Tokio wakes a task that yields in this way.
    let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(waker));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_on_in_the_order_they_came() {
        let mut queue = FairQueue::default();
        let waker = Waker::noop();
        assert!(queue.try_enter(1) && queue.try_enter(1));
        for id in [2, 3, 4] {
            assert!(!queue.try_enter(id));
            queue.push(id, waker);
        }
        assert!(queue.advance(1) && !queue.advance(1));
        queue.push(1, waker);
        assert!(!queue.try_enter(3) && queue.try_enter(2));
        queue.remove(4);
        queue.remove(2);
        assert!(!queue.try_enter(1) && queue.try_enter(3));
        assert!(queue.advance(3) && queue.try_enter(1) && queue.advance(1));
        assert!(queue.try_enter(5), "nobody waits");
    }

    #[test]
    fn a_connection_that_ends_holds_up_nobody() {
        let mut queue = FairQueue::default();
        assert!(queue.try_enter(1));
        queue.push(2, Waker::noop());
        queue.remove(1);
        queue.remove(2);
        assert!(queue.try_enter(3));
    }
}
