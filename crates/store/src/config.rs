//! What a store is opened with.

use std::path::PathBuf;
use std::time::Duration;

/// Whether an answer waits for the disk (`flushDiskType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Flushed every [`Config::flush_interval`].
    Async,
    /// Flushed as soon as somebody waits, everybody behind one flush at once.
    Sync,
}

/// Everything a store is told at opening.
#[derive(Clone, Debug)]
pub struct Config {
    /// `storePathRootDir`.
    pub root: PathBuf,
    /// `storePathCommitLog`: the first directory of the commit log.
    pub commit_log: PathBuf,
    /// The further ones; new files go to each in turn.
    pub commit_log_more: Vec<PathBuf>,
    /// `readOnlyCommitLogStorePaths`: directories of the commit log that get no new files.
    pub commit_log_read_only: Vec<PathBuf>,
    /// `mappedFileSizeCommitLog`: size of a commit log file. Must stay the same for the life of a store.
    pub segment_bytes: u64,
    /// `mappedFileSizeConsumeQueue`: size of a queue file; rounded up to whole units.
    pub queue_file_bytes: u64,
    /// `mapperFileSizeBatchConsumeQueue`: size of RocketMQ's file of a queue of batches; rounded up to whole units.
    pub batch_file_bytes: u64,
    /// Topics with `queue.type=BatchCQ`.
    pub batched_topics: Vec<String>,
    /// `flushDiskType`.
    pub flush: FlushMode,
    /// `flushIntervalCommitLog`: longest time an appended byte stays unflushed.
    pub flush_interval: Duration,
    /// `syncFlushTimeout`: a waiter is told [`crate::FlushOutcome::TimedOut`] after this time.
    pub flush_timeout: Duration,
    /// How often queue tails go to their files and the checkpoint is written; with many queues to the unit journal, and more
    /// rarely to the files.
    pub checkpoint_interval: Duration,
    /// Write-back to the disk starts whenever so many bytes were appended.
    pub write_back_bytes: u64,
    /// So many bytes at the end of the log stay in memory at most; what is older is taken out once it is on the
    /// disk. Otherwise the log fills all memory, and then appends wait for the kernel to make room.
    pub cached_bytes: u64,
    /// So many bytes far behind the end of the log are in memory at most because somebody reads them.
    pub cold_bytes: u64,
    /// Pause before queues that could not be rebuilt are tried again; it doubles up to 64 times this.
    pub rebuild_pause: Duration,
    /// With [`FlushMode::Sync`] files are filled with zeros before they are written to; so many bytes ahead of the
    /// appender without regard for others, the rest with pauses.
    pub written_ahead_bytes: u64,
    /// Largest record in bytes (`maxMessageSize` + 65,536).
    pub record_bytes_max: usize,
    /// `messageDelayLevel` in milliseconds, level 1 first.
    pub delay_levels_ms: Vec<i64>,
    /// `enabledAppendPropCRC`.
    pub crc_property: bool,
    /// `enableLmq` and `enableMultiDispatch`: messages may name further queues they belong to.
    pub multi_dispatch: bool,
    /// Whether a checksum of everything but the body is kept of every record, and compared when the record is read from
    /// the disk. Off only to measure what it costs.
    pub digests: bool,
    /// `messageIndexEnable`: messages are found by key. Without it what is indexed already still is.
    pub key_index: bool,
    /// `maxHashSlotNum`: slots of a key index file. Other files are made anew from the log.
    pub index_slots: u32,
    /// `maxIndexNum`: places for items in a key index file, one more than it takes. As with the slots.
    pub index_items: u32,
    /// Queue files kept open.
    pub open_queue_files: usize,
    /// Queue units that may wait in memory for their files; beyond it appends are refused as busy.
    pub unwritten_units_max: u64,
}

impl Config {
    /// RocketMQ's defaults for a store at `root`, except that there is no key index: whoever answers queries turns it on.
    #[must_use]
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
            digests: true,
            key_index: false,
            index_slots: 5_000_000,
            index_items: 20_000_000,
            open_queue_files: 512,
            unwritten_units_max: 12 << 20,
        }
    }
}
