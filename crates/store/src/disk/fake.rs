//! A [`Disk`] in memory that injects faults, for tests and simulation. It tracks for every page whether the page was
//! synced. [`FakeDisk::power_cut`] keeps the synced pages, and a seed chooses which other pages survive. Names behave
//! as on a journaling file system: a prefix of the unsynced creations, renames and removals survives.

mod faults;
mod file;
mod names;

pub use faults::{Faults, Latency, Operation};

use super::{DirEntry, Disk, DiskFile, Space, Syncer, Usage};
use crate::wake::lock;
use faults::Control;
use file::{FakeFile, Random, position};
use names::{Change, Names, NamesState};
use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The in-memory disk. Clones are handles to the same disk.
#[derive(Clone)]
pub struct FakeDisk {
    page_bytes: usize,
    state: Arc<Mutex<NamesState>>,
    control: Arc<Control>,
    /// Number of power cuts, for [`Disk::mount`]; `None` when `mount` cannot tell.
    mount: Option<u64>,
}

impl FakeDisk {
    fn take_descriptor(&self) -> io::Result<()> {
        const TOO_MANY_OPEN_FILES: i32 = 24;
        match lock(&self.control.faults).no_descriptors {
            true => Err(io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES)),
            false => Ok(()),
        }
    }

    fn is_there(&self, directory: &Path) -> bool {
        let state = lock(&self.state);
        state.directories.contains(directory) || state.names.keys().any(|path| path.starts_with(directory))
    }

    /// An empty disk that loses unsynced data in pages of `page_bytes` bytes.
    pub fn new(page_bytes: usize) -> Self {
        Self { page_bytes, state: Arc::default(), control: Arc::default(), mount: Some(0) }
    }

    /// Changes the faults that are injected from now on.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.control.faults));
    }

    /// Time that the operations of this disk have taken by [`Faults::latency`] and [`Faults::hangs`]. A power cut or kill begins
    /// at zero.
    pub fn time_taken(&self) -> Duration {
        self.control.time_taken()
    }

    /// Makes all reads that touch the range `unreadable` of a file fail.
    pub fn set_unreadable(&self, path: &Path, unreadable: Range<u64>) {
        if let Some(file) = lock(&self.state).names.get(path) {
            *lock(&file.unreadable) = unreadable;
        }
    }

    /// Returns the disk after a power cut now. `self` does not change, so a store can still run on it.
    pub fn power_cut(&self, seed: u64) -> Self {
        self.control.copy(|| self.after_power_cut(seed))
    }

    fn after_power_cut(&self, seed: u64) -> Self {
        let mut random = Random(seed);
        let state = lock(&self.state);
        let mut names = Names::new();
        let mut copies: BTreeMap<*const FakeFile, Arc<FakeFile>> = BTreeMap::new();
        let mut survivors = state.durable.clone();
        let kept = random.below(state.changes.len() + 1);
        for change in &state.changes[..kept] {
            change.apply(&mut survivors);
        }
        let control: Arc<Control> = Arc::default();
        for (path, file) in &survivors {
            let copy = copies
                .entry(Arc::as_ptr(file))
                .or_insert_with(|| Arc::new(file.after_power_cut(&mut random, control.clone())));
            names.insert(path.clone(), copy.clone());
        }
        let directories = state.directories.clone();
        let state = NamesState { durable: names.clone(), names, directories, ..NamesState::default() };
        let mount = self.mount.map(|mount| mount + 1);
        Self { page_bytes: self.page_bytes, state: Arc::new(Mutex::new(state)), control, mount }
    }

    /// Makes the disk unable to name its mounts, so that lost pages cannot be excluded.
    #[must_use]
    pub fn without_mounts(self) -> Self {
        Self { mount: None, ..self }
    }

    /// Returns the disk that the next process finds after this process is killed: no write is lost.
    pub fn killed(&self) -> Self {
        self.control.copy(|| self.after_kill())
    }

    fn after_kill(&self) -> Self {
        let state = lock(&self.state);
        let control: Arc<Control> = Arc::default();
        let copy = |names: &Names| -> Names {
            names.iter().map(|(path, file)| (path.clone(), Arc::new(file.copy(control.clone())))).collect()
        };
        let names = copy(&state.names);
        let directories = state.directories.clone();
        let state = NamesState { durable: names.clone(), names, directories, ..NamesState::default() };
        let (page_bytes, mount) = (self.page_bytes, self.mount);
        Self { page_bytes, state: Arc::new(Mutex::new(state)), control, mount }
    }
}

impl Disk for FakeDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let _change = self.control.begin();
        let mut state = lock(&self.state);
        state.directories.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = lock(&self.state);
        if state.names.contains_key(path) {
            return Err(ErrorKind::NotADirectory.into());
        }
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let inside = |entry: &Path| entry.parent() == Some(path);
        let directories = state.directories.iter().filter(|entry| inside(entry));
        let mut list: Vec<DirEntry> = directories
            .map(|entry| DirEntry { name: name(entry), is_dir: true, length: 0, modified_ms: 0 })
            .collect();
        let files = state.names.iter().filter(|(entry, _)| inside(entry));
        list.extend(files.map(|(entry, file)| DirEntry {
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
        if lock(&self.control.faults).fails_below.as_ref().is_some_and(|broken| path.starts_with(broken)) {
            return Err(io::Error::other("injected error"));
        }
        if space == Space::Reserved
            && let Some(left) = &mut lock(&self.control.faults).space_left
        {
            *left = left.checked_sub(length).ok_or(io::Error::from(ErrorKind::StorageFull))?;
        }
        let _change = self.control.change(Operation::Names)?;
        let length = usize::try_from(length).map_err(|_| io::Error::from(ErrorKind::StorageFull))?;
        let mut state = lock(&self.state);
        let file = match state.names.get(path) {
            Some(file) => file.clone(),
            None => {
                let file = Arc::new(FakeFile::new(self.page_bytes, self.control.clone()));
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

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let mut content = vec![0; position(file.length()?)];
        file.read_at(&mut content, 0)?;
        Ok(content)
    }

    fn link(&self, source: &Path, target: &Path) -> io::Result<()> {
        let _change = self.control.change(Operation::Names)?;
        let mut state = lock(&self.state);
        if state.names.contains_key(target) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = state.names.get(source).ok_or(io::Error::from(ErrorKind::NotFound))?.clone();
        let change = Change::Link(target.to_owned(), file);
        change.apply(&mut state.names);
        state.changes.push(change);
        Ok(())
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        let _change = self.control.change(Operation::Names)?;
        let mut state = lock(&self.state);
        let file = state.names.get(source).ok_or(io::Error::from(ErrorKind::NotFound))?.clone();
        let change = Change::Rename(source.to_owned(), target.to_owned(), file);
        change.apply(&mut state.names);
        state.changes.push(change);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _change = self.control.change(Operation::Names)?;
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
        let faults = lock(&self.control.faults);
        let set = faults.usage.iter().rev().find(|(above, _)| path.starts_with(above));
        Ok(set.map_or(empty, |(_, usage)| *usage))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let _change = self.control.begin();
        let state = &mut *lock(&self.state);
        let is_inside = |entry: &Path| entry != path && entry.starts_with(path);
        let is_used = state.names.keys().any(|entry| is_inside(entry));
        if !is_used && !state.directories.iter().any(|entry| is_inside(entry)) {
            state.directories.remove(path);
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.control.spend(Operation::Sync);
        let _change = self.control.begin();
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
            let _change = disk.control.begin();
            let state = &mut *lock(&disk.state);
            std::mem::take(&mut state.changes).iter().for_each(|change| change.apply(&mut state.durable));
            Ok(())
        }))
    }

    fn mount(&self, _path: &Path) -> io::Result<Option<String>> {
        Ok(self.mount.map(|mount| format!("fake {mount}")))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        struct PathLock(FakeDisk, PathBuf);
        impl Drop for PathLock {
            fn drop(&mut self) {
                lock(&self.0.state).locked.remove(&self.1);
            }
        }
        if !lock(&self.state).locked.insert(path.to_owned()) {
            return Err(io::Error::new(ErrorKind::WouldBlock, "another store in this test"));
        }
        Ok(Box::new(PathLock(self.clone(), path.to_owned())))
    }
}

#[cfg(test)]
mod tests;
