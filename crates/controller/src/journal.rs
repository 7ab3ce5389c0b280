//! Journal of a controller: the records of consensus in a file, in their order.
//!
//! ```text
//! 0  8  "VOSTOKC2"
//! then a frame for each save
//!    4  length n, little-endian; 0 ends the file
//!    4  CRC-32 of the n bytes
//!    n  the records of the save, one or more
//! then a mark: a frame of 8 bytes, the position of the mark in the file
//! ```
//! The mark is written after the frame before the mark is on disk. The next frame overwrites the mark. So a power cut leaves no
//! complete frame and no mark behind an incomplete frame. Such a frame or mark proves damage, and an open refuses the file
//! ([`JournalError::Damaged`]). An incomplete frame at the end is part of a save that was not acknowledged. An open drops the
//! incomplete frame and rewrites the file. After a failed write or sync the journal refuses further writes, because the content of
//! the disk is then unknown.
//!
//! "VOSTOKC1" has a frame for each record and no mark.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use replica::consensus::Record;
use store::{Disk, DiskFile, Space};

const MAGIC: &[u8; 8] = b"VOSTOKC2";
const MAGIC_WITHOUT_MARK: &[u8; 8] = b"VOSTOKC1";
const FILE: &str = "journal";

/// Bytes by which the file grows, so that a sync rarely has to write its length.
const ROOM_BYTES: u64 = 256 << 10;

/// Bytes before the records of a frame.
const HEAD_BYTES: usize = 8;

/// Bytes of a mark with its head.
const MARK_BYTES: u64 = 16;

/// Errors of the journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory belongs to a controller of RocketMQ.
    #[error(
        "{} holds the raft data of a Java controller ({found}), which cannot be read here: set controllerStorePath to \
         another directory, and take over what the Java controllers know with `vostok controller import --from HOST:PORT` while \
         they still run",
        path.display()
    )]
    Java {
        /// The directory.
        path: PathBuf,
        /// Name of the subdirectory that only a Java controller has.
        found: String,
    },
    /// The file is not the journal of a controller.
    #[error("{} is no journal of a controller", .0.display())]
    Foreign(PathBuf),
    /// A save that was on disk is changed or missing.
    #[error(
        "{} is damaged at byte {at}: what the controllers decided behind it cannot be read, and without it a broker that lacks acknowledged \
         messages could be elected. While a majority of the other controllers runs, move {} away and start again: they send everything. \
         A controller that is alone starts without that directory too, and then `vostok controller rebuild` gives it what the brokers know",
        path.display(),
        path.parent().unwrap_or(path).display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Position of the first incomplete frame.
        at: usize,
    },
    /// The disk failed, or another process uses the directory.
    #[error("the controller's journal in {}: {error}", path.display())]
    Disk {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// The journal of one controller.
pub struct Journal {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
    /// Position of the next frame.
    end: u64,
    length: u64,
    /// Lock held while the journal is open.
    _lock: Box<dyn std::any::Any + Send + Sync>,
}

impl Journal {
    /// Opens the journal in a directory, or creates it. Returns the saved records.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn open(disk: Arc<dyn Disk>, directory: &Path) -> Result<(Self, Vec<Record>), JournalError> {
        let failed = |error| JournalError::Disk { path: directory.to_owned(), error };
        let entries = disk.list(directory).map_err(failed)?;
        let is_java = |name: &str| name.starts_with("dledger-") || name == "raft_meta";
        if let Some(found) = entries.iter().find(|entry| entry.is_dir && is_java(&entry.name)) {
            return Err(JournalError::Java { path: directory.to_owned(), found: found.name.clone() });
        }
        disk.create_dir_all(directory).map_err(failed)?;
        let lock = disk.lock(&directory.join("lock")).map_err(failed)?;
        let path = directory.join(FILE);
        let records = match disk.read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            bytes => read(&bytes.map_err(failed)?, path)?,
        };
        let directory = directory.to_owned();
        let mut journal = Self { disk, directory, file: None, end: 0, length: 0, _lock: lock };
        journal
            .write_anew(&records)
            .map_err(|error| JournalError::Disk { path: journal.directory.clone(), error })?;
        Ok((journal, records))
    }

    /// Makes records durable behind the earlier records.
    ///
    /// # Errors
    /// The error of the disk. The journal then refuses further writes.
    pub fn save(&mut self, records: &[Record]) -> io::Result<()> {
        let file = self.file.take().ok_or_else(|| io::Error::other("a write failed before"))?;
        let bytes = frames(records);
        let end = self.end + bytes.len() as u64;
        let file = if end + MARK_BYTES > self.length {
            self.length = end + ROOM_BYTES;
            let file = self.disk.create(&self.directory.join(FILE), self.length, Space::Reserved)?;
            // The length first: a frame that ends with the file proves that the file was cut.
            file.sync()?;
            file
        } else {
            file
        };
        file.write_at(&bytes, self.end)?;
        file.sync()?;
        file.write_at(&mark(end), end)?;
        self.end = end;
        self.file = Some(file);
        Ok(())
    }

    /// Makes records durable in place of all earlier records.
    ///
    /// # Errors
    /// The error of the disk. The journal then refuses further writes.
    pub fn replace(&mut self, records: &[Record]) -> io::Result<()> {
        self.file.take().ok_or_else(|| io::Error::other("a write failed before"))?;
        self.write_anew(records)
    }

    fn write_anew(&mut self, records: &[Record]) -> io::Result<()> {
        let next = self.directory.join("journal.next");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(frames(records));
        let length = bytes.len() as u64 + ROOM_BYTES;
        // The remains of a crashed attempt must not appear behind the records.
        self.disk.remove(&next)?;
        let file = self.disk.create(&next, length, Space::Reserved)?;
        let end = bytes.len() as u64;
        bytes.extend(mark(end));
        file.write_at(&bytes, 0)?;
        file.sync()?;
        self.disk.rename(&next, &self.directory.join(FILE))?;
        self.disk.sync_dir(&self.directory)?;
        (self.end, self.length, self.file) = (end, length, Some(file));
        Ok(())
    }
}

/// The frame of a save; no bytes without records.
fn frames(records: &[Record]) -> Vec<u8> {
    let mut payload = Vec::new();
    records.iter().for_each(|record| record.encode(&mut payload));
    if payload.is_empty() { Vec::new() } else { frame(&payload) }
}

/// The mark at a position.
fn mark(at: u64) -> Vec<u8> {
    frame(&at.to_le_bytes())
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a snapshot is smaller than 4 GiB");
    [&length.to_le_bytes(), &crc32fast::hash(payload).to_le_bytes(), payload].concat()
}

/// Content of the file at a position.
enum Piece<'a> {
    Frame(Vec<Record>, usize),
    Mark,
    /// An incomplete frame: its stated length, and the bytes that the file has.
    Broken(usize, &'a [u8]),
}

fn piece(bytes: &[u8], at: usize) -> Piece<'_> {
    let Some((head, behind)) = bytes.get(at..).and_then(|rest| rest.split_first_chunk::<HEAD_BYTES>()) else {
        return Piece::Broken(HEAD_BYTES, &[]);
    };
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (length, sum) = (number(0) as usize, number(4));
    match behind.get(..length).filter(|payload| length > 0 && crc32fast::hash(payload) == sum) {
        Some(payload) if *payload == (at as u64).to_le_bytes() => Piece::Mark,
        Some(payload) => match Record::decode_all(payload) {
            Some(records) => Piece::Frame(records, at + HEAD_BYTES + length),
            None => Piece::Broken(length, behind),
        },
        None => Piece::Broken(length, behind),
    }
}

/// The records of a journal's bytes.
fn read(bytes: &[u8], path: PathBuf) -> Result<Vec<Record>, JournalError> {
    if !bytes.starts_with(MAGIC) && !bytes.starts_with(MAGIC_WITHOUT_MARK) {
        return Err(JournalError::Foreign(path));
    }
    let (mut records, mut at) = (Vec::new(), MAGIC.len());
    loop {
        let (claimed, behind) = match piece(bytes, at) {
            Piece::Frame(more, end) => {
                records.extend(more);
                at = end;
                continue;
            }
            Piece::Mark => return Ok(records),
            Piece::Broken(claimed, behind) => (claimed, behind),
        };
        // Room is made before a frame is written: no frame of a save that did not end reaches beyond the file.
        let is_cut = claimed > behind.len();
        if is_cut || (at + 1..bytes.len()).any(|at| !matches!(piece(bytes, at), Piece::Broken(..))) {
            return Err(JournalError::Damaged { path, at });
        }
        if behind.iter().any(|byte| *byte != 0) {
            tracing::warn!(path = %path.display(), "the last save is incomplete and is dropped, as after a power cut");
        }
        return Ok(records);
    }
}

#[cfg(test)]
mod tests;
