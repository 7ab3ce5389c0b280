//! An in-memory [`Disk`] that injects faults, for tests and simulation. It tracks for every page whether it was synced;
//! [`FakeDisk::power_cut`] keeps the synced pages and a subset of the others chosen by a seed. Names behave as on a
//! journaling file system: a prefix of the unsynced creations, renames and removals survives.

use super::{Disk, DiskFile, Entry, Space, Syncer, Usage};
use crate::wake::lock;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// Faults to inject, and the clock and fill level of the disk. All off by default; changed with [`FakeDisk::faults`].
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Number of writes that still succeed; the next one writes half of its bytes and fails.
    pub writes_left: Option<u64>,
    /// Number of changes of contents and names that still happen. Then the process counts as killed: nothing changes any
    /// more, and every change fails.
    pub killed_after: Option<u64>,
    /// Number of syncs that still succeed; the next one fails and marks the dirty pages clean, as Linux does.
    pub syncs_left: Option<u64>,
    /// Bytes that can still be reserved for new files.
    pub space_left: Option<u64>,
    /// Whether [`DiskFile::read_resident`] finds no page in memory.
    pub nothing_resident: bool,
    /// Modification time of files written from now on, in ms since the epoch.
    pub now_ms: i64,
    /// Answers of [`Disk::usage`] for paths below these; the last matching entry counts. Other paths are on an empty disk of
    /// one terabyte.
    pub usage: Vec<(PathBuf, Usage)>,
    /// Whether the process has no file descriptor left: opening and creating files fails.
    pub no_descriptors: bool,
    /// Files below this directory cannot be created or resized.
    pub fails_below: Option<PathBuf>,
    /// Number of reads of unreadable ranges that still fail; later ones succeed. `None`: all fail.
    pub failing_reads_left: Option<u64>,
    /// Lock that every sync of a file takes first: while a test holds it, the disk hangs.
    pub syncs_wait_for: Option<Arc<Mutex<()>>>,
}

type Names = BTreeMap<PathBuf, Arc<FakeFile>>;

/// A change of names that is not durable yet.
enum Change {
    Link(PathBuf, Arc<FakeFile>),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, Arc<FakeFile>),
}

impl Change {
    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _) => path.parent(),
        }
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Link(path, file) => drop(names.insert(path.clone(), file.clone())),
            Self::Unlink(path) => drop(names.remove(path)),
            Self::Rename(source, target, file) => {
                names.remove(source);
                names.insert(target.clone(), file.clone());
            }
        }
    }
}

#[derive(Default)]
struct State {
    names: Names,
    durable: Names,
    changes: Vec<Change>,
    directories: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
}

/// The in-memory disk. Clones are handles to the same disk.
#[derive(Clone)]
pub struct FakeDisk {
    page_bytes: usize,
    state: Arc<Mutex<State>>,
    faults: Arc<Mutex<Faults>>,
    /// Number of power cuts, for [`Disk::mount`]; `None` when `mount` cannot tell.
    mount: Option<u64>,
}

/// Counts one change against [`Faults::killed_after`]; fails when the process counts as killed.
fn take_change(faults: &Mutex<Faults>) -> io::Result<()> {
    if let Some(left) = &mut lock(faults).killed_after {
        *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the process was killed"))?;
    }
    Ok(())
}

impl FakeDisk {
    fn take_descriptor(&self) -> io::Result<()> {
        const TOO_MANY_OPEN_FILES: i32 = 24;
        match lock(&self.faults).no_descriptors {
            true => Err(io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES)),
            false => Ok(()),
        }
    }

    fn is_there(&self, directory: &Path) -> bool {
        let state = lock(&self.state);
        state.directories.contains(directory) || state.names.keys().any(|path| path.starts_with(directory))
    }

    /// An empty disk that loses unsynced data in pages of `page_bytes` bytes.
    #[must_use]
    pub fn new(page_bytes: usize) -> Self {
        Self { page_bytes, state: Arc::default(), faults: Arc::default(), mount: Some(0) }
    }

    /// Changes the faults that are injected from now on.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.faults));
    }

    /// Makes all reads that touch the range `unreadable` of a file fail.
    pub fn set_unreadable(&self, path: &Path, unreadable: Range<u64>) {
        if let Some(file) = lock(&self.state).names.get(path) {
            *lock(&file.unreadable) = unreadable;
        }
    }

    /// The disk as it is after a power cut now. `self` does not change, so a store that still runs on it does no harm.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> Self {
        let mut random = Random(seed);
        let state = lock(&self.state);
        let mut names = Names::new();
        let mut copies: BTreeMap<*const FakeFile, Arc<FakeFile>> = BTreeMap::new();
        let mut survivors = state.durable.clone();
        let kept = random.below(state.changes.len() + 1);
        for change in &state.changes[..kept] {
            change.apply(&mut survivors);
        }
        let faults: Arc<Mutex<Faults>> = Arc::default();
        for (path, file) in &survivors {
            let copy = copies
                .entry(Arc::as_ptr(file))
                .or_insert_with(|| Arc::new(file.after_power_cut(&mut random, faults.clone())));
            names.insert(path.clone(), copy.clone());
        }
        let directories = state.directories.clone();
        let state = State { durable: names.clone(), names, directories, ..State::default() };
        let mount = self.mount.map(|mount| mount + 1);
        Self { page_bytes: self.page_bytes, state: Arc::new(Mutex::new(state)), faults, mount }
    }

    /// The same disk, but unable to name its mounts: whether pages were lost cannot be told then.
    #[must_use]
    pub fn without_mounts(self) -> Self {
        Self { mount: None, ..self }
    }

    /// The disk as the next process finds it after this one is killed: no write is lost.
    #[must_use]
    pub fn killed(&self) -> Self {
        let state = lock(&self.state);
        let faults: Arc<Mutex<Faults>> = Arc::default();
        let copy = |names: &Names| -> Names {
            names.iter().map(|(path, file)| (path.clone(), Arc::new(file.copy(faults.clone())))).collect()
        };
        let names = copy(&state.names);
        let directories = state.directories.clone();
        let state = State { durable: names.clone(), names, directories, ..State::default() };
        let (page_bytes, mount) = (self.page_bytes, self.mount);
        Self { page_bytes, state: Arc::new(Mutex::new(state)), faults, mount }
    }
}

/// A small random generator (xorshift64*) that chooses the pages that survive.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }
}

impl Disk for FakeDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.directories.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let state = lock(&self.state);
        if state.names.contains_key(path) {
            return Err(ErrorKind::NotADirectory.into());
        }
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let inside = |entry: &Path| entry.parent() == Some(path);
        let directories = state.directories.iter().filter(|entry| inside(entry));
        let mut list: Vec<Entry> = directories
            .map(|entry| Entry { name: name(entry), is_dir: true, length: 0, modified_ms: 0 })
            .collect();
        let files = state.names.iter().filter(|(entry, _)| inside(entry));
        list.extend(files.map(|(entry, file)| Entry {
            name: name(entry),
            is_dir: false,
            length: lock(&file.data).current.len() as u64,
            modified_ms: file.modified_ms.load(Ordering::Relaxed),
        }));
        list.sort();
        Ok(list)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.take_descriptor()?;
        match lock(&self.state).names.get(path) {
            Some(file) => Ok(file.clone()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn create(&self, path: &Path, length: u64, space: Space) -> io::Result<Arc<dyn DiskFile>> {
        self.take_descriptor()?;
        if lock(&self.faults).fails_below.as_ref().is_some_and(|broken| path.starts_with(broken)) {
            return Err(io::Error::other("injected error"));
        }
        if space == Space::Reserved
            && let Some(left) = &mut lock(&self.faults).space_left
        {
            *left = left.checked_sub(length).ok_or(io::Error::from(ErrorKind::StorageFull))?;
        }
        take_change(&self.faults)?;
        let length = usize::try_from(length).map_err(|_| io::Error::from(ErrorKind::StorageFull))?;
        let mut state = lock(&self.state);
        let file = match state.names.get(path) {
            Some(file) => file.clone(),
            None => {
                let file = Arc::new(FakeFile::new(self.page_bytes, self.faults.clone()));
                state.names.insert(path.to_owned(), file.clone());
                state.changes.push(Change::Link(path.to_owned(), file.clone()));
                file
            }
        };
        let mut data = lock(&file.data);
        data.current.resize(length, 0);
        data.durable.resize(length, 0);
        drop(data);
        Ok(file)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        take_change(&self.faults)?;
        let mut state = lock(&self.state);
        let file = state.names.get(source).ok_or(io::Error::from(ErrorKind::NotFound))?.clone();
        let change = Change::Rename(source.to_owned(), target.to_owned(), file);
        change.apply(&mut state.names);
        state.changes.push(change);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        take_change(&self.faults)?;
        let mut state = lock(&self.state);
        if state.names.remove(path).is_some() {
            state.changes.push(Change::Unlink(path.to_owned()));
        }
        Ok(())
    }

    fn usage(&self, path: &Path) -> io::Result<Usage> {
        const TERABYTE: u64 = 1 << 40;
        if !self.is_there(path) {
            return Err(ErrorKind::NotFound.into());
        }
        let empty = Usage { device: 0, total: TERABYTE, free: TERABYTE, available: TERABYTE };
        let faults = lock(&self.faults);
        let set = faults.usage.iter().rev().find(|(above, _)| path.starts_with(above));
        Ok(set.map_or(empty, |(_, usage)| *usage))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let state = &mut *lock(&self.state);
        let is_inside = |entry: &Path| entry != path && entry.starts_with(path);
        let is_used = state.names.keys().any(|entry| is_inside(entry));
        if !is_used && !state.directories.iter().any(|entry| is_inside(entry)) {
            state.directories.remove(path);
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let state = &mut *lock(&self.state);
        let (done, rest) = std::mem::take(&mut state.changes)
            .into_iter()
            .partition(|change| change.directory() == Some(path));
        state.changes = rest;
        done.iter().for_each(|change: &Change| change.apply(&mut state.durable));
        Ok(())
    }

    fn syncer(&self, _path: &Path) -> io::Result<Syncer> {
        let disk = self.clone();
        Ok(Box::new(move || {
            let files: Vec<_> = lock(&disk.state).names.values().cloned().collect();
            files.iter().try_for_each(|file| file.sync())?;
            let state = &mut *lock(&disk.state);
            std::mem::take(&mut state.changes).iter().for_each(|change| change.apply(&mut state.durable));
            Ok(())
        }))
    }

    fn mount(&self, _path: &Path) -> io::Result<Option<String>> {
        Ok(self.mount.map(|mount| format!("fake {mount}")))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        struct Held(FakeDisk, PathBuf);
        impl Drop for Held {
            fn drop(&mut self) {
                lock(&self.0.state).locked.remove(&self.1);
            }
        }
        if !lock(&self.state).locked.insert(path.to_owned()) {
            return Err(io::Error::new(ErrorKind::WouldBlock, "another store in this test"));
        }
        Ok(Box::new(Held(self.clone(), path.to_owned())))
    }
}

struct Data {
    current: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

struct FakeFile {
    page_bytes: usize,
    data: Mutex<Data>,
    modified_ms: AtomicI64,
    unreadable: Mutex<Range<u64>>,
    faults: Arc<Mutex<Faults>>,
}

impl FakeFile {
    fn new(page_bytes: usize, faults: Arc<Mutex<Faults>>) -> Self {
        let data = Data { current: Vec::new(), durable: Vec::new(), dirty: BTreeSet::new() };
        let modified_ms = AtomicI64::new(lock(&faults).now_ms);
        Self { page_bytes, data: Mutex::new(data), modified_ms, unreadable: Mutex::default(), faults }
    }

    fn with_content(&self, content: Vec<u8>, faults: Arc<Mutex<Faults>>) -> Self {
        let data = Data { current: content.clone(), durable: content, dirty: BTreeSet::new() };
        let modified_ms = AtomicI64::new(self.modified_ms.load(Ordering::Relaxed));
        let (page_bytes, unreadable) = (self.page_bytes, Mutex::default());
        Self { page_bytes, data: Mutex::new(data), modified_ms, unreadable, faults }
    }

    fn copy(&self, faults: Arc<Mutex<Faults>>) -> Self {
        self.with_content(lock(&self.data).current.clone(), faults)
    }

    fn after_power_cut(&self, random: &mut Random, faults: Arc<Mutex<Faults>>) -> Self {
        let data = lock(&self.data);
        let mut content = data.durable.clone();
        // Each cut draws its own survival rate, so that both long and short runs of pages are lost.
        let chance = random.below(101);
        for page in &data.dirty {
            if random.below(100) < chance {
                let range = page * self.page_bytes..((page + 1) * self.page_bytes).min(content.len());
                content[range.clone()].copy_from_slice(&data.current[range]);
            }
        }
        self.with_content(content, faults)
    }

    fn note_time(&self) {
        self.modified_ms.store(lock(&self.faults).now_ms, Ordering::Relaxed);
    }

    fn put(&self, source: &[u8], at: usize) -> io::Result<()> {
        let mut data = lock(&self.data);
        let end = at + source.len();
        if end > data.current.len() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the store never writes past a file's end"));
        }
        data.current[at..end].copy_from_slice(source);
        if !source.is_empty() {
            data.dirty.extend(at / self.page_bytes..=(end - 1) / self.page_bytes);
        }
        Ok(())
    }
}

fn position(at: u64) -> usize {
    usize::try_from(at).expect("test files fit memory")
}

impl DiskFile for FakeFile {
    fn read_at(&self, target: &mut [u8], at: u64) -> io::Result<()> {
        const BAD_SECTOR: i32 = 5;
        let unreadable = lock(&self.unreadable).clone();
        if unreadable.start < at + target.len() as u64 && at < unreadable.end {
            let left = &mut lock(&self.faults).failing_reads_left;
            if *left != Some(0) {
                *left = left.map(|left| left - 1);
                return Err(io::Error::from_raw_os_error(BAD_SECTOR));
            }
        }
        let data = lock(&self.data);
        let source = data.current.get(position(at)..position(at) + target.len());
        target.copy_from_slice(source.ok_or(io::Error::from(ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn read_resident(&self, target: &mut [u8], at: u64) -> io::Result<bool> {
        if lock(&self.faults).nothing_resident {
            return Ok(false);
        }
        self.read_at(target, at).map(|()| true)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.data).current.len() as u64)
    }

    fn next_data(&self, at: u64) -> io::Result<u64> {
        let data = lock(&self.data);
        let rest = data.current.get(position(at)..).unwrap_or_default();
        Ok(at + rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len()) as u64)
    }

    fn write_at(&self, source: &[u8], at: u64) -> io::Result<()> {
        take_change(&self.faults)?;
        self.note_time();
        if let Some(left) = &mut lock(&self.faults).writes_left {
            let Some(fewer) = left.checked_sub(1) else {
                self.put(&source[..source.len() / 2], position(at))?;
                return Err(io::Error::other("injected write error"));
            };
            *left = fewer;
        }
        self.put(source, position(at))
    }

    fn sync(&self) -> io::Result<()> {
        let hanging = lock(&self.faults).syncs_wait_for.clone();
        hanging.inspect(|hanging| drop(lock(hanging)));
        if let Some(left) = &mut lock(&self.faults).syncs_left {
            let Some(fewer) = left.checked_sub(1) else {
                // Linux marks pages clean after a failed write-back: a second sync would succeed.
                lock(&self.data).dirty.clear();
                return Err(io::Error::other("injected sync error"));
            };
            *left = fewer;
        }
        let data = &mut *lock(&self.data);
        for page in std::mem::take(&mut data.dirty) {
            let range = page * self.page_bytes..((page + 1) * self.page_bytes).min(data.current.len());
            data.durable[range.clone()].copy_from_slice(&data.current[range]);
        }
        Ok(())
    }

    fn start_write_back(&self, _at: u64, _length: u64) {}

    fn forget(&self, _at: u64, _length: u64) {}

    fn will_need(&self, _at: u64, _length: u64) {}

    fn zero(&self, at: u64, length: u64) -> io::Result<()> {
        take_change(&self.faults)?;
        self.note_time();
        self.put(&vec![0; position(length)], position(at))
    }

    fn write_zeros(&self, at: u64, length: u64) -> io::Result<()> {
        self.write_at(&vec![0; position(length)], at)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        take_change(&self.faults)?;
        // A truncation is durable at once: the worst case for code that relied on the bytes.
        let data = &mut *lock(&self.data);
        let length = position(length);
        data.current.truncate(length);
        data.durable.truncate(length);
        data.dirty.retain(|page| page * self.page_bytes < length);
        Ok(())
    }
}
