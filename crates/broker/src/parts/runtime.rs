//! The machinery that every operation runs on: clock, settings, threads and the disk.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

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
