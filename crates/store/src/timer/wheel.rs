//! The wheel's file, read and changed by pages, of which a bounded number is in memory.

use super::files::SaveError;
use super::rounding::slot_start;
use super::slot::{SLOT_BYTES, Slot};
use crate::disk::{Disk, DiskFile, Space};
use crate::error::OpenError;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;
/// Pages kept in memory between two saves; each covers 128 slots.
const PAGES_KEPT: usize = 512;

struct Page {
    bytes: Vec<u8>,
    dirty: bool,
}

/// A changed page to be written.
pub(super) struct DirtyPage {
    at: u64,
    bytes: Vec<u8>,
}

/// The timer wheel: all slots.
pub(super) struct Wheel {
    file: Arc<dyn DiskFile>,
    slots: u64,
    precision_ms: i64,
    pages: HashMap<u64, Page>,
    /// Temporary path of a new file until [`Self::settle`], and its final path.
    unnamed: Option<(PathBuf, PathBuf)>,
}

impl Wheel {
    /// Opens the file, or creates a file of empty slots that gets its name in [`Self::settle`]. A file of another
    /// size is replaced too, because it is truncated or no wheel. No setting changes the size, and all slots can be
    /// derived from the timer log.
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        slots: u64,
        precision_ms: i64,
    ) -> Result<Self, OpenError> {
        let expected = slots * SLOT_BYTES;
        let io = |error| OpenError::Io { path: path.to_owned(), source: error };
        let directory = path.parent().unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let found = disk.list(directory).map_err(io)?.into_iter().find(|entry| entry.name == name);
        let (file, unnamed) = match found.map(|entry| entry.length) {
            Some(length) if length == expected => (disk.open(path).map_err(io)?, None),
            found => {
                if let Some(found) = found.filter(|found| *found > 0) {
                    tracing::error!(path = %path.display(), found, expected, "the timer wheel has another length than a wheel has; it is made again from the timer log");
                }
                let beside = directory.join(format!("{name}.next"));
                let file = make(disk, &beside, expected).map_err(io)?;
                (file, Some((beside, path.to_owned())))
            }
        };
        Ok(Self { file, slots, precision_ms, pages: HashMap::new(), unnamed })
    }

    /// Whether the file is new, so that all slots were empty at first.
    pub(super) fn is_new(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Gives a new file its name, with the current slots in it. After an earlier crash the wheel is missing and is
    /// made again. So a wheel with fewer slots than the `timercheck` file relies on never exists.
    pub(super) fn settle(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let Some((beside, path)) = self.unnamed.take() else { return Ok(()) };
        let dirty = self.take_dirty();
        write_dirty(&*self.file, &dirty)?;
        disk.rename(&beside, &path)?;
        disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
    }

    /// Drops all changes that are not in the file.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
    }

    /// Returns the slot of a time, if the wheel has it.
    pub(super) fn slot(&mut self, time_ms: i64) -> io::Result<Option<Slot>> {
        Ok(Some(self.raw(time_ms)?).filter(|slot| slot.time_ms == self.start_of(time_ms)))
    }

    /// Returns the wheel's slot for a time. The slot may hold the units of another time.
    pub(super) fn raw(&mut self, time_ms: i64) -> io::Result<Slot> {
        let precision_ms = self.precision_ms;
        let (page, at) = self.locate(time_ms);
        let bytes = self.page(page)?.bytes[at..at + 32].try_into().expect("a slot sliced");
        Ok(Slot::from_bytes(bytes, precision_ms))
    }

    pub(super) fn put(&mut self, slot: Slot) -> io::Result<()> {
        let bytes = slot.to_bytes(self.precision_ms);
        let (page, at) = self.locate(slot.time_ms);
        let page = self.page(page)?;
        page.bytes[at..at + 32].copy_from_slice(&bytes);
        page.dirty = true;
        Ok(())
    }

    fn start_of(&self, time_ms: i64) -> i64 {
        slot_start(time_ms, self.precision_ms)
    }

    fn locate(&self, time_ms: i64) -> (u64, usize) {
        let step = time_ms.div_euclid(self.precision_ms).rem_euclid(self.slots.cast_signed()).cast_unsigned();
        let at = step * SLOT_BYTES;
        (at / PAGE_BYTES, usize::try_from(at % PAGE_BYTES).expect("inside a page"))
    }

    fn page(&mut self, index: u64) -> io::Result<&mut Page> {
        if !self.pages.contains_key(&index) {
            let at = index * PAGE_BYTES;
            let length = PAGE_BYTES.min(self.slots * SLOT_BYTES - at);
            let mut bytes = vec![0; usize::try_from(length).expect("a page")];
            self.file.read_at(&mut bytes, at)?;
            self.pages.insert(index, Page { bytes, dirty: false });
        }
        Ok(self.pages.get_mut(&index).expect("inserted above"))
    }

    /// Returns copies of the changed pages. Drops unchanged pages above the limit: all pages returned before must be
    /// in the file.
    pub(super) fn take_dirty(&mut self) -> Vec<DirtyPage> {
        if self.pages.len() > PAGES_KEPT {
            self.pages.retain(|_, page| page.dirty);
        }
        let mut dirty = Vec::new();
        for (index, page) in self.pages.iter_mut().filter(|(_, page)| page.dirty) {
            page.dirty = false;
            dirty.push(DirtyPage { at: index * PAGE_BYTES, bytes: page.bytes.clone() });
        }
        dirty.sort_by_key(|page| page.at);
        dirty
    }

    /// Marks pages as changed again that could not be written. They are still in memory: only [`Self::take_dirty`] drops
    /// pages, and it was not called since.
    pub(super) fn mark_dirty(&mut self, dirty: &[DirtyPage]) {
        for page in dirty {
            if let Some(page) = self.pages.get_mut(&(page.at / PAGE_BYTES)) {
                page.dirty = true;
            }
        }
    }

    pub(super) fn file(&self) -> Arc<dyn DiskFile> {
        self.file.clone()
    }

    /// Returns the first slot at or after `time_ms` that may have units. Reads the whole file.
    pub(super) fn first_from(&self, time_ms: i64) -> io::Result<Option<i64>> {
        let mut first = None::<i64>;
        let mut see = |slot: Slot| first = Some(first.map_or(slot.time_ms, |first| first.min(slot.time_ms)));
        self.for_each(time_ms, &mut see)?;
        // The file lacks the changes since the last save.
        let changed = self.pages.values().filter(|page| page.dirty);
        for bytes in changed.flat_map(|page| page.bytes.as_chunks::<32>().0) {
            let slot = Slot::from_bytes(bytes, self.precision_ms);
            if slot.time_ms >= time_ms && slot.last.is_some() {
                see(slot);
            }
        }
        Ok(first)
    }

    /// Passes all slots at or after `read_ms` that have units to `see`, from the file, without changes since the last
    /// save.
    pub(super) fn for_each(&self, read_ms: i64, mut see: impl FnMut(Slot)) -> io::Result<()> {
        const STEP: u64 = 1 << 20;
        let (mut at, end) = (0, self.slots * SLOT_BYTES);
        let mut buffer = vec![0; usize::try_from(STEP.min(end)).expect("a megabyte")];
        while at < end {
            let length = usize::try_from(STEP.min(end - at)).expect("a megabyte");
            self.file.read_at(&mut buffer[..length], at)?;
            for bytes in buffer[..length].as_chunks::<32>().0 {
                // An empty slot, by far the most frequent kind, begins with a zero time.
                if bytes[..8] == [0; 8] {
                    continue;
                }
                let slot = Slot::from_bytes(bytes, self.precision_ms);
                if slot.time_ms >= read_ms && slot.last.is_some() {
                    see(slot);
                }
            }
            at += length as u64;
        }
        Ok(())
    }
}

/// Creates a file of empty slots and makes its length durable.
fn make(disk: &dyn Disk, path: &Path, length: u64) -> io::Result<Arc<dyn DiskFile>> {
    let lacks = |error: io::Error| match error.kind() {
        // The space must be reserved: a slot that cannot be written later would be a lost timed message.
        ErrorKind::StorageFull => {
            let text = format!(
                "the timer wheel takes {length} bytes of disk and there are fewer; make room or set timerWheelEnable=false"
            );
            io::Error::new(ErrorKind::StorageFull, text)
        }
        _ => error,
    };
    disk.remove(path)?;
    let file = disk.create(path, length, Space::Reserved).map_err(lacks)?;
    file.sync()?;
    Ok(file)
}

/// Writes changed pages and makes them durable.
pub(super) fn write_dirty(file: &dyn DiskFile, dirty: &[DirtyPage]) -> Result<(), SaveError> {
    dirty.iter().try_for_each(|page| file.write_at(&page.bytes, page.at)).map_err(SaveError::of)?;
    if dirty.is_empty() { Ok(()) } else { file.sync().map_err(SaveError::Failed) }
}

/// Uses RocketMQ's newest snapshot `timerwheel.<position>` as the wheel's file and removes all snapshots, so that the plain
/// file counts from now on, for RocketMQ as well.
pub(super) fn adopt_snapshot(disk: &dyn Disk, path: &Path, slots: u64) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let prefix = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let position = |name: &str| name.strip_prefix(&prefix)?.parse::<u64>().ok();
    let entries = disk.list(directory)?;
    let mut snapshots: Vec<_> =
        entries.iter().filter_map(|entry| Some((position(&entry.name)?, entry))).collect();
    snapshots.sort_by_key(|(position, _)| *position);
    let Some((_, newest)) = snapshots.last() else { return Ok(()) };
    if newest.length == slots * SLOT_BYTES {
        disk.rename(&directory.join(&newest.name), path)?;
        disk.sync_dir(directory)?;
    }
    for (_, entry) in &snapshots {
        disk.remove(&directory.join(&entry.name))?;
    }
    disk.sync_dir(directory)
}
