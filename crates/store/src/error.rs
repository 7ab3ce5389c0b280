//! What can go wrong, by operation.

use crate::digest::Damage;
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use wire::record::EncodeError;
use wire::units::LogOffset;

/// Why a store does not open. Nothing was changed unless the text says so.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process (or another store in this one) uses the directory.
    #[error("the store {root} is in use by {holder}")]
    Locked {
        /// The store's root.
        root: PathBuf,
        /// Who holds it, as far as it can be told.
        holder: String,
    },
    /// A file of a fixed-size kind has another size.
    #[error(
        "{path} is {found} bytes long, expected {expected}: the configured file size must be the one the store was written with"
    )]
    FileSize {
        /// The file.
        path: PathBuf,
        /// The configured size.
        expected: u64,
        /// Its length.
        found: u64,
    },
    /// A file whose name is not its start offset.
    #[error("{path} is not named by a start offset of 20 digits; move it out of the store")]
    FileName {
        /// The file.
        path: PathBuf,
    },
    /// The commit log misses a file.
    #[error("the commit log misses the file that starts at {expected}; the next one is {found}")]
    Gap {
        /// Where a file should start.
        expected: u64,
        /// The file found instead.
        found: PathBuf,
    },
    /// A place in the log is what a power cut left, or damage behind which messages were acknowledged.
    #[error(
        "{path} at {position}: {what}. {records} whole records follow, appended within {seconds} s: pages that a power cut kept from the disk, or damage of \
         messages that were on it. To keep what follows: vostok store repair {store} --keep-behind {at} --apply; to end the log \
         there: vostok store repair {store} --cut-at {at} --apply (both keep copies). No file of the log was changed"
    )]
    Undecided {
        /// The file.
        path: PathBuf,
        /// Where in it.
        position: u64,
        /// The same as a position of the log.
        at: u64,
        /// What was found there.
        what: String,
        /// Whole records behind it.
        records: u64,
        /// The time between the first and the last of them.
        seconds: u64,
        /// The flags that name the store.
        store: String,
    },
    /// The configuration cannot work.
    #[error("{0}")]
    Config(String),
    /// The disk refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The disk's error.
        source: io::Error,
    },
}

/// Whether something is only lacking, space or file descriptors: nothing that counts was written, and it may be tried
/// again later. All other errors of writing are for good.
pub(crate) fn is_lack(error: &io::Error) -> bool {
    const TOO_MANY_OPEN_FILES: [i32; 2] = [23, 24];
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN_FILES.contains(&code))
}

impl OpenError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// Why a message cannot be put into a batch. The batch is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PushError {
    /// A part is longer than its length field.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The record is larger than allowed, or than a commit log file holds.
    #[error("record is {found} bytes long, the limit is {limit}")]
    TooLarge {
        /// Its size.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// An inner batch is a message only of a topic with `queue.type=BatchCQ`.
    #[error("topic {topic} takes no inner batches: its queue.type is not BatchCQ")]
    InnerBatch {
        /// The topic.
        topic: String,
    },
    /// The topic was made again with another `queue.type`, and queues of the one before are still there.
    #[error("topic {topic} has queues of another queue.type: delete it and make it again")]
    Kind {
        /// The topic.
        topic: String,
    },
    /// A queue cannot have this name or number: they become directories.
    #[error("topic {topic:?} with queue id {queue_id} cannot be a queue")]
    Queue {
        /// The topic.
        topic: String,
        /// The queue id.
        queue_id: i32,
    },
}

/// Why a batch was not appended. Except for [`AppendError::Fenced`] nothing was written and the store goes on.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The next commit log file could not be allocated.
    #[error("no space for the next commit log file: {0}")]
    NoSpace(io::Error),
    /// The disk is over the warning level; see [`crate::Store::watch_space`].
    #[error(
        "the disk is over the warning level: {log_percent} % used for the log, {queue_percent} % for the queues"
    )]
    DiskFull {
        /// Percent in use on the log's disk.
        log_percent: u64,
        /// Percent in use on the queues' disk.
        queue_percent: u64,
    },
    /// A write or flush failed earlier or now; whether the batch is stored is unknown.
    #[error("the store is fenced until it is reopened: {0}")]
    Fenced(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A queue of the batch is one of a topic that was removed.
    #[error("topic {topic} was removed")]
    Removed {
        /// The topic.
        topic: String,
    },
    /// Too many queue units wait for the disk.
    #[error("{waiting} queue units wait for the disk, the limit is {limit}")]
    Busy {
        /// How many wait.
        waiting: u64,
        /// The limit.
        limit: u64,
    },
}

/// Why bytes were not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Outside of what the log holds.
    #[error("log range {from}+{length} is outside of {min}..{appended}")]
    Range {
        /// Start asked for.
        from: LogOffset,
        /// Length asked for.
        length: usize,
        /// First byte held.
        min: LogOffset,
        /// End of what was appended.
        appended: LogOffset,
    },
    /// What lies there is not the record expected.
    #[error("no record at log offset {at}: {source}")]
    Record {
        /// Where.
        at: LogOffset,
        /// What is wrong.
        source: wire::record::RecordError,
    },
    /// Messages are not what was stored. They are never delivered; to serve the others, read again without them.
    #[error("{}", list(.0))]
    Damaged(Vec<Damage>),
    /// The queue's files were lost; they are being written again from the log.
    #[error(
        "part of queue {queue_id} of topic {topic} was lost and is being rebuilt from the log; try again later"
    )]
    Rebuilding {
        /// The topic.
        topic: String,
        /// The queue id.
        queue_id: i32,
    },
    /// The disk refused.
    #[error("reading the store: {0}")]
    Io(#[from] io::Error),
}

fn list(damaged: &[Damage]) -> String {
    damaged.iter().map(Damage::to_string).collect::<Vec<_>>().join("; ")
}
