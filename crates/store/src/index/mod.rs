//! The key index: finds messages by unique key, key or tag (`IndexService`, `IndexFile`).
//!
//! An index file has a header, a table of slots and a list of items, one item per key of a message, in the order of the
//! log. An item holds the key's hash, the message's position, its time in seconds and the item before it in the same
//! slot; the slot holds its newest item. So a search follows a chain from the newest item to older ones, file by file.
//! Hashes collide: what a search finds is read and compared.
//!
//! ```text
//! header 40 | slots 4 x maxHashSlotNum | items 20 x maxIndexNum, the first of them never used
//! ```
//!
//! Keys are hashed while a batch is encoded. The appender hands the hashes of a whole batch over under its own lock
//! ([`pending`]); a thread of low priority puts them into the file ([`current`]). The list of what waits is bounded:
//! when it is full it is dropped, and the thread reads the keys from the log instead ([`catch_up`]) until it reaches
//! what was handed over since. So the index never holds an append back, and the same reading serves a start after a
//! crash, a lost file, and a store that had no index.
//!
//! Life of a file: made empty with the position and time the one before ended at; filled; when full, items are made
//! durable, then the header that counts them, then the slots, then (once the log is durable as far) the checkpoint's
//! `indexMsgTimestamp`, and last the end that the header says. The same happens to the unfinished file before the
//! checkpoint's position enters another file of the log, and at a clean stop. So a Java broker that finds the store at any
//! moment of this finds every key. After a crash of ours the slots are found again from the items that the header counts.
//!
//! The index is derived. When it cannot be written, appends go on; the thread starts over after a pause, and what is
//! damaged is removed and read from the log again. When the log cannot be read, the thread tries again after a pause.

mod catch_up;
mod current;
mod keys;
pub(crate) mod layout;
mod load;
mod pending;
mod query;
mod run;
#[cfg(test)]
mod tests;

pub use keys::KeyKind;
pub(crate) use keys::{Keys, is_keyed, seed_of};
pub(crate) use layout::Geometry;
pub use query::{KeyMatch, KeyMatches, KeyQuery};

use crate::disk::{Disk, DiskFile};
use crate::wake::Wake;
use current::{Current, End, Entry};
use layout::Header;
use pending::Pending;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// First pause after the index could not be written.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The index of a store.
///
/// Locks, in the order they may be taken: `filling`, `pending`. The appender takes only `pending`.
pub(crate) struct KeyIndex {
    /// Whether new messages are indexed. Files that are there are searched anyway.
    pub(crate) is_on: bool,
    geometry: Geometry,
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    pending: Mutex<Pending>,
    filling: Mutex<Filling>,
    /// Everything before this log position can be found.
    indexed: AtomicU64,
    /// What a file that was not completed says of its slots cannot be believed.
    after_crash: AtomicBool,
    /// A Java broker that finds the store as it is now finds everything before this log position.
    settled: AtomicU64,
    wake: Wake,
    /// Set by the thread while it sleeps because nothing waits. Pairs with `pending`.
    idle: AtomicBool,
}

/// A file that is complete.
struct Finished {
    name: String,
    file: Arc<dyn DiskFile>,
    header: Header,
}

/// What only the holder of the lock may touch: the files and how far they are.
struct Filling {
    stage: Stage,
    /// Ascending; all before the current one.
    finished: Vec<Arc<Finished>>,
    current: Option<Current>,
    /// Everything before this log position is in the files.
    next: u64,
    /// So many of the first keys of the record at `next` are in the files already.
    skip: usize,
    /// The end of what is durable and the checkpoint does not know yet.
    unannounced: Option<End>,
    /// Complete files whose header does not say their end yet.
    untold: Vec<Arc<Finished>>,
    /// A file in which something was wrong; it is removed at the next loading.
    damaged: Option<String>,
    pause: Duration,
    /// An empty list whose memory is used again.
    scratch: Vec<Entry>,
}

/// Whether `Filling` can be worked with.
enum Stage {
    /// The files are looked at when somebody needs them.
    Unloaded,
    Ready,
    /// The disk refused; until then nothing is tried, and then the files are looked at again.
    Resting(Instant),
    /// The log cannot be read; until then nothing is tried. The files are as good as before.
    Waiting(Instant),
}

impl KeyIndex {
    pub(crate) fn new(is_on: bool, geometry: Geometry, directory: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self {
            is_on,
            geometry,
            directory,
            disk,
            pending: Mutex::default(),
            filling: Mutex::new(Filling {
                stage: Stage::Unloaded,
                finished: Vec::new(),
                current: None,
                next: 0,
                skip: 0,
                unannounced: None,
                untold: Vec::new(),
                damaged: None,
                pause: PAUSE,
                scratch: Vec::new(),
            }),
            indexed: AtomicU64::new(0),
            after_crash: AtomicBool::new(true),
            settled: AtomicU64::new(0),
            wake: Wake::default(),
            idle: AtomicBool::new(false),
        }
    }

    /// Everything before this log position can be found.
    pub(crate) fn indexed(&self) -> u64 {
        self.indexed.load(Ordering::Acquire)
    }

    /// Removes the files that only know of messages before `log_min`; never the newest one.
    fn remove_below(&self, filling: &mut Filling, log_min: u64) -> io::Result<()> {
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

impl Filling {
    /// The end of a pause that begins now; the next one is longer.
    fn pause(&mut self) -> Instant {
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        until
    }

    /// Lets the headers say their ends, as far as the checkpoint knows of them.
    fn tell(&mut self, end: End) -> io::Result<()> {
        while let Some(finished) = self.untold.first().filter(|first| first.header.end_offset <= end.offset) {
            let time = finished.header.end_time.min(end.time);
            End { time, offset: finished.header.end_offset }.write(&*finished.file)?;
            self.untold.remove(0);
        }
        self.current.as_mut().map_or(Ok(()), |current| current.tell(end))
    }

    /// The header of the newest file.
    fn newest(&self) -> Option<Header> {
        let finished = self.finished.last().map(|finished| finished.header);
        self.current.as_ref().map(|current| current.header).or(finished)
    }
}
