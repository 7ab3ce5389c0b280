//! Frames of auto-switch HA, the replication of controller mode (`AutoSwitchHAConnection`, `AutoSwitchHAClient`).
//!
//! | frame | layout |
//! |---|---|
//! | slave's handshake, 16 bytes | `int` state 1, `short` from the last file only, `short` learner, `long` broker id |
//! | slave's report, 12 bytes | `int` state 2, `long` the slave's log end |
//! | master's response, 20 + 12 n bytes | `int` state 1, `int` list size, `long` log end, `int` last epoch, n times `int` epoch and `long` start |
//! | master's transfer, 36 + n bytes | `int` state 2, `int` body size, `long` offset, `int` epoch, `long` epoch's start, `long` confirm offset, body |

use super::{BrokerId, EpochStart, FRAME_BYTES_MAX, FrameError, FrameHead, MasterFrame, Reader};
use crate::units::LogOffset;

const STATE_HANDSHAKE: i32 = 1;
const STATE_TRANSFER: i32 = 2;

/// Size in bytes of a slave's handshake.
pub const HANDSHAKE_BYTES: usize = 16;
/// Size in bytes of a slave's report.
pub const REPORT_BYTES: usize = 12;
/// Size in bytes of the head of a master's response to a handshake.
pub const RESPONSE_HEADER_BYTES: usize = 20;
/// Size in bytes of one entry of an epoch list.
pub const EPOCH_ENTRY_BYTES: usize = 12;
/// Most entries of an epoch list in a frame: the size of the buffer of a Java master (`handShakeBuffer`).
pub const EPOCH_ENTRIES_MAX: usize = 1000;
/// Size in bytes of the head of a master's transfer.
pub const TRANSFER_HEADER_BYTES: usize = 36;
/// Largest body of a master's transfer in bytes.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - TRANSFER_HEADER_BYTES;

/// The first frame of a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The slave's id at the controller.
    pub broker_id: BrokerId,
    /// Whether an empty slave requests the master's last file only (`syncFromLastFile`).
    pub is_from_last_file: bool,
    /// Whether the slave never joins the in-sync set (`asyncLearner`).
    pub is_learner: bool,
}

impl Handshake {
    /// The bytes of the handshake. They must leave in one write: a Java master reads a split one wrongly.
    pub fn encode(self) -> [u8; HANDSHAKE_BYTES] {
        let mut bytes = [0; HANDSHAKE_BYTES];
        bytes[..4].copy_from_slice(&STATE_HANDSHAKE.to_be_bytes());
        bytes[4..6].copy_from_slice(&u16::from(self.is_from_last_file).to_be_bytes());
        bytes[6..8].copy_from_slice(&u16::from(self.is_learner).to_be_bytes());
        bytes[8..].copy_from_slice(&self.broker_id.to_i64().to_be_bytes());
        bytes
    }
}

/// The bytes of a slave's report.
pub fn encode_report(offset: LogOffset) -> [u8; REPORT_BYTES] {
    let mut bytes = [0; REPORT_BYTES];
    bytes[..4].copy_from_slice(&STATE_TRANSFER.to_be_bytes());
    bytes[4..].copy_from_slice(&offset.to_i64().to_be_bytes());
    bytes
}

/// A frame from a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlaveFrame {
    /// The slave introduces itself.
    Handshake(Handshake),
    /// The end of the slave's log.
    Report(LogOffset),
}

impl SlaveFrame {
    /// Reads the next frame of a slave, and its size in bytes; `None` when it is not complete.
    ///
    /// # Errors
    /// [`FrameError::State`] for a frame that is neither handshake nor report, [`FrameError::Negative`] when the id or offset
    /// is below zero.
    pub fn decode(received: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        if received.len() < 4 {
            return Ok(None);
        }
        let mut reader = Reader(received);
        match reader.int() {
            STATE_HANDSHAKE if received.len() < HANDSHAKE_BYTES => Ok(None),
            STATE_HANDSHAKE => {
                let is_from_last_file = reader.flag();
                let is_learner = reader.flag();
                let found = reader.long();
                let broker_id =
                    BrokerId::from_i64(found).ok_or(FrameError::Negative { field: "broker id", found })?;
                let handshake = Handshake { broker_id, is_from_last_file, is_learner };
                Ok(Some((Self::Handshake(handshake), HANDSHAKE_BYTES)))
            }
            STATE_TRANSFER if received.len() < REPORT_BYTES => Ok(None),
            STATE_TRANSFER => {
                let offset = reader.offset("reported offset")?;
                Ok(Some((Self::Report(offset), REPORT_BYTES)))
            }
            found => Err(FrameError::State { found }),
        }
    }
}

/// Response of a master to a handshake: the epochs of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeResponse {
    /// End of the master's log.
    pub end: LogOffset,
    /// Epochs of the master's log, rising. An epoch without a byte begins at the start of the next epoch. A decoded
    /// list is checked for that.
    pub epochs: Vec<EpochStart>,
}

impl HandshakeResponse {
    /// Appends the bytes of the response. Panics with more than [`EPOCH_ENTRIES_MAX`] epochs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.epochs.len() <= EPOCH_ENTRIES_MAX, "a reply has room for 1000 epochs");
        let list_bytes = self.epochs.len() * EPOCH_ENTRY_BYTES;
        let last = self.epochs.last().map_or(-1, |last| last.epoch.to_i32());
        out.extend(STATE_HANDSHAKE.to_be_bytes());
        out.extend(u32::try_from(list_bytes).expect("at most 12,000").to_be_bytes());
        out.extend(self.end.to_i64().to_be_bytes());
        out.extend(last.to_be_bytes());
        for entry in &self.epochs {
            out.extend(entry.epoch.to_i32().to_be_bytes());
            out.extend(entry.start.to_i64().to_be_bytes());
        }
    }

    fn decode(received: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        let mut reader = Reader(&received[4..]);
        let found = reader.size("epoch list size")?;
        let max = EPOCH_ENTRIES_MAX * EPOCH_ENTRY_BYTES;
        if found > max || !found.is_multiple_of(EPOCH_ENTRY_BYTES) {
            return Err(FrameError::EpochListSize { max, found });
        }
        if received.len() < RESPONSE_HEADER_BYTES + found {
            return Ok(None);
        }
        let end = reader.offset("log end")?;
        reader.int();
        let mut epochs: Vec<EpochStart> = Vec::with_capacity(found / EPOCH_ENTRY_BYTES);
        for _ in 0..found / EPOCH_ENTRY_BYTES {
            let epoch = reader.epoch("epoch")?;
            let start = reader.offset("start of an epoch")?;
            if epochs.last().is_some_and(|last| last.epoch >= epoch || last.start > start) {
                return Err(FrameError::EpochOrder { epoch, start });
            }
            epochs.push(EpochStart { epoch, start });
        }
        Ok(Some((Self { end, epochs }, RESPONSE_HEADER_BYTES + found)))
    }
}

/// The head of a master's transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferHeader {
    /// Log offset of the first byte of the body; in a heartbeat that of the next body.
    pub offset: LogOffset,
    /// Bytes of the log that follow. Zero in a heartbeat.
    pub body_bytes: u32,
    /// Epoch of the body according to the sender. A Java master sends the epoch *behind* the last bytes of an epoch.
    /// Then `epoch.start` is larger than `offset`.
    pub epoch: EpochStart,
    /// Confirm offset: consumers see only the log before it.
    pub confirm: LogOffset,
}

impl TransferHeader {
    /// The bytes of the head.
    pub fn encode(self) -> [u8; TRANSFER_HEADER_BYTES] {
        let mut bytes = [0; TRANSFER_HEADER_BYTES];
        bytes[..4].copy_from_slice(&STATE_TRANSFER.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.body_bytes.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_i64().to_be_bytes());
        bytes[16..20].copy_from_slice(&self.epoch.epoch.to_i32().to_be_bytes());
        bytes[20..28].copy_from_slice(&self.epoch.start.to_i64().to_be_bytes());
        bytes[28..].copy_from_slice(&self.confirm.to_i64().to_be_bytes());
        bytes
    }

    fn decode(received: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader(&received[4..]);
        let body_bytes = reader.body_size(TRANSFER_HEADER_BYTES)?;
        // A Java master without any file heartbeats with offset -1 (`WriteSocketService.run`), and its confirm offset is -1
        // until it is computed. Both mean that there is nothing yet.
        let offset = match reader.long() {
            -1 if body_bytes == 0 => LogOffset::ZERO,
            found => {
                LogOffset::from_i64(found).ok_or(FrameError::Negative { field: "frame offset", found })?
            }
        };
        let epoch = EpochStart { epoch: reader.epoch("epoch")?, start: reader.offset("start of an epoch")? };
        let confirm = LogOffset::from_i64(reader.long()).unwrap_or_default();
        Ok(Self { offset, body_bytes, epoch, confirm })
    }
}

/// Reads the next frame of a master. Returns the frame and its size in bytes without the body of a transfer, or
/// `None` if the frame is not complete.
///
/// # Errors
/// [`FrameError::State`] for a frame that is neither response nor transfer, [`FrameError::Negative`] for a number below zero,
/// [`FrameError::TooLarge`] for a body above [`BODY_BYTES_MAX`], [`FrameError::EpochListSize`] and
/// [`FrameError::EpochOrder`] for a list that no master can have.
pub fn decode_master(received: &[u8]) -> Result<Option<(MasterFrame, usize)>, FrameError> {
    if received.len() < 4 {
        return Ok(None);
    }
    match Reader(received).int() {
        STATE_HANDSHAKE if received.len() < RESPONSE_HEADER_BYTES => Ok(None),
        STATE_HANDSHAKE => {
            let reply = HandshakeResponse::decode(received)?;
            Ok(reply.map(|(reply, size)| (MasterFrame::Handshake(reply), size)))
        }
        STATE_TRANSFER if received.len() < TRANSFER_HEADER_BYTES => Ok(None),
        STATE_TRANSFER => {
            let head = FrameHead::Switch(TransferHeader::decode(received)?);
            Ok(Some((MasterFrame::Transfer(head), TRANSFER_HEADER_BYTES)))
        }
        found => Err(FrameError::State { found }),
    }
}
