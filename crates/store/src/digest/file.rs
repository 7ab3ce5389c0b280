//! The digest files: one per commit log file, each a sequence of blocks in log order.

use super::block::{BLOCK_BYTES, DigestBlock};
use super::pieces::{FilePiece, PieceCache};
use super::{NewDigests, RecordDigest};
use crate::disk::file_name;
use crate::disk::{Disk, DiskFile, Space};
use crate::wake::lock;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use wire::units::LogOffset;

/// All digest files. Locks are taken in this order: `writer`, then `waiting` or `blocks`; `pieces` is locked alone. Only
/// `writer` is held during disk operations.
pub(crate) struct Digests {
    pub(crate) directory: PathBuf,
    pub(super) segment_bytes: u64,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) writer: Mutex<DigestWriter>,
    /// Staged entries for the next write. Appends wait while this is locked.
    waiting: Mutex<NewDigests>,
    /// Number of blocks per digest file, by the log position at which the log file starts.
    pub(super) blocks: Mutex<BTreeMap<u64, u64>>,
    pub(super) pieces: PieceCache,
    /// Log position of the newest entry's record, plus one; 0 without entries. Until the files are
    /// examined, `i64::MAX`, so that no position lies behind the newest entry.
    pub(super) end: AtomicU64,
}

/// State of the newest digest file, for the thread that writes.
#[derive(Default)]
pub(super) struct DigestWriter {
    pub(super) base: u64,
    pub(super) blocks: u64,
    /// The last block; empty when the file has none.
    pub(super) last: DigestBlock,
    /// Whether the failure of the latest write was logged. Only the first of several failures in a row is logged.
    is_failure_logged: bool,
}

impl Digests {
    pub(crate) fn new(root: &Path, segment_bytes: u64, disk: Arc<dyn Disk>) -> Self {
        let directory = root.join("vostok").join("digest");
        Self {
            directory,
            segment_bytes,
            disk,
            writer: Mutex::default(),
            waiting: Mutex::default(),
            blocks: Mutex::default(),
            pieces: PieceCache::default(),
            end: AtomicU64::new(i64::MAX.cast_unsigned()),
        }
    }

    pub(super) fn path(&self, base: u64) -> PathBuf {
        self.directory.join(file_name(base))
    }

    fn base_of(&self, at: LogOffset) -> u64 {
        at.get() / self.segment_bytes * self.segment_bytes
    }

    /// Log position of the record of the newest entry.
    pub(crate) fn newest(&self) -> Option<LogOffset> {
        self.end.load(Ordering::Acquire).checked_sub(1).map(LogOffset::new)
    }

    /// Sets [`Self::end`] by the newest entry of the writer's last block.
    pub(super) fn publish(&self, writer: &DigestWriter) {
        let newest = writer.last.last().map(|(position, _)| writer.base + u64::from(position));
        self.end.store(newest.map_or(0, |newest| newest + 1), Ordering::Release);
    }

    /// Stages entries for the next [`Self::write`].
    pub(crate) fn stage(&self, fresh: NewDigests) {
        lock(&self.waiting).absorb(fresh);
    }

    /// Writes the staged entries and makes them durable; then removes the digest files of log files before `log_min`. Entries
    /// that cannot be written are dropped: their records have no digest.
    pub(crate) fn write(&self, log_min: u64) {
        let mut writer = lock(&self.writer);
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        let written = if waiting.is_empty() { Ok(()) } else { self.write_entries(&mut writer, &waiting) };
        match written.and_then(|()| self.remove_before(log_min)) {
            // A call that wrote nothing does not show that the disk has recovered.
            Ok(()) => writer.is_failure_logged &= waiting.is_empty(),
            Err(error) => {
                let path = self.directory.display();
                if !writer.is_failure_logged {
                    tracing::warn!(%path, %error, "checksums of new messages are not kept; they are stored all the same");
                }
                writer.is_failure_logged = true;
            }
        }
    }

    fn write_entries(&self, writer: &mut DigestWriter, entries: &NewDigests) -> io::Result<()> {
        let mut entries = entries.entries().peekable();
        let mut bytes = Vec::new();
        while let Some(first) = entries.peek() {
            let base = self.base_of(first.at);
            let (mut blocks, mut block) = match writer.base == base {
                true => (writer.blocks, writer.last.clone()),
                false => (0, DigestBlock::default()),
            };
            let is_new = blocks == 0;
            // The last block is rewritten with more entries unless it is full.
            if block.is_full() {
                block = DigestBlock::default();
            } else {
                blocks -= u64::from(!is_new);
            }
            let from = blocks * BLOCK_BYTES as u64;
            bytes.clear();
            while let Some(entry) = entries.next_if(|entry| self.base_of(entry.at) == base) {
                if block.is_full() {
                    block.write(&mut bytes);
                    blocks += 1;
                    block = DigestBlock::default();
                }
                block.push(entry, base);
            }
            block.write(&mut bytes);
            blocks += 1;
            self.write_blocks(base, from, &bytes, is_new)?;
            (writer.base, writer.blocks, writer.last) = (base, blocks, block);
            lock(&self.blocks).insert(base, blocks);
            self.publish(writer);
        }
        Ok(())
    }

    fn write_blocks(&self, base: u64, from: u64, bytes: &[u8], is_new: bool) -> io::Result<()> {
        if is_new {
            self.disk.create_dir_all(&self.directory)?;
        }
        let length = from + bytes.len() as u64;
        let file = self.disk.create(&self.path(base), length, Space::Sparse)?;
        file.write_at(bytes, from)?;
        file.sync()?;
        if is_new { self.sync_names() } else { Ok(()) }
    }

    /// Makes the names of the files durable, and those of their directories, which may be new.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        self.directory.ancestors().take(3).try_for_each(|path| self.disk.sync_dir(path))
    }

    fn remove_before(&self, log_min: u64) -> io::Result<()> {
        let first = lock(&self.blocks).first_key_value().map(|(base, _)| *base);
        if first.is_none_or(|first| first >= log_min) {
            return Ok(());
        }
        let kept = lock(&self.blocks).split_off(&log_min);
        let gone = std::mem::replace(&mut *lock(&self.blocks), kept);
        self.pieces.clear();
        gone.keys().try_for_each(|base| self.disk.remove(&self.path(*base)))
    }

    /// Whether the digest file of this position's log file exists, and digests exist up to the position or further.
    pub(crate) fn covers(&self, at: LogOffset) -> bool {
        lock(&self.blocks).contains_key(&self.base_of(at)) && self.newest() >= Some(at)
    }

    /// Returns the digest of the record at a log position, if it exists.
    pub(crate) fn find(&self, at: LogOffset) -> Option<u32> {
        if self.newest() < Some(at) {
            return None;
        }
        let base = self.base_of(at);
        let position = u32::try_from(at.get() - base).ok()?;
        if let Some(known) = self.pieces.find(base, position) {
            return known;
        }
        let blocks = *lock(&self.blocks).get(&base)?;
        let file = self.disk.open(&self.path(base)).ok()?;
        self.pieces.keep(FilePiece::read(&*file, base, blocks, position)?);
        self.pieces.find(base, position).flatten()
    }
}

pub(super) fn read_block(file: &dyn DiskFile, number: u64) -> Option<DigestBlock> {
    let mut bytes = [0; BLOCK_BYTES];
    file.read_at(&mut bytes, number * BLOCK_BYTES as u64).ok()?;
    DigestBlock::read(&bytes)
}

/// Entries of a block, with positions in the log.
pub(super) fn entries_of(
    block: &DigestBlock,
    base: u64,
) -> impl DoubleEndedIterator<Item = RecordDigest> + '_ {
    let entry = move |(position, digest): &(u32, u32)| RecordDigest {
        at: LogOffset::new(base + u64::from(*position)),
        digest: *digest,
    };
    block.0.iter().map(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FakeDisk;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_failure_after_a_write_that_succeeded_is_logged_again() {
        let disk = Arc::new(FakeDisk::new(4096));
        let digests = Digests::new(Path::new("/store"), 1 << 20, disk.clone());
        let write = |at| {
            let mut fresh = NewDigests::default();
            fresh.push(RecordDigest { at: LogOffset::new(at), digest: 1 });
            digests.stage(fresh);
            digests.write(0);
            lock(&digests.writer).is_failure_logged
        };
        disk.faults(|faults| faults.writes_left = Some(0));
        assert!(write(0));
        assert!(write(100), "still the same failure");
        disk.faults(|faults| faults.writes_left = None);
        assert!(!write(200), "the disk has recovered");
        disk.faults(|faults| faults.writes_left = Some(0));
        assert!(write(300), "another failure");
    }

    #[test]
    fn a_write_of_nothing_does_not_count_as_recovered() {
        let disk = Arc::new(FakeDisk::new(4096));
        let digests = Digests::new(Path::new("/store"), 1 << 20, disk.clone());
        let mut fresh = NewDigests::default();
        fresh.push(RecordDigest { at: LogOffset::new(0), digest: 1 });
        digests.stage(fresh);
        disk.faults(|faults| faults.writes_left = Some(0));
        digests.write(0);
        digests.write(0);
        assert!(lock(&digests.writer).is_failure_logged);
    }

    #[test]
    fn what_is_staged_does_not_wait_for_the_disk() {
        let digests = Arc::new(Digests::new(Path::new("/store"), 1 << 20, Arc::new(FakeDisk::new(4096))));
        let _writing = lock(&digests.writer);
        let (sender, staged) = mpsc::channel();
        let shared = digests.clone();
        std::thread::spawn(move || {
            shared.stage(NewDigests::default());
            sender.send(())
        });
        assert!(staged.recv_timeout(Duration::from_secs(120)).is_ok(), "an append would wait for a sync");
    }
}
