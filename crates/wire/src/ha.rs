//! Frames of replication between the brokers of a group: classic HA ([`classic`]) and the auto-switch HA of controller mode
//! ([`switch`]). Integers are big-endian; neither protocol has a magic number, a version or a checksum of its own.
//!
//! Functions here convert between bytes and checked values. A decoder gets the bytes that a connection has received,
//! and returns `Ok(None)` for an incomplete frame. A frame that can never become valid is a [`FrameError`], and the
//! caller closes the connection. The crate `replica` decides the order of frames.

pub mod classic;
mod protocol;
pub mod switch;

pub use protocol::{FrameHead, MasterFrame, Protocol};

use crate::units::{LogOffset, number};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Largest frame from a master, header and body together: the receive buffer of a Java slave
/// (`DefaultHAClient.READ_MAX_BUFFER_SIZE`).
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

number! {
    /// The number of a mastership in controller mode. It grows by one with each election.
    #[derive(Default, Serialize, Deserialize)]
    Epoch(u32), from_i32 / to_i32: i32, "an epoch fits a signed 32-bit field"
}

impl Epoch {
    /// The epoch before the first election.
    pub const ZERO: Self = Self(0);

    /// The epoch of the next election.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

number! {
    /// The number that a controller assigned to a broker of a broker set, from 1. It does not change with the broker's role.
    /// A negative number means "no broker" in RocketMQ.
    #[derive(Serialize, Deserialize)]
    BrokerId(u64), from_i64 / to_i64: i64, "a broker id fits a signed 64-bit field"
}

impl BrokerId {
    /// The id of the first broker of a broker set (`MixAll.FIRST_BROKER_CONTROLLER_ID`).
    pub const FIRST: Self = Self(1);
}

/// Epoch with its start in the commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: Epoch,
    /// Log offset of the first byte that the master of this epoch wrote.
    pub start: LogOffset,
}

/// Errors of a replication frame. The receiver closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A field is negative that must be zero or more.
    #[error("{field} is {found}, expected zero or more")]
    Negative {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        found: i64,
    },
    /// A master announces a body that fits no receive buffer.
    #[error("frame body of {found} bytes, expected at most {max}")]
    TooLarge {
        /// Largest body in bytes.
        max: usize,
        /// Bytes announced.
        found: usize,
    },
    /// The state at the head of an auto-switch frame is not a state that the sender may use.
    #[error("frame state is {found}, expected 1 (handshake) or 2 (transfer)")]
    State {
        /// Value of the field.
        found: i32,
    },
    /// The epoch list of a handshake response has a size that is no multiple of an entry's, or too many entries.
    #[error("epoch list of {found} bytes, expected a multiple of 12 up to {max}")]
    EpochListSize {
        /// Largest list in bytes.
        max: usize,
        /// Bytes announced.
        found: usize,
    },
    /// The epoch list of a handshake response does not rise from entry to entry.
    #[error("epoch {epoch} from {start} does not lie behind the entry before it")]
    EpochOrder {
        /// Epoch of the entry that does not rise.
        epoch: Epoch,
        /// Log offset of the entry that does not rise.
        start: LogOffset,
    },
}

/// Reads integers from the front of a buffer. The caller has checked the length.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (bytes, rest) = self.0.split_first_chunk().expect("the caller checked the length");
        self.0 = rest;
        *bytes
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    fn flag(&mut self) -> bool {
        i16::from_be_bytes(self.take()) == 1
    }

    fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take())
    }

    fn offset(&mut self, field: &'static str) -> Result<LogOffset, FrameError> {
        let found = self.long();
        LogOffset::from_i64(found).ok_or(FrameError::Negative { field, found })
    }

    fn epoch(&mut self, field: &'static str) -> Result<Epoch, FrameError> {
        let found = self.int();
        Epoch::from_i32(found).ok_or(FrameError::Negative { field, found: i64::from(found) })
    }

    fn size(&mut self, field: &'static str) -> Result<usize, FrameError> {
        let found = self.int();
        usize::try_from(found).map_err(|_| FrameError::Negative { field, found: i64::from(found) })
    }

    /// Checks the size of a body. Body and a header of `header` bytes must fit a slave's receive buffer.
    fn body_size(&mut self, header: usize) -> Result<u32, FrameError> {
        let found = self.size("body size")?;
        let max = FRAME_BYTES_MAX - header;
        u32::try_from(found).ok().filter(|_| found <= max).ok_or(FrameError::TooLarge { max, found })
    }
}

#[cfg(test)]
mod tests;
