//! The kinds of stores whose power is cut. A seed decides everything about one, so that it can be made again.

use std::fmt;
use std::time::Duration;

use crate::common::disk::FileSystem;
use crate::common::random::Random;

/// A store, its disk and its load.
#[derive(Clone, Debug)]
pub struct Kind {
    pub seed: u64,
    pub file_system: FileSystem,
    /// The disk's image lies in memory: flushes are fast, and more happens between two cuts.
    pub in_memory: bool,
    pub sync: bool,
    /// `flushIntervalCommitLog`.
    pub flush_interval: Duration,
    pub queues: usize,
    pub log_file: u64,
    pub queue_file: u64,
    /// `flushIntervalConsumeQueue`: time between checkpoints.
    pub checkpoint_ms: u64,
    pub property_crc: bool,
    /// The producers leave the disk time.
    pub gentle: bool,
    /// Delayed messages are sent as well.
    pub delayed: bool,
    pub planted: Planted,
}

/// A bug of the tests that the judge must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    Nothing,
    /// Messages count as acknowledged when they are written to the socket.
    EarlyAcknowledgement,
    /// The server answers before it flushed, and is judged as if it had flushed.
    UnflushedAcknowledgement,
    /// A bug of this name in the server; see `store::planted`.
    Server(&'static str),
}

impl Kind {
    /// The kind of a seed. Neighbours differ in file system and flush mode.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sync = (seed / 2).is_multiple_of(2);
        Self {
            seed,
            file_system: if seed.is_multiple_of(2) { FileSystem::Ext4 } else { FileSystem::Xfs },
            in_memory: !random.one_in(4),
            sync,
            flush_interval: Duration::from_millis(random.one_of(&[10, 100, 500])),
            queues: random.one_of(&[1, 8, 8, 64, 512]) as usize,
            log_file: random.one_of(&[1 << 20, 4 << 20, 4 << 20, 16 << 20, 1 << 30]),
            queue_file: random.one_of(&[2000, 20_000, 300_000, 6_000_000]),
            checkpoint_ms: random.one_of(&[20, 100, 1000]),
            property_crc: random.one_in(3),
            gentle: random.one_in(2),
            delayed: sync && random.one_in(2),
            planted: Planted::Nothing,
        }
    }

    /// A kind in which `planted` shows soon.
    pub fn with(planted: Planted, seed: u64) -> Self {
        // A record torn in its body is seldom in what a synchronous flush has left.
        let torn = planted == Planted::Server("skip-crc");
        Self {
            in_memory: true,
            sync: !torn,
            queues: 8,
            log_file: 16 << 20,
            queue_file: 20_000,
            // Soon enough that restarts believe the queue files.
            checkpoint_ms: if torn { 1000 } else { 20 },
            property_crc: false,
            gentle: false,
            delayed: false,
            planted,
            ..Self::of(seed)
        }
    }

    /// Lines of `broker.conf`.
    pub fn lines(&self) -> Vec<String> {
        let sync = self.sync && self.planted != Planted::UnflushedAcknowledgement;
        let mode = if sync { "SYNC_FLUSH" } else { "ASYNC_FLUSH" };
        // A planted bug must not be saved by a flush that came by chance.
        let is_planted = self.planted != Planted::Nothing;
        let interval = if is_planted { 60_000 } else { self.flush_interval.as_millis() };
        // Offsets that are saved make the log be flushed; in half of the stores of each kind they are all the time.
        let offsets = if is_planted || (self.seed / 4).is_multiple_of(2) { 60_000 } else { 20 };
        vec![
            format!("flushDiskType={mode}"),
            format!("flushIntervalCommitLog={interval}"),
            format!("flushConsumerOffsetInterval={offsets}"),
            format!("flushIntervalConsumeQueue={}", self.checkpoint_ms),
            format!("mappedFileSizeCommitLog={}", self.log_file),
            format!("mappedFileSizeConsumeQueue={}", self.queue_file),
            format!("enabledAppendPropCRC={}", self.property_crc),
        ]
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medium = if self.in_memory { "memory" } else { "disk" };
        let mode = if self.sync { "sync" } else { "async" };
        write!(
            f,
            "{:?} on {medium}, {mode} flush every {} ms, {} queues, files {}/{} kB, checkpoint {} ms{}{}{}",
            self.file_system,
            self.flush_interval.as_millis(),
            self.queues,
            self.log_file >> 10,
            self.queue_file >> 10,
            self.checkpoint_ms,
            if self.gentle { ", gentle" } else { "" },
            if self.property_crc { ", property crc" } else { "" },
            if self.delayed { ", delayed" } else { "" },
        )
    }
}
