//! State that the timer shares with request handlers: its progress, and the order of recalls and deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use parking_lot::{Mutex, MutexGuard};
use store::timer::TimerCheck;

use crate::engine::Wakeup;

/// Order of recalls and deliveries, which decides whether a recall is in time. The lock of this value is held while a
/// cancelling message or a delivery is appended.
#[derive(Default)]
pub(crate) struct RecallOrder {
    /// Number of cancelling messages that were appended since the broker started.
    pub cancels: u64,
    /// Messages due until this time (milliseconds since the epoch) may have been delivered.
    pub delivered_ms: i64,
    /// The cancelling messages of all recalls that were answered with success lie before this offset of the timer queue.
    pub recalled_end: i64,
}

/// State that the timer shares with request handlers.
#[derive(Default)]
pub(crate) struct TimerState {
    recall_order: Mutex<RecallOrder>,
    wakeup: Arc<Wakeup>,
    /// Start of the first slot that is not completely delivered, in milliseconds since the epoch.
    pub read_ms: AtomicI64,
    /// Offset in the timer queue of the next message to add to the wheel.
    pub queue_offset: AtomicI64,
    /// Number of timed messages that are not delivered yet.
    pub pending: AtomicI64,
    /// Longest time in milliseconds after which a message that was added since the broker started is delivered or rolled.
    pub window_ms: AtomicI64,
    /// The latest slot that got a message since the broker started, as its start in milliseconds since the epoch.
    pub last_ms: AtomicI64,
    /// Number of messages by slot. Only kept while `timerCongestNumEachSlot` sets a limit.
    counts: Mutex<BTreeMap<i64, i64>>,
    checkpoint: Mutex<Option<TimerCheck>>,
}

impl TimerState {
    /// Locks the order of recalls and deliveries. The lock is held while a cancelling message or a delivery is appended.
    pub(crate) fn recall_order(&self) -> MutexGuard<'_, RecallOrder> {
        self.recall_order.lock()
    }

    /// Number of messages by slot. Only kept while `timerCongestNumEachSlot` sets a limit.
    pub(crate) fn counts(&self) -> MutexGuard<'_, BTreeMap<i64, i64>> {
        self.counts.lock()
    }

    /// Returns the delivery progress for slaves. `None` on a slave and until the timer has begun.
    pub(crate) fn checkpoint(&self) -> MutexGuard<'_, Option<TimerCheck>> {
        self.checkpoint.lock()
    }

    /// Returns the wake-up of the timer.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }
}
