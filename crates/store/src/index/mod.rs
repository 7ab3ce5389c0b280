//! The key index: finds messages by unique key, key or tag (`IndexService`, `IndexFile`).
//!
//! An index file has a header, a table of slots and a list of items, one item per key of a message, in log order. An
//! item holds the key's hash, the message's log position, its store time in seconds and the number of the previous
//! item in the same slot. The slot holds the number of its newest item. A query follows this chain from the newest
//! item to older items, file by file. Hashes collide, so each message that a query finds is read and its keys are
//! compared.
//!
//! ```text
//! header 40 | slots 4 x maxHashSlotNum | items 20 x maxIndexNum, the first of them never used
//! ```
//!
//! Keys are hashed while a batch is encoded. The appender hands over the hashes of a whole batch under its own lock
//! ([`pending`]), and a thread of low priority adds them to the file ([`current`]). The list of pending keys is
//! bounded. A full list is dropped, and the thread reads the keys from the log ([`catch_up`]) until it reaches the
//! newer pending keys. So the index never delays an append, and the same code handles a start after a crash, a lost
//! file, and a store without an index.
//!
//! Life cycle of a file: It is created empty with the position and time at which the previous file ended, and then
//! filled. When it is full, these become durable in this order: the items, the header that counts them, the slots,
//! the checkpoint's `indexMsgTimestamp` (after the log is durable as far), and the end in the header. The same
//! happens to the unfinished file at a clean stop, and before the checkpoint enters another log file. So a RocketMQ
//! broker that takes over the store at any moment finds every key. After a crash of Vostok, the slots are rebuilt
//! from the items that the header counts.
//!
//! The index is derived data. If it cannot be written, appends continue. After a pause the thread loads the files
//! again, removes damaged files and reads their keys from the log. If the log cannot be read, the thread tries again
//! after a pause.

mod catch_up;
mod current;
pub(crate) mod layout;
mod load;
mod pending;
mod query;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use layout::Geometry;
pub use query::{KeyMatch, KeyMatches, KeyQuery};

use crate::disk::{Disk, DiskFile};
use crate::flusher::Flusher;
use crate::keys::KeyEntry;
use crate::read::Reader;
use crate::state::State;
use crate::wake::{Clock, Wake};
use current::{Current, LastMessage};
use layout::Header;
use pending::PendingKeys;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// First pause after an error.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause after an error.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The key index of a store.
///
/// Locks are taken in this order: `filling`, `pending`. The appender takes only `pending`.
pub(crate) struct KeyIndex {
    /// Whether new messages are indexed. Existing files are searched in any case.
    pub(crate) is_on: bool,
    geometry: Geometry,
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    pending: Mutex<PendingKeys>,
    filling: Mutex<IndexFiles>,
    /// Log position before which all messages can be found.
    indexed: AtomicU64,
    /// Whether the store crashed, so that the slots of an unfinished file cannot be trusted.
    after_crash: AtomicBool,
    /// Log position before which a RocketMQ broker that takes over the store now finds all messages.
    settled: AtomicU64,
    pub(crate) wake: Wake,
    clock: Arc<Clock>,
    /// Set by the thread while it sleeps without pending keys. Paired with `pending`.
    idle: AtomicBool,
}

/// The key index and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Indexer<'a> {
    pub(crate) state: &'a State,
    pub(crate) index: &'a KeyIndex,
    pub(crate) flusher: Flusher<'a>,
    pub(crate) reader: Reader<'a>,
}

/// A full index file.
struct FullFile {
    name: String,
    file: Arc<dyn DiskFile>,
    header: Header,
}

/// The files and how far they are filled. Only the holder of the lock may access them.
#[derive(Default)]
struct IndexFiles {
    stage: IndexState,
    /// Full files in ascending order, all before the current file.
    finished: Vec<Arc<FullFile>>,
    current: Option<Current>,
    /// Log position before which all keys are in the files.
    next: u64,
    /// Number of keys of the record at `next` that are in the files already.
    skip: usize,
    /// The end of the durable part that the checkpoint does not know yet.
    unannounced: Option<LastMessage>,
    /// Full files whose header does not name their end yet, because the checkpoint does not cover it.
    stale_headers: Vec<Arc<FullFile>>,
    /// Name of a file with invalid data; it is removed at the next loading.
    damaged: Option<String>,
    pause: Duration,
    /// An empty list, kept to reuse its memory.
    scratch: Vec<KeyEntry>,
}

/// State of `IndexFiles`.
#[derive(Default)]
enum IndexState {
    /// The files will be loaded when they are needed.
    #[default]
    Unloaded,
    Ready,
    /// State after an error of an index file: the thread pauses until this time and then loads the files again.
    FilePause(Instant),
    /// State after an error of reading the log: the thread pauses until this time. The loaded files stay valid.
    LogPause(Instant),
}

impl KeyIndex {
    pub(crate) fn new(
        is_on: bool,
        geometry: Geometry,
        directory: PathBuf,
        disk: Arc<dyn Disk>,
        clock: Arc<Clock>,
    ) -> Self {
        Self {
            is_on,
            geometry,
            directory,
            disk,
            pending: Mutex::default(),
            filling: Mutex::new(IndexFiles { pause: PAUSE, ..IndexFiles::default() }),
            indexed: AtomicU64::new(0),
            after_crash: AtomicBool::new(true),
            settled: AtomicU64::new(0),
            wake: Wake::default(),
            clock,
            idle: AtomicBool::new(false),
        }
    }

    /// Log position before which all messages can be found.
    pub(crate) fn indexed(&self) -> u64 {
        self.indexed.load(Ordering::Acquire)
    }

    /// Removes the files that hold only messages before `log_min`, but never the newest file.
    fn remove_below(&self, filling: &mut IndexFiles, log_min: u64) -> io::Result<()> {
        let mut removed = false;
        while filling.finished.len() + usize::from(filling.current.is_some()) > 1
            && filling.finished.first().is_some_and(|oldest| oldest.header.end_offset < log_min)
        {
            self.disk.remove(&self.directory.join(&filling.finished[0].name))?;
            filling.finished.remove(0);
            removed = true;
        }
        if removed { self.disk.sync_dir(&self.directory) } else { Ok(()) }
    }
}

impl IndexFiles {
    /// Returns the end of a pause that begins now, and lengthens the next pause.
    fn pause(&mut self, now: Instant) -> Instant {
        let until = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        until
    }

    /// Writes the ends into the file headers, as far as the checkpoint covers them.
    fn write_header_end(&mut self, end: LastMessage) -> io::Result<()> {
        while let Some(finished) =
            self.stale_headers.first().filter(|first| first.header.end_offset <= end.offset)
        {
            let time = finished.header.end_time.min(end.time);
            LastMessage { time, offset: finished.header.end_offset }.write(&*finished.file)?;
            self.stale_headers.remove(0);
        }
        self.current.as_mut().map_or(Ok(()), |current| current.write_header_end(end))
    }

    /// The header of the newest file.
    fn newest(&self) -> Option<Header> {
        let finished = self.finished.last().map(|finished| finished.header);
        self.current.as_ref().map(|current| current.header).or(finished)
    }
}
