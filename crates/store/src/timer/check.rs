//! `config/timercheck`: progress of timer log, timer queue and wheel (`TimerCheckpoint`).
//!
//! In a file written by Vostok, the units end exactly at the queue offset. Later units, whole or torn, are made again
//! from the timer queue. In RocketMQ's file the two numbers are from different moments. Four bytes behind the
//! numbers, which RocketMQ neither reads nor writes, identify the writer of the file.

use super::files::SaveError;
use crate::disk::{Disk, DiskFile, Space};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Size of the file in bytes.
const PAGE_BYTES: usize = 4096;

/// The four bytes behind the numbers in a file written by Vostok.
fn seal(numbers: &[u8]) -> [u8; 4] {
    wire::hash::crc32(&[b"vostok", numbers].concat()).to_be_bytes()
}

/// Content of the file: seven numbers at the start of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCheck {
    /// Time in ms since the epoch before which all slots are delivered.
    pub read_ms: i64,
    /// Position in the timer log before which all units are durable, and in their slots.
    pub log_position: i64,
    /// Queue offset of the next message of the timer queue to process.
    pub queue_offset: i64,
    /// Queue offset before which all messages in slots before `read_ms` were delivered, by this broker or by a master
    /// that it followed. Larger than `queue_offset` while a new master reads the timer queue again. Messages between
    /// the two offsets have no units here yet. Messages among them that are due before `read_ms` need no units.
    pub master_queue_offset: i64,
    /// `DataVersion`: state version, timestamp, counter.
    pub version: [i64; 3],
}

impl TimerCheck {
    /// Parses a page; missing bytes count as zero.
    pub fn from_bytes(page: &[u8]) -> Self {
        let field = |index: usize| {
            let bytes = page.get(index * 8..index * 8 + 8).unwrap_or(&[0; 8]);
            i64::from_be_bytes(bytes.try_into().expect("eight bytes sliced"))
        };
        Self {
            read_ms: field(0),
            log_position: field(1),
            queue_offset: field(2),
            master_queue_offset: field(3),
            version: [field(4), field(5), field(6)],
        }
    }

    /// Encodes the 56 bytes at the start of the page, which slaves also receive over the network.
    pub fn to_bytes(&self) -> [u8; 56] {
        let [state, timestamp, counter] = self.version;
        let fields = [
            self.read_ms,
            self.log_position,
            self.queue_offset,
            self.master_queue_offset,
            state,
            timestamp,
            counter,
        ];
        let mut bytes = [0; 56];
        for (index, field) in fields.iter().enumerate() {
            bytes[index * 8..index * 8 + 8].copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    /// Loads the file, and whether Vostok wrote it; `None` when there is no file.
    pub(super) fn load(disk: &dyn Disk, path: &Path) -> io::Result<Option<(Self, bool)>> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut page = [0; 60];
        match file.read_at(&mut page, 0) {
            // A power cut during the file's creation left it without bytes, or with zeros.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Ok(()) if page == [0; 60] => Ok(None),
            done => done.map(|()| Some((Self::from_bytes(&page), page[56..] == seal(&page[..56])))),
        }
    }

    fn page(&self) -> [u8; 60] {
        let mut page = [0; 60];
        page[..56].copy_from_slice(&self.to_bytes());
        let sealed = seal(&page[..56]);
        page[56..].copy_from_slice(&sealed);
        page
    }

    /// Overwrites the numbers in place, in a single sector, without a sync. Returns the file, which is created if
    /// missing.
    pub(super) fn write(&self, disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                disk.create(path, PAGE_BYTES as u64, Space::Reserved)
            }
            opened => opened,
        }?;
        file.write_at(&self.page(), 0)?;
        Ok(file)
    }

    /// Overwrites the numbers in place, in a single sector. The file stays open in `kept`, so that saving needs no
    /// new file descriptor.
    pub(super) fn save(
        &self,
        disk: &dyn Disk,
        path: &Path,
        kept: &OnceLock<Arc<dyn DiskFile>>,
    ) -> Result<(), SaveError> {
        if let Some(file) = kept.get() {
            file.write_at(&self.page(), 0).map_err(SaveError::of)?;
            return file.sync().map_err(SaveError::Failed);
        }
        let file = self.write(disk, path).map_err(SaveError::of)?;
        file.sync().map_err(SaveError::Failed)?;
        // The file may be new: make its name durable.
        if let Some(directory) = path.parent() {
            disk.sync_dir(directory).map_err(SaveError::of)?;
        }
        kept.get_or_init(|| file);
        Ok(())
    }
}
