//! Decides whether an unflushed write can have been lost since the store was last opened.
//!
//! A killed process leaves its writes in the page cache. Pages are lost only if the file system goes away, by an
//! unmount or a power cut. So every opening writes the mounts of the log's directories to the file `vostok/mounts`.
//! If the next opening sees the same mounts, no page was lost in between. A failed flush removes the file, because
//! pages are lost then although the mount stays.
//!
//! The file is text. A line `durable` holds the log position before which the log is durable, except for skipped
//! damage. Then follow a line per directory with the name that [`Disk::mount`] returns, and a line with the CRC-32 of
//! the preceding lines. If the file is missing or damaged, pages count as possibly lost.

use super::Recovery;
use crate::disk::{Disk, write_beside};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Upper bound of the file's length in bytes; a longer file is invalid.
const BYTES_MAX: u64 = 1 << 20;

/// Content of the file `vostok/mounts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts {
    /// Log position before which an opening made everything durable, except for skipped damage.
    pub(super) durable: u64,
    /// Names of the mounts, in the order of the log's directories. Empty where the system cannot name a mount.
    names: Vec<String>,
}

impl Mounts {
    /// Whether the mounts equal those in `before`, so that no page was lost in between.
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
        write_beside(disk, path, self.to_text().as_bytes())
    }
}

impl Recovery<'_> {
    /// The mounts that the previous opening wrote. An unreadable file counts as empty.
    pub(super) fn mounts_before(&self) -> Mounts {
        Mounts::load(&*self.state.disk, &self.state.mounts_path()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the list of mounts cannot be read; pages of the log count as possibly lost");
            Mounts::default()
        })
    }

    /// Lowers the position up to which an opening made everything durable: the log was truncated to `to`.
    pub(super) fn lower_durable(&self, to: u64) -> io::Result<()> {
        let before = self.mounts_before();
        if before.durable <= to {
            return Ok(());
        }
        Mounts { durable: to, ..before }.save(&*self.state.disk, &self.state.mounts_path())
    }

    /// The mounts of the log's directories now.
    pub(super) fn mounts_now(&self) -> Mounts {
        let names =
            self.state.log.directories.all().map(|directory| self.state.disk.mount(directory).ok().flatten());
        Mounts { durable: 0, names: names.collect::<Option<Vec<_>>>().unwrap_or_default() }
    }

    /// Writes `now` for the next opening. When that fails, the next opening assumes that pages may be lost.
    pub(super) fn note_mounts(&self, before: &Mounts, now: Mounts) {
        if *before == now {
            return;
        }
        if let Err(error) = now.save(&*self.state.disk, &self.state.mounts_path()) {
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
