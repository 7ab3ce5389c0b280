//! The small files of a broker: its identity and its epochs. Each is written durably under another name, and
//! then renamed.

use std::path::{Path, PathBuf};
use store::{Disk, FakeDisk, Space};

/// The directory of the small files.
pub(super) struct Files {
    disk: FakeDisk,
    root: PathBuf,
}

impl Files {
    pub(super) fn new(disk: FakeDisk) -> Self {
        Self { disk, root: PathBuf::from("/store/config") }
    }

    /// The text of a file, if there is one.
    pub(super) fn load(&self, name: &str) -> Option<String> {
        let bytes = self.disk.read(&self.root.join(name)).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Replaces a file; removes it without a text.
    pub(super) fn save(&self, name: &str, text: Option<&str>) -> std::io::Result<()> {
        self.disk.create_dir_all(&self.root)?;
        let path = self.root.join(name);
        match text {
            Some(text) => self.write(&path, text.as_bytes())?,
            None => self.disk.remove(&path)?,
        }
        self.disk.sync_dir(&self.root)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let beside = path.with_extension("new");
        self.disk.remove(&beside)?;
        let file = self.disk.create(&beside, bytes.len() as u64, Space::Sparse)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        self.disk.rename(&beside, path)
    }
}
