//! Small engines: long polling timeouts, saving of offsets, removal of silent clients, sampling of statistics, reloads of ACL 1.0,
//! and the disk watch.

use std::sync::Arc;

use crate::engine::{Engine, Every, Next, every};
use crate::parts::{HousekeepingParts, PullParts, Replication, Runtime, Sessions};
use crate::save::save;
use crate::state::{DISK_LOOK_MS, SAMPLE_MS};
use crate::{pull, stats};

/// Interval in milliseconds at which clients without heartbeats are removed (`ClientHousekeepingService`).
const CLIENT_SWEEP_MS: i64 = 10_000;

/// Answers the suspended pulls whose long-polling timeout has passed.
pub(crate) fn answer_expired(sessions: &Sessions, pulls: &Arc<PullParts>, now_ms: i64) -> Next {
    pull::expire(pulls, now_ms);
    sessions.poll_timeouts.earliest().map_or(Next::Woken, Next::At)
}

/// Saves the offsets of groups every `flushConsumerOffsetInterval`.
pub(crate) fn saving(parts: Arc<HousekeepingParts>) -> impl Engine {
    every(
        parts,
        |parts| parts.runtime.config.flush_consumer_offset_interval_ms,
        |parts, _| {
            save(&parts.delivery, &parts.runtime, &parts.pops);
        },
    )
}

/// Samples statistics, and removes clients without heartbeats.
pub(crate) struct Housekeeping {
    parts: Arc<HousekeepingParts>,
    sampled: Every,
    swept: Every,
}

impl Housekeeping {
    /// Housekeeping that begins with its first round.
    pub(crate) fn new(parts: Arc<HousekeepingParts>) -> Self {
        Self { parts, sampled: Every::at_once(), swept: Every::at_once() }
    }
}

impl Engine for Housekeeping {
    fn round(&mut self, now_ms: i64) -> Next {
        let parts = &self.parts;
        if self.sampled.is_due(now_ms, SAMPLE_MS) {
            stats::sample(&parts.tables, &parts.figures, &parts.runtime, now_ms);
        }
        if self.swept.is_due(now_ms, CLIENT_SWEEP_MS) {
            parts.tables.announce(&parts.runtime.config, &parts.sessions.clients.expire(now_ms));
        }
        self.sampled.next(SAMPLE_MS).or(self.swept.next(CLIENT_SWEEP_MS))
    }
}

/// Checks the files of ACL 1.0 every five seconds (`AclFileWatchService`). The start has just read them.
pub(crate) fn rereading(parts: Arc<HousekeepingParts>) -> impl Engine {
    every(parts, |_| auth::RELOAD_INTERVAL_MS, |parts, _| parts.sessions.gate.reload())
}

/// Checks the disk of the log, and logs an operation that takes too long.
pub(crate) fn watch_disk(replication: &Replication, runtime: &Runtime, now_ms: i64) -> Next {
    let bound = runtime.config.replication.controller.disk_stall_timeout();
    let what = runtime.disk_watch.look(runtime.clock.steady(), replication.store.unfinished(), bound);
    if let Some(what) = what.filter(|_| !replication.role.is_slave()) {
        tracing::warn!(
            disk = %runtime.config.store.commit_log.display(),
            pending = ?runtime.disk_watch.pending(replication.store.unfinished()),
            "the disk does not finish a {what} of the log: sends wait for the disk"
        );
    }
    Next::At(now_ms + DISK_LOOK_MS)
}
