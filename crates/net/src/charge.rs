//! What requests cost in memory while they are not answered.
//!
//! A request that waits, for the disk or for somebody else's work, is charged to its connection. A connection whose
//! charges reach its bound is not read until some are given back, so a client that sends more than can be done waits in
//! its own socket and nothing is refused. The same holds once all connections together reach theirs, for those that have
//! charges: one that has none is still read, so each goes on whatever the others do, and at most one turn of each comes on
//! top of the bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::{Limits, Peer};

/// The charges of one connection.
pub(crate) struct Account {
    bytes: AtomicUsize,
    /// Of all connections.
    total: Arc<AtomicUsize>,
    /// The connection is not read and wants to be woken.
    paused: AtomicBool,
    bytes_high: usize,
    total_high: usize,
}

impl Account {
    pub(crate) fn new(limits: &Limits, total: Arc<AtomicUsize>) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            total,
            paused: AtomicBool::new(false),
            bytes_high: limits.unanswered_bytes_high,
            total_high: limits.unanswered_bytes_total,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Whether nothing more shall be read now.
    pub(crate) fn is_full(&self) -> bool {
        let bytes = self.bytes();
        bytes > 0 && (bytes >= self.bytes_high || self.total.load(Ordering::SeqCst) >= self.total_high)
    }

    /// The same; when it is true the next charge that is given back wakes the connection.
    pub(crate) fn pauses(&self) -> bool {
        if !self.is_full() {
            return false;
        }
        self.paused.store(true, Ordering::SeqCst);
        // What was given back in between did not see the mark.
        self.is_full()
    }
}

/// Bytes a request takes while it is not answered; given back when dropped. It must not be dropped inside
/// [`Peer::push`], which holds the lock that waking the connection takes.
#[must_use = "the charge ends when it is dropped"]
pub struct Charge {
    peer: Arc<Peer>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(peer: Arc<Peer>, bytes: usize) -> Self {
        peer.account.total.fetch_add(bytes, Ordering::SeqCst);
        peer.account.bytes.fetch_add(bytes, Ordering::SeqCst);
        peer.holding.budget().take(bytes);
        Self { peer, bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let account = &self.peer.account;
        account.total.fetch_sub(self.bytes, Ordering::SeqCst);
        account.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.peer.holding.budget().give_back(self.bytes);
        if account.paused.swap(false, Ordering::SeqCst) {
            self.peer.wake();
        }
    }
}
