//! Consensus of the controllers of a group, by the crate `raft`. It orders proposals so that the order survives the
//! loss of a minority. This driver gives the library time, messages and a log in memory, and turns its output into
//! actions. It does not interpret proposals.
//!
//! The library is deterministic here. The election timeout of each controller is fixed by its place in the group, so
//! that two controllers do not stand for election at once. The library uses no randomness.
//!
//! Rules for shells, beside those of the crate:
//! - [`Action::Save`] and [`Action::Replace`] are durable before the next action is performed. After a failure the
//!   controller has to stop.
//! - After a crash, [`Consensus::new`] gets the saved records in their order. A torn record and all records behind it
//!   are left out.
//! - Messages may be lost, doubled and reordered.

mod log;
mod record;

pub use record::{Entry, Record, Snapshot, Vote};

use crate::roster::ProposalId;
use log::Log;
use raft::eraftpb::{ConfState, Message, MessageType};
use raft::{RawNode, SnapshotStatus, StateRole};
use std::collections::BTreeMap;

/// Bytes behind the snapshot from which on the log is replaced by a new snapshot.
const BYTES_MAX: usize = 4 << 20;

/// Most bytes of entries in a message.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// Most unacknowledged messages with entries to a peer.
const IN_FLIGHT_MAX: usize = 64;

/// Ticks between heartbeats of a leader.
const HEARTBEAT_TICKS: usize = 3;

/// Ticks without a leader after which the first controller of the group starts an election.
const ELECTION_TICKS: usize = 15;

/// Ticks by which each further controller waits longer.
const STAGGER_TICKS: usize = 3;

/// Names a controller of a group. Not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// A group, and which of its controllers this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsensusConfig {
    /// Id of this controller.
    pub id: NodeId,
    /// All controllers of the group, this controller included. The order is equal on all controllers.
    pub peers: Vec<NodeId>,
    /// Milliseconds of a tick.
    pub tick_ms: u64,
    /// Entries behind the snapshot from which on the log is replaced by a new snapshot.
    pub entries_max: usize,
}

/// An event that the shell reports to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The controller starts.
    Started,
    /// A message came from a peer.
    Received(NodeId, Vec<u8>),
    /// A peer cannot be reached.
    Unreachable(NodeId),
    /// This controller, as the leader, proposes an entry.
    Propose(ProposalId, Vec<u8>),
    /// The timer has fired.
    Timer,
}

/// An action that the machine wants the shell to perform. Actions are performed in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make these records durable behind the earlier records.
    Save(Vec<Record>),
    /// Make these records durable in place of all earlier records.
    Replace(Vec<Record>),
    /// Send a message to a peer.
    Send(NodeId, Vec<u8>),
    /// Apply the next committed entry. The proposal id is present if this controller made the proposal.
    Apply(Option<ProposalId>, Vec<u8>),
    /// Replace the whole state by the state in a snapshot of the leader.
    Restore(Vec<u8>),
    /// This controller does not lead. The proposal will never be committed.
    Refused(ProposalId),
    /// Whether this controller leads. A new leader has applied everything that was committed before.
    Leads(bool),
    /// Send [`Event::Timer`] at this time.
    WakeAt(u64),
}

/// Reason why consensus cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("consensus cannot start: {0}")]
pub struct ConsensusError(String);

/// Consensus driver of a controller.
pub struct Consensus {
    node: RawNode<Log>,
    config: ConsensusConfig,
    voters: ConfState,
    /// Own proposals that are neither applied nor lost, by the index and term of their entries.
    proposals: BTreeMap<(u64, u64), ProposalId>,
    /// Index and term of the last applied entry.
    applied: (u64, u64),
    leads: bool,
}

impl Consensus {
    /// Makes the driver of a controller from its saved records. [`Consensus::state`] is the initial state.
    ///
    /// # Errors
    /// [`ConsensusError`] when the group does not hold the controller.
    pub fn new(
        config: ConsensusConfig,
        saved: impl IntoIterator<Item = Record>,
    ) -> Result<Self, ConsensusError> {
        let place = config.peers.iter().position(|peer| *peer == config.id);
        let place = place.ok_or_else(|| ConsensusError(format!("{:?} is not in the group", config.id)))?;
        let voters: Vec<u64> = config.peers.iter().map(|peer| peer.0).collect();
        let log = Log::new(voters.clone(), saved);
        let (index, term) = (log.latest_snapshot().index, log.latest_snapshot().term);
        let min_election_tick = ELECTION_TICKS + STAGGER_TICKS * place;
        let raft = raft::Config {
            id: config.id.0,
            election_tick: ELECTION_TICKS,
            min_election_tick,
            max_election_tick: min_election_tick + 1,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: index,
            max_size_per_msg: MESSAGE_BYTES_MAX,
            max_inflight_msgs: IN_FLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            ..raft::Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&raft, log, &logger).map_err(|error| ConsensusError(error.to_string()))?;
        let voters = (voters, Vec::new()).into();
        Ok(Self { node, config, voters, proposals: BTreeMap::new(), applied: (index, term), leads: false })
    }

    /// The state of the newest snapshot; empty when there is none.
    pub fn state(&self) -> &[u8] {
        &self.node.store().latest_snapshot().state
    }

    /// Returns the leader of the group, as known to this controller.
    pub fn leader(&self) -> Option<NodeId> {
        Some(NodeId(self.node.raft.leader_id)).filter(|leader| leader.0 != raft::INVALID_ID)
    }

    /// Whether so much was applied since the last snapshot that [`Consensus::compact`] should be called.
    pub fn is_long(&self) -> bool {
        let (entries, bytes) = self.node.store().size();
        entries >= self.config.entries_max || bytes >= BYTES_MAX
    }

    /// Replaces all applied entries by `state`, their result.
    pub fn compact(&mut self, state: Vec<u8>, out: &mut Vec<Action>) {
        let applied = self.applied.0;
        self.node.mut_store().compact(applied, state);
        out.push(Action::Replace(self.node.store().records()));
    }

    /// Processes an event at `now_ms` and appends the resulting actions.
    pub fn step(&mut self, now_ms: u64, event: Event, out: &mut Vec<Action>) {
        let ticks = matches!(event, Event::Started | Event::Timer);
        match event {
            // A single controller has no peers to wait for. The library refuses only a useless election.
            Event::Started if self.is_alone() => drop(self.node.campaign()),
            Event::Started => {}
            Event::Received(from, bytes) => self.receive(from, &bytes, out),
            Event::Unreachable(peer) => self.node.report_unreachable(peer.0),
            Event::Propose(proposal, data) => self.propose(proposal, data, out),
            Event::Timer => drop(self.node.tick()),
        }
        while self.node.has_ready() {
            self.work(out);
        }
        let leads = self.node.raft.state == StateRole::Leader && self.applied.1 == self.node.raft.term;
        if leads != self.leads {
            self.leads = leads;
            self.proposals.clear();
            out.push(Action::Leads(leads));
        }
        if ticks && !(self.leads && self.is_alone()) {
            out.push(Action::WakeAt(now_ms + self.config.tick_ms));
        }
    }

    fn is_alone(&self) -> bool {
        self.config.peers.len() == 1
    }

    /// Processes a message of a peer. Ignores messages that no peer of this version sends. The check matters because
    /// the library ends the process if a leader has committed more entries than the log has.
    fn receive(&mut self, from: NodeId, bytes: &[u8], out: &mut Vec<Action>) {
        if from == self.config.id || !self.config.peers.contains(&from) {
            return;
        }
        let Some(mut message) = record::decode(bytes, &self.voters) else { return };
        (message.from, message.to) = (from.0, self.config.id.0);
        let end = self.node.raft.raft_log.last_index();
        match message.get_msg_type() {
            MessageType::MsgHeartbeat if message.commit > end => {
                return out.push(Action::Send(from, record::encode(&loss(&message, end))));
            }
            MessageType::MsgAppendResponse if message.reject => self.believe_loss(&message),
            _ => {}
        }
        // Messages that come too late are refused, which needs nothing more.
        let _ = self.node.step(message);
    }

    /// Takes back the acknowledgement of a peer whose log ends before it, because the peer lost its disk. Otherwise
    /// the library would take the rejection for a late message. It would then send the peer none of the missing
    /// entries while this controller leads.
    fn believe_loss(&mut self, refusal: &Message) {
        let raft = &mut self.node.raft;
        if raft.state != StateRole::Leader || refusal.term != raft.term {
            return;
        }
        let Some(progress) = raft.mut_prs().get_mut(refusal.from) else { return };
        if refusal.reject_hint < progress.matched {
            progress.matched = 0;
            progress.become_probe();
            progress.next_idx = refusal.index.saturating_add(1);
        }
    }

    fn propose(&mut self, proposal: ProposalId, data: Vec<u8>, out: &mut Vec<Action>) {
        if !self.leads || self.node.propose(Vec::new(), data).is_err() {
            return out.push(Action::Refused(proposal));
        }
        let raft = &self.node.raft;
        self.proposals.insert((raft.raft_log.last_index(), raft.term), proposal);
    }

    /// Performs the ready work of the library.
    fn work(&mut self, out: &mut Vec<Action>) {
        let mut ready = self.node.ready();
        self.send(ready.take_messages(), out);
        let mut records = Vec::new();
        if ready.snapshot().get_metadata().index > 0 {
            let snapshot = Snapshot::from_raft(ready.snapshot());
            self.applied = (snapshot.index, snapshot.term);
            records.push(Record::Snapshot(snapshot));
        }
        records.extend(ready.entries().iter().map(|entry| Record::Entry(entry.into())));
        // How far the log is committed need not be durable: the next leader tells.
        let must_sync = ready.must_sync();
        records.extend(ready.hs().filter(|_| must_sync).map(|hard| Record::Hard(hard.into())));
        records.iter().for_each(|record| self.node.mut_store().save(record));
        if let Some(hard) = ready.hs() {
            self.node.mut_store().commit(hard.commit);
        }
        let restored = ready.snapshot().get_metadata().index > 0;
        if !records.is_empty() {
            out.push(Action::Save(records));
        }
        self.send(ready.take_persisted_messages(), out);
        if restored {
            out.push(Action::Restore(ready.snapshot().data.to_vec()));
        }
        self.apply(ready.take_committed_entries(), out);
        let mut light = self.node.advance(ready);
        if let Some(commit) = light.commit_index() {
            self.node.mut_store().commit(commit);
        }
        self.send(light.take_messages(), out);
        self.apply(light.take_committed_entries(), out);
        self.node.advance_apply();
    }

    fn apply(&mut self, entries: Vec<raft::eraftpb::Entry>, out: &mut Vec<Action>) {
        for entry in entries {
            self.applied = (entry.index, entry.term);
            let proposal = self.proposals.remove(&self.applied);
            // A leader begins with an empty entry.
            if !entry.data.is_empty() {
                out.push(Action::Apply(proposal, entry.data.to_vec()));
            }
        }
    }

    fn send(&mut self, messages: Vec<Message>, out: &mut Vec<Action>) {
        for message in messages {
            out.push(Action::Send(NodeId(message.to), record::encode(&message)));
            if message.get_msg_type() == MessageType::MsgSnapshot {
                // A snapshot that got lost is found out by the next entries, which the peer refuses.
                self.node.report_snapshot(message.to, SnapshotStatus::Finish);
            }
        }
    }
}

/// Makes the rejection that tells a leader that this controller's log ends before the acknowledged index in the
/// leader's heartbeat.
fn loss(heartbeat: &Message, end: u64) -> Message {
    let mut refusal = Message::default();
    refusal.set_msg_type(MessageType::MsgAppendResponse);
    (refusal.term, refusal.index) = (heartbeat.term, heartbeat.commit);
    (refusal.reject, refusal.reject_hint) = (true, end);
    refusal
}

#[cfg(test)]
mod tests;
