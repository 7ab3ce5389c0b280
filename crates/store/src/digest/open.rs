//! Finds the digest files at opening, and removes entries that are no longer valid.

use super::RecordDigest;
use super::block::{BLOCK_BYTES, DigestBlock};
use super::file::{Digests, entries_of, read_block};
use crate::disk::{Space, file_name};
use crate::wake::lock;
use std::io;
use wire::units::LogOffset;

/// Blocks that are compared with the log, newest first, before all entries are discarded.
const BLOCKS_MAX: u64 = 1 << 18;

impl Digests {
    /// Finds the digest files without changing any.
    pub(crate) fn look(&self) -> io::Result<()> {
        for entry in self.disk.list(&self.directory)? {
            if let Some(base) = entry.name.parse::<u64>().ok().filter(|base| file_name(*base) == entry.name) {
                lock(&self.blocks).insert(base, entry.length / BLOCK_BYTES as u64);
            }
        }
        Ok(())
    }

    /// Finds the digest files, and removes files without a log file.
    pub(crate) fn load(&self, log_min: u64, log_end: u64) -> io::Result<()> {
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

    /// Returns the log position before which entries are valid: behind the newest entry that agrees with the log.
    pub(crate) fn agreed_end(&self, agrees: impl Fn(RecordDigest) -> bool) -> LogOffset {
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

    /// Removes durably the entries of a range of a log file, because a repair wrote other bytes there.
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

    /// Removes durably the entries from log position `end` on, because other records will be written there.
    pub(crate) fn cut(&self, end: u64) -> io::Result<()> {
        let writer = &mut *lock(&self.writer);
        let mut changed = false;
        loop {
            let newest = lock(&self.blocks).last_key_value().map(|(base, count)| (*base, *count));
            let Some((base, count)) = newest else {
                (writer.base, writer.blocks, writer.last) = (0, 0, DigestBlock::default());
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

    /// Returns the last block with entries before `end`: its number, the block with only these entries, and whether
    /// it had later entries.
    fn last_before(&self, base: u64, count: u64, end: u64) -> io::Result<Option<(u64, DigestBlock, bool)>> {
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
