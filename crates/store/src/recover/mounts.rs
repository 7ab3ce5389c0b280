//! Whether a write that was not flushed can have been lost since the store was opened last.
//!
//! A process that is killed leaves what it wrote in the page cache. Only when the file system goes away, by a power cut or
//! with the machine, are pages lost. So every opening notes, in the file `vostok/mounts`, by which mounts it saw the
//! directories of the log: when the next one sees them by the same, nothing was lost in between. A flush that fails removes
//! the file: pages that could not be written are lost although the file system stays.
//!
//! The file is text: a line `durable` with a position of the log up to which damage was passed over and all else is on the disk,
//! a line per directory with the name [`Disk::mount`] gives, and a line with the CRC-32 of what precedes it. Without it, or
//! where it is damaged, pages count as possibly lost.

use crate::disk::{Disk, Space};
use crate::queue::table;
use crate::store::Shared;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Longer than any such file; a longer one is none.
const BYTES_MAX: u64 = 1 << 20;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts {
    /// Damage before this position was passed over by an opening, which made everything else up to there durable.
    pub(super) durable: u64,
    /// The mounts of the log's directories; none where a system cannot name them.
    names: Vec<String>,
}

impl Mounts {
    /// Whether nothing that `before` saw was away since.
    pub(super) fn kept_pages(&self, before: &Self) -> bool {
        !self.names.is_empty() && self.names == before.names
    }

    fn to_text(&self) -> String {
        let mut text = format!("durable {}\n", self.durable);
        self.names.iter().for_each(|name| text.extend([name, "\n"]));
        let sum = crc32fast::hash(text.as_bytes());
        text.push_str(&format!("crc {sum:08x}\n"));
        text
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let durable = lines.next()?.strip_prefix("durable ")?.parse().ok()?;
        let mut names: Vec<String> = lines.map(str::to_owned).collect();
        names.pop()?;
        let read = Self { durable, names };
        (read.to_text() == text).then_some(read)
    }

    fn load(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            file => file?,
        };
        let mut bytes = vec![0; usize::try_from(file.length()?.min(BYTES_MAX)).unwrap_or(0)];
        file.read_at(&mut bytes, 0)?;
        Ok(std::str::from_utf8(&bytes).ok().and_then(Self::from_text).unwrap_or_default())
    }

    fn save(&self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let text = self.to_text();
        let (directory, beside) = (path.parent().unwrap_or(Path::new(".")), path.with_extension("next"));
        disk.create_dir_all(directory)?;
        let file = disk.create(&beside, text.len() as u64, Space::Reserved)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        disk.rename(&beside, path)?;
        disk.sync_dir(directory)
    }
}

impl Shared {
    fn mounts_path(&self) -> PathBuf {
        table::directory(&self.config.root).join("mounts")
    }

    /// What the last opening noted. A file that cannot be read says nothing.
    pub(super) fn mounts_before(&self) -> Mounts {
        Mounts::load(&*self.disk, &self.mounts_path()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the list of mounts cannot be read; pages of the log count as possibly lost");
            Mounts::default()
        })
    }

    /// Pages of the log were lost although its mounts stay.
    pub(crate) fn forget_mounts(&self) {
        if let Err(error) = self.disk.remove(&self.mounts_path()) {
            tracing::warn!(%error, "the list of mounts cannot be removed");
        }
    }

    /// By which mounts the directories of the log are seen now.
    pub(super) fn mounts_now(&self) -> Mounts {
        let names = self.log.places.all().map(|directory| self.disk.mount(directory).ok().flatten());
        Mounts { durable: 0, names: names.collect::<Option<Vec<_>>>().unwrap_or_default() }
    }

    /// Notes them for the next opening, and how far damage was passed over. Without that it takes more for lost.
    pub(super) fn note_mounts(&self, before: &Mounts, now: Mounts) {
        if *before == now {
            return;
        }
        if let Err(error) = now.save(&*self.disk, &self.mounts_path()) {
            tracing::warn!(%error, "the list of mounts cannot be written; after a crash pages of the log count as possibly lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_flipped_byte_is_not_believed() {
        let names = vec!["boot 17 2".to_owned(), "boot 18 2".to_owned()];
        let mounts = Mounts { durable: 4711, names };
        let text = mounts.to_text();
        assert_eq!(Mounts::from_text(&text), Some(mounts.clone()));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let flipped = String::from_utf8(bytes).unwrap();
            assert_eq!(Mounts::from_text(&flipped), None, "{flipped}");
            assert_eq!(Mounts::from_text(&text[..at]), None);
        }
        assert!(mounts.kept_pages(&mounts) && !mounts.kept_pages(&Mounts::default()));
        assert!(!Mounts::default().kept_pages(&Mounts::default()), "nothing is known of either");
    }
}
