//! Loads the index files at opening and after an error.

use super::current::{Current, LastMessage, read_header};
use super::layout::Header;
use super::{FullFile, IndexFiles, IndexState, KeyIndex};
use crate::disk::{DirEntry, DiskFile};
use crate::wake::lock;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// State of the store that loading needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreFacts {
    /// Whether the store was not closed cleanly.
    pub(super) after_crash: bool,
    /// Log position of the log's end. Items for messages at or behind it are stale.
    pub(super) log_end: u64,
    pub(super) log_min: u64,
    /// The checkpoint's `indexMsgTimestamp` in ms: full files up to this time are durable.
    pub(super) index_msg_timestamp: i64,
}

/// State of a file on the disk.
enum FileState {
    Finished(FullFile),
    /// Full file with an outdated header.
    Completed(FullFile),
    /// Last usable file, to which items are added. Later files are removed, and the keys of their
    /// messages are read from the log again.
    Current(Current),
    Unusable(&'static str),
}

impl KeyIndex {
    /// Checks the files. Complete files are kept, and the newest is continued. An unusable file is removed with all
    /// files behind it, and their keys are read from the log again.
    pub(super) fn load(&self, filling: &mut IndexFiles, around: StoreFacts) -> io::Result<()> {
        if self.is_on {
            self.disk.create_dir_all(&self.directory)?;
        }
        filling.finished.clear();
        filling.stale_headers.clear();
        filling.unannounced = None;
        filling.current = None;
        let mut entries = self.disk.list(&self.directory)?;
        entries.retain(|entry| !entry.is_dir && entry.name.parse::<u64>().is_ok());
        let mut rest = 0;
        while let Some(entry) = entries.get(rest) {
            let found = if filling.damaged.as_ref() == Some(&entry.name) {
                FileState::Unusable("it is damaged")
            } else {
                self.look_at(filling, entry, around)?
            };
            match found {
                FileState::Finished(finished) => filling.finished.push(Arc::new(finished)),
                FileState::Completed(finished) => {
                    filling.finished.push(Arc::new(finished));
                    filling.stale_headers.extend(filling.finished.last().cloned());
                }
                FileState::Current(current) => {
                    filling.current = Some(current);
                    rest += 1;
                    break;
                }
                FileState::Unusable(reason) => {
                    let file = &entry.name;
                    tracing::warn!(
                        file,
                        reason,
                        "an index file cannot be used; its keys are read from the log again"
                    );
                    break;
                }
            }
            rest += 1;
        }
        // With the key index turned off nothing would replace removed files.
        if self.is_on && rest < entries.len() {
            // The last file first, so that the remaining files never have a gap.
            for entry in entries[rest..].iter().rev() {
                self.disk.remove(&self.directory.join(&entry.name))?;
            }
            self.disk.sync_dir(&self.directory)?;
        }
        filling.damaged = None;
        // After a clean stop everything in the headers is durable. The checkpoint must say so, for a RocketMQ broker after a
        // later crash.
        filling.unannounced = filling
            .newest()
            .filter(|newest| {
                !around.after_crash && newest.next > 1 && newest.end_time > around.index_msg_timestamp
            })
            .map(|newest| LastMessage { time: newest.end_time, offset: newest.end_offset });
        self.find_end(filling, around)?;
        filling.stage = IndexState::Ready;
        Ok(())
    }

    /// Drops the keys of all messages from log position `to` on: the log was truncated there. The caller
    /// holds the appender's lock, so that no pending keys are added meanwhile.
    pub(crate) fn truncate(&self, to: u64) -> io::Result<()> {
        let filling = &mut *lock(&self.filling);
        // With items and header on the disk the cut below sees all of them; otherwise they are read from the log again.
        let _ = self.finish(filling);
        (filling.current, filling.unannounced) = (None, None);
        filling.finished.clear();
        filling.stale_headers.clear();
        filling.stage = IndexState::Unloaded;
        (filling.next, filling.skip) = (0, 0);
        self.cut(to)?;
        // The files are checked as after a crash, because slots and items may no longer match.
        self.after_crash.store(true, Ordering::Relaxed);
        let mut pending = lock(&self.pending);
        pending.entries.clear();
        (pending.from, pending.end) = (to, to);
        drop(pending);
        // Until the files are loaded again, no message is certain to be found.
        self.indexed.store(0, Ordering::Release);
        self.settled.fetch_min(to, Ordering::Relaxed);
        self.idle.store(false, Ordering::Relaxed);
        self.wake.wake();
        Ok(())
    }

    /// Removes all items of messages at or behind the log's end, before other messages are written there. After a
    /// crash or damage of the log, files may refer to lost messages.
    pub(crate) fn cut(&self, log_end: u64) -> io::Result<()> {
        let mut entries = self.disk.list(&self.directory)?;
        entries.retain(|entry| !entry.is_dir && entry.length == self.geometry.file_bytes());
        for entry in entries.iter().rev() {
            let path = self.directory.join(&entry.name);
            let file = self.disk.open(&path)?;
            let Some(header) = read_header(&*file, self.geometry)?.filter(|header| header.next > 1) else {
                continue;
            };
            let newest = self.item(&*file, header.next - 1)?.offset;
            if newest.max(header.end_offset) < log_end {
                break;
            }
            // Offsets ascend: search the first item of a lost message.
            let (mut low, mut high) = (1, header.next);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.item(&*file, middle)?.offset < log_end { low = middle + 1 } else { high = middle }
            }
            tracing::info!(
                file = entry.name,
                items = header.next - low,
                "index items of messages that were lost are dropped"
            );
            if low == 1 {
                self.disk.remove(&path)?;
                self.disk.sync_dir(&self.directory)?;
                continue;
            }
            self.unlink(&*file, low..header.next)?;
            let end_offset = self.item(&*file, low - 1)?.offset.min(header.end_offset);
            // The count of slots is set to zero: slots are rebuilt from the items.
            let cut = Header { next: low, slots_used: 0, end_offset, ..header };
            file.write_at(&cut.to_bytes(), 0)?;
            file.sync()?;
        }
        Ok(())
    }

    /// Makes slots point to items before the removed items, while the header still counts the removed items. RocketMQ
    /// takes a slot that is not below the count for empty.
    fn unlink(&self, file: &dyn DiskFile, items: Range<u32>) -> io::Result<()> {
        for number in items.clone() {
            let at = self.geometry.slot_at(self.geometry.slot_of(self.item(file, number)?.hash));
            let mut bytes = [0; 4];
            file.read_at(&mut bytes, at)?;
            let mut newest = u32::from_be_bytes(bytes);
            while items.contains(&newest) {
                let previous = self.item(file, newest)?.previous;
                newest = if previous < newest { previous } else { 0 };
            }
            file.write_at(&newest.to_be_bytes(), at)?;
        }
        file.sync()
    }

    fn look_at(&self, filling: &IndexFiles, entry: &DirEntry, around: StoreFacts) -> io::Result<FileState> {
        let geometry = self.geometry;
        if entry.length != geometry.file_bytes() {
            return Ok(FileState::Unusable("its size is not the configured one"));
        }
        let file = self.disk.open(&self.directory.join(&entry.name))?;
        let before = filling.finished.last().map(|finished| finished.header);
        let Some(header) = read_header(&*file, geometry)? else {
            return Ok(FileState::Unusable("its header makes no sense"));
        };
        let is_empty = header.next == 1;
        if !is_empty && before.is_some_and(|before| header.begin_offset < before.end_offset) {
            return Ok(FileState::Unusable("it does not begin behind the file before"));
        }
        let seed =
            before.map_or(Header::seeded(0, 0), |before| Header::seeded(before.end_time, before.end_offset));
        let is_full = header.next == geometry.items;
        // Otherwise the header counts more items than the checkpoint knew of.
        let is_end_valid = is_empty || header.ends_with(&self.item(&*file, header.next - 1)?);
        let is_sure = is_end_valid && (!around.after_crash || header.end_time <= around.index_msg_timestamp);
        if header.end_offset < around.log_end && is_sure && is_full {
            return Ok(FileState::Finished(FullFile { name: entry.name.clone(), file, header }));
        }
        if !around.after_crash
            && !is_empty
            && is_end_valid
            && header.end_offset < around.log_end
            && let Some(current) = Current::resume(&entry.name, &file, header, geometry)?
        {
            return Ok(FileState::Current(current));
        }
        let mut current = Current::rebuild(&entry.name, &file, header, geometry, (around, is_end_valid))?;
        if current.header.next == 1 {
            current.header = seed;
        }
        if is_full && current.is_full() {
            current.finish()?;
            let header = current.header;
            return Ok(FileState::Completed(FullFile { name: entry.name.clone(), file, header }));
        }
        Ok(FileState::Current(current))
    }

    /// Finds the log position where indexing continues: at the message of the last item, some of whose keys may be missing.
    fn find_end(&self, filling: &mut IndexFiles, around: StoreFacts) -> io::Result<()> {
        let newest = filling.newest().filter(|newest| newest.end_offset >= around.log_min);
        filling.next = newest.map_or(0, |newest| newest.end_offset).max(around.log_min);
        filling.skip = 0;
        if newest.is_some() {
            filling.skip = self.count_at_end(filling, filling.next)?;
        }
        self.indexed.store(filling.next, Ordering::Release);
        Ok(())
    }

    /// Number of items at the end of the files that are of the message at log position `offset`.
    fn count_at_end(&self, filling: &IndexFiles, offset: u64) -> io::Result<usize> {
        let current = filling.current.iter().map(|current| (&current.file, current.header));
        let finished = filling.finished.iter().rev().map(|finished| (&finished.file, finished.header));
        let mut count = 0;
        for (file, header) in current.chain(finished) {
            for number in (1..header.next).rev() {
                if self.item(&**file, number)?.offset != offset {
                    return Ok(count);
                }
                count += 1;
            }
        }
        Ok(count)
    }

    /// Reacts to an error of the index files: drops the state in memory; after a pause the files are loaded again.
    pub(super) fn pause_after_error(&self, filling: &mut IndexFiles, error: &io::Error) {
        let full = crate::error::is_lack(error);
        let pause_ms = filling.pause.as_millis() as u64;
        tracing::warn!(%error, pause_ms, "the key index cannot be written; messages are stored, and found by key later");
        if !full {
            // After a failed flush nothing in the file can be trusted.
            filling.damaged = filling.current.take().map(|current| current.name).or(filling.damaged.take());
        }
        filling.current = None;
        filling.stage = IndexState::FilePause(filling.pause(self.clock.now()));
    }

    /// Reacts to an error of reading the log: indexing is tried again after a pause.
    pub(super) fn wait_for_log(&self, filling: &mut IndexFiles, error: &io::Error) {
        let pause_ms = filling.pause.as_millis() as u64;
        tracing::warn!(%error, pause_ms, "the log cannot be read for the key index; messages are found by key later");
        filling.stage = IndexState::LogPause(filling.pause(self.clock.now()));
    }

    /// Reacts to invalid data that a query found in a file.
    pub(super) fn distrust(&self, name: &str) {
        let mut filling = lock(&self.filling);
        filling.damaged = Some(name.to_owned());
        filling.stage = IndexState::Unloaded;
        self.indexed.store(0, Ordering::Release);
        drop(filling);
        self.idle.store(false, Ordering::Relaxed);
        self.wake.wake();
    }
}
