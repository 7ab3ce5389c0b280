//! Frames of classic HA (`DefaultHAConnection`, `DefaultHAClient`).
//!
//! | direction | bytes | meaning |
//! |---|---|---|
//! | slave to master | 8 | the slave's log end: first where to start, then an acknowledgement |
//! | master to slave | 8 + 4 + n | log offset, body size, bytes of the log from that offset; no body is a heartbeat |

use super::{FRAME_BYTES_MAX, FrameError, Reader};
use crate::units::LogOffset;

/// Size in bytes of a slave's report.
pub const REPORT_BYTES: usize = 8;
/// Size in bytes of the head of a master's frame.
pub const HEADER_BYTES: usize = 12;
/// Largest body of a master's frame in bytes.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - HEADER_BYTES;

/// The bytes of a slave's report.
pub fn encode_report(offset: LogOffset) -> [u8; REPORT_BYTES] {
    offset.to_i64().to_be_bytes()
}

/// Reads the newest complete report of a slave, and the size in bytes of all complete reports. A report replaces all
/// earlier reports. Returns `None` if no report is complete.
///
/// # Errors
/// [`FrameError::Negative`] when the newest complete report is below zero.
pub fn decode_reports(received: &[u8]) -> Result<Option<(LogOffset, usize)>, FrameError> {
    let (reports, _) = received.as_chunks::<REPORT_BYTES>();
    let Some(newest) = reports.last() else { return Ok(None) };
    let offset = Reader(newest).offset("reported offset")?;
    Ok(Some((offset, reports.len() * REPORT_BYTES)))
}

/// The head of a master's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Log offset of the first byte of the body; in a heartbeat that of the next body.
    pub offset: LogOffset,
    /// Bytes of the log that follow. Zero in a heartbeat.
    pub body_bytes: u32,
}

impl Header {
    /// The bytes of the head.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_i64().to_be_bytes());
        bytes[8..].copy_from_slice(&self.body_bytes.to_be_bytes());
        bytes
    }

    /// Reads a head; `None` when fewer than [`HEADER_BYTES`] were received.
    ///
    /// # Errors
    /// [`FrameError::Negative`] when the offset or the size is below zero, [`FrameError::TooLarge`] when the body would be
    /// larger than [`BODY_BYTES_MAX`].
    pub fn decode(received: &[u8]) -> Result<Option<Self>, FrameError> {
        if received.len() < HEADER_BYTES {
            return Ok(None);
        }
        let mut reader = Reader(received);
        let offset = reader.offset("frame offset")?;
        Ok(Some(Self { offset, body_bytes: reader.body_size(HEADER_BYTES)? }))
    }
}
