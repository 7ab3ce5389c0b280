//! What a controller must not forget, in one file: records of consensus one behind the other.
//!
//! ```text
//! 0  8  "VOSTOKC1"
//! then for each record
//!    4  length n, little-endian; 0 ends the file
//!    4  CRC-32 of the record
//!    n  the record
//! ```
//! Opening reads up to the first record that is not whole and writes the file anew, so that nothing behind that record can
//! come back. After a failed write or sync the journal refuses further ones: nobody knows what the disk has then.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use replica::consensus::Record;
use store::{Disk, DiskFile, Space};

const MAGIC: &[u8; 8] = b"VOSTOKC1";
const FILE: &str = "journal";

/// Bytes by which the file grows, so that not every sync has to write its length.
const ROOM_BYTES: u64 = 256 << 10;

/// Why there is no journal.
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
        /// What was found there.
        found: String,
    },
    /// The file is none of a controller.
    #[error("{} is no journal of a controller", .0.display())]
    Foreign(PathBuf),
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
    /// Where the next record goes.
    end: u64,
    length: u64,
    /// Held as long as the journal is open.
    _lock: Box<dyn std::any::Any + Send + Sync>,
}

impl Journal {
    /// Opens the journal in a directory, or makes it, and returns what was saved.
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
        let bytes = match disk.read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => MAGIC.to_vec(),
            read => read.map_err(failed)?,
        };
        let (records, rest) = read(&bytes).ok_or(JournalError::Foreign(path))?;
        if rest.iter().any(|byte| *byte != 0) {
            tracing::warn!(
                directory = %directory.display(),
                "the journal's last record is not whole and is dropped, as after a power cut; if there was none, the disk has \
                 changed what was agreed upon: empty this directory while the other controllers run"
            );
        }
        let directory = directory.to_owned();
        let mut journal = Self { disk, directory, file: None, end: 0, length: 0, _lock: lock };
        journal
            .write_anew(&records)
            .map_err(|error| JournalError::Disk { path: journal.directory.clone(), error })?;
        Ok((journal, records))
    }

    /// Makes records durable behind those before.
    ///
    /// # Errors
    /// The error of the disk; the journal takes nothing more then.
    pub fn save(&mut self, records: &[Record]) -> io::Result<()> {
        let file = self.file.take().ok_or_else(|| io::Error::other("a write failed before"))?;
        let bytes = frames(records);
        let end = self.end + bytes.len() as u64;
        let file = if end > self.length {
            self.length = end + ROOM_BYTES;
            self.disk.create(&self.directory.join(FILE), self.length, Space::Reserved)?
        } else {
            file
        };
        file.write_at(&bytes, self.end)?;
        file.sync()?;
        self.end = end;
        self.file = Some(file);
        Ok(())
    }

    /// Makes records durable in place of all before.
    ///
    /// # Errors
    /// The error of the disk; the journal takes nothing more then.
    pub fn replace(&mut self, records: &[Record]) -> io::Result<()> {
        self.file.take().ok_or_else(|| io::Error::other("a write failed before"))?;
        self.write_anew(records)
    }

    fn write_anew(&mut self, records: &[Record]) -> io::Result<()> {
        let next = self.directory.join("journal.next");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(frames(records));
        let length = bytes.len() as u64 + ROOM_BYTES;
        // What a crash left of another attempt must not show behind the records.
        self.disk.remove(&next)?;
        let file = self.disk.create(&next, length, Space::Reserved)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
        self.disk.rename(&next, &self.directory.join(FILE))?;
        self.disk.sync_dir(&self.directory)?;
        (self.end, self.length, self.file) = (bytes.len() as u64, length, Some(file));
        Ok(())
    }
}

fn frames(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let at = bytes.len();
        bytes.extend([0; 8]);
        record.encode(&mut bytes);
        let (length, sum) = (bytes.len() - at - 8, crc32fast::hash(&bytes[at + 8..]));
        let length = u32::try_from(length).expect("a snapshot is smaller than 4 GiB");
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// The whole records of a journal, and what is behind them; `None` when the bytes are none.
fn read(bytes: &[u8]) -> Option<(Vec<Record>, &[u8])> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut records = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<8>() {
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, sum) = (number(0) as usize, number(4));
        let whole = behind.get(..length).filter(|_| length > 0).filter(|it| crc32fast::hash(it) == sum);
        let Some(record) = whole.and_then(Record::decode) else { break };
        records.push(record);
        rest = &behind[length..];
    }
    Some((records, rest))
}

#[cfg(test)]
mod tests;
