//! Acting masters (`enableSlaveActingMaster`): whether this broker acts for a master that is gone, and what is known of its group.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::watch;
use wire::units::LogOffset;

/// Whether this slave acts for its master, and how many brokers its group has.
pub(crate) struct Acting {
    is_acting: AtomicBool,
    /// Brokers of the group that name servers know, this one included; the largest number as long as they were not asked.
    alive: AtomicU32,
    /// Counts the notices that the smallest id of the group has changed (request 905).
    notices: watch::Sender<u64>,
    /// Where this broker's log ended when it started, which a master tells its slaves (`getBrokerInitMaxOffset`).
    log_end_at_start: LogOffset,
}

impl Acting {
    /// A broker that acts for nobody, whose log ends at `log_end`.
    pub(crate) fn new(log_end: LogOffset) -> Self {
        Self {
            is_acting: AtomicBool::new(false),
            alive: AtomicU32::new(u32::MAX),
            notices: watch::Sender::default(),
            log_end_at_start: log_end,
        }
    }

    /// Whether this slave acts for its master: it is the broker with the smallest id that name servers know of the group.
    pub(crate) fn is_acting(&self) -> bool {
        self.is_acting.load(Ordering::Acquire)
    }

    /// From now on this slave acts for its master, or does not any more.
    pub(crate) fn set_acting(&self, is_acting: bool) {
        self.is_acting.store(is_acting, Ordering::Release);
    }

    /// Brokers of the group that name servers know, this one included.
    pub(crate) fn alive(&self) -> u32 {
        self.alive.load(Ordering::Relaxed)
    }

    /// Notes how many brokers of the group name servers know, this one included.
    pub(crate) fn set_alive(&self, alive: usize) {
        self.alive.store(u32::try_from(alive).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Somebody said that the smallest id of the group has changed.
    pub(crate) fn notify(&self) {
        self.notices.send_modify(|count| *count += 1);
    }

    /// The notices that the smallest id of the group has changed.
    pub(crate) fn notices(&self) -> watch::Receiver<u64> {
        self.notices.subscribe()
    }

    /// Where this broker's log ended when it started.
    pub(crate) fn log_end_at_start(&self) -> LogOffset {
        self.log_end_at_start
    }
}
