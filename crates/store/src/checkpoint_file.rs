//! The `checkpoint` file: six numbers that RocketMQ knows, and behind them Vostok's mark.
//!
//! | bytes | content | written by |
//! |---|---|---|
//! | 0..48 | six big-endian numbers, see [`Checkpoint`] | RocketMQ and Vostok |
//! | 48..52 | the *seal*: `VSTK` | Vostok |
//! | 52..56 | CRC-32 of bytes 0..52 | Vostok |
//! | 56..64 | the *mark*: `VOSTOKQT` | Vostok |
//! | 64..72 | generation: which file of the queue table counts | Vostok |
//! | 72..80 | position in that file up to which the table is committed | Vostok |
//! | 80..88 | how often the store was opened; also written to `abort` | Vostok |
//! | 88..92 | 1 while the store is open, 0 after a clean stop | Vostok |
//! | 92..96 | CRC-32 of bytes 0..92, top bit cleared | Vostok |
//! | 96..104 | in controller mode: log position of the newest flushed message, as bytes 32..40 hold the confirm offset there | Vostok |
//! | 104..108 | in controller mode: CRC-32 of bytes 0..104, top bit cleared | Vostok |
//!
//! RocketMQ writes its numbers in place and leaves the rest. Then the checksums do not match, and seal and mark count as
//! missing; without the mark the queue table does not count either. All fields are in one sector, so a power cut leaves the
//! old page or the new.

use crate::disk::{Disk, Space};
use std::io::{self, ErrorKind};
use std::path::Path;
use wire::hash::crc32;

/// Size of the checkpoint file in bytes.
const PAGE_BYTES: usize = 4096;
/// The seal, between the six numbers and their checksum.
const SEAL: [u8; 4] = *b"VSTK";
const NUMBERS_END: usize = 48;
const MARK_AT: usize = 56;
const CRC_AT: usize = 92;
const MARK_END: usize = 96;
const NEWEST_AT: usize = MARK_END;
const NEWEST_END: usize = 108;
const MAGIC: [u8; 8] = *b"VOSTOKQT";

/// The content of the `checkpoint` file (`StoreCheckpoint`): six numbers at the start of a 4,096-byte page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Store time of the newest flushed message, in ms since the epoch.
    pub physic_msg_timestamp: i64,
    /// Store time of the newest message whose queue unit is flushed, in ms since the epoch.
    pub logics_msg_timestamp: i64,
    /// Key index files that end by this time (ms since the epoch) are durable.
    pub index_msg_timestamp: i64,
    /// RocketMQ's number; Vostok keeps it as found.
    pub master_flushed_offset: i64,
    /// Log position of the newest flushed message; in controller mode the confirm offset.
    pub confirm_phy_offset: i64,
    /// Log position before which everything is durable, both in the log and in the queue files.
    pub logics_physical_offset: i64,
    /// The queue table that belongs to these numbers; `None` when another program wrote them.
    pub mark: Option<Mark>,
    /// Log position of the newest flushed message, when `confirm_phy_offset` is a confirm offset; `None` otherwise.
    pub newest: Option<i64>,
}

/// Vostok's part of the page: ties a queue table to the six numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of the queue table's file.
    pub generation: u64,
    /// Position in that file up to which the table is committed.
    pub committed: u64,
    /// Number of times the store was opened.
    pub openings: u64,
    /// Whether the store is open, or was open when it crashed.
    pub running: bool,
}

impl Checkpoint {
    /// Parses the page; missing bytes count as zero.
    pub fn from_bytes(page: &[u8]) -> Self {
        let field = |index: usize| {
            let bytes = page.get(index * 8..index * 8 + 8).unwrap_or(&[0; 8]);
            i64::from_be_bytes(bytes.try_into().expect("eight bytes sliced"))
        };
        Self {
            physic_msg_timestamp: field(0),
            logics_msg_timestamp: field(1),
            index_msg_timestamp: field(2),
            master_flushed_offset: field(3),
            confirm_phy_offset: field(4),
            logics_physical_offset: field(5),
            mark: page.get(..MARK_END).and_then(Mark::from_bytes),
            newest: newest_from_bytes(page),
        }
    }

    /// Log position of the newest flushed message.
    pub(crate) fn newest_record(&self) -> i64 {
        self.newest.unwrap_or(self.confirm_phy_offset)
    }

    /// Encodes the page.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE_BYTES);
        for field in [
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
            self.logics_physical_offset,
        ] {
            page.extend_from_slice(&field.to_be_bytes());
        }
        page.extend_from_slice(&SEAL);
        page.extend_from_slice(&crc32fast::hash(&page).to_be_bytes());
        if let Some(mark) = self.mark {
            page.extend_from_slice(&MAGIC);
            for field in [mark.generation, mark.committed, mark.openings] {
                page.extend_from_slice(&field.to_be_bytes());
            }
            page.extend_from_slice(&u32::from(mark.running).to_be_bytes());
            page.extend_from_slice(&crc32(&page).to_be_bytes());
        }
        page.resize(NEWEST_AT, 0);
        if let Some(newest) = self.newest {
            page.extend_from_slice(&newest.to_be_bytes());
            page.extend_from_slice(&crc32(&page).to_be_bytes());
        }
        page.resize(PAGE_BYTES, 0);
        page
    }

    /// Whether Vostok wrote this page. A RocketMQ broker changes the numbers and keeps the seal, whose checksum then
    /// does not match.
    pub(crate) fn is_sealed(page: &[u8]) -> bool {
        let seal = page.get(48..56).and_then(|seal| seal.strip_prefix(&SEAL));
        seal.is_some_and(|sum| sum == crc32fast::hash(&page[..52]).to_be_bytes())
    }

    pub(crate) fn load(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            file => file?,
        };
        let mut page = [0; NEWEST_END];
        if let Err(error) = file.read_at(&mut page, 0) {
            if error.kind() != ErrorKind::UnexpectedEof {
                return Err(error);
            }
            // A shorter file: RocketMQ's, or one whose creation a power cut interrupted.
            page = [0; NEWEST_END];
            if let Err(error) = file.read_at(&mut page[..NUMBERS_END], 0) {
                return if error.kind() == ErrorKind::UnexpectedEof {
                    Ok(Self::default())
                } else {
                    Err(error)
                };
            }
        }
        Ok(Self::from_bytes(&page))
    }

    pub(crate) fn save(&self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        // Written in place: all fields are in one sector. A new file's name must be made durable too.
        let (file, is_new) = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (disk.create(path, PAGE_BYTES as u64, Space::Reserved)?, true)
            }
            file => match file? {
                // The file is shorter than a page: another program or an interrupted creation left it.
                file if file.length()? < PAGE_BYTES as u64 => {
                    (disk.create(path, PAGE_BYTES as u64, Space::Reserved)?, true)
                }
                file => (file, false),
            },
        };
        file.write_at(&self.to_bytes(), 0)?;
        file.sync()?;
        match path.parent() {
            Some(directory) if is_new => disk.sync_dir(directory),
            _ => Ok(()),
        }
    }
}

/// The newest message of a page that was written in controller mode.
fn newest_from_bytes(page: &[u8]) -> Option<i64> {
    let sum = page.get(NEWEST_AT + 8..NEWEST_END)?;
    let newest = i64::from_be_bytes(page[NEWEST_AT..NEWEST_AT + 8].try_into().expect("eight bytes sliced"));
    // An empty page has a checksum of its own by chance only, and no newest message.
    (sum == crc32(&page[..NEWEST_AT + 8]).to_be_bytes()).then_some(newest)
}

impl Mark {
    fn from_bytes(page: &[u8]) -> Option<Self> {
        let number = |at: usize| u64::from_be_bytes(page[at..at + 8].try_into().expect("eight bytes sliced"));
        let short = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().expect("four bytes sliced"));
        if page[MARK_AT..MARK_AT + 8] != MAGIC || short(CRC_AT) != crc32(&page[..CRC_AT]) {
            return None;
        }
        let (generation, committed, openings) = (number(64), number(72), number(80));
        Some(Self { generation, committed, openings, running: short(88) != 0 })
    }
}

#[cfg(test)]
mod tests;
