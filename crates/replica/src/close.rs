//! Reasons why a connection between brokers ends. The text of a reason is the single line that the shell logs.

use std::ops::Range;
use thiserror::Error;
use wire::ha::{BrokerId, FrameError};
use wire::units::LogOffset;

/// Reason why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The bytes received are not a frame.
    #[error("the peer sent what is no frame: {0}")]
    Malformed(#[from] FrameError),
    /// A frame came that its sender may not send now.
    #[error("the peer sent {found} while {expected} was expected")]
    OutOfOrder {
        /// The frame that was expected.
        expected: &'static str,
        /// The frame that came.
        found: &'static str,
    },
    /// A slave acknowledged bytes that were never sent to it on this connection.
    #[error("the slave reports {reported}, but only what lies below {sent} was sent to it")]
    ReportBeyondSent {
        /// The offset in the report.
        reported: LogOffset,
        /// End of the sent bytes.
        sent: LogOffset,
    },
    /// A slave's log is longer than the master's: they have diverged, and appending would mix two histories.
    #[error(
        "the slave asks for the log from {reported}, behind the master's end {end}: its log must be emptied or cut first"
    )]
    AheadOfMaster {
        /// The slave's first report: the end of its log, or where its last record begins.
        reported: LogOffset,
        /// End of the master's log.
        end: LogOffset,
    },
    /// The master has other bytes in place of this log's last record: the logs have diverged.
    #[error(
        "the last record of this log lies at {} to {}, the log's end is {end}, and the master has something else from {at} \
         on: this log must be emptied before it can follow",
        record.start, record.end
    )]
    OtherHistory {
        /// Range of the last record.
        record: Range<LogOffset>,
        /// End of the slave's log.
        end: LogOffset,
        /// First position at which the logs differ.
        at: LogOffset,
    },
    /// A master sent another part of the log than the next part.
    #[error("the master sent offset {found}, expected {expected}")]
    WrongOffset {
        /// End of the slave's log.
        expected: LogOffset,
        /// Offset of the frame.
        found: LogOffset,
    },
    /// A frame's body goes beyond the end of a log file.
    #[error(
        "the master sent {body_bytes} bytes from {offset}, across the end of a log file of {file_bytes} bytes: mappedFileSizeCommitLog must be the master's, in a store that begins empty"
    )]
    AcrossFiles {
        /// Offset of the frame.
        offset: LogOffset,
        /// Size of its body in bytes.
        body_bytes: u32,
        /// Size of a log file in bytes.
        file_bytes: u64,
    },
    /// The peer sent no bytes for too long.
    #[error("the peer was silent for more than {limit_ms} ms")]
    Silent {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The broker of this connection opened another connection.
    #[error("broker {broker} has connected again")]
    ConnectedAgain {
        /// The broker.
        broker: BrokerId,
    },
    /// The master's log has no epoch of the slave's log.
    #[error("no epoch of this log is also in the master's: it has to be emptied before it can follow")]
    NoCommonEpoch,
    /// The local log refused an append or a truncation.
    #[error("the local log refused what the master sent")]
    LogFailed,
    /// The master has another address now.
    #[error("the master has another address now")]
    MasterMoved,
    /// This broker changes its role or stops.
    #[error("this broker changes its role or stops")]
    Stopped,
}
