//! Memory charges: the memory of unanswered requests.
//!
//! A request that waits, for the disk or for other work, is charged to its connection. A connection whose charges
//! reach its limit is not read until some are released. So a client that sends too many requests waits in its own
//! socket, and no request is refused. The same holds for all connections with charges if the charges of all
//! connections together reach their limit. A connection without charges is always read, so each connection makes
//! progress, and at most one read batch of each exceeds the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::{ConnectionHandle, Limits};

/// The memory charges of one connection.
pub(crate) struct ChargeAccount {
    bytes: AtomicUsize,
    /// Charges in bytes of all connections.
    total: Arc<AtomicUsize>,
    /// Whether the connection is not read and must be woken when a charge is released.
    paused: AtomicBool,
    bytes_high: usize,
    total_high: usize,
}

impl ChargeAccount {
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

    /// Whether the connection must not be read now.
    pub(crate) fn is_full(&self) -> bool {
        let bytes = self.bytes();
        bytes > 0 && (bytes >= self.bytes_high || self.total.load(Ordering::SeqCst) >= self.total_high)
    }

    /// Like [`Self::is_full`]; when true, the next released charge wakes the connection.
    pub(crate) fn pauses(&self) -> bool {
        if !self.is_full() {
            return false;
        }
        self.paused.store(true, Ordering::SeqCst);
        // A charge released before the flag was set woke no task: check again.
        self.is_full()
    }
}

/// The memory charge of an unanswered request; released when dropped. It must not be dropped inside [`ConnectionHandle::push`], which
/// holds the lock that is needed to wake the connection.
#[must_use = "the charge ends when it is dropped"]
pub struct MemoryCharge {
    peer: Arc<ConnectionHandle>,
    bytes: usize,
}

impl MemoryCharge {
    pub(crate) fn new(peer: Arc<ConnectionHandle>, bytes: usize) -> Self {
        peer.account.total.fetch_add(bytes, Ordering::SeqCst);
        peer.account.bytes.fetch_add(bytes, Ordering::SeqCst);
        peer.holding.budget().take(bytes);
        Self { peer, bytes }
    }
}

impl Drop for MemoryCharge {
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
