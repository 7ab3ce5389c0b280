//! Events and actions of a master.

use super::HostId;
use crate::acks::{AckStatus, PendingResponse, Ticket};
use crate::close::CloseReason;
use crate::epochs::EpochList;
use crate::in_sync::{CommittedSet, SetEpoch};
use crate::transfer::{LogRange, PeerId, Warning};
use std::collections::BTreeSet;
use wire::ha::switch::{Handshake, HandshakeResponse, SlaveFrame};
use wire::ha::{BrokerId, Epoch, FrameError, FrameHead};
use wire::units::LogOffset;

/// Event of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterEvent {
    /// A connection came in.
    Connected(PeerId, HostId),
    /// Whether acknowledgements of this connection count at a classic master. Without this event they count.
    Counted(PeerId, bool),
    /// A slave introduced itself to an elected master.
    Handshake(PeerId, Handshake),
    /// The newest report of a slave.
    Reported(PeerId, LogOffset),
    /// Bytes from a slave are no valid frame.
    Malformed(PeerId, FrameError),
    /// The connection took the frame it was given last.
    Sent(PeerId),
    /// The connection has ended.
    Closed(PeerId),
    /// The log has grown: all below its end can be read. Also when its minimum has risen.
    Log(LogRange),
    /// A flush that [`MasterAction::Flush`] requested has ended or takes long. The log is on disk up to this
    /// position.
    Flushed(LogOffset),
    /// An answer waits for replicas.
    Wait(PendingResponse),
    /// The controller has committed an in-sync set, in its answer to a proposal or seen by a poll.
    SetCommitted(CommittedSet),
    /// The controller has refused the proposal explicitly.
    SetRefused,
    /// The proposal got no response, or a response that does not tell whether it was committed.
    SetUnknown,
    /// This broker was elected again, with a new epoch.
    Elected(Epoch),
    /// The timer has fired.
    Timer,
    /// The broker stops, or is no longer master.
    Stop,
}

impl MasterEvent {
    /// Returns the event for a slave's frame.
    pub fn received(peer: PeerId, frame: SlaveFrame) -> Self {
        match frame {
            SlaveFrame::Handshake(handshake) => Self::Handshake(peer, handshake),
            SlaveFrame::Report(offset) => Self::Reported(peer, offset),
        }
    }
}

/// Action for the shell of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterAction {
    /// Write the reply to the connection, in one write.
    HandshakeResponse(PeerId, HandshakeResponse),
    /// Write this head and its piece of the log to the connection. Report [`MasterEvent::Sent`] when the connection
    /// took it. A piece without bytes is a heartbeat.
    Send(PeerId, FrameHead),
    /// Close the connection and log the reason. The machine has forgotten it.
    Close(PeerId, CloseReason),
    /// Send the answer with this status of its replicas.
    Answer(Ticket, AckStatus),
    /// Log a warning.
    Warn(PeerId, Warning),
    /// Let consumers see the log up to here.
    Confirm(LogOffset),
    /// Flush the log up to its end, and report [`MasterEvent::Flushed`]. Report nothing after a failed flush.
    Flush,
    /// Ask the controller to replace the set with this epoch (request 1001), and report the result.
    ProposeSet(BTreeSet<BrokerId>, SetEpoch),
    /// Write these epochs to the epoch file.
    SaveEpochs(EpochList),
    /// Send [`MasterEvent::Timer`] at this time.
    WakeAt(u64),
}
