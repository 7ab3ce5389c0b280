//! Finding out what the files hold, at opening and after something went wrong.

use super::current::{Current, End, read_header};
use super::layout::Header;
use super::{Filling, Finished, KeyIndex, Stage};
use crate::disk::{DiskFile, Entry};
use crate::wake::lock;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What loading must know of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    /// The store was not closed cleanly.
    pub(super) after_crash: bool,
    /// Messages at or behind this position are none of those the files were written for.
    pub(super) log_end: u64,
    pub(super) log_min: u64,
    /// The checkpoint's `indexMsgTimestamp`: full files up to this time are durable.
    pub(super) index_msg_timestamp: i64,
}

/// What a file turned out to be.
enum Found {
    Finished(Finished),
    /// A full one whose header does not say its end yet.
    Completed(Finished),
    /// One that is not full: the last one that can be used. What lies behind it is empty, or of messages that were lost.
    Current(Current),
    Unusable(&'static str),
}

impl KeyIndex {
    /// Looks at the files: complete ones are kept, the newest is gone on with, and what cannot be used is removed with
    /// everything behind it, to be read from the log again.
    pub(super) fn load(&self, filling: &mut Filling, around: Surroundings) -> io::Result<()> {
        if self.is_on {
            self.disk.create_dir_all(&self.directory)?;
        }
        filling.finished.clear();
        filling.untold.clear();
        filling.unannounced = None;
        filling.current = None;
        let mut entries = self.disk.list(&self.directory)?;
        entries.retain(|entry| !entry.is_dir && entry.name.parse::<u64>().is_ok());
        let mut rest = 0;
        while let Some(entry) = entries.get(rest) {
            let damaged = filling.damaged.as_ref() == Some(&entry.name);
            let found = if damaged {
                Found::Unusable("it is damaged")
            } else {
                self.look_at(filling, entry, around)?
            };
            match found {
                Found::Finished(finished) => filling.finished.push(Arc::new(finished)),
                Found::Completed(finished) => {
                    filling.finished.push(Arc::new(finished));
                    filling.untold.extend(filling.finished.last().cloned());
                }
                Found::Current(current) => {
                    filling.current = Some(current);
                    rest += 1;
                    break;
                }
                Found::Unusable(reason) => {
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
        // Where nothing is indexed, nothing would take the place of what is removed.
        if self.is_on && rest < entries.len() {
            // The last one first: what is left has no gap at any moment.
            for entry in entries[rest..].iter().rev() {
                self.disk.remove(&self.directory.join(&entry.name))?;
            }
            self.disk.sync_dir(&self.directory)?;
        }
        filling.damaged = None;
        // After a clean stop whatever the headers say is there, and a Java broker that starts after the next crash must know.
        filling.unannounced = filling
            .newest()
            .filter(|newest| {
                !around.after_crash && newest.next > 1 && newest.end_time > around.index_msg_timestamp
            })
            .map(|newest| End { time: newest.end_time, offset: newest.end_offset });
        self.find_end(filling, around)?;
        filling.stage = Stage::Ready;
        Ok(())
    }

    /// Lets no file claim messages at or behind the end of the log, before new ones come to lie there: after a crash, or
    /// when the log was damaged, files may know of messages that were lost.
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
            // Offsets ascend: the first item of a message that is lost.
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
            // Without a count of slots: they are found again from the items.
            let cut = Header { next: low, slots_used: 0, end_offset, ..header };
            file.write_at(&cut.to_bytes(), 0)?;
            file.sync()?;
        }
        Ok(())
    }

    /// Lets slots point before items that go, while the header still counts these: Java takes a slot that is not below
    /// the count for empty.
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

    fn look_at(&self, filling: &Filling, entry: &Entry, around: Surroundings) -> io::Result<Found> {
        let geometry = self.geometry;
        if entry.length != geometry.file_bytes() {
            return Ok(Found::Unusable("its size is not the configured one"));
        }
        let file = self.disk.open(&self.directory.join(&entry.name))?;
        let before = filling.finished.last().map(|finished| finished.header);
        let Some(header) = read_header(&*file, geometry)? else {
            return Ok(Found::Unusable("its header makes no sense"));
        };
        let is_empty = header.next == 1;
        if !is_empty && before.is_some_and(|before| header.begin_offset < before.end_offset) {
            return Ok(Found::Unusable("it does not begin behind the file before"));
        }
        let seed =
            before.map_or(Header::seeded(0, 0), |before| Header::seeded(before.end_time, before.end_offset));
        let is_full = header.next == geometry.items;
        // Otherwise the header counts more than the checkpoint knew of.
        let is_told = is_empty || header.ends_with(&self.item(&*file, header.next - 1)?);
        let is_sure = is_told && (!around.after_crash || header.end_time <= around.index_msg_timestamp);
        if header.end_offset < around.log_end && is_sure && is_full {
            return Ok(Found::Finished(Finished { name: entry.name.clone(), file, header }));
        }
        if !around.after_crash
            && !is_empty
            && is_told
            && header.end_offset < around.log_end
            && let Some(current) = Current::resume(&entry.name, &file, header, geometry)?
        {
            return Ok(Found::Current(current));
        }
        let mut current = Current::rebuild(&entry.name, &file, header, geometry, (around, is_told))?;
        if current.header.next == 1 {
            current.header = seed;
        }
        if is_full && current.is_full() {
            current.finish()?;
            return Ok(Found::Completed(Finished { name: entry.name.clone(), file, header: current.header }));
        }
        Ok(Found::Current(current))
    }

    /// Where indexing goes on: at the message of the last item, of which not all keys may be there.
    fn find_end(&self, filling: &mut Filling, around: Surroundings) -> io::Result<()> {
        let newest = filling.newest().filter(|newest| newest.end_offset >= around.log_min);
        filling.next = newest.map_or(0, |newest| newest.end_offset).max(around.log_min);
        filling.skip = 0;
        if newest.is_some() {
            filling.skip = self.count_at_end(filling, filling.next)?;
        }
        self.indexed.store(filling.next, Ordering::Release);
        Ok(())
    }

    /// How many items at the end of the files are of the message at `offset`.
    fn count_at_end(&self, filling: &Filling, offset: u64) -> io::Result<usize> {
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

    /// After an error with the index files: what is in memory is forgotten, and after a pause they are looked at again.
    pub(super) fn rest(&self, filling: &mut Filling, error: &io::Error) {
        let full = crate::error::is_lack(error);
        let pause_ms = filling.pause.as_millis() as u64;
        tracing::warn!(%error, pause_ms, "the key index cannot be written; messages are stored, and found by key later");
        if !full {
            // After a failed flush nothing in the file can be believed.
            filling.damaged = filling.current.take().map(|current| current.name).or(filling.damaged.take());
        }
        filling.current = None;
        filling.stage = Stage::Resting(filling.pause());
    }

    /// After the log could not be read: it is tried again after a pause.
    pub(super) fn wait_for_log(&self, filling: &mut Filling, error: &io::Error) {
        let pause_ms = filling.pause.as_millis() as u64;
        tracing::warn!(%error, pause_ms, "the log cannot be read for the key index; messages are found by key later");
        filling.stage = Stage::Waiting(filling.pause());
    }

    /// A search found something in a file that cannot have been written.
    pub(super) fn distrust(&self, name: &str) {
        let mut filling = lock(&self.filling);
        filling.damaged = Some(name.to_owned());
        filling.stage = Stage::Unloaded;
        drop(filling);
        self.idle.store(false, Ordering::Relaxed);
        self.wake.wake();
    }
}
