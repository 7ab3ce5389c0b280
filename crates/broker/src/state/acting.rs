//! Acting masters (`enableSlaveActingMaster`): whether this broker acts for a missing master, and the state of its
//! group.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::watch;
use wire::units::LogOffset;

/// Whether this slave acts for its master, and how many brokers its group has.
pub(crate) struct Acting {
    is_acting: watch::Sender<bool>,
    /// Number of brokers of the group that name servers know, this broker included. The largest number before the
    /// first query.
    alive: AtomicU32,
    /// Counts the notices that the smallest id of the group has changed (request 905).
    notices: watch::Sender<u64>,
    /// End of this broker's log at its start, which a master sends to its slaves (`getBrokerInitMaxOffset`).
    log_end_at_start: LogOffset,
}

impl Acting {
    /// Makes the state of a broker that does not act and whose log ends at `log_end`.
    pub(crate) fn new(log_end: LogOffset) -> Self {
        Self {
            is_acting: watch::Sender::new(false),
            alive: AtomicU32::new(u32::MAX),
            notices: watch::Sender::default(),
            log_end_at_start: log_end,
        }
    }

    /// Whether this slave acts for its master: it is the broker with the smallest id that name servers know of the group.
    pub(crate) fn is_acting(&self) -> bool {
        *self.is_acting.borrow()
    }

    /// Sets whether this slave acts for its master.
    pub(crate) fn set_acting(&self, is_acting: bool) {
        self.is_acting.send_replace(is_acting);
    }

    /// Returns a receiver that has the value of [`Self::is_acting`] and is notified of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<bool> {
        self.is_acting.subscribe()
    }

    /// Number of brokers of the group that name servers know, this broker included.
    pub(crate) fn alive(&self) -> u32 {
        self.alive.load(Ordering::Relaxed)
    }

    /// Sets the number of brokers of the group that name servers know, this broker included.
    pub(crate) fn set_alive(&self, alive: usize) {
        self.alive.store(u32::try_from(alive).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Records a notice that the smallest id of the group has changed.
    pub(crate) fn notify(&self) {
        self.notices.send_modify(|count| *count += 1);
    }

    /// Returns a receiver that is notified when a notice arrives that the smallest id of the group has changed.
    pub(crate) fn notices(&self) -> watch::Receiver<u64> {
        self.notices.subscribe()
    }

    /// End of this broker's log at its start.
    pub(crate) fn log_end_at_start(&self) -> LogOffset {
        self.log_end_at_start
    }
}
