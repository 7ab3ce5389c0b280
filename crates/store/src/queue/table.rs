//! Queue table: the state of every queue at the checkpoint, in a file of Vostok's own, so that opening a store reads
//! no queue file. RocketMQ ignores the directory `vostok`.
//!
//! A file `vostok/queues.<generation>` is a sequence of records, followed by zeros:
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | length of the body |
//! | 4..8 | CRC-32 (top bit cleared) of generation, position of the record in the file, and body |
//! | 8.. | body |
//!
//! Content of a body: the first log position in the log (8), the size of a queue file in bytes (8), the number of
//! rows (4), and the rows:
//!
//! | bytes | content |
//! |---|---|
//! | 2 + n | topic |
//! | 4 | queue id; -1: the topic was removed, and its records before log position `max` do not count |
//! | 8, 8 | minimum and maximum queue offset |
//! | 8 | log position of the last unit's record; all ones when there is none |
//!
//! All numbers are big-endian. The first record is the *base*: all queues with messages, and all
//! removed topics. Each later record belongs to a checkpoint and holds the queues that the
//! checkpoint changes. Such a record becomes durable *before* its units are written to the queue
//! files, and is valid only after the `checkpoint` file says so. So after a crash, the records
//! behind the committed position name all queues whose files may hold invalid units. The first
//! checkpoint wipes these units. When a file is full, a file of the next generation begins with a
//! new base. The old file is removed after the `checkpoint` file names the new one.
//!
//! A table is not used if it is damaged, or if the `checkpoint` file does not refer to it. The queues are then loaded
//! from their files.

use super::Extent;
use crate::disk::{Disk, DiskFile, Space};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::hash::crc32;

/// Size in bytes of the head in front of a record's body.
pub(super) const HEAD_BYTES: usize = 8;
/// Least space in bytes for records behind the base.
const ROOM_BYTES_MIN: u64 = 16 << 10;
/// Queue id in a row that marks a removed topic.
const REMOVED: i32 = -1;

/// The body of a record that is being assembled.
pub(crate) struct Rows {
    bytes: Vec<u8>,
    count: u32,
}

impl Rows {
    /// Begins a record; `log_min` is the first log position held, `file_bytes` the size of a queue file.
    pub(crate) fn new(log_min: u64, file_bytes: u64) -> Self {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes.extend_from_slice(&log_min.to_be_bytes());
        bytes.extend_from_slice(&file_bytes.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes, count: 0 }
    }

    /// Adds a row for a queue.
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

    /// Adds a row for a removed topic, whose records before log position `before` are invalid.
    pub(crate) fn add_removed(&mut self, topic: &str, before: u64) {
        self.add(topic, REMOVED, Extent { min: 0, max: before, last: Extent::NONE });
    }

    /// Size of the record in bytes.
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

/// Checksum of a record, tied to generation and position so that a record from elsewhere does not match.
pub(super) fn checksum(generation: u64, position: u64, body: &[u8]) -> u32 {
    let place = crc32(&[generation.to_be_bytes(), position.to_be_bytes()].concat());
    crc32(body) ^ place
}

/// Content of a queue table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueTable {
    /// First log position held when the table was last written.
    pub(crate) log_min: u64,
    pub(crate) file_bytes: u64,
    pub(crate) queues: HashMap<Box<str>, BTreeMap<i32, Extent>>,
    /// Removed topics, with the log position of the removal. Records of a topic before that position are in no
    /// queue.
    pub(crate) removed: HashMap<Box<str>, u64>,
}

impl QueueTable {
    /// Parses a table file: the committed content, and the intended changes of later checkpoints. `None` if a record
    /// is damaged.
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
            // Several checkpoints may have been interrupted, and each may have written units: keep the highest extent.
            for (topic, queues) in before {
                let entry = intended.queues.entry(topic).or_default();
                for (id, extent) in queues {
                    let kept = entry.entry(id).or_insert(extent);
                    kept.max = kept.max.max(extent.max);
                }
            }
            at += HEAD_BYTES + body.len();
        }
        // A damaged record behind these is either an interrupted checkpoint's or a committed one; the two cannot be told
        // apart.
        let is_end = bytes[at..].iter().take(HEAD_BYTES).all(|byte| *byte == 0);
        is_end.then_some((table, intended))
    }

    /// Parses a table file as far as its records are whole, committed or not. Its tombstones and minimum offsets hold even
    /// when another program used the store since.
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
                // Most rows are of a known topic: avoid copying the name.
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

/// The body of the record at a position, if it is whole.
fn record(bytes: &[u8], at: usize, generation: u64) -> Option<&[u8]> {
    let head = bytes.get(at..at + HEAD_BYTES)?;
    let length = u32::from_be_bytes(head[..4].try_into().expect("four bytes sliced"));
    let sum = u32::from_be_bytes(head[4..].try_into().expect("four bytes sliced"));
    let start = at + HEAD_BYTES;
    let body = bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)?;
    (length > 0 && checksum(generation, at as u64, body) == sum).then_some(body)
}

/// The directory of Vostok's own files.
pub(crate) fn directory(root: &Path) -> PathBuf {
    root.join("vostok")
}

fn path_of(root: &Path, generation: u64) -> PathBuf {
    directory(root).join(format!("queues.{generation}"))
}

/// Reads the table file of a generation; `None` when it does not exist.
pub(crate) fn load(disk: &dyn Disk, root: &Path, generation: u64) -> io::Result<Option<Vec<u8>>> {
    let name = format!("queues.{generation}");
    let Some(entry) = disk.list(&directory(root))?.into_iter().find(|entry| entry.name == name) else {
        return Ok(None);
    };
    let mut bytes = vec![0; usize::try_from(entry.length).map_err(io::Error::other)?];
    disk.open(&path_of(root, generation))?.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// Returns the highest generation with a file.
pub(crate) fn newest_generation(disk: &dyn Disk, root: &Path) -> io::Result<Option<u64>> {
    let entries = disk.list(&directory(root))?;
    Ok(entries.iter().filter_map(|entry| entry.name.strip_prefix("queues.")?.parse().ok()).max())
}

/// The table file to which checkpoints add records.
pub(crate) struct TableFile {
    pub(crate) generation: u64,
    /// Position behind the last record.
    pub(crate) at: u64,
    base_end: u64,
    length: u64,
    file: Arc<dyn DiskFile>,
}

impl TableFile {
    /// Creates the file of a generation with its base, and space for a record of `next` bytes and many more. The file is
    /// durable when this returns.
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
        // A leftover file of this name may have any content.
        disk.remove(&path)?;
        let file = disk.create(&path, length, Space::Reserved)?;
        file.write_at(&base, 0)?;
        file.sync()?;
        disk.sync_dir(&directory)?;
        directory.parent().map_or(Ok(()), |root| disk.sync_dir(root))?;
        Ok(Self { generation, at, base_end: at, length, file })
    }

    /// Whether the file holds more than the base.
    pub(crate) fn is_long(&self) -> bool {
        self.at > self.base_end
    }

    /// Adds a record, which is durable when this returns; `false` when the file has no space.
    pub(crate) fn add(&mut self, rows: &Rows) -> io::Result<bool> {
        let bytes = rows.seal(self.generation, self.at);
        // The 8 bytes behind the last record must read as zeros, also in a full file.
        if self.at + bytes.len() as u64 + HEAD_BYTES as u64 > self.length {
            return Ok(false);
        }
        self.file.write_at(&bytes, self.at)?;
        self.file.sync()?;
        self.at += bytes.len() as u64;
        Ok(true)
    }
}

/// Removes the table files of all other generations.
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
