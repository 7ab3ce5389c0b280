//! Clock, settings, threads and disk of a broker. Every operation runs on them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use wire::body::MessageQueue;
use wire::body::topic::{PERM_READ, PERM_WRITE};

use crate::clock::Clock;
use crate::config::Live;
use crate::disk_pool::DiskPool;
use crate::state::{DiskWatch, MetadataQueue, Retention};
use crate::supervisor::Supervisor;

/// Clock, settings and threads of a broker.
pub(crate) struct Runtime {
    pub(crate) clock: Clock,
    pub(crate) config: Live,
    /// Lock of a request that changes settings (25).
    pub(crate) settings_changing: Mutex<()>,
    pub(crate) disk_pool: DiskPool,
    /// Changes of topics and groups that wait for the metadata writer.
    pub(crate) metadata_queue: MetadataQueue,
    pub(crate) supervisor: Arc<Supervisor>,
    /// State of the engine that deletes old files.
    pub(crate) retention: Retention,
    /// Watch of the disk: writes and flushes of the log that are not finished.
    pub(crate) disk_watch: DiskWatch,
    /// Whether the broker stops. Clients newer than 5.3.1 then get `GO_AWAY`.
    pub(crate) draining: AtomicBool,
}

impl Runtime {
    /// The time of the broker's clock, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.config.broker_permission & PERM_WRITE != 0
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.config.broker_permission & PERM_READ != 0
    }

    /// Number of delay levels.
    pub(crate) fn delay_levels(&self) -> i32 {
        self.config.store.delay_levels_ms.len() as i32
    }

    /// Delay of a delay level in milliseconds; 1 s for a level that does not exist.
    pub(crate) fn delay_ms(&self, level: i32) -> i64 {
        let index = usize::try_from(level - 1).unwrap_or(0);
        self.config.store.delay_levels_ms.get(index).copied().unwrap_or(1000)
    }

    /// The full name of a queue of this broker.
    pub(crate) fn message_queue(&self, topic: &str, queue_id: i32) -> MessageQueue {
        MessageQueue::new(topic, &self.config.broker_name, queue_id)
    }
}
