//! The state that all parts of an open store work with: configuration, files, positions, fence and signals. It knows none of
//! the parts.

use crate::checkpoint_file::Checkpoint;
use crate::config::{Config, FlushMode};
use crate::digest::Digests;
use crate::disk::Disk;
use crate::dispatch::Rules;
use crate::error::{AppendError, is_lack};
use crate::fence::{Fence, OperationCounter};
use crate::log::Log;
use crate::queue::registry::Queues;
use crate::queue::table;
use crate::wake::{Clock, Signals, lock};
use crate::watermark::{Callback, Deadlines, UNLIMITED, Watermark};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::units::LogOffset;

/// Reasons why a durable operation was not finished.
pub(crate) enum Interruption {
    /// The disk is full. No data is lost, and the next round retries.
    NoSpace(io::Error),
    Fenced,
}

/// State that the parts of a store share. Watermarks: `flushed <= appended`. Both only grow, except when the log is
/// truncated.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) log: Log,
    pub(crate) queues: Arc<Queues>,
    /// Delays of the delay levels in ms, level 1 first.
    pub(crate) delays: Arc<[i64]>,
    /// Log position up to which records are written and indexed.
    pub(crate) appended: Watermark,
    /// Log position up to which the log is durable.
    pub(crate) flushed: Watermark,
    /// Log position that enough replicas have; set from outside.
    pub(crate) replicated: Watermark,
    /// Log position behind which consumers see no messages, set from outside.
    pub(crate) confirmed: Watermark,
    /// Number of truncations of the log since the store was opened.
    pub(crate) truncations: AtomicU64,
    /// Next time at which the deadline thread answers waiting callers.
    pub(crate) deadlines: Deadlines,
    pub(crate) fence: Fence,
    /// Numbers the writes of appends, so that `OperationsInFlight` can show a write that hangs. Used under the appender's
    /// lock.
    pub(crate) writes: OperationCounter,
    /// Numbers the flushes of the log, so that `OperationsInFlight` can show a flush that hangs. Used under the flusher's
    /// lock.
    pub(crate) flushes: OperationCounter,
    pub(crate) clock: Arc<Clock>,
    /// Content of the `checkpoint` file.
    pub(crate) page: Mutex<Checkpoint>,
    /// Digests: checksums of the record parts that RocketMQ's checksum omits.
    pub(crate) digests: Digests,
    pub(crate) signals: Signals,
}

impl State {
    pub(crate) fn new(config: Config, disk: Arc<dyn Disk>, queues: Arc<Queues>, clock: Arc<Clock>) -> Self {
        Self {
            log: Log::new(&config, disk.clone()),
            queues,
            delays: config.delay_levels_ms.clone().into(),
            appended: Watermark::default(),
            flushed: Watermark::default(),
            replicated: Watermark::at(UNLIMITED),
            confirmed: Watermark::at(UNLIMITED),
            truncations: AtomicU64::new(0),
            deadlines: Deadlines::new(clock.now()),
            fence: Fence::default(),
            writes: OperationCounter::default(),
            flushes: OperationCounter::default(),
            clock,
            page: Mutex::default(),
            digests: Digests::new(&config.root, config.segment_bytes, disk.clone()),
            signals: Signals::default(),
            config,
            disk,
        }
    }

    /// Settings that decide which units a record has.
    pub(crate) fn rules(&self) -> Rules<'_> {
        let multi_dispatch = self.config.multi_dispatch;
        Rules { queues: &self.queues, delays: &self.delays, multi_dispatch }
    }

    /// Whether files are filled with zeros before the appender writes to them (synchronous flush only).
    pub(crate) fn writes_ahead(&self) -> bool {
        self.config.flush == FlushMode::Sync
    }

    /// Returns all watermarks on which callers can wait.
    pub(crate) fn watermarks(&self) -> [&Watermark; 4] {
        [&self.flushed, &self.appended, &self.replicated, &self.confirmed]
    }

    /// Calls `done` once a watermark has reached `end`, when that becomes impossible, or after `timeout`. Returns whether the
    /// caller waits.
    pub(crate) fn when(
        &self,
        watermark: &Watermark,
        end: LogOffset,
        timeout: Duration,
        done: Callback,
    ) -> bool {
        let deadline = self.clock.now() + timeout;
        let waits = watermark.when(end.get(), Some(deadline), || self.fence.reason(), done);
        if waits {
            self.deadlines.add(deadline);
        }
        waits
    }

    /// Changes the content of the `checkpoint` file and makes it durable.
    pub(crate) fn save_page(&self, change: impl FnOnce(&mut Checkpoint)) -> Result<(), Interruption> {
        let mut page = lock(&self.page);
        let mut changed = *page;
        change(&mut changed);
        let path = self.config.root.join("checkpoint");
        changed.save(&*self.disk, &path).map_err(|error| self.failed("writing the checkpoint", error))?;
        *page = changed;
        Ok(())
    }

    /// Fences the store and wakes all callers whose event will not happen. After a disk error, written pages may be
    /// lost although the file system stays mounted. So the next opening must not rely on its mounts
    /// (`vostok/mounts`).
    pub(crate) fn put_up_fence(&self, reason: &str) {
        self.fence.put_up(reason);
        if let Err(error) = self.disk.remove(&self.mounts_path()) {
            tracing::warn!(%error, "the list of mounts cannot be removed");
        }
        self.log.publish_written_ahead(None);
        self.signals.flush.wake();
    }

    /// Path of the file with the mounts that the last opening saw.
    pub(crate) fn mounts_path(&self) -> PathBuf {
        table::directory(&self.config.root).join("mounts")
    }

    /// Handles a failed write. Lack of space may be retried, because the write does not count yet. Any other error
    /// fences the store.
    pub(crate) fn failed(&self, what: &str, error: io::Error) -> Interruption {
        if is_lack(&error) { Interruption::NoSpace(error) } else { self.fatal(what, &error) }
    }

    /// The outcome of a write or flush that must not be retried: the store is fenced.
    pub(crate) fn fatal(&self, what: &str, error: &io::Error) -> Interruption {
        self.put_up_fence(&format!("{what}: {error}"));
        Interruption::Fenced
    }

    pub(crate) fn explain(&self, interrupted: Interruption) -> AppendError {
        match (interrupted, self.fence.reason()) {
            (Interruption::NoSpace(error), _) => AppendError::NoSpace(error),
            (Interruption::Fenced, Some(reason)) => AppendError::Fenced(reason),
            (Interruption::Fenced, None) => AppendError::Closed,
        }
    }

    /// Counts units that were added to queues, and begins the next checkpoint early when they are many.
    pub(crate) fn note_unwritten(&self, count: u64) {
        let waiting = self.queues.unwritten_units.fetch_add(count, Ordering::Relaxed) + count;
        let limit = self.config.unwritten_units_max;
        let early = limit / UNITS_WAKE_SHARE;
        if waiting > limit / 2 || waiting > early && waiting - count <= early {
            self.signals.checkpoint.wake();
        }
    }

    /// Wakes the checkpoint thread if it sleeps because the store has no changes.
    pub(crate) fn wake_idle_checkpoint(&self) {
        if self.signals.checkpoint_idle.swap(false, Ordering::SeqCst) {
            self.signals.checkpoint.wake();
        }
    }
}

/// Divisor of the unwritten units' limit: beyond that share the next checkpoint begins before its interval is over, to free
/// memory.
const UNITS_WAKE_SHARE: u64 = 16;
