//! The queue table: what the checkpoint knows of every queue, in one file of ours, so that opening a store needs
//! no queue file. RocketMQ ignores the directory `vostok`.
//!
//! A file `vostok/queues.<generation>` holds records one behind the other, and zeros behind them:
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | length of the body |
//! | 4..8 | CRC-32 (top bit cleared) of generation, position of the record in the file, and body |
//! | 8.. | body |
//!
//! A body is the first byte held by the log (8), the size of a queue file (8), the number of rows (4), and rows:
//!
//! | bytes | content |
//! |---|---|
//! | 2 + n | topic |
//! | 4 | queue id; -1: the topic was removed, what it had before log position `max` does not count |
//! | 8, 8 | min and max queue offset |
//! | 8 | log position of the last unit's record; all ones when there is none |
//!
//! All numbers are big-endian. The first record is the *base*: every queue. Each later one belongs to a checkpoint and
//! holds the queues it changes. Life of such a record: it is made durable *before* the units it speaks of are written,
//! and counts only once the checkpoint page says so. So after a crash the records behind the page's position name all
//! queues in whose files there may be units that no longer count; the first checkpoint wipes these. When a file is full, a
//! file of the next generation begins with a new base, and the old one is removed once the page names the new one.
//!
//! A table that cannot be read, or that the page does not speak of, does not count: the queues are then loaded from
//! their files.

use super::Extent;
use crate::disk::{Disk, DiskFile, Space};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::hash::crc32;

/// Bytes before a record's body.
pub(super) const HEAD_BYTES: usize = 8;
/// Least room for records behind a base.
const ROOM_BYTES_MIN: u64 = 16 << 10;
/// Queue id of a row that says that a topic was removed.
const REMOVED: i32 = -1;

/// The body of one record under construction.
pub(crate) struct Rows {
    bytes: Vec<u8>,
    count: u32,
}

impl Rows {
    /// For a store whose log begins at `log_min` and whose queue files have `file_bytes`.
    pub(crate) fn new(log_min: u64, file_bytes: u64) -> Self {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes.extend_from_slice(&log_min.to_be_bytes());
        bytes.extend_from_slice(&file_bytes.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes, count: 0 }
    }

    /// Adds a queue.
    pub(crate) fn add(&mut self, topic: &str, queue_id: i32, extent: Extent) {
        let length = u16::try_from(topic.len()).expect("topics have at most 255 bytes");
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(topic.as_bytes());
        self.bytes.extend_from_slice(&queue_id.to_be_bytes());
        for number in [extent.min, extent.max, extent.last] {
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.count += 1;
    }

    /// Says that what a topic had before a log position does not count.
    pub(crate) fn add_removed(&mut self, topic: &str, before: u64) {
        self.add(topic, REMOVED, Extent { min: 0, max: before, last: Extent::NONE });
    }

    /// Bytes of the record.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    fn seal(&self, generation: u64, position: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[HEAD_BYTES + 16..HEAD_BYTES + 20].copy_from_slice(&self.count.to_be_bytes());
        let length = u32::try_from(bytes.len() - HEAD_BYTES).expect("a table stays below 4 GiB");
        let sum = checksum(generation, position, &bytes[HEAD_BYTES..]);
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes[4..8].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// Ties a record to its place, so that one from elsewhere is not taken for it.
pub(super) fn checksum(generation: u64, position: u64, body: &[u8]) -> u32 {
    let place = crc32(&[generation.to_be_bytes(), position.to_be_bytes()].concat());
    crc32(body) ^ place
}

/// What a table says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// First byte of the log when it was written last.
    pub(crate) log_min: u64,
    pub(crate) file_bytes: u64,
    pub(crate) queues: HashMap<Box<str>, BTreeMap<i32, Extent>>,
    /// Topics that were removed, with the position before which their records do not count.
    pub(crate) removed: HashMap<Box<str>, u64>,
}

impl Table {
    /// Reads a table file: what counts, and what was only intended. `None` when a record is not whole.
    pub(crate) fn read(bytes: &[u8], generation: u64, committed: u64) -> Option<(Self, Self)> {
        let mut table = Self::default();
        let mut at = 0;
        while (at as u64) < committed {
            let body = record(bytes, at, generation)?;
            table.apply(body)?;
            at += HEAD_BYTES + body.len();
        }
        if at as u64 != committed || at == 0 {
            return None;
        }
        let mut intended = Self::default();
        while let Some(body) = record(bytes, at, generation) {
            let before = std::mem::take(&mut intended.queues);
            intended.apply(body)?;
            // Each of several unfinished checkpoints may have written.
            for (topic, queues) in before {
                let entry = intended.queues.entry(topic).or_default();
                for (id, extent) in queues {
                    let kept = entry.entry(id).or_insert(extent);
                    kept.max = kept.max.max(extent.max);
                }
            }
            at += HEAD_BYTES + body.len();
        }
        // Behind them a record that is not whole: of a checkpoint that went no further, or damaged. Who can tell.
        let is_end = bytes[at..].iter().take(HEAD_BYTES).all(|byte| *byte == 0);
        is_end.then_some((table, intended))
    }

    /// What a table says as far as its records are whole, be it committed or not. Topics it says were removed were, and
    /// the messages before a queue's minimum are gone, whoever had the store since.
    pub(crate) fn read_whole(bytes: &[u8], generation: u64) -> Self {
        let mut table = Self::default();
        let mut at = 0;
        while let Some(body) = record(bytes, at, generation) {
            if table.apply(body).is_none() {
                break;
            }
            at += HEAD_BYTES + body.len();
        }
        table
    }

    fn apply(&mut self, body: &[u8]) -> Option<()> {
        let mut rest = body;
        self.log_min = number(&mut rest)?;
        self.file_bytes = number(&mut rest)?;
        let count = u32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
        for _ in 0..count {
            let length = u16::from_be_bytes(rest.split_off(..2)?.try_into().ok()?);
            let topic = std::str::from_utf8(rest.split_off(..usize::from(length))?).ok()?;
            let queue_id = i32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
            let (min, max, last) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
            if queue_id == REMOVED {
                self.queues.remove(topic);
                self.removed.insert(topic.into(), max);
            } else if min > max {
                return None;
            } else {
                // Most rows find their topic: no copy of its name then.
                match self.queues.get_mut(topic) {
                    Some(queues) => drop(queues.insert(queue_id, Extent { min, max, last })),
                    None => {
                        let first = BTreeMap::from([(queue_id, Extent { min, max, last })]);
                        self.queues.insert(topic.into(), first);
                    }
                }
            }
        }
        rest.is_empty().then_some(())
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(rest.split_off(..8)?.try_into().ok()?))
}

/// The body of the whole record at a position.
fn record(bytes: &[u8], at: usize, generation: u64) -> Option<&[u8]> {
    let head = bytes.get(at..at + HEAD_BYTES)?;
    let length = u32::from_be_bytes(head[..4].try_into().expect("four bytes sliced"));
    let sum = u32::from_be_bytes(head[4..].try_into().expect("four bytes sliced"));
    let start = at + HEAD_BYTES;
    let body = bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)?;
    (length > 0 && checksum(generation, at as u64, body) == sum).then_some(body)
}

/// The directory of the tables.
pub(crate) fn directory(root: &Path) -> PathBuf {
    root.join("vostok")
}

fn path_of(root: &Path, generation: u64) -> PathBuf {
    directory(root).join(format!("queues.{generation}"))
}

/// Reads the file of a generation; `None` when there is none.
pub(crate) fn load(disk: &dyn Disk, root: &Path, generation: u64) -> io::Result<Option<Vec<u8>>> {
    let name = format!("queues.{generation}");
    let Some(entry) = disk.list(&directory(root))?.into_iter().find(|entry| entry.name == name) else {
        return Ok(None);
    };
    let mut bytes = vec![0; usize::try_from(entry.length).map_err(io::Error::other)?];
    disk.open(&path_of(root, generation))?.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// The newest generation there is a file of.
pub(crate) fn newest_generation(disk: &dyn Disk, root: &Path) -> io::Result<Option<u64>> {
    let entries = disk.list(&directory(root))?;
    Ok(entries.iter().filter_map(|entry| entry.name.strip_prefix("queues.")?.parse().ok()).max())
}

/// A table file that records are added to.
pub(crate) struct Journal {
    pub(crate) generation: u64,
    /// End of the records.
    pub(crate) at: u64,
    base_end: u64,
    length: u64,
    file: Arc<dyn DiskFile>,
}

impl Journal {
    /// Makes the file of a generation with its base, and room for a record of `next` bytes and many more. Durable when it
    /// returns.
    pub(crate) fn create(
        disk: &dyn Disk,
        root: &Path,
        generation: u64,
        base: &Rows,
        next: usize,
    ) -> io::Result<Self> {
        let directory = directory(root);
        disk.create_dir_all(&directory)?;
        let base = base.seal(generation, 0);
        let at = base.len() as u64;
        let length = at + (next + HEAD_BYTES) as u64 + (at * 4).max(ROOM_BYTES_MIN);
        let path = path_of(root, generation);
        // A leftover of the same name may hold anything.
        disk.remove(&path)?;
        let file = disk.create(&path, length, Space::Reserved)?;
        file.write_at(&base, 0)?;
        file.sync()?;
        disk.sync_dir(&directory)?;
        directory.parent().map_or(Ok(()), |root| disk.sync_dir(root))?;
        Ok(Self { generation, at, base_end: at, length, file })
    }

    /// Whether there is more than the base.
    pub(crate) fn is_long(&self) -> bool {
        self.at > self.base_end
    }

    /// Adds a record, durable when it returns; `false` when there is no room.
    pub(crate) fn add(&mut self, rows: &Rows) -> io::Result<bool> {
        let bytes = rows.seal(self.generation, self.at);
        // A record's head behind it must read as zeros, also in a file that is full.
        if self.at + bytes.len() as u64 + HEAD_BYTES as u64 > self.length {
            return Ok(false);
        }
        self.file.write_at(&bytes, self.at)?;
        self.file.sync()?;
        self.at += bytes.len() as u64;
        Ok(true)
    }
}

/// Removes the files of all other generations.
pub(crate) fn remove_others(disk: &dyn Disk, root: &Path, generation: u64) -> io::Result<()> {
    let directory = directory(root);
    let kept = format!("queues.{generation}");
    let mut removed = false;
    for entry in disk.list(&directory)? {
        if !entry.is_dir && entry.name.starts_with("queues.") && entry.name != kept {
            disk.remove(&directory.join(entry.name))?;
            removed = true;
        }
    }
    if removed { disk.sync_dir(&directory) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
