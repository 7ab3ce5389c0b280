//! Both protocols of replication, for code that serves either: the choice of a layout by [`Protocol`].

use super::FrameError;
use super::classic::{self, Header};
use super::switch::{self, HandshakeResponse, SlaveFrame, TransferHeader};
use crate::units::LogOffset;

/// Protocol between a master and its slaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Classic HA ([`classic`]).
    Classic,
    /// Auto-switch HA of controller mode ([`switch`]).
    Switch,
}

impl Protocol {
    /// Decodes the next frame of a slave. Returns the frame and its size in bytes, or `None` if the frame is not
    /// complete. A classic report replaces all earlier reports.
    ///
    /// # Errors
    /// Errors of [`classic::decode_reports`] and [`SlaveFrame::decode`].
    pub fn decode_slave(self, received: &[u8]) -> Result<Option<(SlaveFrame, usize)>, FrameError> {
        match self {
            Self::Classic => {
                Ok(classic::decode_reports(received)?
                    .map(|(offset, used)| (SlaveFrame::Report(offset), used)))
            }
            Self::Switch => SlaveFrame::decode(received),
        }
    }

    /// Decodes the next frame of a master. Returns the frame and its size in bytes without the piece of the log, or
    /// `None` if the frame is not complete.
    ///
    /// # Errors
    /// Errors of [`Header::decode`] and [`switch::decode_master`].
    pub fn decode_master(self, received: &[u8]) -> Result<Option<(MasterFrame, usize)>, FrameError> {
        match self {
            Self::Classic => Ok(Header::decode(received)?
                .map(|header| (MasterFrame::Transfer(FrameHead::Classic(header)), classic::HEADER_BYTES))),
            Self::Switch => switch::decode_master(received),
        }
    }

    /// Encodes a slave's report.
    pub fn encode_report(self, offset: LogOffset) -> Vec<u8> {
        match self {
            Self::Classic => classic::encode_report(offset).to_vec(),
            Self::Switch => switch::encode_report(offset).to_vec(),
        }
    }
}

/// Head of a master's frame, in front of a piece of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHead {
    /// Head in classic HA.
    Classic(Header),
    /// Head in auto-switch HA.
    Switch(TransferHeader),
}

impl FrameHead {
    /// Appends the bytes of the head.
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Classic(header) => out.extend_from_slice(&header.encode()),
            Self::Switch(header) => out.extend_from_slice(&header.encode()),
        }
    }

    /// Returns the start and the size in bytes of the piece of the log. A heartbeat has no bytes.
    pub fn piece(self) -> (LogOffset, u32) {
        match self {
            Self::Classic(header) => (header.offset, header.body_bytes),
            Self::Switch(header) => (header.offset, header.body_bytes),
        }
    }
}

/// Frame of a master of either protocol, without the piece of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterFrame {
    /// Response to a handshake, in auto-switch HA.
    Handshake(HandshakeResponse),
    /// Head of a piece of the log, which follows.
    Transfer(FrameHead),
}

impl MasterFrame {
    /// Returns the size in bytes of the piece of the log that follows.
    pub fn body_bytes(&self) -> usize {
        match self {
            Self::Handshake(_) => 0,
            Self::Transfer(head) => head.piece().1 as usize,
        }
    }
}
