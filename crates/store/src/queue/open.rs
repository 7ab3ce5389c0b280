//! Open queue files, and queue files that the next checkpoint must sync.

use crate::disk::{Disk, DiskFile, Syncer};
use crate::wake::{Wake, lock};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The open queue files of all queues; at the limit, the file that was opened first is closed.
pub(crate) struct OpenFiles {
    pub(super) disk: Arc<dyn Disk>,
    limit: usize,
    kept: Mutex<OpenFileCache>,
    /// Queues whose files a reader found damaged. `healer` wakes the healer, which handles them.
    pub(super) reports: Mutex<BTreeSet<(String, i32)>>,
    pub(super) healer: Arc<Wake>,
}

#[derive(Default)]
struct OpenFileCache {
    files: HashMap<PathBuf, Arc<dyn DiskFile>>,
    /// Paths of the same files, in the order in which they were opened.
    order: VecDeque<PathBuf>,
}

impl OpenFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, limit: usize, healer: Arc<Wake>) -> Self {
        Self { disk, limit: limit.max(1), kept: Mutex::default(), reports: Mutex::default(), healer }
    }

    /// Takes the queues whose files were reported as damaged.
    pub(crate) fn take_reports(&self) -> BTreeSet<(String, i32)> {
        std::mem::take(&mut *lock(&self.reports))
    }

    pub(crate) fn has_reports(&self) -> bool {
        !lock(&self.reports).is_empty()
    }

    pub(super) fn get(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = lock(&self.kept).files.get(path) {
            return Ok(file.clone());
        }
        let file = self.disk.open(path)?;
        self.keep(path, &file);
        Ok(file)
    }

    pub(super) fn keep(&self, path: &Path, file: &Arc<dyn DiskFile>) {
        let OpenFileCache { files, order } = &mut *lock(&self.kept);
        if files.insert(path.to_owned(), file.clone()).is_none() {
            order.push_back(path.to_owned());
        }
        while order.len() > self.limit {
            if let Some(oldest) = order.pop_front() {
                files.remove(&oldest);
            }
        }
    }

    /// Closes all files below a directory.
    pub(crate) fn forget_below(&self, directory: &Path) {
        let OpenFileCache { files, order } = &mut *lock(&self.kept);
        files.retain(|path, _| !path.starts_with(directory));
        order.retain(|path| !path.starts_with(directory));
    }

    pub(super) fn forget(&self, path: &Path) {
        let OpenFileCache { files, order } = &mut *lock(&self.kept);
        if files.remove(path).is_some() {
            order.retain(|kept| kept != path);
        }
    }
}

/// Number of touched files and directories above which a sync of the whole file system is cheaper
/// than a sync of each.
const TOUCHED_MAX: usize = 64;

/// Files written since the last sync, and directories whose entries changed. Above [`TOUCHED_MAX`]
/// of both, `everything` replaces the list, and a sync covers the whole file system.
#[derive(Default)]
pub(crate) struct SyncList {
    pub(super) files: BTreeMap<PathBuf, Arc<dyn DiskFile>>,
    directories: BTreeSet<PathBuf>,
    pub(super) everything: bool,
}

impl SyncList {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty() && !self.everything
    }

    /// Drops the files below a removed directory.
    pub(crate) fn forget_below(&mut self, directory: &Path) {
        self.files.retain(|path, _| !path.starts_with(directory));
    }

    pub(crate) fn add_file(&mut self, path: PathBuf, file: Arc<dyn DiskFile>) {
        if !self.everything {
            self.files.insert(path, file);
            self.bound();
        }
    }

    pub(crate) fn add_directories<'a>(&mut self, paths: impl Iterator<Item = &'a Path>) {
        if !self.everything {
            self.directories.extend(paths.map(Path::to_owned));
            self.bound();
        }
    }

    /// Keeps the list of files and directories bounded.
    fn bound(&mut self) {
        if self.files.len() + self.directories.len() > TOUCHED_MAX {
            *self = Self { everything: true, ..Self::default() };
        }
    }

    /// Makes all touched files and directories durable, and forgets them.
    pub(crate) fn sync(&mut self, disk: &dyn Disk, sync_all: &Syncer) -> io::Result<()> {
        if self.everything {
            sync_all()?;
        } else {
            self.files.values().try_for_each(|file| file.sync())?;
            self.directories.iter().try_for_each(|path| match disk.sync_dir(path) {
                // The directory was removed with everything in it.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                done => done,
            })?;
        }
        *self = Self::default();
        Ok(())
    }
}
