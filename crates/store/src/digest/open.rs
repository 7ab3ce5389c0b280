//! Decides which digest entries still belong to the records in the log.
//!
//! Entries are written after their records are durable, so after a crash of Vostok they agree with the log; what recovery
//! cuts off the log, [`Digests::cut`] removes before the first append. But a RocketMQ broker, which does not know the
//! entries, may have run in between, cut the log's tail (after damage, or as a replica that had diverged) and written other
//! records there. Two rules, in this order:
//!
//! 1. *No other broker ran* when `checkpoint` carries Vostok's seal and `abort` is absent or has Vostok's mark: a RocketMQ
//!    broker writes new times into `checkpoint` with the first message it flushes, and its own process id into `abort`. Then
//!    every entry counts, and a record that differs from its entry is damaged.
//! 2. Otherwise entries count up to the newest one that agrees with the log: a cut takes a suffix, so a record that agrees
//!    was not rewritten, nor was any before it. Later entries are discarded.
//!
//! The second rule alone is not enough: damage of the newest records would look like a rewritten tail.

use super::block::{BLOCK_BYTES, Block};
use super::file::{Digests, entries_of, read_block};
use super::{Entry, sum};
use crate::checkpoint::Checkpoint;
use crate::disk::{Disk, Space};
use crate::error::OpenError;
use crate::inspect::Survey;
use crate::log::Segment;
use crate::queue::files::file_name;
use crate::store::Shared;
use crate::wake::lock;
use std::io;
use std::path::Path;
use wire::record::{RecordView, peek};
use wire::units::LogOffset;

/// What Vostok writes behind the process id in `abort`. RocketMQ only tests whether the file exists.
pub(crate) const MARK: &str = " vostok";

/// Blocks that are compared with the log, newest first, before all entries are discarded.
const BLOCKS_MAX: u64 = 1 << 18;

impl Shared {
    /// Loads the digests that still count. Runs after the log's files are known and before anything is changed.
    pub(crate) fn load_digests(&self) -> Result<(), OpenError> {
        let ours = is_untouched(&*self.disk, &self.config.root).map_err(OpenError::io(&self.config.root))?;
        let digests = &self.digests;
        let loaded = digests.load(self.log.min(), self.log.capacity_end()).and_then(|()| {
            let Some(newest) = digests.newest() else { return Ok(()) };
            let end = if ours { newest + 1 } else { digests.agreed_end(|entry| {
                self.log.segment_of(entry.at.get()).is_some_and(|segment| agrees(&segment, self.log.segment_bytes, entry))
            }) };
            if end.get() <= newest.get() {
                tracing::warn!(from = %end, to = %newest, "another broker rewrote the end of the log; checksums of it are discarded");
                digests.cut(end.get())?;
            }
            Ok(())
        });
        loaded.map_err(OpenError::io(&digests.directory))
    }

    /// Keeps the digest of a record that recovery read, if it is newer than all others.
    pub(crate) fn digest_recovered(&self, view: &RecordView<'_>, offset: u64) {
        let at = LogOffset::new(offset);
        let fresh = &mut lock(&self.appender).fresh;
        if !self.config.digests || fresh.last().max(self.digests.newest()) >= Some(at) {
            return;
        }
        fresh.push(Entry { at, digest: sum::of(view) });
        if fresh.is_large() {
            self.digests.stage(std::mem::take(fresh));
            self.digests.write(self.log.min());
        }
    }
}

/// Whether only Vostok used this store since the checkpoint was written.
fn is_untouched(disk: &dyn Disk, root: &Path) -> io::Result<bool> {
    let entries = disk.list(root)?;
    let read = |name: &str| -> io::Result<Option<Vec<u8>>> {
        let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
        let mut bytes = vec![0; usize::try_from(entry.length.min(4096)).unwrap_or(0)];
        disk.open(&root.join(name))?.read_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    };
    let sealed = read("checkpoint")?.is_some_and(|page| Checkpoint::is_sealed(&page));
    Ok(sealed && read("abort")?.is_none_or(|text| text.ends_with(MARK.as_bytes())))
}

/// Whether the record of an entry is in its log file and has this digest.
fn agrees(segment: &Segment, segment_bytes: u64, entry: Entry) -> bool {
    let position = entry.at.get() - segment.base;
    let mut head = [0; 8];
    if position + 8 > segment_bytes || segment.file.read_at(&mut head, position).is_err() {
        return false;
    }
    let size = peek(&head).map_or(0, |(size, _)| u64::from(size));
    if position + size > segment_bytes {
        return false;
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    segment.file.read_at(&mut bytes, position).is_ok()
        && RecordView::parse(&bytes)
            .is_ok_and(|view| view.log_offset() == Some(entry.at) && sum::of(&view) == entry.digest)
}

impl Digests {
    /// Finds the digest files without changing any, for `vostok store verify`. Returns the log position up to which entries
    /// count.
    pub(crate) fn look(&self, survey: &Survey) -> io::Result<u64> {
        for entry in self.disk.list(&self.directory)? {
            if let Some(base) = entry.name.parse::<u64>().ok().filter(|base| file_name(*base) == entry.name) {
                lock(&self.blocks).insert(base, entry.length / BLOCK_BYTES as u64);
            }
        }
        if is_untouched(&*self.disk, &survey.root)? {
            return Ok(u64::MAX);
        }
        let end = self.agreed_end(|entry| {
            let base = entry.at.get() / self.segment_bytes * self.segment_bytes;
            let segment = survey.segments.iter().find(|segment| segment.base == base);
            segment.is_some_and(|segment| agrees(segment, self.segment_bytes, entry))
        });
        Ok(end.get())
    }

    /// Finds the digest files, and removes those that belong to no log file.
    fn load(&self, log_min: u64, log_end: u64) -> io::Result<()> {
        let mut blocks = std::collections::BTreeMap::new();
        for entry in self.disk.list(&self.directory)?.iter().filter(|entry| !entry.is_dir) {
            let base = entry.name.parse::<u64>().ok().filter(|base| file_name(*base) == entry.name);
            let base = base.filter(|base| base.is_multiple_of(self.segment_bytes));
            match base.filter(|base| (log_min..log_end).contains(base)) {
                Some(base) => drop(blocks.insert(base, entry.length / BLOCK_BYTES as u64)),
                None => self.disk.remove(&self.directory.join(&entry.name))?,
            }
        }
        let mut writer = lock(&self.writer);
        // Find the newest whole block; a block lost behind it had not been made durable.
        while let Some((&base, &count)) = blocks.last_key_value() {
            let file = self.disk.open(&self.path(base))?;
            let whole = (0..count).rev().find_map(|number| Some((number, read_block(&*file, number)?)));
            if let Some((number, last)) = whole {
                blocks.insert(base, number + 1);
                (writer.base, writer.blocks, writer.last) = (base, number + 1, last);
                break;
            }
            self.disk.remove(&self.path(base))?;
            blocks.remove(&base);
        }
        *lock(&self.blocks) = blocks;
        self.publish(&writer);
        Ok(())
    }

    /// Log position up to which entries count: behind the newest one that agrees with the log.
    fn agreed_end(&self, agrees: impl Fn(Entry) -> bool) -> LogOffset {
        let blocks = lock(&self.blocks).clone();
        let mut looked_at = 0;
        for (&base, &count) in blocks.iter().rev() {
            let Ok(file) = self.disk.open(&self.path(base)) else { continue };
            for block in (0..count).rev().filter_map(|number| read_block(&*file, number)) {
                let mut entries = entries_of(&block, base);
                // The first entry stands for the whole block.
                if entries.next().is_some_and(&agrees) {
                    let newest = entries_of(&block, base).rev().find(|entry| agrees(*entry));
                    return newest.map_or(LogOffset::ZERO, |entry| entry.at + 1);
                }
                looked_at += 1;
                if looked_at == BLOCKS_MAX {
                    return LogOffset::ZERO;
                }
            }
        }
        LogOffset::ZERO
    }

    /// Removes, durably, the entries of a range of one log file: a repair wrote other bytes there.
    pub(crate) fn forget(&self, from: u64, end: u64) -> io::Result<()> {
        let base = from / self.segment_bytes * self.segment_bytes;
        let entries = self.disk.list(&self.directory)?;
        let Some(entry) = entries.iter().find(|entry| entry.name == file_name(base)) else { return Ok(()) };
        let file = self.disk.open(&self.path(base))?;
        self.pieces.clear();
        for number in 0..entry.length / BLOCK_BYTES as u64 {
            let Some(mut block) = read_block(&*file, number) else { continue };
            let before = block.0.len();
            block.0.retain(|(position, _)| !(from..end).contains(&(base + u64::from(*position))));
            if block.0.len() < before {
                let mut bytes = Vec::with_capacity(BLOCK_BYTES);
                block.write(&mut bytes);
                file.write_at(&bytes, number * BLOCK_BYTES as u64)?;
            }
        }
        file.sync()
    }

    /// Removes, durably, the entries from log position `end` on: other records will be written there.
    pub(crate) fn cut(&self, end: u64) -> io::Result<()> {
        let writer = &mut *lock(&self.writer);
        let mut changed = false;
        loop {
            let newest = lock(&self.blocks).last_key_value().map(|(base, count)| (*base, *count));
            let Some((base, count)) = newest else {
                (writer.base, writer.blocks, writer.last) = (0, 0, Block::default());
                break;
            };
            let kept = if base < end { self.last_before(base, count, end)? } else { None };
            let Some((number, block, is_cut)) = kept else {
                self.disk.remove(&self.path(base))?;
                lock(&self.blocks).remove(&base);
                changed = true;
                continue;
            };
            if is_cut || number + 1 < count {
                let length = (number + 1) * BLOCK_BYTES as u64;
                let file = self.disk.create(&self.path(base), length, Space::Sparse)?;
                let mut bytes = Vec::with_capacity(BLOCK_BYTES);
                block.write(&mut bytes);
                file.write_at(&bytes, number * BLOCK_BYTES as u64)?;
                file.sync()?;
                lock(&self.blocks).insert(base, number + 1);
            }
            (writer.base, writer.blocks, writer.last) = (base, number + 1, block);
            break;
        }
        self.pieces.clear();
        self.publish(writer);
        if changed { self.sync_names() } else { Ok(()) }
    }

    /// The last block with entries before `end`: its number, the block with only these entries, and whether it had others.
    fn last_before(&self, base: u64, count: u64, end: u64) -> io::Result<Option<(u64, Block, bool)>> {
        let file = self.disk.open(&self.path(base))?;
        for number in (0..count).rev() {
            let Some(mut block) = read_block(&*file, number) else { continue };
            let before = block.0.len();
            block.0.retain(|(position, _)| base + u64::from(*position) < end);
            if !block.0.is_empty() {
                let is_cut = block.0.len() < before;
                return Ok(Some((number, block, is_cut)));
            }
        }
        Ok(None)
    }
}
