//! State machine of a master of either kind for the thread `ha-master`: a classic master, or a master that the
//! controllers elected. The kinds differ in their frames, and in the conditions for sends.

use std::collections::BTreeSet;
use std::net::IpAddr;

use replica::acks::{AckStatus, Need, Ticket, Wait};
use replica::classic::{self, HostId};
use replica::close::CloseReason;
use replica::epochs::EpochList;
use replica::in_sync::{CommittedSet, SetEpoch};
use replica::switch;
use replica::transfer::{LogRange, PeerId, Warning};
use wire::ha::BrokerId;
use wire::ha::classic::{Header, decode_reports};
use wire::ha::switch::{Handshake, SlaveFrame, TransferHeader};
use wire::ha::{Epoch, FrameError};
use wire::units::LogOffset;

/// Report or handshake of a slave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Handshake(Handshake),
    Reported(LogOffset),
}

/// Which frames slaves send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Classic,
    Switch,
}

impl Protocol {
    /// Decodes the next frame of the received bytes. Returns the frame and its size, or `None` if it is not complete.
    pub(super) fn decode(self, received: &[u8]) -> Result<Option<(Received, usize)>, FrameError> {
        match self {
            Self::Classic => {
                Ok(decode_reports(received)?.map(|(offset, used)| (Received::Reported(offset), used)))
            }
            Self::Switch => Ok(SlaveFrame::decode(received)?.map(|(frame, used)| match frame {
                SlaveFrame::Handshake(handshake) => (Received::Handshake(handshake), used),
                SlaveFrame::Report(offset) => (Received::Reported(offset), used),
            })),
        }
    }
}

/// Decision of the controllers about an elected master.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    Committed(CommittedSet),
    Refused,
    Unknown,
    /// Elected again, with another epoch.
    Again(Epoch),
}

/// An event that the shell reports to the machine.
#[derive(Debug)]
pub(super) enum Event {
    Connected(PeerId, IpAddr),
    /// Whether the acknowledgements of a connection count. An elected master counts members of the in-sync set alone.
    Counted(PeerId, bool),
    Received(PeerId, Received),
    Malformed(PeerId, FrameError),
    Sent(PeerId),
    Closed(PeerId),
    Log(LogRange),
    /// A requested flush has ended or takes long. The log is on disk up to this position.
    Flushed(LogOffset),
    Decided(Decided),
    /// A send waits until enough slaves have the log up to this position. A late slave leaves the in-sync set.
    Wait(Wait),
    Timer,
    Stop,
}

/// A header of either protocol, in front of a piece of the log.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head {
    Classic(Header),
    Switch(TransferHeader),
}

impl Head {
    pub(super) fn append_to(self, out: &mut Vec<u8>) {
        match self {
            Self::Classic(header) => out.extend_from_slice(&header.encode()),
            Self::Switch(header) => out.extend_from_slice(&header.encode()),
        }
    }

    /// Returns the start and the size of the piece of the log.
    pub(super) fn piece(self) -> (LogOffset, usize) {
        match self {
            Self::Classic(header) => (header.offset, header.body_bytes as usize),
            Self::Switch(header) => (header.offset, header.body_bytes as usize),
        }
    }
}

/// An action that the machine wants the shell to perform.
#[derive(Debug)]
pub(super) enum Action {
    Send(PeerId, Head),
    /// Write these bytes, in one piece.
    Reply(PeerId, Vec<u8>),
    Close(PeerId, CloseReason),
    Warn(PeerId, Warning),
    Confirm(LogOffset),
    Flush,
    ProposeSet(BTreeSet<wire::ha::BrokerId>, SetEpoch),
    SaveEpochs(EpochList),
    /// The wait with this ticket is over.
    Answer(Ticket),
    WakeAt(u64),
}

/// A master of either kind.
pub(in crate::replication) enum Machine {
    Classic(classic::Master),
    Elected(Box<switch::Master>),
}

impl Machine {
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Classic(_) => Protocol::Classic,
            Self::Elected(_) => Protocol::Switch,
        }
    }

    /// Events that a master of this kind cannot have are ignored.
    pub(super) fn step(&mut self, now_ms: u64, event: Event, out: &mut Vec<Action>) {
        match self {
            Self::Classic(master) => {
                let mut actions = Vec::new();
                if let Some(event) = of_classic(event) {
                    master.step(now_ms, event, &mut actions);
                }
                out.extend(actions.into_iter().map(from_classic));
            }
            Self::Elected(master) => {
                let mut actions = Vec::new();
                if let Some(event) = of_elected(event) {
                    master.step(now_ms, event, &mut actions);
                }
                out.extend(actions.into_iter().map(from_elected));
            }
        }
    }

    /// Returns the last end of the log that the machine knows.
    pub(super) fn log_end(&self) -> LogOffset {
        match self {
            Self::Classic(master) => master.log_end(),
            Self::Elected(master) => master.log_end(),
        }
    }

    /// Returns the position up to which the log meets a need, or `None` if it is unknown.
    pub(super) fn reached(&self, need: Need) -> Option<LogOffset> {
        match self {
            Self::Classic(master) => master.reached(need),
            Self::Elected(master) => master.reached(need),
        }
    }

    /// Returns the last position that a slave acknowledged on this connection.
    pub(super) fn acknowledged(&self, peer: PeerId) -> Option<LogOffset> {
        match self {
            Self::Classic(master) => master.peers().find(|status| status.peer == peer)?.acknowledged,
            Self::Elected(master) => master.peers().find(|status| status.peer == peer)?.acknowledged,
        }
    }

    /// Returns the replicas that the next message needs, for an elected master and for a master in a group with
    /// acting masters. `None` for other masters, for which the configuration decides. `alive` is the number of
    /// brokers of the group that name servers know.
    ///
    /// # Errors
    /// [`AckStatus::InSyncReplicasNotEnough`] when the message must not be stored.
    pub(in crate::replication) fn need(&self, alive: u32) -> Option<Result<Need, AckStatus>> {
        match self {
            Self::Classic(master) => master.counts_in_sync().then(|| master.need(alive)),
            Self::Elected(master) => Some(master.need()),
        }
    }

    /// The connection of the slave with this id to an elected master.
    pub(super) fn peer_of(&self, broker: BrokerId) -> Option<PeerId> {
        match self {
            Self::Classic(_) => None,
            Self::Elected(master) => {
                master.peers().find(|status| status.broker == Some(broker)).map(|status| status.peer)
            }
        }
    }

    /// The slaves of an elected master that may become master without loss, the best first.
    pub(super) fn heirs(&self) -> Vec<BrokerId> {
        match self {
            Self::Classic(_) => Vec::new(),
            Self::Elected(master) => master.heirs(),
        }
    }

    /// The in-sync set of an elected master, and the members of sets that may be committed.
    pub(super) fn in_sync(&self) -> Option<(&CommittedSet, &BTreeSet<BrokerId>)> {
        match self {
            Self::Classic(_) => None,
            Self::Elected(master) => Some((master.committed(), master.proposed())),
        }
    }
}

fn of_classic(event: Event) -> Option<classic::MasterEvent> {
    use classic::MasterEvent as To;
    Some(match event {
        Event::Connected(peer, host) => To::Connected(peer, host_id(host)),
        Event::Counted(peer, is_counted) => To::Counted(peer, is_counted),
        Event::Received(peer, Received::Reported(offset)) => To::Reported(peer, offset),
        Event::Malformed(peer, error) => To::Malformed(peer, error),
        Event::Sent(peer) => To::Sent(peer),
        Event::Closed(peer) => To::Closed(peer),
        Event::Log(range) => To::Log(range),
        Event::Timer => To::Timer,
        Event::Stop => To::Stop,
        Event::Wait(wait) => To::Wait(wait),
        Event::Received(_, Received::Handshake(_)) | Event::Flushed(_) | Event::Decided(_) => return None,
    })
}

fn host_id(host: IpAddr) -> HostId {
    HostId(match host {
        IpAddr::V4(host) => host.to_ipv6_mapped().to_bits(),
        IpAddr::V6(host) => host.to_bits(),
    })
}

fn of_elected(event: Event) -> Option<switch::MasterEvent> {
    use switch::MasterEvent as To;
    Some(match event {
        Event::Connected(peer, _) => To::Connected(peer),
        Event::Received(peer, Received::Handshake(handshake)) => To::Handshake(peer, handshake),
        Event::Received(peer, Received::Reported(offset)) => To::Reported(peer, offset),
        Event::Malformed(peer, error) => To::Malformed(peer, error),
        Event::Sent(peer) => To::Sent(peer),
        Event::Closed(peer) => To::Closed(peer),
        Event::Log(range) => To::Log(range),
        Event::Flushed(end) => To::Flushed(end),
        Event::Timer => To::Timer,
        Event::Stop => To::Stop,
        Event::Wait(wait) => To::Wait(wait),
        Event::Decided(Decided::Committed(set)) => To::SetCommitted(set),
        Event::Decided(Decided::Refused) => To::SetRefused,
        Event::Decided(Decided::Unknown) => To::SetUnknown,
        Event::Decided(Decided::Again(epoch)) => To::Elected(epoch),
        Event::Counted(..) => return None,
    })
}

fn from_classic(action: classic::MasterAction) -> Action {
    use classic::MasterAction as From;
    match action {
        From::Send { peer, from, bytes } => {
            Action::Send(peer, Head::Classic(Header { offset: from, body_bytes: bytes }))
        }
        From::Close(peer, reason) => Action::Close(peer, reason),
        From::Answer(ticket, _) => Action::Answer(ticket),
        From::Warn(peer, warning) => Action::Warn(peer, warning),
        From::WakeAt(at_ms) => Action::WakeAt(at_ms),
    }
}

fn from_elected(action: switch::MasterAction) -> Action {
    use switch::MasterAction as From;
    match action {
        From::Reply(peer, reply) => {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            Action::Reply(peer, bytes)
        }
        From::Send(peer, header) => Action::Send(peer, Head::Switch(header)),
        From::Close(peer, reason) => Action::Close(peer, reason),
        From::Answer(ticket, _) => Action::Answer(ticket),
        From::Warn(peer, warning) => Action::Warn(peer, warning),
        From::Confirm(confirm) => Action::Confirm(confirm),
        From::Flush => Action::Flush,
        From::ProposeSet(members, epoch) => Action::ProposeSet(members, epoch),
        From::SaveEpochs(epochs) => Action::SaveEpochs(epochs),
        From::WakeAt(at_ms) => Action::WakeAt(at_ms),
    }
}
