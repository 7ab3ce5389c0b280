//! The configuration of a store.

use std::path::PathBuf;
use std::time::Duration;

/// When appended messages are flushed to the disk (`flushDiskType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// The log is flushed every [`Config::flush_interval`].
    Async,
    /// The store flushes the log as soon as a caller waits. A flush serves all waiting callers.
    Sync,
}

/// Configuration that a store is opened with. Names in backticks are RocketMQ's broker properties.
#[derive(Clone, Debug)]
pub struct Config {
    /// `storePathRootDir`: root directory of the store.
    pub root: PathBuf,
    /// `storePathCommitLog`: the first directory of the commit log.
    pub commit_log: PathBuf,
    /// Further directories of the commit log; new files go to each directory in turn.
    pub commit_log_more: Vec<PathBuf>,
    /// `readOnlyCommitLogStorePaths`: directories of the commit log that get no new files.
    pub commit_log_read_only: Vec<PathBuf>,
    /// `mappedFileSizeCommitLog`: size of a commit log file in bytes. Must stay the same for the life of a store; see
    /// [`Self::take_file_sizes`].
    pub segment_bytes: u64,
    /// `mappedFileSizeConsumeQueue`: size of a consume queue file in bytes; rounded up to whole units.
    pub queue_file_bytes: u64,
    /// `mapperFileSizeBatchConsumeQueue`: size in bytes of RocketMQ's batch consume queue file; rounded up to whole units.
    pub batch_file_bytes: u64,
    /// Topics with `queue.type=BatchCQ`.
    pub batched_topics: Vec<String>,
    /// `flushDiskType`: synchronous or asynchronous flush.
    pub flush: FlushMode,
    /// `flushIntervalCommitLog`: longest time an appended byte stays unflushed.
    pub flush_interval: Duration,
    /// `syncFlushTimeout`: a caller that waits for a flush gets [`crate::FlushOutcome::TimedOut`] after this time.
    pub flush_timeout: Duration,
    /// Interval at which a checkpoint writes queue tails to their files. With many queues, units go to the unit
    /// journal at this interval, and checkpoints are rarer.
    pub checkpoint_interval: Duration,
    /// Number of appended bytes after which write-back to the disk starts.
    pub write_back_bytes: u64,
    /// Bytes at the end of the log that may stay in the page cache. Older bytes are dropped from it when they are on
    /// the disk. Otherwise the log would fill all memory, and appends would wait for the kernel to free some.
    pub cached_bytes: u64,
    /// Bytes of the page cache that reads far behind the end of the log may use.
    pub cold_bytes: u64,
    /// Pause before a failed rebuild of queues is tried again; it doubles up to 64 times this value.
    pub rebuild_pause: Duration,
    /// Number of bytes ahead of the appender that preallocation fills with zeros at full speed. It fills the rest
    /// with pauses. Used with [`FlushMode::Sync`].
    pub written_ahead_bytes: u64,
    /// Largest record in bytes (`maxMessageSize` + 65,536).
    pub record_bytes_max: usize,
    /// `messageDelayLevel` in milliseconds, level 1 first.
    pub delay_levels_ms: Vec<i64>,
    /// `enabledAppendPropCRC`: whether records end in a checksum property.
    pub crc_property: bool,
    /// `enableLmq` and `enableMultiDispatch`: messages may name further queues that receive them.
    pub multi_dispatch: bool,
    /// `enableControllerMode`: the checkpoint holds the confirm offset in place of the newest message's position.
    pub controller_mode: bool,
    /// Whether a digest, a checksum of everything but the body, is kept for every record and compared when the record is read
    /// from the disk. Turned off only to measure its cost.
    pub digests: bool,
    /// `messageIndexEnable`: messages are indexed by key. When off, messages indexed before are still found.
    pub key_index: bool,
    /// `maxHashSlotNum`: hash slots of a key index file. Files with another number are rebuilt from the log.
    pub index_slots: u32,
    /// `maxIndexNum`: number of items for which a key index file has space. The first item is never used.
    /// Files with another number are rebuilt from the log.
    pub index_items: u32,
    /// Maximum number of queue files kept open.
    pub open_queue_files: usize,
    /// Maximum number of queue units that may wait in memory to be written; beyond it appends are refused as busy.
    pub unwritten_units_max: u64,
}

impl Config {
    /// RocketMQ's defaults for a store at `root`, but without a key index: a broker that answers queries by key turns it on.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            commit_log: root.join("commitlog"),
            commit_log_more: Vec::new(),
            commit_log_read_only: Vec::new(),
            root,
            segment_bytes: 1 << 30,
            queue_file_bytes: 6_000_000,
            batch_file_bytes: 13_800_000,
            batched_topics: Vec::new(),
            flush: FlushMode::Async,
            flush_interval: Duration::from_millis(500),
            flush_timeout: Duration::from_secs(5),
            checkpoint_interval: Duration::from_secs(1),
            write_back_bytes: 2 << 20,
            cached_bytes: 4 << 30,
            cold_bytes: 256 << 20,
            rebuild_pause: Duration::from_secs(10),
            written_ahead_bytes: 64 << 20,
            record_bytes_max: (4 << 20) + 65_536,
            delay_levels_ms: crate::delivery_delays(
                "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
            )
            .expect("the default text is well formed"),
            crc_property: false,
            multi_dispatch: false,
            controller_mode: false,
            digests: true,
            key_index: false,
            index_slots: 5_000_000,
            index_items: 20_000_000,
            open_queue_files: 512,
            unwritten_units_max: 12 << 20,
        }
    }
}
