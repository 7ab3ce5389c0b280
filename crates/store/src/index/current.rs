//! The index file that is being filled. Items are written to the file as they come; the slot table stays in memory and is
//! written rarely, because keys hit it at random.

use super::layout::{END_OFFSET_AT, END_TIME_AT, Geometry, HEADER_BYTES, Header, ITEM_BYTES, Item};
use super::load::StoreFacts;
use crate::disk::{Disk, DiskFile, Space};
use crate::keys::KeyEntry;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes read or written at once.
const STEP_BYTES: usize = 64 << 10;
/// Number of adjacent slots that are written together when any of them changes.
const SLOTS_STEP: usize = 1024;
/// Bytes of unused slots.
static ZEROS: [u8; STEP_BYTES] = [0; STEP_BYTES];
/// Bytes of items after which write-back to the disk starts.
const WRITE_BACK_BYTES: u64 = 4 << 20;
/// Items after which the file is synced.
const SYNC_ITEMS: u32 = 1 << 22;

/// Store time (ms) and log position of the last message in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastMessage {
    pub(super) time: i64,
    pub(super) offset: u64,
}

impl LastMessage {
    /// Writes time and position into the header of a file, and syncs the file.
    pub(super) fn write(self, file: &dyn DiskFile) -> io::Result<()> {
        file.write_at(&self.time.to_be_bytes(), END_TIME_AT)?;
        file.write_at(&self.offset.to_be_bytes(), END_OFFSET_AT)?;
        file.sync()
    }
}

/// File being filled, with its header and slots in memory.
///
/// Invariant: items from 1 to below `header.next` are in the file, except the last items, which are in `buffer`.
pub(super) struct Current {
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) header: Header,
    geometry: Geometry,
    slots: Vec<u32>,
    buffer: Vec<u8>,
    /// The end that the file's own header names; the checkpoint covers it, see [`Self::finish`].
    header_end: LastMessage,
    /// Value of `header.next` when the file was last synced.
    synced: u32,
    /// Value of `header.next` when write-back was last started.
    written_back: u32,
    /// Whether each group of [`SLOTS_STEP`] slots differs from the file.
    changed: Vec<bool>,
}

impl Current {
    /// Creates an empty file; `header` continues from the end of the file before.
    pub(super) fn create(
        disk: &dyn Disk,
        directory: &Path,
        name: String,
        geometry: Geometry,
        header: Header,
    ) -> io::Result<Self> {
        let file = disk.create(&directory.join(&name), geometry.file_bytes(), Space::Sparse)?;
        Ok(Self::over(name, file, header, geometry))
    }

    fn over(name: String, file: Arc<dyn DiskFile>, header: Header, geometry: Geometry) -> Self {
        // Untouched zeroed memory costs nothing: with few keys few pages are used.
        let slots = vec![0; geometry.slots as usize];
        let changed = vec![false; slots.len().div_ceil(SLOTS_STEP)];
        let header_end = LastMessage { time: 0, offset: header.begin_offset };
        let buffer = Vec::new();
        Self { name, file, header, geometry, slots, buffer, header_end, synced: 1, written_back: 1, changed }
    }

    /// Continues a file that was closed cleanly; `None` when its slots do not match its items.
    pub(super) fn resume(
        name: &str,
        file: &Arc<dyn DiskFile>,
        header: Header,
        geometry: Geometry,
    ) -> io::Result<Option<Self>> {
        let mut current = Self::over(name.to_owned(), file.clone(), header, geometry);
        let (mut used, mut newest) = (0, 0);
        let mut bytes = vec![0; STEP_BYTES];
        for first in (0..geometry.slots).step_by(STEP_BYTES / 4) {
            let count = (geometry.slots - first).min(STEP_BYTES as u32 / 4);
            let bytes = &mut bytes[..count as usize * 4];
            file.read_at(bytes, geometry.slot_at(first))?;
            if *bytes == ZEROS[..bytes.len()] {
                continue;
            }
            let slots = &mut current.slots[first as usize..];
            for (slot, value) in slots.iter_mut().zip(bytes.as_chunks::<4>().0) {
                let value = u32::from_be_bytes(*value);
                // RocketMQ takes such a value for an empty slot too.
                if value > 0 && value < header.next {
                    *slot = value;
                    used += 1;
                    newest = newest.max(value);
                }
            }
        }
        (current.synced, current.written_back) = (header.next, header.next);
        current.header_end = LastMessage { time: header.end_time, offset: header.end_offset };
        let is_whole = used == header.slots_used && newest == header.next - 1;
        Ok(is_whole.then_some(current))
    }

    /// Continues a file whose slots are not trusted. Accepts leading items that are valid and of messages before
    /// `around.log_end`, and rebuilds the slots from them. The end time is the header's if the header is up to date.
    pub(super) fn rebuild(
        name: &str,
        file: &Arc<dyn DiskFile>,
        header: Header,
        geometry: Geometry,
        (around, is_end_valid): (StoreFacts, bool),
    ) -> io::Result<Self> {
        let begin = Header {
            end_time: header.begin_time,
            end_offset: header.begin_offset,
            slots_used: 0,
            next: 1,
            ..header
        };
        let mut current = Self::over(name.to_owned(), file.clone(), begin, geometry);
        current.accept_items(header.next, around.log_end)?;
        current.compare_slots()?;
        current.written_back = current.header.next;
        if is_end_valid && current.header.next == header.next {
            current.header.end_time = header.end_time;
        }
        // With a later end time a RocketMQ broker would remove the file.
        let time = header.end_time.min(current.header.end_time).min(around.index_msg_timestamp);
        current.header_end = LastMessage { time, offset: header.end_offset.min(current.header.end_offset) };
        Ok(current)
    }

    /// Accepts the items before `next`, up to the first invalid item.
    fn accept_items(&mut self, next: u32, log_end: u64) -> io::Result<()> {
        let mut bytes = vec![0; STEP_BYTES / ITEM_BYTES * ITEM_BYTES];
        while self.header.next < next {
            let count = (next - self.header.next).min((bytes.len() / ITEM_BYTES) as u32);
            let bytes = &mut bytes[..count as usize * ITEM_BYTES];
            self.file.read_at(bytes, self.geometry.item_at(self.header.next))?;
            for item in bytes.chunks_exact(ITEM_BYTES).map(Item::from_bytes) {
                if !self.accept_item(item, log_end) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Marks the slots that differ from the file as changed. Equal slots are not written, because in a new file they
    /// are holes. 20 MB of zeros in their place may be the last space of a full disk.
    fn compare_slots(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; STEP_BYTES];
        let mut first = 0;
        let groups = self.changed.chunks_mut(STEP_BYTES / 4 / SLOTS_STEP);
        for (slots, changed) in self.slots.chunks(STEP_BYTES / 4).zip(groups) {
            let bytes = &mut bytes[..slots.len() * 4];
            self.file.read_at(bytes, self.geometry.slot_at(first))?;
            let pairs = slots.chunks(SLOTS_STEP).zip(bytes.as_chunks::<4>().0.chunks(SLOTS_STEP));
            for ((slots, bytes), changed) in pairs.zip(changed) {
                *changed = slots.iter().zip(bytes).any(|(slot, bytes)| slot.to_be_bytes() != *bytes);
            }
            first += STEP_BYTES as u32 / 4;
        }
        Ok(())
    }

    /// Accepts an item of the file. Returns `false` if the item is invalid.
    fn accept_item(&mut self, item: Item, log_end: u64) -> bool {
        let never_written = item == Item { hash: 0, offset: 0, seconds: 0, previous: 0 };
        if never_written || item.offset < self.header.end_offset || item.offset >= log_end {
            return false;
        }
        if item.hash > i32::MAX.unsigned_abs() || item.seconds < 0 {
            return false;
        }
        let slot = &mut self.slots[self.geometry.slot_of(item.hash) as usize];
        if *slot != item.previous {
            return false;
        }
        self.header.slots_used += u32::from(*slot == 0);
        *slot = self.header.next;
        if self.header.next > 1 {
            // Times in items are in seconds. Round up: with an earlier end time a query could skip the file.
            self.header.end_time =
                self.header.begin_time.saturating_add(1000 * i64::from(item.seconds) + 999);
        }
        self.header.end_offset = item.offset;
        self.header.next += 1;
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.header.next >= self.geometry.items
    }

    /// Adds entries until the file is full and returns how many were added. Queries find them after [`Self::write`].
    pub(super) fn put(&mut self, entries: &[KeyEntry]) -> usize {
        let room = (self.geometry.items - self.header.next) as usize;
        let entries = &entries[..room.min(entries.len())];
        for entry in entries {
            let header = &mut self.header;
            let index = self.geometry.slot_of(entry.hash) as usize;
            self.changed[index / SLOTS_STEP] = true;
            let slot = &mut self.slots[index];
            let seconds = header.seconds_of(entry.time).cast_signed();
            let item = Item { hash: entry.hash, offset: entry.offset, seconds, previous: *slot };
            item.append_to(&mut self.buffer);
            if header.next == 1 {
                // Set only now, as RocketMQ does: the first item's seconds count from the end of the file before.
                (header.begin_time, header.begin_offset) = (entry.time, entry.offset);
            }
            header.slots_used += u32::from(*slot == 0);
            *slot = header.next;
            header.next += 1;
            (header.end_time, header.end_offset) = (entry.time, entry.offset);
        }
        entries.len()
    }

    /// Writes the new items to the file.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let count = self.buffer.len() / ITEM_BYTES;
        let first = self.header.next - u32::try_from(count).expect("not more than the file's items");
        self.file.write_at(&self.buffer, self.geometry.item_at(first))?;
        self.buffer.clear();
        // Start write-back early: queries wait while the file is synced, so little should be left to write then.
        let (from, end) = (self.geometry.item_at(self.written_back), self.geometry.item_at(self.header.next));
        if end - from >= WRITE_BACK_BYTES {
            self.file.start_write_back(from, end - from);
            self.written_back = self.header.next;
        }
        Ok(())
    }

    /// Whether so many items were written that the file should be synced.
    pub(super) fn wants_sync(&self) -> bool {
        self.header.next - self.synced >= SYNC_ITEMS.min(self.geometry.items / 4).max(1)
    }

    /// Makes the items durable, then the header that counts them, then the slots.
    ///
    /// The order matters. A RocketMQ broker takes a slot that is not below the count for empty, and would lose the
    /// slot's whole chain. The end in the header stays at the value that the checkpoint knows. RocketMQ removes a
    /// file with a later end, and indexes again only messages behind the end. [`Self::write_header_end`] moves it.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.write()?;
        if self.synced == self.header.next && !self.changed.contains(&true) {
            return Ok(());
        }
        self.file.sync()?;
        let LastMessage { time: end_time, offset: end_offset } = self.header_end;
        self.file.write_at(&Header { end_time, end_offset, ..self.header }.to_bytes(), 0)?;
        self.file.sync()?;
        self.write_slots()?;
        self.file.sync()?;
        self.synced = self.header.next;
        Ok(())
    }

    /// Writes the changed slots, adjacent slots together, because under load nearly all have changed.
    fn write_slots(&mut self) -> io::Result<()> {
        let (count, mut next) = (self.changed.len(), 0);
        let mut bytes = Vec::with_capacity(STEP_BYTES);
        while let Some(from) = (next..count).find(|step| self.changed[*step]) {
            let most = count.min(from + STEP_BYTES / (4 * SLOTS_STEP));
            next = (from..most).find(|step| !self.changed[*step]).unwrap_or(most);
            let first = from * SLOTS_STEP;
            let slots = &self.slots[first..self.slots.len().min(next * SLOTS_STEP)];
            bytes.clear();
            slots.iter().for_each(|slot| bytes.extend_from_slice(&slot.to_be_bytes()));
            let first = u32::try_from(first).expect("not more than the slots");
            self.file.write_at(&bytes, self.geometry.slot_at(first))?;
            self.changed[from..next].fill(false);
        }
        Ok(())
    }

    /// Moves the end in the file's header, now that the checkpoint covers it.
    pub(super) fn write_header_end(&mut self, end: LastMessage) -> io::Result<()> {
        if self.synced == 1 || end.offset < self.header_end.offset || end.offset > self.header.end_offset {
            return Ok(());
        }
        self.header_end = end;
        end.write(&*self.file)
    }

    /// Returns the newest written item in the slot of a hash, for queries.
    pub(super) fn newest_of(&self, hash: u32) -> u32 {
        self.slots[self.geometry.slot_of(hash) as usize]
    }
}

/// Reads a file's header; `None` when it is invalid.
pub(super) fn read_header(file: &dyn DiskFile, geometry: Geometry) -> io::Result<Option<Header>> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_at(&mut bytes, 0)?;
    Ok(Header::from_bytes(&bytes, geometry))
}
