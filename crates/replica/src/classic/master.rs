//! The master's side: `DefaultHAService` and `DefaultHAConnection`.

use crate::acks::{AckConfig, AckStatus, Mode, Need, Replicas, Ticket, Wait, Waits, reached_by};
use crate::close::CloseReason;
use crate::link::Link;
use crate::timer::Timer;
use crate::transfer::{LogRange, PeerId, TransferConfig, Warning, last_file_start};
use std::collections::BTreeMap;
use wire::ha::FrameError;
use wire::units::LogOffset;

/// Id of the machine that a slave's connection comes from. Several slaves may run on a machine.
///
/// A slave that lost its connection reconnects before the master notices. So from a connection's first report on,
/// acknowledgements of older connections from the machine count only after their next report. A Java master counts
/// such a slave twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(pub u128);

/// Settings for serving slaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MasterConfig {
    /// Settings of frames and heartbeats.
    pub transfer: TransferConfig,
    /// Conditions for the response to a send.
    pub acks: AckConfig,
}

/// Event of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterEvent {
    /// A connection came in.
    Connected(PeerId, HostId),
    /// Whether acknowledgements of this connection count. Without this event they count.
    Counted(PeerId, bool),
    /// The newest report of a slave, as `wire::ha::classic` reads it.
    Reported(PeerId, LogOffset),
    /// Bytes from a slave are no valid report.
    Malformed(PeerId, FrameError),
    /// The connection took the frame it was given last.
    Sent(PeerId),
    /// The connection has ended.
    Closed(PeerId),
    /// The log has grown: all below its end can be read. Also when its minimum has risen.
    Log(LogRange),
    /// An answer waits for replicas.
    Wait(Wait),
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
    /// Write a header and this piece of the log to the connection. Report [`MasterEvent::Sent`] when the connection
    /// took it. A piece without bytes is a heartbeat.
    Send {
        /// The connection.
        peer: PeerId,
        /// Start of the piece.
        from: LogOffset,
        /// Size of the piece in bytes.
        bytes: u32,
    },
    /// Close the connection and log the reason. The machine has forgotten it.
    Close(PeerId, CloseReason),
    /// Send the answer with this status of its replicas.
    Answer(Ticket, AckStatus),
    /// Log a warning.
    Warn(PeerId, Warning),
    /// Send [`MasterEvent::Timer`] at this time.
    WakeAt(u64),
}

/// State of a slave for operators (`HARuntimeInfo.HAConnectionRuntimeInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The connection.
    pub peer: PeerId,
    /// Last acknowledged position. `None` before the slave's first report.
    pub acknowledged: Option<LogOffset>,
    /// Next position to send. `None` before the slave's first report.
    pub next: Option<LogOffset>,
    /// Whether the slave counts as in sync.
    pub is_in_sync: bool,
}

#[derive(Clone, Debug)]
struct Peer {
    host: HostId,
    link: Link,
    /// Whether the connection is that of a slave of this group, as far as the shell knows.
    is_counted: bool,
    /// Whether this connection may be dead, because another connection of the same host made its first report since
    /// this connection's last report.
    is_doubtful: bool,
}

/// A classic master with all its slaves.
#[derive(Clone, Debug)]
pub struct Master {
    config: MasterConfig,
    log: LogRange,
    /// Position behind which no slave can have this log: its end when this broker became master, or the end of the
    /// bytes sent since.
    had_max: LogOffset,
    peers: BTreeMap<PeerId, Peer>,
    waits: Waits,
    timer: Timer,
}

impl Master {
    /// Makes a master without slaves. `log` is the readable range of its log.
    #[must_use]
    pub fn new(config: MasterConfig, log: LogRange) -> Self {
        let (peers, waits, timer) = Default::default();
        Self { config, log, had_max: log.end, peers, waits, timer }
    }

    /// Processes an event at `now_ms` and appends the resulting actions. Ignores events of connections that the
    /// machine has closed or never seen.
    pub fn step(&mut self, now_ms: u64, event: MasterEvent, out: &mut Vec<MasterAction>) {
        match event {
            MasterEvent::Connected(peer, host) => {
                let link = Link::new(now_ms);
                self.peers.insert(peer, Peer { host, link, is_counted: true, is_doubtful: false });
            }
            MasterEvent::Counted(peer, is_counted) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.is_counted = is_counted;
                }
                self.answer_reached(out);
            }
            MasterEvent::Reported(peer, reported) => self.report(now_ms, peer, reported, out),
            MasterEvent::Malformed(peer, error) => self.close(peer, error.into(), out),
            MasterEvent::Sent(peer) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.link.written(now_ms);
                }
                self.send(now_ms, peer, out);
            }
            MasterEvent::Closed(peer) => {
                self.peers.remove(&peer);
            }
            MasterEvent::Log(log) => {
                assert!(log.minimum <= log.end, "a log ends behind its minimum");
                self.log = log;
                self.send_all(now_ms, out);
            }
            MasterEvent::Wait(wait) => {
                self.waits.add(wait, now_ms + self.config.acks.slave_timeout_ms);
                self.answer_reached(out);
            }
            MasterEvent::Configured(config) => self.config = config,
            MasterEvent::Timer => {
                self.timer.fired();
                self.expire(now_ms, out);
                self.send_all(now_ms, out);
            }
            MasterEvent::Stop => self.stop(out),
        }
        if let Some(wake_at_ms) = self.timer.arm(self.wake_at_ms()) {
            out.push(MasterAction::WakeAt(wake_at_ms));
        }
    }

    /// Number of replicas in sync, the master included: connections that lag less than `haMaxGapNotInSync`
    /// (`DefaultHAService.inSyncReplicasNums`). Java also counts slaves that have not reported yet, which do not
    /// count here.
    #[must_use]
    pub fn in_sync(&self) -> u32 {
        let in_sync = self.peers().filter(|status| status.is_in_sync).count();
        1 + u32::try_from(in_sync).expect("connections are few")
    }

    /// Returns the replicas that the next message needs. See [`AckConfig::need`]. `alive` is the number of brokers of
    /// this group that the name servers know, or `totalReplicas` before the first answer of a name server.
    ///
    /// # Errors
    /// [`AckStatus::InSyncReplicasNotEnough`] when the message must not be stored.
    pub fn need(&self, alive: u32) -> Result<Need, AckStatus> {
        self.config.acks.need(Replicas { alive, in_sync: self.in_sync() })
    }

    /// Whether the need of the next message depends on the number of brokers in sync ([`Mode::ActingMaster`]).
    #[must_use]
    pub fn counts_in_sync(&self) -> bool {
        self.config.acks.mode == Mode::ActingMaster
    }

    /// Returns the state of the slaves for operators, by connection.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> {
        let gap_max = self.config.acks.max_gap_bytes;
        self.peers.iter().map(move |(peer, it)| PeerStatus {
            peer: *peer,
            acknowledged: it.link.acknowledged(),
            next: it.link.next(),
            is_in_sync: it.is_counted
                && it.link.acknowledged().is_some_and(|ack| self.log.end.since(ack) < gap_max),
        })
    }

    /// Returns the position up to which the log meets a need, or `None` while too few slaves have reported.
    #[must_use]
    pub fn reached(&self, need: Need) -> Option<LogOffset> {
        let acks = self.acks();
        match need {
            Need::Master => Some(self.log.end),
            Need::Acks(need) => reached_by(need, acks),
            Need::All => acks.min(),
        }
    }

    /// Returns the last end of the log that the machine knows.
    #[must_use]
    pub fn log_end(&self) -> LogOffset {
        self.log.end
    }

    /// Returns the acknowledgements of slaves, at most one per slave.
    fn acks(&self) -> impl Iterator<Item = LogOffset> {
        self.peers
            .values()
            .filter(|peer| peer.is_counted && !peer.is_doubtful)
            .filter_map(|peer| peer.link.acknowledged())
    }

    fn report(&mut self, now_ms: u64, id: PeerId, reported: LogOffset, out: &mut Vec<MasterAction>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let end = self.log.end;
        let start_of_empty = last_file_start(end, self.config.transfer.file_bytes);
        let (host, is_first) = (peer.host, peer.link.acknowledged().is_none());
        if let Err(reason) = peer.link.report(now_ms, reported, end, start_of_empty, self.had_max) {
            return self.close(id, reason, out);
        }
        peer.is_doubtful = false;
        if is_first {
            let others = self.peers.iter_mut().filter(|(other, it)| **other != id && it.host == host);
            others.for_each(|(_, it)| it.is_doubtful = true);
        }
        self.answer_reached(out);
        self.send(now_ms, id, out);
    }

    fn answer_reached(&mut self, out: &mut Vec<MasterAction>) {
        let mut waits = std::mem::take(&mut self.waits);
        waits.take_reached(
            |need| self.reached(need),
            |ticket| out.push(MasterAction::Answer(ticket, AckStatus::Ok)),
        );
        self.waits = waits;
    }

    fn send_all(&mut self, now_ms: u64, out: &mut Vec<MasterAction>) {
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        for peer in peers {
            self.send(now_ms, peer, out);
        }
    }

    fn send(&mut self, now_ms: u64, id: PeerId, out: &mut Vec<MasterAction>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        out.extend(peer.link.warning(self.log).map(|warning| MasterAction::Warn(id, warning)));
        if let Some(piece) = peer.link.take(now_ms, &self.config.transfer, self.log, self.log.end) {
            self.had_max = self.had_max.max(piece.from + u64::from(piece.bytes));
            out.push(MasterAction::Send { peer: id, from: piece.from, bytes: piece.bytes });
        }
    }

    fn expire(&mut self, now_ms: u64, out: &mut Vec<MasterAction>) {
        let late = |ticket, _| out.push(MasterAction::Answer(ticket, AckStatus::FlushSlaveTimeout));
        self.waits.take_late(now_ms, late);
        let config = self.config.transfer;
        let is_silent = |(_, peer): &(&PeerId, &Peer)| peer.link.is_silent(now_ms, &config);
        let silent: Vec<PeerId> = self.peers.iter().filter(is_silent).map(|(id, _)| *id).collect();
        let limit_ms = config.housekeeping_interval_ms;
        for peer in silent {
            self.close(peer, CloseReason::Silent { limit_ms }, out);
        }
    }

    fn close(&mut self, peer: PeerId, reason: CloseReason, out: &mut Vec<MasterAction>) {
        if self.peers.remove(&peer).is_some() {
            out.push(MasterAction::Close(peer, reason));
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
        self.peers.values().map(of_peer).chain(self.waits.wake_at_ms()).min()
    }
}
