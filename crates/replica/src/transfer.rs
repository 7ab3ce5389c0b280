//! Next frames of a master on a connection (`DefaultHAConnection.WriteSocketService`, `FlowMonitor`).
//!
//! A single frame is in flight: the shell reports when the connection took it, and gets the next frame. A frame never
//! crosses the end of a log file, so that a slave can append each frame with one write.

use thiserror::Error;
use wire::ha::FRAME_BYTES_MAX;
use wire::ha::switch::TRANSFER_HEADER_BYTES;
use wire::units::LogOffset;

/// Id of a connection. The shell chooses the numbers and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// Settings for sending the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferConfig {
    /// Largest body of a frame in bytes (`haTransferBatchSize`), limited to a Java slave's buffer.
    pub batch_bytes: u32,
    /// Size of a log file in bytes (`mappedFileSizeCommitLog`).
    pub file_bytes: u64,
    /// Idle time after which a heartbeat leaves, in milliseconds (`haSendHeartbeatInterval`).
    pub heartbeat_interval_ms: u64,
    /// Time without incoming bytes after which a connection is closed, in milliseconds (`haHousekeepingInterval`).
    pub housekeeping_interval_ms: u64,
    /// Bytes that a connection may carry in a second (`maxHaTransferByteInSecond` when `haFlowControlEnable` is set).
    pub bytes_per_second: Option<u64>,
}

/// RocketMQ's defaults.
impl Default for TransferConfig {
    fn default() -> Self {
        Self {
            batch_bytes: 32 * 1024,
            file_bytes: 1024 * 1024 * 1024,
            heartbeat_interval_ms: 5_000,
            housekeeping_interval_ms: 20_000,
            bytes_per_second: None,
        }
    }
}

/// Start of the log file in which the log ends (`MappedFileQueue.getMaxOffset` less its remainder).
pub(crate) fn last_file_start(end: LogOffset, file_bytes: u64) -> LogOffset {
    LogOffset::new(end.get() - end.get() % file_bytes)
}

/// Range of the master's log that can be sent: `[minimum, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    /// The lowest offset that can be read.
    pub minimum: LogOffset,
    /// Position behind the last byte.
    pub end: LogOffset,
}

/// Warning of a master to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// A slave wants bytes that retention has deleted. It gets heartbeats only, until it is set up again.
    #[error(
        "it asks for the log from {wanted}, and this log begins at {minimum} since older files were deleted: empty the slave's store, or copy this one's"
    )]
    BelowMinimum {
        /// Next position that the slave wants.
        wanted: LogOffset,
        /// The lowest offset that can be read.
        minimum: LogOffset,
    },
}

/// Piece of the log for a frame. A heartbeat has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: LogOffset,
    pub(crate) bytes: u32,
}

/// Sending side of a connection, from the first report on.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    /// Start of the next piece. Every requested byte below it is sent or in flight.
    next: LogOffset,
    is_writing: bool,
    last_write_ms: u64,
    /// Start of the second in which bytes are counted for the limit `bytes_per_second`.
    second_ms: u64,
    /// Bytes sent in that second.
    second_bytes: u64,
}

impl Transfer {
    pub(crate) fn new(now_ms: u64, next: LogOffset) -> Self {
        Self { next, is_writing: false, last_write_ms: now_ms, second_ms: now_ms, second_bytes: 0 }
    }

    /// Returns the end of the bytes that the connection got.
    pub(crate) fn next(&self) -> LogOffset {
        self.next
    }

    /// The connection has taken the frame.
    pub(crate) fn written(&mut self, now_ms: u64) {
        self.is_writing = false;
        self.last_write_ms = now_ms;
    }

    /// Returns the next frame to send, if it is due: log bytes up to `until`, or a heartbeat.
    pub(crate) fn take(&mut self, now_ms: u64, config: &TransferConfig, until: LogOffset) -> Option<Piece> {
        if self.is_writing {
            return None;
        }
        let bytes = self.allowed(now_ms, config, until);
        if bytes == 0 && now_ms <= self.last_write_ms + config.heartbeat_interval_ms {
            return None;
        }
        let piece = Piece { from: self.next, bytes };
        self.next = self.next + u64::from(bytes);
        self.second_bytes += u64::from(bytes);
        self.is_writing = true;
        Some(piece)
    }

    fn allowed(&mut self, now_ms: u64, config: &TransferConfig, until: LogOffset) -> u32 {
        let body_max = FRAME_BYTES_MAX - TRANSFER_HEADER_BYTES;
        let in_file = config.file_bytes - self.next.get() % config.file_bytes;
        let mut bytes =
            until.since(self.next).min(in_file).min(u64::from(config.batch_bytes)).min(body_max as u64);
        if let Some(per_second) = config.bytes_per_second {
            if now_ms >= self.second_ms + 1_000 {
                (self.second_ms, self.second_bytes) = (now_ms, 0);
            }
            bytes = bytes.min(per_second.saturating_sub(self.second_bytes));
        }
        u32::try_from(bytes).expect("at most the batch")
    }

    /// Returns the time at which [`Transfer::take`] must run again without an event.
    pub(crate) fn wake_at_ms(&self, config: &TransferConfig, until: LogOffset) -> Option<u64> {
        if self.is_writing {
            return None;
        }
        let heartbeat_ms = self.last_write_ms + config.heartbeat_interval_ms + 1;
        let is_held = until > self.next && config.bytes_per_second.is_some();
        Some(if is_held { heartbeat_ms.min(self.second_ms + 1_000) } else { heartbeat_ms })
    }
}

#[cfg(test)]
mod tests;
