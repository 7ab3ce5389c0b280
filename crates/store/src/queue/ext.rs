//! Reads RocketMQ's extension of queue units (`ConsumeQueueExt`, `enableConsumeQueueExt`). With it, the tags code
//! field of a unit holds the address of an entry in `consumequeue_ext`. The entry holds the tags code and a filter
//! bitmap. Vostok never writes these files.
//!
//! | bytes of an entry | content |
//! |---|---|
//! | 0..2 | size of the entry |
//! | 2..10 | tags code |
//! | 10..18 | store time, ms |
//! | 18..20 | size of the bitmap, which follows |

use crate::disk::{Disk, DiskFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size in bytes of an entry without its bitmap.
const ENTRY_BYTES: u16 = 20;

/// Extension files of a queue.
#[derive(Debug)]
pub(crate) struct Extension {
    directory: PathBuf,
    /// Start positions of the files, ascending.
    starts: Vec<u64>,
}

/// Result of looking up an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionLookup {
    TagsCode(i64),
    /// The address has no valid entry.
    Nothing,
    NotResident,
}

impl Extension {
    /// Finds the extension files of the queue whose units are in the directory `units` (`<root>/consumequeue/<topic>/<id>`).
    pub(crate) fn beside(disk: &dyn Disk, units: &Path) -> io::Result<Self> {
        let queue: PathBuf = units.iter().skip(units.iter().count().saturating_sub(2)).collect();
        let root = units.ancestors().nth(3).unwrap_or(units);
        let directory = root.join("consumequeue_ext").join(queue);
        let entries = disk.list(&directory)?;
        let starts = entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| entry.name.parse().ok());
        Ok(Self { starts: starts.collect(), directory })
    }

    /// The tags code of the entry at an address (`ConsumeQueueExt.get`).
    pub(crate) fn tags_code(
        &self,
        address: i64,
        resident: bool,
        open: impl Fn(&Path) -> io::Result<Arc<dyn DiskFile>>,
    ) -> io::Result<ExtensionLookup> {
        let at = address.wrapping_sub(i64::MIN).cast_unsigned();
        let Some(start) = self.starts.iter().rev().find(|start| **start <= at) else {
            return Ok(ExtensionLookup::Nothing);
        };
        let file = open(&self.directory.join(crate::disk::file_name(*start)))?;
        let mut entry = [0; ENTRY_BYTES as usize];
        if at - start + u64::from(ENTRY_BYTES) > file.length()? {
            return Ok(ExtensionLookup::Nothing);
        }
        if !resident {
            file.read_at(&mut entry, at - start)?;
        } else if !file.read_resident(&mut entry, at - start)? {
            return Ok(ExtensionLookup::NotResident);
        }
        let short = |at: usize| u16::from_be_bytes([entry[at], entry[at + 1]]);
        let code = i64::from_be_bytes(entry[2..10].try_into().expect("eight bytes sliced"));
        Ok(match ENTRY_BYTES.checked_add(short(18)) == Some(short(0)) {
            true => ExtensionLookup::TagsCode(code),
            false => ExtensionLookup::Nothing,
        })
    }
}
