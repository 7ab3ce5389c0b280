//! Errors of the store, one type per operation.

use std::io;
use std::path::PathBuf;
use thiserror::Error;
use wire::record::EncodeError;
use wire::units::LogOffset;

/// Errors of opening a store. The store is unchanged unless the text says otherwise.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process, or another store in this process, has locked the directory.
    #[error("the store {root} is in use by {holder}")]
    Locked {
        /// The store's root directory.
        root: PathBuf,
        /// Process that holds the lock, if the system tells it.
        holder: String,
    },
    /// The size of a file differs from the size of the other files.
    #[error(
        "{path} is {found} bytes long, expected {expected}, the size of the other files or of the setting: the file is truncated or belongs to another store"
    )]
    FileSize {
        /// Path of the file.
        path: PathBuf,
        /// Size in bytes of the other files, or the configured size.
        expected: u64,
        /// The file's size in bytes.
        found: u64,
    },
    /// The commit log directory holds a file whose name is not its start offset.
    #[error(
        "{path} is no file of the commit log, whose names are start offsets of 20 digits: storePathCommitLog must name a directory that holds nothing \
         else; if it does, move the file out of it"
    )]
    FileName {
        /// Path of the file.
        path: PathBuf,
    },
    /// The directory of the commit log is also the root directory of the store.
    #[error(
        "{path} holds the files of the store and is to hold the commit log as well: expected another directory in storePathCommitLog, such as {}", path.join("commitlog").display()
    )]
    RootIsLog {
        /// The directory.
        path: PathBuf,
    },
    /// Two files of the commit log start at the same offset.
    #[error(
        "{first} and {second} are the same part of the commit log: storePathCommitLog names two directories with copies, or one directory twice; name \
         each directory once, and move the copy that is not the store's away"
    )]
    Twice {
        /// Path of the file in the first directory.
        first: PathBuf,
        /// Path of the file in the second directory.
        second: PathBuf,
    },
    /// A file of the commit log is missing.
    #[error("the commit log misses the file that starts at {expected}; the next one is {found}")]
    Gap {
        /// Log position where the missing file should start.
        expected: u64,
        /// The next file that exists.
        found: PathBuf,
    },
    /// The commit log has no file, but the queues have messages.
    #[error(
        "{path} holds no file of the commit log, but the store had messages up to log position {claimed}: mount or move the commit log back, or name its \
         directory with storePathCommitLog; to begin without these messages, remove {queues} as well. Nothing was changed"
    )]
    NoLog {
        /// The directory of the commit log.
        path: PathBuf,
        /// Log position up to which the checkpoint knows of messages.
        claimed: u64,
        /// The directory of the queue files.
        queues: PathBuf,
    },
    /// A position of the log has no whole record, but whole records follow. Either a power cut kept pages from the
    /// disk, or acknowledged messages are damaged. Opening is refused until an operator decides with `vostok store
    /// repair`.
    #[error(
        "{path} at {position}: {what}. {records} whole records follow, appended within {seconds} s: pages that a power cut kept from the disk, or damage of \
         messages that were on it. To keep what follows: vostok store repair {store} --keep-behind {at} --apply; to end the log \
         there: vostok store repair {store} --cut-at {at} --apply (both keep copies). No file of the log was changed"
    )]
    Undecided {
        /// Path of the commit log file.
        path: PathBuf,
        /// Position in the file.
        position: u64,
        /// Position in the log.
        at: u64,
        /// Content at the position.
        what: String,
        /// Number of whole records behind the position.
        records: u64,
        /// Time in seconds between the store times of the first and the newest of these records.
        seconds: u64,
        /// Command line flags of `vostok store` that name this store.
        store: String,
    },
    /// The configuration is invalid. The text has the reason.
    #[error("{0}")]
    Config(String),
    /// A file operation failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operation.
        source: io::Error,
    },
}

/// Whether a write failed only for lack of space or file descriptors. The write then changed no valid data, and a
/// later retry may succeed. All other write errors fence the store.
pub(crate) fn is_lack(error: &io::Error) -> bool {
    const TOO_MANY_OPEN_FILES: [i32; 2] = [23, 24];
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN_FILES.contains(&code))
}

/// Whether this error of reading a queue file means that the file is damaged, rather than that the disk failed.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | InvalidData | UnexpectedEof)
}

impl OpenError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// Errors of adding a message to a batch. The batch is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PushError {
    /// A field of the message does not fit into its length field.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The record is larger than the configured limit, or than a commit log file.
    #[error("record is {found} bytes long, the limit is {limit}")]
    TooLarge {
        /// Size of the record in bytes.
        found: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The message is an inner batch, and its topic does not have `queue.type=BatchCQ`.
    #[error("topic {topic} takes no inner batches: its queue.type is not BatchCQ")]
    InnerBatch {
        /// Name of the topic.
        topic: String,
    },
    /// The topic was deleted and created again with another `queue.type`, and queues of the deleted topic still exist.
    #[error("topic {topic} has queues of another queue.type: delete it and make it again")]
    Kind {
        /// Name of the topic.
        topic: String,
    },
    /// The topic name or queue id is invalid: both become directory names.
    #[error("topic {topic:?} with queue id {queue_id} cannot be a queue")]
    Queue {
        /// Name of the topic.
        topic: String,
        /// The queue id.
        queue_id: i32,
    },
}

/// Errors of an append. Nothing was written, except with [`AppendError::Fenced`], and later appends may succeed.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The disk has no space, or the process no file descriptor, for the next commit log file.
    #[error("no space for the next commit log file: {0}")]
    NoSpace(io::Error),
    /// The disk is fuller than the warning level; see [`crate::Store::watch_space`].
    #[error(
        "the disk is over the warning level: {log_percent} % used for the log, {queue_percent} % for the queues"
    )]
    DiskFull {
        /// Percentage in use of the disk that holds the log.
        log_percent: u64,
        /// Percentage in use of the disk that holds the queues.
        queue_percent: u64,
    },
    /// A write or flush failed earlier or now; it is unknown whether the batch is stored.
    #[error("the store is fenced until it is reopened: {0}")]
    Fenced(String),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The store follows a master and takes no messages of its own; see [`crate::Store::start_following`].
    #[error("the store follows a master and takes no messages of its own")]
    Following,
    /// The batch holds a message for a queue of a removed topic.
    #[error("topic {topic} was removed")]
    Removed {
        /// Name of the topic.
        topic: String,
    },
    /// The number of queue units in memory that wait for a write to the queue files is at its limit.
    #[error("{waiting} queue units wait for the disk, the limit is {limit}")]
    Busy {
        /// Number of units that wait.
        waiting: u64,
        /// The limit of that number ([`crate::Config::unwritten_units_max`]).
        limit: u64,
    },
}

/// Errors of following a master or truncating the log. [`crate::Store::followed`] tells the position at which the
/// master's bytes continue.
#[derive(Debug, Error)]
pub enum FollowError {
    /// The store does not follow a master; see [`crate::Store::start_following`].
    #[error("the store does not follow a master")]
    NotFollowing,
    /// The bytes do not begin at the end of the preceding bytes. Nothing was written.
    #[error("bytes for log offset {found} came, expected {expected}")]
    Offset {
        /// Log position where the next bytes belong.
        expected: LogOffset,
        /// Log position of the bytes that came.
        found: LogOffset,
    },
    /// An empty store can begin only at the start of a commit log file. Nothing was written.
    #[error(
        "the master's log begins at {found}, which no commit log file of {segment_bytes} bytes does: do mappedFileSizeCommitLog of both differ?"
    )]
    Start {
        /// Log position of the bytes that came.
        found: LogOffset,
        /// Size of a commit log file in bytes.
        segment_bytes: u64,
    },
    /// The bytes are not valid records. The store dropped all bytes of the call and the unfinished record before
    /// them.
    #[error("no record of a master's log at log offset {at}: {what}")]
    Record {
        /// Log position where a record should begin.
        at: LogOffset,
        /// Content at the position.
        what: String,
    },
    /// Truncation at this position is impossible. Nothing was changed.
    #[error("the log cannot be truncated to {to}: {what}")]
    Truncate {
        /// The log position.
        to: LogOffset,
        /// Expected and actual content at the position.
        what: String,
    },
    /// The store can take no bytes now, or not until it is reopened.
    #[error(transparent)]
    Store(#[from] AppendError),
}

/// Damaged message: the bytes on the disk differ from the stored bytes. The store does not serve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Index of the message in the request.
    pub index: usize,
    /// Log position where the message's record should begin.
    pub at: LogOffset,
    /// Expected and actual content.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the record at log offset {} is damaged: {}", self.at, self.what)
    }
}

/// Outcome of a read.
pub(crate) type Result<T, E = ReadError> = std::result::Result<T, E>;

/// Errors of reading records or units.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The range is not within the log.
    #[error("log range {from}+{length} is outside of {min}..{appended}")]
    Range {
        /// Log position where the range starts.
        from: LogOffset,
        /// Length of the range in bytes.
        length: usize,
        /// First log position held.
        min: LogOffset,
        /// Log position behind the last appended byte.
        appended: LogOffset,
    },
    /// The bytes at a log position are not the expected record.
    #[error("no record at log offset {at}: {source}")]
    Record {
        /// The log position.
        at: LogOffset,
        /// Error of the record.
        source: wire::record::RecordError,
    },
    /// Some messages are damaged and are never delivered. A read that omits them returns the remaining messages.
    #[error("{}", list(.0))]
    Damaged(Vec<Damage>),
    /// The queue's files were lost and are being rebuilt from the log.
    #[error(
        "part of queue {queue_id} of topic {topic} was lost and is being rebuilt from the log; try again later"
    )]
    Rebuilding {
        /// Name of the topic.
        topic: String,
        /// The queue id.
        queue_id: i32,
    },
    /// Reading a file of the store failed.
    #[error("reading the store: {0}")]
    Io(#[from] io::Error),
}

fn list(damaged: &[Damage]) -> String {
    damaged.iter().map(Damage::to_string).collect::<Vec<_>>().join("; ")
}
