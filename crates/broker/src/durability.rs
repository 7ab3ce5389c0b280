//! Durability: the condition for a response, a read and an internal append (`flushDiskType`, `brokerRole`,
//! `inSyncReplicas`, and the in-sync set in controller mode).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use store::{FlushMode, FlushOutcome, Store, WaitOutcome};
use wire::units::LogOffset;

/// Result of the wait for durability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The log is on all required disks and replicas.
    Stored,
    /// The log is not on disk after `syncFlushTimeout`, and may still come to be (`FLUSH_DISK_TIMEOUT`).
    FlushTimedOut,
    /// The log is stored here, but too few slaves have it after `slaveTimeout`. They may still get it
    /// (`FLUSH_SLAVE_TIMEOUT`).
    SlaveTimedOut,
    /// This broker is no longer master. The new master may or may not have the record.
    Deposed,
    /// The store is fenced or closed, and the log may or may not be durable. The text has the reason.
    Failed(String),
}

impl From<FlushOutcome> for Outcome {
    fn from(outcome: FlushOutcome) -> Self {
        match outcome {
            FlushOutcome::Flushed => Self::Stored,
            FlushOutcome::TimedOut => Self::FlushTimedOut,
            FlushOutcome::Failed(cause) => Self::Failed(cause),
        }
    }
}

impl Outcome {
    /// Combines the result with that of a wait for slaves. A failure of the slaves takes precedence, as in Java.
    fn with_slaves(self, slaves: WaitOutcome) -> Self {
        match slaves {
            WaitOutcome::Reached => self,
            WaitOutcome::TimedOut => Self::SlaveTimedOut,
            WaitOutcome::Failed(cause) => Self::Failed(cause),
            WaitOutcome::Abandoned => Self::Deposed,
        }
    }
}

/// Durability policy of a broker. With `SYNC_FLUSH` a position counts when the log is on disk up to it, otherwise
/// when it is appended. Responses of a `SYNC_MASTER` with more than one `inSyncReplicas` wait for slaves as well, but
/// consumers do not. In controller mode consumers wait for the confirm offset too.
pub(crate) struct Durability {
    store: Arc<Store>,
    waits_for_flush: AtomicBool,
    waits_for_slaves: AtomicBool,
    /// Whether too few brokers are in sync, so that messages of waiting senders are refused.
    lacks_replicas: AtomicBool,
    /// Longest wait of a response for slaves.
    slave_timeout: Duration,
}

impl Durability {
    /// The policy for a flush mode; answers that wait for slaves do so for `slave_timeout`.
    pub(crate) fn new(store: Arc<Store>, mode: FlushMode, slave_timeout: Duration) -> Self {
        Self {
            store,
            waits_for_flush: AtomicBool::new(mode == FlushMode::Sync),
            waits_for_slaves: AtomicBool::new(false),
            lacks_replicas: AtomicBool::new(false),
            slave_timeout,
        }
    }

    /// Makes responses wait for slaves from now on. The positions of the slaves are unknown, and count as zero.
    pub(crate) fn wait_for_slaves(&self) {
        if self.store.replicated().is_none() {
            self.store.set_replicated(Some(LogOffset::ZERO));
        }
        self.waits_for_slaves.store(true, Ordering::Release);
        // Pairs with the fence of the getter: a response either waits for slaves, or its message is below the
        // positions that this thread reads from here on.
        fence(Ordering::SeqCst);
    }

    /// Returns the position up to which responses that wait for no slave may confirm the log.
    pub(crate) fn answerable(&self) -> LogOffset {
        if self.waits_for_flush() { self.store.flushed() } else { self.store.appended() }
    }

    /// Makes later responses not wait for slaves. Waiting responses keep waiting, because they must not become
    /// successes.
    pub(crate) fn ignore_slaves(&self) {
        self.waits_for_slaves.store(false, Ordering::Release);
    }

    /// Ends all waits for slaves, because this broker is no longer master.
    pub(crate) fn depose(&self) {
        self.store.abandon_replicated();
    }

    /// Sets whether too few brokers are in sync to take messages.
    pub(crate) fn set_lacks_replicas(&self, lacks: bool) {
        self.lacks_replicas.store(lacks, Ordering::Release);
    }

    /// Whether too few brokers are in sync to take messages of senders that wait for storage.
    pub(crate) fn lacks_replicas(&self) -> bool {
        self.lacks_replicas.load(Ordering::Acquire)
    }

    /// Whether appended bytes count only later, so that responses have to wait.
    pub(crate) fn waits(&self) -> bool {
        self.waits_for_flush() || self.waits_for_slaves()
    }

    /// Whether consumers and answers wait for the disk.
    pub(crate) fn waits_for_flush(&self) -> bool {
        self.waits_for_flush.load(Ordering::Relaxed)
    }

    /// Whether answers wait for slaves.
    pub(crate) fn waits_for_slaves(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waits_for_slaves.load(Ordering::Acquire)
    }

    /// The position up to which consumers may see the log; `None` when they may see everything appended.
    pub(crate) fn limit(&self) -> Option<LogOffset> {
        let flushed = self.waits_for_flush().then(|| self.store.flushed());
        flushed.into_iter().chain(self.store.confirmed()).min()
    }

    /// Whether consumers may see the log up to `end`.
    pub(crate) fn reaches(&self, end: LogOffset) -> bool {
        self.limit().is_none_or(|limit| end <= limit)
    }

    /// Whether the log is stored up to `end`, so that a response may confirm it.
    pub(crate) fn is_stored(&self, end: LogOffset) -> bool {
        let is_replicated = || self.store.replicated().is_none_or(|replicated| end <= replicated);
        (!self.waits_for_flush() || end <= self.store.flushed())
            && (!self.waits_for_slaves() || is_replicated())
    }

    /// Calls `then` when the log is stored up to `end`, or when it is known that this failed or takes too long. The
    /// call comes at once, or from a thread of the store or of replication.
    pub(crate) fn when(self: &Arc<Self>, end: LogOffset, then: impl FnOnce(Outcome) + Send + 'static) {
        let (durability, waits) = (self.clone(), self.waits_for_slaves());
        let flushed = move |outcome: FlushOutcome| durability.after_flush(end, waits, outcome.into(), then);
        if !self.waits_for_flush() {
            return flushed(FlushOutcome::Flushed);
        }
        self.store.when_flushed(end, Box::new(flushed));
    }

    /// Calls `then` after a flush of the log up to `end` with the outcome `flushed`. The call comes at once, or after
    /// the wait for slaves. A response waits for slaves if `waits` is true, or if responses wait for slaves by now,
    /// because the agent may have named an heir during the flush.
    pub(crate) fn after_flush(
        &self,
        end: LogOffset,
        waits: bool,
        flushed: Outcome,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) {
        match flushed {
            Outcome::Stored | Outcome::FlushTimedOut if waits || self.waits_for_slaves() => {
                let replicated = |slaves| then(flushed.with_slaves(slaves));
                self.store.when_replicated(end, self.slave_timeout, Box::new(replicated));
            }
            outcome => then(outcome),
        }
    }

    /// Current value of `flushDiskType`.
    pub(crate) fn mode(&self) -> FlushMode {
        if self.waits_for_flush() { FlushMode::Sync } else { FlushMode::Async }
    }

    /// Changes `flushDiskType` and calls `done` when the change has taken effect. Sends continue meanwhile. For
    /// `SYNC_FLUSH`, all appended bytes are flushed first. From then on consumers see only bytes on disk, and a
    /// message that a consumer has read must not become invisible.
    pub(crate) fn set_mode(self: &Arc<Self>, mode: FlushMode, done: impl FnOnce() + Send + 'static) {
        let durability = self.clone();
        let switch = move || {
            durability.waits_for_flush.store(mode == FlushMode::Sync, Ordering::Relaxed);
            tracing::info!(?mode, "flushDiskType was changed");
            done();
        };
        match mode {
            FlushMode::Async => switch(),
            FlushMode::Sync => when_over(self.store.clone(), self.store.appended(), Box::new(switch)),
        }
    }
}

/// Calls `then` once the log is on disk up to `end`, however long that takes, or once the store is fenced or closed.
fn when_over(store: Arc<Store>, end: LogOffset, then: Box<dyn FnOnce() + Send>) {
    let waiting = store.clone();
    store.when_flushed(
        end,
        Box::new(move |outcome| match outcome {
            FlushOutcome::TimedOut => when_over(waiting, end, then),
            FlushOutcome::Flushed | FlushOutcome::Failed(_) => then(),
        }),
    );
}
