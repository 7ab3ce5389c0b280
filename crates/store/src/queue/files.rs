//! Files of a queue: opened on demand, created when the first unit is written to them.

use super::ext::{Extension, ExtensionLookup};
pub(crate) use super::open::{OpenFiles, SyncList};
use super::{Extent, UNIT_BYTES, Unit};
use crate::disk::{DiskFile, Read, Space, file_name};
use crate::error::OpenError;
use crate::wake::lock;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use wire::units::LogOffset;

pub(crate) struct QueueFiles {
    directory: PathBuf,
    file_bytes: u64,
    open: Arc<OpenFiles>,
    /// Whether consecutive units may be equal: a record of a batch consume queue holds several messages.
    repeats: bool,
    /// Number of the oldest file that the last removal left; files are numbered from queue offset 0. A call for the
    /// same file lists no directory.
    removed_below: AtomicU64,
    /// RocketMQ's `consumequeue_ext` files. They are searched when a unit refers to them.
    extension: OnceLock<Extension>,
}

impl QueueFiles {
    pub(crate) fn new(directory: PathBuf, file_bytes: u64, open: Arc<OpenFiles>) -> Self {
        assert!(file_bytes.is_multiple_of(UNIT_BYTES) && file_bytes > 0, "queue files hold whole units");
        let removed_below = AtomicU64::new(0);
        Self { directory, file_bytes, open, repeats: false, removed_below, extension: OnceLock::new() }
    }

    /// The files of a batch consume queue, in which a record may hold several messages.
    pub(crate) fn of_batches(directory: PathBuf, file_bytes: u64, open: Arc<OpenFiles>) -> Self {
        Self { repeats: true, ..Self::new(directory, file_bytes, open) }
    }

    /// Whether `unit` may directly follow `last` in the queue.
    fn follows(&self, last: Unit, unit: Unit) -> bool {
        unit.log_offset >= last.end() || self.repeats && unit == last
    }

    fn file_units(&self) -> u64 {
        self.file_bytes / UNIT_BYTES
    }

    fn path_of(&self, unit: u64) -> PathBuf {
        self.directory.join(file_name(unit / self.file_units() * self.file_bytes))
    }

    /// Appends the units `from..end` to `out`.
    pub(crate) fn read(
        &self,
        mut from: u64,
        end: u64,
        out: &mut Vec<Unit>,
        resident: bool,
    ) -> io::Result<Read> {
        let mut bytes = Vec::new();
        while from < end {
            let in_file = from % self.file_units();
            let count = (end - from).min(self.file_units() - in_file);
            bytes.resize(usize::try_from(count * UNIT_BYTES).map_err(io::Error::other)?, 0);
            let file = self.open.get(&self.path_of(from))?;
            if !resident {
                file.read_at(&mut bytes, in_file * UNIT_BYTES)?;
            } else if !file.read_resident(&mut bytes, in_file * UNIT_BYTES)? {
                return Ok(Read::NotResident);
            }
            let missing = || io::Error::new(ErrorKind::InvalidData, "queue file has a hole");
            let mut last: Option<Unit> = None;
            for unit in bytes.chunks_exact(20) {
                let mut unit = Unit::from_bytes(unit).ok_or_else(missing)?;
                if !unit.has_tags_code() && !self.look_up(&mut unit, resident) {
                    return Ok(Read::NotResident);
                }
                if !unit.is_blank() {
                    if last.is_some_and(|last| !self.follows(last, unit)) {
                        return Err(io::Error::new(ErrorKind::InvalidData, "queue file is out of order"));
                    }
                    last = Some(unit);
                }
                out.push(unit);
            }
            from += count;
        }
        Ok(Read::Done)
    }

    /// Replaces the address in a unit's tags code field by the tags code it refers to; `false` when that is not in memory. An
    /// address without a valid entry stays: filters then pass the message on to the consumer.
    fn look_up(&self, unit: &mut Unit, resident: bool) -> bool {
        let extension = match self.extension.get() {
            Some(extension) => extension,
            None if resident => return false,
            None => match Extension::beside(&*self.open.disk, &self.directory) {
                Ok(extension) => self.extension.get_or_init(|| extension),
                Err(_) => return true,
            },
        };
        match extension.tags_code(unit.tags_code, resident, |path| self.open.get(path)) {
            Ok(ExtensionLookup::TagsCode(code)) => unit.tags_code = code,
            Ok(ExtensionLookup::NotResident) => return false,
            Ok(ExtensionLookup::Nothing) | Err(_) => {}
        }
        true
    }

    /// Writes units from queue offset `from` on. In a new file the units before `min` are blank. The units between
    /// `min` and `from` stay empty. If units existed there, they are lost, and the healer must find that.
    pub(crate) fn write(
        &self,
        mut from: u64,
        mut units: &[Unit],
        min: u64,
        touched: &mut SyncList,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        while !units.is_empty() {
            let in_file = from % self.file_units();
            let room = usize::try_from(self.file_units() - in_file).unwrap_or(usize::MAX);
            let (now, later) = units.split_at(units.len().min(room));
            bytes.clear();
            now.iter().for_each(|unit| bytes.extend_from_slice(&unit.to_bytes()));
            let path = self.path_of(from);
            let file = match touched.files.get(&path) {
                Some(file) => file.clone(),
                None => self.open_or_create(&path, min.saturating_sub(from - in_file), touched)?,
            };
            file.write_at(&bytes, in_file * UNIT_BYTES)?;
            touched.add_file(path, file);
            from += now.len() as u64;
            units = later;
        }
        Ok(())
    }

    /// Opens a queue file and gives it its full size; a new file begins with `blanks` blank units.
    fn open_or_create(
        &self,
        path: &Path,
        blanks: u64,
        touched: &mut SyncList,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let disk = &self.open.disk;
        // With so many files, none would still be open the next time.
        let found = if touched.everything { disk.open(path) } else { self.open.get(path) };
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(file) if file.length()? < self.file_bytes => return self.fill_up(path, file.length()?),
            found => return found,
        }
        disk.create_dir_all(&self.directory)?;
        let file = disk.create(path, self.file_bytes, Space::Sparse)?;
        let blanks = usize::try_from(blanks.min(self.file_units())).map_err(io::Error::other)?;
        file.write_at(&Unit::PRE_BLANK.to_bytes().repeat(blanks), 0)?;
        if !touched.everything {
            self.open.keep(path, &file);
        }
        touched.add_directories(self.directory.ancestors().take(4));
        Ok(file)
    }

    /// Gives a file of another length its full size. A partial unit at the end is cut off first, because it would
    /// look whole if extended with zeros.
    fn fill_up(&self, path: &Path, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let whole = length - length % UNIT_BYTES;
        if whole < length.min(self.file_bytes) {
            self.open.disk.create(path, whole, Space::Sparse)?;
        }
        self.open.disk.create(path, self.file_bytes, Space::Sparse)
    }

    /// Removes all files, before new files are written in their place.
    pub(crate) fn clear(&self, touched: &mut SyncList) -> io::Result<()> {
        self.open.forget_below(&self.directory);
        touched.forget_below(&self.directory);
        for entry in self.open.disk.list(&self.directory)?.iter().filter(|entry| !entry.is_dir) {
            self.open.disk.remove(&self.directory.join(&entry.name))?;
            touched.add_directories([self.directory.as_path()].into_iter());
        }
        Ok(())
    }

    /// Wipes the units from queue offset `from` on, up to the end of the file that holds `until`. Files that begin in this
    /// range are removed.
    pub(crate) fn wipe(&self, from: u64, until: u64, touched: &mut SyncList) -> io::Result<()> {
        let mut start = from / self.file_units() * self.file_units();
        while start <= until {
            let path = self.path_of(start);
            if start >= from {
                self.open.forget(&path);
                self.open.disk.remove(&path)?;
                touched.files.remove(&path);
                touched.add_directories([self.directory.as_path()].into_iter());
            } else {
                match self.open.get(&path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    file => {
                        let (file, at) = (file?, (from - start) * UNIT_BYTES);
                        if file.length()? == self.file_bytes {
                            file.zero(at, self.file_bytes - at)?;
                            touched.add_file(path, file);
                        }
                    }
                }
            }
            start += self.file_units();
        }
        Ok(())
    }

    /// Reports the files to the healer as damaged.
    pub(crate) fn report(&self, topic: &str, queue_id: i32) {
        lock(&self.open.reports).insert((topic.to_owned(), queue_id));
        self.open.healer.wake();
    }

    /// Finds the first bad file and returns its first queue offset in `extent`. A file is bad if it
    /// is missing or of a wrong size, or if its first or last unit is wrong. `None` if no file is
    /// bad.
    pub(crate) fn first_bad(&self, extent: Extent) -> io::Result<Option<u64>> {
        let Extent { min, max, last } = extent;
        let mut end = LogOffset::ZERO;
        let mut from = min;
        while from < max {
            let start = from / self.file_units() * self.file_units();
            let next = (start + self.file_units()).min(max);
            let file = match self.open.disk.open(&self.path_of(start)) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(from)),
                file => file?,
            };
            if file.length()? != self.file_bytes {
                return Ok(Some(from));
            }
            for (place, is_last) in [(from, false), (next - 1, next == max)] {
                let mut bytes = [0; 20];
                file.read_at(&mut bytes, (place - start) * UNIT_BYTES)?;
                let Some(unit) = Unit::from_bytes(&bytes) else { return Ok(Some(from)) };
                let is_known = is_last && !unit.is_blank() && last != Extent::NONE;
                if unit.log_offset < end && !unit.is_blank() && place > from
                    || is_known && unit.log_offset.get() != last
                {
                    return Ok(Some(from));
                }
                end = end.max(unit.log_offset);
            }
            from = next;
        }
        Ok(None)
    }

    /// A queue offset shortly before the first unit that is missing or out of order.
    pub(crate) fn first_hole(&self, extent: Extent) -> io::Result<Option<u64>> {
        const STEP: u64 = 4096;
        let mut units: Vec<Unit> = Vec::new();
        let mut last: Option<Unit> = None;
        let mut from = extent.min;
        while from < extent.max {
            let next = (from + STEP).min(extent.max);
            units.clear();
            match self.read(from, next, &mut units, false) {
                Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(Some(from)),
                done => drop(done?),
            }
            let mut held = units.iter().copied().filter(|unit| !unit.is_blank());
            if held.clone().next().is_some_and(|unit| last.is_some_and(|last| !self.follows(last, unit))) {
                return Ok(Some(from));
            }
            last = held.next_back().or(last);
            from = next;
        }
        Ok(None)
    }

    /// Empties the units `from..until` and keeps those around them. Files of a wrong size are cut or extended.
    pub(crate) fn empty(&self, from: u64, until: u64, touched: &mut SyncList) -> io::Result<()> {
        let mut next = from;
        while next < until {
            let start = next / self.file_units() * self.file_units();
            let end = (start + self.file_units()).min(until);
            let path = self.path_of(start);
            match self.open.disk.open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => self.open.forget(&path),
                file => {
                    let mut file = file?;
                    let length = file.length()?;
                    if length != self.file_bytes {
                        file = self.fill_up(&path, length)?;
                    }
                    file.zero((next - start) * UNIT_BYTES, (end - next) * UNIT_BYTES)?;
                    self.open.forget(&path);
                    touched.add_file(path, file);
                }
            }
            next = end;
        }
        Ok(())
    }

    /// Checks the files of a store at opening. Keeps the units before the first unit that is missing or refers to a
    /// log position at or behind `limit`. Later units are wiped, because an old unit could pass for a new unit.
    /// `wipe` is true if such units may exist (after a crash). Wiped and removed files are added to `touched`, and
    /// must be durable before the next checkpoint.
    pub(crate) fn load(
        &self,
        limit: LogOffset,
        wipe: bool,
        touched: &mut SyncList,
    ) -> Result<LoadResult, OpenError> {
        let mut starts = self.list()?;
        let Some(first) = starts.first().copied() else { return Ok(LoadResult::default()) };
        while let Some(start) = starts.pop() {
            let path = self.directory.join(file_name(start));
            let file = self.open.disk.open(&path).map_err(OpenError::io(&path))?;
            let low = self.count_units(&*file, limit).map_err(OpenError::io(&path))?;
            if low == 0 {
                self.open.forget(&path);
                self.open.disk.remove(&path).map_err(OpenError::io(&path))?;
                // The file may have been wiped earlier; the next write creates a new file of that name.
                touched.files.remove(&path);
                touched.add_directories([self.directory.as_path()].into_iter());
                continue;
            }
            let end = low * UNIT_BYTES;
            let unit_at = |file: &dyn DiskFile, path: &Path, index| {
                let mut bytes = [0; 20];
                file.read_at(&mut bytes, index * UNIT_BYTES).map_err(OpenError::io(path))?;
                Ok(Unit::from_bytes(&bytes))
            };
            if end < self.file_bytes && (wipe || unit_at(&*file, &path, low)?.is_some()) {
                file.zero(end, self.file_bytes - end).map_err(OpenError::io(&path))?;
                touched.add_file(path.clone(), file.clone());
            }
            let last = unit_at(&*file, &path, low - 1)?.filter(|unit| !unit.is_blank());
            let first_unit = if start == first {
                unit_at(&*file, &path, 0)?
            } else {
                let path = self.directory.join(file_name(first));
                unit_at(&*self.open.disk.open(&path).map_err(OpenError::io(&path))?, &path, 0)?
            };
            let end = last.map_or(Extent::NONE, |unit| unit.log_offset.get());
            let extent = Extent { min: first / UNIT_BYTES, max: start / UNIT_BYTES + low, last: end };
            return Ok(LoadResult { extent, first: first_unit, last });
        }
        Ok(LoadResult::default())
    }

    /// Removes the files in which all units lie before `unit`, oldest first, but never the last file, which defines
    /// the queue's maximum offset.
    pub(crate) fn remove_before(&self, unit: u64) -> io::Result<()> {
        let number = unit / self.file_units();
        if self.removed_below.load(Ordering::Relaxed) >= number {
            return Ok(());
        }
        let entries = self.open.disk.list(&self.directory)?;
        let starts: Vec<u64> = entries.iter().filter_map(|entry| entry.name.parse().ok()).collect();
        let last = starts.len().saturating_sub(1);
        for start in starts[..last].iter().filter(|start| **start / self.file_bytes < number) {
            let path = self.directory.join(file_name(*start));
            self.open.disk.remove(&path)?;
            self.open.forget(&path);
        }
        self.removed_below.store(number, Ordering::Relaxed);
        Ok(())
    }

    /// Counts the units from the start of a file that refer to records before `limit`. Blank units among them and
    /// directly behind them count too.
    fn count_units(&self, file: &dyn DiskFile, limit: LogOffset) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.file_units());
        // All units from `high` up to here are blank.
        let mut end = high;
        let mut from = 0;
        while low < high {
            let run = self.run_before(file, from, high, limit)?;
            if run.has_message {
                low = run.end;
                if run.is_over {
                    return Ok(low);
                }
            } else {
                (high, end) = (from, if run.is_over { run.end } else { end });
            }
            from = low + (high - low) / 2;
        }
        Ok(if low == 0 { 0 } else { end })
    }

    /// Reads units from number `from` on, and counts units of records before `limit` and blank units. Stops at the
    /// first unit that is missing or not before `limit`. Also stops at the end of a block that has a unit before
    /// `limit`, so that the caller can skip ahead.
    fn run_before(&self, file: &dyn DiskFile, from: u64, until: u64, limit: LogOffset) -> io::Result<Run> {
        // Read in blocks: for most queues the first read finds the end.
        const BLOCK_UNITS: u64 = 204;
        let mut block = [0; (BLOCK_UNITS * UNIT_BYTES) as usize];
        let mut run = Run { end: from, has_message: false, is_over: false };
        while run.end < until && !run.has_message {
            let count = BLOCK_UNITS.min(until - run.end);
            let block = &mut block[..usize::try_from(count * UNIT_BYTES).expect("a block")];
            file.read_at(block, run.end * UNIT_BYTES)?;
            for bytes in block.as_chunks::<20>().0 {
                match Unit::from_bytes(bytes) {
                    Some(unit) if unit.is_blank() => {}
                    Some(unit) if unit.log_offset < limit => run.has_message = true,
                    _ => return Ok(Run { is_over: true, ..run }),
                }
                run.end += 1;
            }
        }
        Ok(run)
    }

    /// Start positions of the files, ascending. A last file of length zero was never used and is removed, as RocketMQ does.
    fn list(&self) -> Result<Vec<u64>, OpenError> {
        let disk = &self.open.disk;
        let entries = disk.list(&self.directory).map_err(OpenError::io(&self.directory))?;
        let files: Vec<_> = entries.into_iter().filter(|entry| !entry.is_dir).collect();
        let mut starts = Vec::with_capacity(files.len());
        for (index, entry) in files.iter().enumerate() {
            let path = self.directory.join(&entry.name);
            let start = entry.name.parse::<u64>().ok().filter(|start| start.is_multiple_of(self.file_bytes));
            if entry.length == 0 && index + 1 == files.len() {
                disk.remove(&path).map_err(OpenError::io(&path))?;
            } else if entry.length != self.file_bytes {
                return Err(OpenError::FileSize { path, expected: self.file_bytes, found: entry.length });
            } else {
                starts.push(start.ok_or(OpenError::FileName { path })?);
            }
        }
        Ok(starts)
    }
}

/// Result of [`QueueFiles::load`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadResult {
    pub(crate) extent: Extent,
    /// The unit at the start of the first file.
    pub(crate) first: Option<Unit>,
    /// Last remaining unit, unless it is blank.
    pub(crate) last: Option<Unit>,
}

/// Consecutive units, see [`QueueFiles::run_before`].
struct Run {
    end: u64,
    has_message: bool,
    /// Whether the next unit is missing or does not lie before the limit.
    is_over: bool,
}
