//! Retention: the engine that deletes old messages by age, size and disk space, watches how full the disk is, and warns before
//! it is full. Which files are deleted is decided by [`store::decide`].

mod lag;
mod report;
mod requests;
mod timed;
mod topics;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use store::{FreedSpace, Level, RetentionRound, RetentionSettings, UnconsumedPolicy};

use crate::engine::{Engine, Every, Next};
use crate::parts::{RetentionParts, Runtime};
use lag::Lags;
pub(crate) use report::{size, status};
pub(crate) use requests::{clean_expired_queues, clean_unused_topics, delete_expired_log};

/// Interval in milliseconds between two checks of how full the disk is.
const WATCH_MS: i64 = 1000;

/// Pause in milliseconds between freeing two pieces of space while a single deleted file is left. With more files the
/// pause is shorter by their number, down to 1 ms, because a broker may store more than a gigabyte per second.
const PIECE_PAUSE_MS: i64 = 10;

/// Engine that watches the disk and deletes old files.
pub(crate) struct Deletion {
    parts: Arc<RetentionParts>,
    watched: Every,
    cleaned: Every,
    /// Whether the last round with a deletion decision deleted any file.
    deleted: bool,
}

impl Deletion {
    /// Makes the engine. First checks how full the disk is, and expires messages of topics with a retention time of their
    /// own.
    pub(crate) fn new(parts: Arc<RetentionParts>) -> Self {
        watch(&parts.tables.store, &parts.runtime);
        topics::expire_when_due(&parts.sessions, &parts.delivery, &parts.runtime, parts.runtime.now_ms());
        Self { parts, watched: Every::default(), cleaned: Every::default(), deleted: false }
    }

    /// Frees a piece of a deleted file's space, and returns the pause until the next piece in milliseconds.
    fn free_space(&self) -> i64 {
        let store = &self.parts.tables.store;
        let waiting = i64::from(store.files_to_free()).max(1);
        match store.free_space() {
            Ok(FreedSpace::Nothing) => WATCH_MS,
            Ok(FreedSpace::Piece) => (PIECE_PAUSE_MS / waiting).max(1),
            Ok(FreedSpace::LastPiece) => {
                let pause_ms = self.parts.runtime.config.delete_files_interval_ms;
                i64::try_from(pause_ms).unwrap_or(i64::MAX) / waiting
            }
            Err(error) => {
                tracing::warn!(%error, "the space of a deleted file is given back when the broker stops");
                WATCH_MS
            }
        }
    }
}

impl Engine for Deletion {
    fn round(&mut self, now_ms: i64) -> Next {
        let parts = &self.parts;
        let interval_ms = parts.runtime.config.clean_resource_interval_ms;
        if parts.runtime.retention.unused_asked.swap(false, Ordering::AcqRel) {
            requests::remove_unused_topics(&parts.tables);
        }
        let asked = parts.runtime.retention.asked.load(Ordering::Acquire) > 0;
        let mut is_short = false;
        if self.watched.is_due(now_ms, WATCH_MS) || asked {
            self.watched.restart(now_ms);
            // While the log is over its size only a round that deleted something is followed by another at once; files
            // that cannot be deleted are tried again with the next regular round.
            is_short = watch(&parts.tables.store, &parts.runtime) >= Level::Clean
                || self.deleted && is_over(&parts.tables.store, &parts.runtime);
        }
        if self.cleaned.is_due(now_ms, interval_ms) || is_short || asked {
            self.cleaned.restart(now_ms);
            self.deleted = clean(parts, now_ms, store::local_hour(now_ms));
        }
        let pause_ms = self.free_space().min(WATCH_MS).min(interval_ms);
        // The pause begins when the piece is given back, which takes a while on some file systems.
        Next::At(self.parts.runtime.now_ms() + pause_ms)
    }
}

/// Checks how full the disk is. From now on sends are accepted or refused by the level it returns.
pub(crate) fn watch(store: &store::Store, runtime: &Runtime) -> Level {
    let level = store.watch_space(&runtime.config.retention).unwrap_or_else(|error| {
        tracing::error!(%error, "the disk cannot be asked how full it is");
        store.space().level
    });
    report::forecast(store, runtime, runtime.now_ms());
    level
}

/// Whether the commit log is larger than configured.
fn is_over(store: &store::Store, runtime: &Runtime) -> bool {
    let most = runtime.config.retention.log_bytes_max;
    most > 0 && store.appended().get() - store.min().get() > most
}

/// Runs a round of retention. Returns true if files were deleted.
pub(crate) fn clean(parts: &RetentionParts, now_ms: i64, hour: u8) -> bool {
    let asked = &parts.runtime.retention.asked;
    let asked =
        asked.fetch_update(Ordering::AcqRel, Ordering::Acquire, |rounds| rounds.checked_sub(1)).is_ok();
    let reserved_ms = timed::reserved_ms(&parts.delivery, &parts.runtime, now_ms);
    let settings = RetentionSettings { reserved_ms, ..parts.runtime.config.retention.clone() };
    // Filled only when the store asks for it, because a file is about to be deleted.
    let lags = Mutex::new(Lags::default());
    let unconsumed_from = || {
        let found = Lags::of(&parts.sessions, &parts.delivery, &parts.runtime);
        let first = found.first();
        *lags.lock() = found;
        first
    };
    let done = parts
        .tables
        .store
        .retain(&settings, &RetentionRound { now_ms, hour, asked, unconsumed_from: &unconsumed_from });
    let lags = lags.into_inner();
    let deleted = match done {
        Ok(done) => {
            report::round(&parts.tables.store, &parts.runtime, &done, &lags, now_ms);
            done.min > done.from
        }
        Err(error) => {
            tracing::error!(%error, "old messages could not be deleted; it is tried again");
            false
        }
    };
    topics::expire_when_due(&parts.sessions, &parts.delivery, &parts.runtime, now_ms);
    deleted
}

/// Whether messages that a group has not consumed are protected from deletion now.
fn protects(store: &store::Store, runtime: &Runtime) -> bool {
    match runtime.config.retention.unconsumed {
        UnconsumedPolicy::Drop => false,
        UnconsumedPolicy::Protect => store.space().level < Level::Clean,
        UnconsumedPolicy::Reject => true,
    }
}

#[cfg(test)]
mod tests;
