//! The master's side: `AutoSwitchHAService` and `AutoSwitchHAConnection`.

use crate::acks::{AckConfig, AckStatus, Need, Replicas, Ticket, Wait, Waits, reached_by};
use crate::close::CloseReason;
use crate::epochs::EpochList;
use crate::in_sync::{Ack, CommittedSet, InSync, InSyncConfig, LogState, SetEpoch};
use crate::link::Link;
use crate::timer::Timer;
use crate::transfer::{LogRange, PeerId, TransferConfig, Warning, last_file_start};
use std::collections::{BTreeMap, BTreeSet};
use wire::ha::switch::{EPOCH_ENTRIES_MAX, Handshake, HandshakeReply, TransferHeader};
use wire::ha::{BrokerId, Epoch, FrameError};
use wire::units::LogOffset;

/// Settings for serving slaves of an elected master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MasterConfig {
    /// Settings of frames and heartbeats.
    pub transfer: TransferConfig,
    /// Conditions for the response to a send.
    pub acks: AckConfig,
    /// When members come and go.
    pub in_sync: InSyncConfig,
}

/// State of a broker that becomes master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterStart {
    /// Id of this broker at the controller.
    pub own: BrokerId,
    /// The in-sync set that the controller committed with the election.
    pub committed: CommittedSet,
    /// The epochs of the log; the master's own epoch has begun ([`EpochList::begin`]).
    pub epochs: EpochList,
    /// Readable range of the log.
    pub log: LogRange,
    /// Confirm offset of the log.
    pub confirm: LogOffset,
}

/// Event of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterEvent {
    /// A connection came in.
    Connected(PeerId),
    /// A slave introduced itself.
    Handshake(PeerId, Handshake),
    /// A slave reported the end of its log.
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
    Wait(Wait),
    /// The controller has committed an in-sync set, in its answer to a proposal or seen by a poll.
    SetCommitted(CommittedSet),
    /// The controller has refused the proposal explicitly.
    SetRefused,
    /// The proposal got no response, or a response that does not tell whether it was committed.
    SetUnknown,
    /// This broker was elected again, with a new epoch.
    Elected(Epoch),
    /// The operator changed the configuration.
    Configured(MasterConfig),
    /// The timer has fired.
    Timer,
    /// The broker stops, or is no longer master.
    Stop,
}

/// Action for the shell of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterAction {
    /// Write the reply to the connection, in one write.
    Reply(PeerId, HandshakeReply),
    /// Write this header and the piece of the log that it names. Report [`MasterEvent::Sent`] when the connection
    /// took it.
    Send(PeerId, TransferHeader),
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

/// State of a slave for operators (`HARuntimeInfo.HAConnectionRuntimeInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The connection.
    pub peer: PeerId,
    /// The slave; `None` before its handshake.
    pub broker: Option<BrokerId>,
    /// Last acknowledged position. `None` before the slave's first report.
    pub acknowledged: Option<LogOffset>,
    /// Next position to send. `None` before the slave's first report.
    pub next: Option<LogOffset>,
    /// Whether the slave is in the committed set.
    pub is_in_sync: bool,
}

#[derive(Clone, Debug)]
struct Peer {
    handshake: Option<Handshake>,
    link: Link,
    /// End of the log when bytes were sent last, and when that was (`updateLastTransferInfo`).
    last_end: LogOffset,
    last_sent_ms: u64,
}

impl Peer {
    fn is(&self, broker: BrokerId) -> bool {
        self.handshake.is_some_and(|handshake| handshake.broker_id == broker)
    }

    fn is_one_of(&self, members: &BTreeSet<BrokerId>) -> bool {
        self.handshake.is_some_and(|handshake| members.contains(&handshake.broker_id))
    }
}

/// An elected master with all its slaves.
#[derive(Clone, Debug)]
pub struct Master {
    config: MasterConfig,
    own: BrokerId,
    epochs: EpochList,
    log: LogRange,
    peers: BTreeMap<PeerId, Peer>,
    in_sync: InSync,
    /// End of the log that may be reported as stored to senders.
    answered: LogOffset,
    waits: Waits,
    timer: Timer,
}

impl Master {
    /// The machine of a broker that became master at `now_ms`.
    #[must_use]
    pub fn new(now_ms: u64, config: MasterConfig, start: MasterStart) -> Self {
        assert!(start.confirm <= start.log.end, "what is confirmed is in the log");
        assert!(start.epochs.last().is_some(), "a master has begun its epoch");
        Self {
            config,
            own: start.own,
            epochs: start.epochs,
            log: start.log,
            peers: BTreeMap::new(),
            in_sync: InSync::new(now_ms, start.own, config.in_sync, start.committed, start.confirm),
            // The former masters may have acknowledged everything in the log.
            answered: start.log.end,
            waits: Waits::default(),
            timer: Timer::default(),
        }
    }

    /// Processes an event at `now_ms` and appends the resulting actions. Ignores events of connections that the
    /// machine has closed or never seen.
    pub fn step(&mut self, now_ms: u64, event: MasterEvent, out: &mut Vec<MasterAction>) {
        match event {
            MasterEvent::Connected(peer) => {
                let link = Link::new(now_ms);
                let connected = Peer { handshake: None, link, last_end: LogOffset::ZERO, last_sent_ms: 0 };
                self.peers.insert(peer, connected);
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
            MasterEvent::Flushed(end) => self.in_sync.flushed(end),
            MasterEvent::Wait(wait) => self.waits.add(wait, now_ms + self.config.acks.slave_timeout_ms),
            MasterEvent::SetCommitted(committed) => self.in_sync.commit(now_ms, committed),
            MasterEvent::SetRefused => self.in_sync.refuse(now_ms),
            MasterEvent::SetUnknown => self.in_sync.lose(now_ms),
            MasterEvent::Elected(epoch) => {
                self.epochs.begin(epoch, self.log.end).expect("the controller's epochs grow");
                out.push(MasterAction::SaveEpochs(self.epochs.clone()));
            }
            MasterEvent::Configured(config) => self.config = config,
            MasterEvent::Timer => {
                self.timer.fired();
                self.expire(now_ms, out);
                self.send_all(now_ms, out);
            }
            MasterEvent::Stop => self.stop(out),
        }
        self.conclude(now_ms, out);
    }

    /// Updates everything that an event may have changed: the confirm offset, waiting responses, members of the set,
    /// and the next timer.
    fn conclude(&mut self, now_ms: u64, out: &mut Vec<MasterAction>) {
        let end = self.log.end;
        let reached = if self.config.acks.is_all_ack { self.in_sync.reached(end) } else { Some(end) };
        if reached.is_some_and(|reached| self.in_sync.raise_confirm(reached)) {
            out.push(MasterAction::Confirm(self.in_sync.confirm()));
        }
        self.answer_reached(out);
        let reached = self.need().ok().and_then(|need| self.reached(need));
        self.answered = self.answered.max(reached.unwrap_or(LogOffset::ZERO));
        let epoch_start = self.epochs.last().map_or(LogOffset::ZERO, |last| last.start);
        if let Some(wanted) = self.in_sync.propose(now_ms, LogState { end, epoch_start }) {
            out.push(MasterAction::ProposeSet(wanted, self.in_sync.committed().epoch));
        }
        if self.in_sync.asks_flush() {
            out.push(MasterAction::Flush);
        }
        if let Some(wake_at_ms) = self.timer.arm(self.wake_at_ms()) {
            out.push(MasterAction::WakeAt(wake_at_ms));
        }
    }

    /// Returns the replicas that the next message needs. See [`AckConfig::need`].
    ///
    /// # Errors
    /// [`AckStatus::InSyncReplicasNotEnough`] when the message must not be stored.
    pub fn need(&self) -> Result<Need, AckStatus> {
        let in_sync = u32::try_from(self.in_sync.size()).expect("brokers are few");
        self.config.acks.need(Replicas { alive: in_sync, in_sync })
    }

    /// The in-sync set as the controller has committed it.
    #[must_use]
    pub fn committed(&self) -> &CommittedSet {
        self.in_sync.committed()
    }

    /// Members of the in-sync sets that are proposed and may still be committed.
    #[must_use]
    pub fn proposed(&self) -> &BTreeSet<BrokerId> {
        self.in_sync.proposed()
    }

    /// The epochs of the log.
    #[must_use]
    pub fn epochs(&self) -> &EpochList {
        &self.epochs
    }

    /// Returns the state of the slaves for operators, by connection.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> {
        self.peers.iter().map(|(peer, it)| {
            let broker = it.handshake.map(|handshake| handshake.broker_id);
            PeerStatus {
                peer: *peer,
                broker,
                acknowledged: it.link.acknowledged(),
                next: it.link.next(),
                is_in_sync: broker.is_some_and(|broker| self.committed().members.contains(&broker)),
            }
        })
    }

    /// Answers a handshake. A Java slave repeats its handshake if the reply is late, so handshakes before the first
    /// report get a single reply. A second reply would make the slave close the connection.
    fn greet(&mut self, now_ms: u64, id: PeerId, handshake: Handshake, out: &mut Vec<MasterAction>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.link.read(now_ms);
        if peer.link.next().is_some() || handshake.broker_id == self.own {
            let reason = CloseReason::OutOfOrder { expected: "a report", found: "a handshake" };
            return self.close(id, reason, out);
        }
        if peer.handshake.is_some() {
            return;
        }
        let broker = handshake.broker_id;
        let former: Vec<PeerId> =
            self.peers.iter().filter(|(_, it)| it.is(broker)).map(|(peer, _)| *peer).collect();
        for peer in former {
            self.close(peer, CloseReason::ConnectedAgain { broker }, out);
        }
        self.peers.get_mut(&id).expect("it is not a former one").handshake = Some(handshake);
        self.in_sync.connect(now_ms, broker, handshake.is_learner);
        let entries = self.epochs.entries();
        let epochs = entries[entries.len().saturating_sub(EPOCH_ENTRIES_MAX)..].to_vec();
        out.push(MasterAction::Reply(id, HandshakeReply { end: self.log.end, epochs }));
    }

    fn report(&mut self, now_ms: u64, id: PeerId, reported: LogOffset, out: &mut Vec<MasterAction>) {
        let log = self.log;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(handshake) = peer.handshake else {
            let reason = CloseReason::OutOfOrder { expected: "a handshake", found: "a report" };
            return self.close(id, reason, out);
        };
        let start_of_empty = match handshake.is_from_last_file {
            true => last_file_start(log.end, self.config.transfer.file_bytes).max(log.minimum),
            false => log.minimum,
        };
        if let Err(reason) = peer.link.report(now_ms, reported, log.end, start_of_empty, log.end) {
            return self.close(id, reason, out);
        }
        let caught_up_ms = match reported {
            reported if reported == log.end => Some(now_ms),
            reported if reported >= peer.last_end => Some(peer.last_sent_ms),
            _ => None,
        };
        self.in_sync.acknowledge(handshake.broker_id, Ack { offset: reported, caught_up_ms });
        self.send(now_ms, id, out);
    }

    fn grow(&mut self, now_ms: u64, log: LogRange, out: &mut Vec<MasterAction>) {
        assert!(log.minimum <= log.end && log.end >= self.log.end, "the log of a master only grows");
        if log.end > self.log.end {
            self.in_sync.grow(now_ms, self.log.end);
        }
        let has_deleted = log.minimum > self.log.minimum;
        self.log = log;
        let entries = self.epochs.entries().len();
        if has_deleted {
            self.epochs.drop_below(log.minimum);
        }
        if self.epochs.entries().len() < entries {
            out.push(MasterAction::SaveEpochs(self.epochs.clone()));
        }
        self.send_all(now_ms, out);
    }

    fn answer_reached(&mut self, out: &mut Vec<MasterAction>) {
        let mut waits = std::mem::take(&mut self.waits);
        waits.take_reached(
            |need| self.reached(need),
            |ticket| out.push(MasterAction::Answer(ticket, AckStatus::Ok)),
        );
        self.waits = waits;
    }

    /// Returns the position up to which the log meets a need, or `None` if too few replicas are known.
    #[must_use]
    pub fn reached(&self, need: Need) -> Option<LogOffset> {
        let end = self.log.end;
        // A slave outside the set is never elected, so what only such slaves have is lost with the master.
        let members = self.peers.values().filter(|peer| peer.is_one_of(&self.committed().members));
        match need {
            Need::Master => Some(end),
            Need::Acks(need) => {
                let reached = reached_by(need, members.filter_map(|peer| peer.link.acknowledged()));
                reached.map(|reached| reached.min(self.in_sync.own_end(end)))
            }
            Need::All => self.in_sync.reached(end),
        }
    }

    /// Returns the last end of the log that the machine knows.
    #[must_use]
    pub fn log_end(&self) -> LogOffset {
        self.log.end
    }

    /// Returns the slaves that may become master without loss: connected members of the in-sync set that have all
    /// messages reported as stored to senders. The slave with the longest log comes first, as in an election.
    #[must_use]
    pub fn heirs(&self) -> Vec<BrokerId> {
        let members = self.peers().filter(|status| status.is_in_sync);
        let ends = members.filter_map(|status| Some((status.acknowledged?, status.broker?)));
        let mut heirs: Vec<_> = ends.filter(|(end, _)| *end >= self.answered).collect();
        heirs.sort_by_key(|(end, broker)| (std::cmp::Reverse(*end), *broker));
        heirs.into_iter().map(|(_, broker)| broker).collect()
    }

    /// Returns the confirm offset: consumers see only the log before it.
    #[must_use]
    pub fn confirm(&self) -> LogOffset {
        self.in_sync.confirm()
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
        let Some(epoch) = self.epochs.at(wanted) else { return };
        out.extend(peer.link.warning(self.log).map(|warning| MasterAction::Warn(id, warning)));
        let until = self.epochs.end_at(wanted).unwrap_or(self.log.end).min(self.log.end);
        if let Some(piece) = peer.link.take(now_ms, &self.config.transfer, self.log, until) {
            if piece.bytes > 0 {
                (peer.last_end, peer.last_sent_ms) = (self.log.end, now_ms);
            }
            let confirm = self.in_sync.confirm();
            let header = TransferHeader { offset: piece.from, body_bytes: piece.bytes, epoch, confirm };
            out.push(MasterAction::Send(id, header));
        }
    }

    fn expire(&mut self, now_ms: u64, out: &mut Vec<MasterAction>) {
        let mut late_end = None;
        self.waits.take_late(now_ms, |ticket, end| {
            late_end = late_end.max(Some(end));
            out.push(MasterAction::Answer(ticket, AckStatus::FlushSlaveTimeout));
        });
        if let Some(end) = late_end {
            self.in_sync.blame(end);
        }
        let config = self.config.transfer;
        let is_silent = |(_, peer): &(&PeerId, &Peer)| peer.link.is_silent(now_ms, &config);
        let silent: Vec<PeerId> = self.peers.iter().filter(is_silent).map(|(id, _)| *id).collect();
        let limit_ms = config.housekeeping_interval_ms;
        for peer in silent {
            self.close(peer, CloseReason::Silent { limit_ms }, out);
        }
    }

    fn close(&mut self, peer: PeerId, reason: CloseReason, out: &mut Vec<MasterAction>) {
        if self.peers.contains_key(&peer) {
            self.forget(peer);
            out.push(MasterAction::Close(peer, reason));
        }
    }

    fn forget(&mut self, peer: PeerId) {
        if let Some(handshake) = self.peers.remove(&peer).and_then(|peer| peer.handshake) {
            self.in_sync.disconnect(handshake.broker_id);
        }
    }

    /// Stops the machine. Waiting senders learn that the message is stored, not that it is replicated.
    fn stop(&mut self, out: &mut Vec<MasterAction>) {
        self.waits.take_late(u64::MAX, |ticket, _| {
            out.push(MasterAction::Answer(ticket, AckStatus::FlushSlaveTimeout));
        });
        while let Some((peer, _)) = self.peers.pop_first() {
            out.push(MasterAction::Close(peer, CloseReason::Stopped));
        }
    }

    fn wake_at_ms(&self) -> Option<u64> {
        let of_peer = |peer: &Peer| peer.link.wake_at_ms(&self.config.transfer, self.log);
        let peers = self.peers.values().map(of_peer);
        peers.chain(self.waits.wake_at_ms()).chain(self.in_sync.wake_at_ms(self.log.end)).min()
    }
}
