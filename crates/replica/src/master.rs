//! Master of either protocol with all its slaves. A classic master was chosen by the operator (`DefaultHAService`,
//! `DefaultHAConnection`). An elected master has an epoch and an in-sync set ([`ElectionState`]).

mod elected;
mod events;

pub use elected::{ElectionState, MasterStart};
pub use events::{MasterAction, MasterEvent};

use crate::acks::{AckConfig, AckRequirement, AckStatus, Mode, PendingResponses, Replicas, reached_by};
use crate::close::CloseReason;
use crate::in_sync::InSyncConfig;
use crate::link::SlaveLink;
use crate::timer::Timer;
use crate::transfer::{LogRange, PeerId, TransferConfig, last_file_start};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::ha::classic::Header;
use wire::ha::switch::Handshake;
use wire::ha::{BrokerId, FrameHead, Protocol};
use wire::units::LogOffset;

/// Id of the host that a slave's connection comes from. Several slaves may run on a host.
///
/// A slave that lost its connection reconnects before the master notices. So from a connection's
/// first report on, acknowledgements of older connections from the host count only after their next
/// report. A Java master counts such a slave twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(pub u128);

impl From<IpAddr> for HostId {
    fn from(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        })
    }
}

/// Settings for serving slaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MasterConfig {
    /// Settings of frames and heartbeats.
    pub transfer: TransferConfig,
    /// Conditions for the response to a send.
    pub acks: AckConfig,
    /// Conditions for members of the in-sync set of an elected master.
    pub in_sync: InSyncConfig,
}

/// State of a slave for operators (`HARuntimeInfo.HAConnectionRuntimeInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The connection.
    pub peer: PeerId,
    /// The slave of an elected master. `None` before its handshake.
    pub broker: Option<BrokerId>,
    /// Last acknowledged position. `None` before the slave's first report.
    pub acknowledged: Option<LogOffset>,
    /// Next position to send. `None` before the slave's first report.
    pub next: Option<LogOffset>,
    /// Whether the slave counts as in sync.
    pub is_in_sync: bool,
}

#[derive(Clone, Debug)]
struct Peer {
    link: SlaveLink,
    host: HostId,
    /// Whether the connection is that of a slave of this group, as far as the shell knows.
    is_counted: bool,
    /// Whether this connection may be dead, because another connection of the same host made its first report since
    /// this connection's last report.
    is_doubtful: bool,
    handshake: Option<Handshake>,
    /// End of the log when bytes were sent last (`updateLastTransferInfo`).
    last_end: LogOffset,
    /// Time at which bytes were sent last.
    last_sent_ms: u64,
}

impl Peer {
    fn broker(&self) -> Option<BrokerId> {
        self.handshake.map(|handshake| handshake.broker_id)
    }
}

/// A master with all its slaves.
#[derive(Clone, Debug)]
pub struct Master {
    config: MasterConfig,
    log: LogRange,
    /// Position behind which no slave of a classic master can have this log: its end when this broker became master,
    /// or the end of the bytes sent since.
    had_max: LogOffset,
    peers: BTreeMap<PeerId, Peer>,
    waits: PendingResponses,
    timer: Timer,
    elected: Option<Box<ElectionState>>,
}

impl Master {
    /// Makes a classic master without slaves. `log` is the readable range of its log.
    pub fn classic(config: MasterConfig, log: LogRange) -> Self {
        let (peers, waits, timer, elected) = Default::default();
        Self { config, log, had_max: log.end, peers, waits, timer, elected }
    }

    /// Makes the master of a broker that was elected at `now_ms`.
    pub fn elected(now_ms: u64, config: MasterConfig, start: MasterStart) -> Self {
        let log = start.log;
        let elected = Some(Box::new(ElectionState::new(now_ms, config.in_sync, start)));
        Self { elected, ..Self::classic(config, log) }
    }

    /// Protocol of the connections.
    pub fn protocol(&self) -> Protocol {
        if self.elected.is_some() { Protocol::Switch } else { Protocol::Classic }
    }

    /// Processes an event at `now_ms` and appends the resulting actions. Ignores events of connections that the
    /// machine has closed or never seen, and decisions of controllers about a classic master.
    pub fn step(&mut self, now_ms: u64, event: MasterEvent, out: &mut Vec<MasterAction>) {
        match event {
            MasterEvent::Connected(peer, host) => self.connect(now_ms, peer, host),
            MasterEvent::Counted(peer, is_counted) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.is_counted = is_counted;
                }
            }
            MasterEvent::Handshake(peer, handshake) => self.greet(now_ms, peer, handshake, out),
            MasterEvent::Reported(peer, reported) => self.report(now_ms, peer, reported, out),
            MasterEvent::Malformed(peer, error) => self.close(peer, error.into(), out),
            MasterEvent::Sent(peer) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.link.written(now_ms);
                }
                self.send(now_ms, peer, out);
            }
            MasterEvent::Closed(peer) => self.forget(peer),
            MasterEvent::Log(log) => self.grow(now_ms, log, out),
            MasterEvent::Wait(wait) => self.waits.add(wait, now_ms + self.config.acks.slave_timeout_ms),
            MasterEvent::Timer => {
                self.timer.fired();
                self.expire(now_ms, out);
                self.send_all(now_ms, out);
            }
            MasterEvent::Stop => self.stop(out),
            event => {
                if let Some(elected) = &mut self.elected {
                    elected.decide(now_ms, event, self.log.end, out);
                }
            }
        }
        self.conclude(now_ms, out);
    }

    /// Updates everything that an event may have changed: the confirm offset, waiting responses, members of the set,
    /// and the next timer.
    fn conclude(&mut self, now_ms: u64, out: &mut Vec<MasterAction>) {
        let (end, acks) = (self.log.end, self.config.acks);
        if let Some(elected) = &mut self.elected {
            elected.confirm_to(end, acks.is_all_ack, out);
        }
        let mut waits = std::mem::take(&mut self.waits);
        waits.take_reached(
            |need| self.reached(need),
            |ticket| out.push(MasterAction::Answer(ticket, AckStatus::Ok)),
        );
        self.waits = waits;
        self.note_answered();
        if let Some(elected) = &mut self.elected {
            elected.propose(now_ms, end, out);
        }
        if let Some(wake_at_ms) = self.timer.arm(self.wake_at_ms()) {
            out.push(MasterAction::WakeAt(wake_at_ms));
        }
    }

    /// Records the end of the messages whose senders may get their answers now.
    fn note_answered(&mut self) {
        let need = self.elected.as_ref().and_then(|_| self.need(0)?.ok());
        let answered = need.and_then(|need| self.reached(need));
        if let (Some(elected), Some(answered)) = (&mut self.elected, answered) {
            elected.answered = elected.answered.max(answered);
        }
    }

    /// Number of replicas in sync, the master included. For an elected master these are the members of the in-sync
    /// set, for a classic master connections that lag less than `haMaxGapNotInSync`
    /// (`DefaultHAService.inSyncReplicasNums`). Java also counts slaves that have not reported yet, which do not
    /// count here.
    pub fn in_sync(&self) -> u32 {
        let in_sync = match &self.elected {
            Some(elected) => elected.in_sync.size(),
            None => 1 + self.peers().filter(|status| status.is_in_sync).count(),
        };
        u32::try_from(in_sync).expect("brokers and connections are few")
    }

    /// Returns the replicas that the next message needs ([`AckConfig::need`]), for an elected master and for a master
    /// in a group with acting masters. `None` for other masters, for which the configuration decides. `alive` is the
    /// number of brokers of the group that the name servers know, or `totalReplicas` before the first answer of a
    /// name server. While an heir may be elected, a message needs the heir's copy at least.
    ///
    /// # Errors
    /// [`AckStatus::InSyncReplicasNotEnough`] when the message must not be stored.
    pub fn need(&self, alive: u32) -> Option<Result<AckRequirement, AckStatus>> {
        let acks = &self.config.acks;
        let counts_in_sync = self.elected.is_some() || acks.mode == Mode::ActingMaster;
        let may_lose_role =
            self.elected.as_ref().is_some_and(|elected| elected.in_sync.may_elect(&elected.heirs));
        counts_in_sync.then(|| match acks.need(Replicas { alive, in_sync: self.in_sync() }) {
            Ok(AckRequirement::Master) if may_lose_role => Ok(AckRequirement::Acks(2)),
            need => need,
        })
    }

    /// State of an election and its in-sync set. `None` for a classic master.
    pub fn election(&self) -> Option<&ElectionState> {
        self.elected.as_deref()
    }

    /// Returns the state of the slaves for operators, by connection.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> {
        self.peers.iter().map(|(peer, it)| PeerStatus {
            peer: *peer,
            broker: it.broker(),
            acknowledged: it.link.acknowledged(),
            next: it.link.next(),
            is_in_sync: match &self.elected {
                Some(elected) => elected.has_member(it.broker()),
                None => {
                    let is_near = |ack| self.log.end.since(ack) < self.config.acks.max_gap_bytes;
                    it.is_counted && it.link.acknowledged().is_some_and(is_near)
                }
            },
        })
    }

    /// Returns the connection of the slave with this id to an elected master.
    pub fn peer_of(&self, broker: BrokerId) -> Option<PeerId> {
        self.peers.iter().find(|(_, it)| it.broker() == Some(broker)).map(|(peer, _)| *peer)
    }

    /// Returns the last position that a slave acknowledged on this connection.
    pub fn acknowledged(&self, peer: PeerId) -> Option<LogOffset> {
        self.peers.get(&peer)?.link.acknowledged()
    }

    /// Returns the slaves of an elected master that may become master without loss: connected members of the in-sync
    /// set that have all messages reported as stored to senders, with the ends of their logs. The slave with the
    /// longest log comes first, as in an election.
    pub fn heirs(&self) -> Vec<(BrokerId, LogOffset)> {
        let Some(elected) = &self.elected else { return Vec::new() };
        let members = self.peers().filter(|status| status.is_in_sync);
        let ends = members.filter_map(|status| Some((status.acknowledged?, status.broker?)));
        let mut heirs: Vec<_> = ends.filter(|(end, _)| *end >= elected.answered).collect();
        heirs.sort_by_key(|(end, broker)| (std::cmp::Reverse(*end), *broker));
        heirs.into_iter().map(|(end, broker)| (broker, end)).collect()
    }

    /// Makes sends also wait for these members, which the controllers may elect at the request of this master
    /// ([`Agent::heirs`](crate::agent::Agent::heirs)). The shell calls this before a message may be acknowledged
    /// that came after the choice among [`Self::heirs`].
    pub fn wait_for_heirs(&mut self, heirs: &BTreeSet<BrokerId>) {
        if let Some(elected) = self.elected.as_mut().filter(|elected| elected.heirs != *heirs) {
            elected.heirs.clone_from(heirs);
            self.note_answered();
        }
    }

    /// Returns the position up to which the log meets a need, or `None` if too few replicas are known.
    pub fn reached(&self, need: AckRequirement) -> Option<LogOffset> {
        let end = self.log.end;
        // A slave outside the in-sync set is never elected, so what only such slaves have is lost with the master.
        let counted = self.peers.values().filter(|peer| match &self.elected {
            Some(elected) => elected.has_member(peer.broker()),
            None => peer.is_counted && !peer.is_doubtful,
        });
        let acks = counted.filter_map(|peer| peer.link.acknowledged());
        match (need, &self.elected) {
            (AckRequirement::Master, _) => Some(end),
            (AckRequirement::Acks(need), None) => reached_by(need, acks),
            (AckRequirement::Acks(need), Some(elected)) => {
                let reached = reached_by(need, acks)?.min(elected.in_sync.own_end(end));
                elected.in_sync.reached_by_heirs(reached, &elected.heirs)
            }
            (AckRequirement::All, None) => acks.min(),
            (AckRequirement::All, Some(elected)) => elected.in_sync.reached(end),
        }
    }

    /// Returns the last end of the log that the machine knows.
    pub fn log_end(&self) -> LogOffset {
        self.log.end
    }

    fn connect(&mut self, now_ms: u64, peer: PeerId, host: HostId) {
        let connected = Peer {
            link: SlaveLink::new(now_ms),
            host,
            is_counted: true,
            is_doubtful: false,
            handshake: None,
            last_end: LogOffset::ZERO,
            last_sent_ms: 0,
        };
        self.peers.insert(peer, connected);
    }

    /// Answers a handshake. A Java slave repeats its handshake if the reply is late, so handshakes before the first
    /// report get a single reply. A second reply would make the slave close the connection.
    fn greet(&mut self, now_ms: u64, id: PeerId, handshake: Handshake, out: &mut Vec<MasterAction>) {
        let (Some(peer), Some(elected)) = (self.peers.get_mut(&id), &self.elected) else { return };
        peer.link.read(now_ms);
        let broker = handshake.broker_id;
        if peer.link.next().is_some() || broker == elected.own {
            let reason = CloseReason::OutOfOrder { expected: "a report", found: "a handshake" };
            return self.close(id, reason, out);
        }
        if peer.handshake.is_some() {
            return;
        }
        while let Some(former) = self.peer_of(broker) {
            self.close(former, CloseReason::ConnectedAgain { broker }, out);
        }
        if let (Some(peer), Some(elected)) = (self.peers.get_mut(&id), &mut self.elected) {
            peer.handshake = Some(handshake);
            let reply = elected.greet(now_ms, handshake, self.log.end);
            out.push(MasterAction::HandshakeResponse(id, reply));
        }
    }

    fn report(&mut self, now_ms: u64, id: PeerId, reported: LogOffset, out: &mut Vec<MasterAction>) {
        let log = self.log;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let last_file = last_file_start(log.end, self.config.transfer.file_bytes);
        let (start_of_empty, had_max) = match (&self.elected, peer.handshake) {
            (None, _) => (last_file, self.had_max),
            (Some(_), Some(handshake)) if handshake.is_from_last_file => {
                (last_file.max(log.minimum), log.end)
            }
            (Some(_), Some(_)) => (log.minimum, log.end),
            (Some(_), None) => {
                let reason = CloseReason::OutOfOrder { expected: "a handshake", found: "a report" };
                return self.close(id, reason, out);
            }
        };
        let (host, is_first) = (peer.host, peer.link.acknowledged().is_none());
        if let Err(reason) = peer.link.report(now_ms, reported, log.end, start_of_empty, had_max) {
            return self.close(id, reason, out);
        }
        peer.is_doubtful = false;
        if let Some(elected) = &mut self.elected {
            elected.acknowledge(now_ms, peer, reported, log.end);
        }
        if is_first {
            let others = self.peers.iter_mut().filter(|(other, it)| **other != id && it.host == host);
            others.for_each(|(_, it)| it.is_doubtful = true);
        }
        self.send(now_ms, id, out);
    }

    fn grow(&mut self, now_ms: u64, log: LogRange, out: &mut Vec<MasterAction>) {
        assert!(log.minimum <= log.end, "a log ends behind its minimum");
        if let Some(elected) = &mut self.elected {
            elected.grow(now_ms, self.log, log, out);
        }
        self.log = log;
        self.send_all(now_ms, out);
    }

    fn send_all(&mut self, now_ms: u64, out: &mut Vec<MasterAction>) {
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        for peer in peers {
            self.send(now_ms, peer, out);
        }
    }

    fn send(&mut self, now_ms: u64, id: PeerId, out: &mut Vec<MasterAction>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(wanted) = peer.link.next() else { return };
        let log = self.log;
        let mut until = log.end;
        if let Some(elected) = &self.elected {
            let Some(epoch_end) = elected.epoch_end(wanted, log.end) else { return };
            until = epoch_end;
        }
        out.extend(peer.link.warning(log).map(|warning| MasterAction::Warn(id, warning)));
        let Some(piece) = peer.link.take(now_ms, &self.config.transfer, log, until) else { return };
        self.had_max = self.had_max.max(piece.from + u64::from(piece.bytes));
        if piece.bytes > 0 {
            (peer.last_end, peer.last_sent_ms) = (log.end, now_ms);
        }
        let header = Header { offset: piece.from, body_bytes: piece.bytes };
        let head = match &self.elected {
            Some(elected) => elected.head(header),
            None => FrameHead::Classic(header),
        };
        out.push(MasterAction::Send(id, head));
    }

    fn expire(&mut self, now_ms: u64, out: &mut Vec<MasterAction>) {
        let late_end = self.give_up(now_ms, out);
        if let (Some(elected), Some(end)) = (&mut self.elected, late_end) {
            elected.in_sync.blame(end);
        }
        let config = self.config.transfer;
        let is_silent = |(_, peer): &(&PeerId, &Peer)| peer.link.is_silent(now_ms, &config);
        let silent: Vec<PeerId> = self.peers.iter().filter(is_silent).map(|(id, _)| *id).collect();
        let limit_ms = config.housekeeping_interval_ms;
        for peer in silent {
            self.close(peer, CloseReason::Silent { limit_ms }, out);
        }
    }

    /// Answers the senders that wait no longer than until `until_ms`, and returns the last end of their records.
    fn give_up(&mut self, until_ms: u64, out: &mut Vec<MasterAction>) -> Option<LogOffset> {
        let mut late_end = None;
        self.waits.take_late(until_ms, |ticket, end| {
            late_end = late_end.max(Some(end));
            out.push(MasterAction::Answer(ticket, AckStatus::FlushSlaveTimeout));
        });
        late_end
    }

    fn close(&mut self, peer: PeerId, reason: CloseReason, out: &mut Vec<MasterAction>) {
        if self.peers.contains_key(&peer) {
            self.forget(peer);
            out.push(MasterAction::Close(peer, reason));
        }
    }

    fn forget(&mut self, peer: PeerId) {
        let broker = self.peers.remove(&peer).and_then(|peer| peer.broker());
        if let (Some(elected), Some(broker)) = (&mut self.elected, broker) {
            elected.in_sync.disconnect(broker);
        }
    }

    /// Stops the machine. Waiting senders learn that the message is stored, not that it is replicated.
    fn stop(&mut self, out: &mut Vec<MasterAction>) {
        self.give_up(u64::MAX, out);
        while let Some((peer, _)) = self.peers.pop_first() {
            out.push(MasterAction::Close(peer, CloseReason::Stopped));
        }
    }

    fn wake_at_ms(&self) -> Option<u64> {
        let of_peer = |peer: &Peer| peer.link.wake_at_ms(&self.config.transfer, self.log);
        let of_set = self.elected.as_ref().and_then(|elected| elected.in_sync.wake_at_ms(self.log.end));
        self.peers.values().map(of_peer).chain(self.waits.wake_at_ms()).chain(of_set).min()
    }
}
