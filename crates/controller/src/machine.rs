//! A controller as one pure state machine: the table and elections ([`Leader`]) on top of consensus ([`Consensus`]).

use std::collections::VecDeque;

use replica::consensus::{self, Consensus, ConsensusConfig, ConsensusError, NodeId, Record};
use replica::roster::{
    Change, ControllerResponse, Leader, LeaderAction, LeaderConfig, LeaderEvent, Mastership, RequestId,
    Roster, UnreadableTable,
};
use wire::ha::BrokerId;

/// Event of a controller.
#[derive(Debug)]
pub enum Event {
    /// The controller starts.
    Started,
    /// A message came from a peer.
    Received(NodeId, Vec<u8>),
    /// A peer cannot be reached.
    Unreachable(NodeId),
    /// A heartbeat, a request, or the end of a connection. The shell sends no other [`LeaderEvent`].
    Leader(LeaderEvent),
    /// The settings of elections changed.
    Configured(LeaderConfig),
    /// The timer has fired.
    Timer,
}

/// Action for the shell of a controller. The shell performs the actions in the order in which [`Machine::step`] appends
/// them.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Make these records durable behind the earlier records.
    Save(Vec<Record>),
    /// Make these records durable in place of all earlier records.
    Replace(Vec<Record>),
    /// Send a message to a peer.
    Send(NodeId, Vec<u8>),
    /// Send the answer.
    Answer(RequestId, ControllerResponse),
    /// Notify this broker of this set at this address of the current master.
    Notify(BrokerId, String, Mastership),
    /// Send [`Event::Timer`] at this time.
    WakeAt(u64),
}

/// Reasons why a controller cannot start, or continue.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The group does not contain this controller.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// The committed table cannot be read, because another version wrote it.
    #[error(transparent)]
    Table(#[from] UnreadableTable),
}

/// Event that one part of the machine, consensus or leader, causes for the other part.
enum InternalEvent {
    Consensus(consensus::Event),
    Leader(LeaderEvent),
}

/// A controller.
pub struct Machine {
    consensus: Consensus,
    leader: Leader,
    leads: bool,
    /// Time at which consensus wants to be woken.
    consensus_at_ms: Option<u64>,
    /// Time at which the leader machine wants to be woken.
    leader_at_ms: Option<u64>,
}

impl Machine {
    /// Makes a controller from its saved records.
    ///
    /// # Errors
    /// See [`MachineError`].
    pub fn new(
        consensus: ConsensusConfig,
        leader: LeaderConfig,
        saved: impl IntoIterator<Item = Record>,
    ) -> Result<Self, MachineError> {
        let consensus = Consensus::new(consensus, saved)?;
        let leader = Leader::new(leader, Roster::decode(consensus.state())?);
        Ok(Self { consensus, leader, leads: false, consensus_at_ms: None, leader_at_ms: None })
    }

    /// The table.
    pub fn roster(&self) -> &Roster {
        self.leader.roster()
    }

    /// Returns the leader of the group, as known to this controller.
    pub fn leading(&self) -> Option<NodeId> {
        self.consensus.leader()
    }

    /// Whether this controller leads and answers.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// Processes an event at `now_ms` and appends the resulting actions.
    ///
    /// # Errors
    /// [`MachineError::Table`] when another version of Vostok leads the group and its decision cannot be read. The
    /// controller must stop then.
    pub fn step(&mut self, now_ms: u64, event: Event, out: &mut Vec<Action>) -> Result<(), MachineError> {
        let mut inner = VecDeque::new();
        match event {
            Event::Started => inner.push_back(InternalEvent::Consensus(consensus::Event::Started)),
            Event::Received(from, bytes) => {
                inner.push_back(InternalEvent::Consensus(consensus::Event::Received(from, bytes)));
            }
            Event::Unreachable(peer) => {
                inner.push_back(InternalEvent::Consensus(consensus::Event::Unreachable(peer)));
            }
            Event::Leader(event) => inner.push_back(InternalEvent::Leader(event)),
            Event::Configured(config) => self.leader.set_config(config),
            Event::Timer => {
                if self.consensus_at_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
                    inner.push_back(InternalEvent::Consensus(consensus::Event::Timer));
                }
                if self.leader_at_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
                    inner.push_back(InternalEvent::Leader(LeaderEvent::Timer));
                }
            }
        }
        while let Some(next) = inner.pop_front() {
            match next {
                InternalEvent::Consensus(event) => self.agree(now_ms, event, &mut inner, out)?,
                InternalEvent::Leader(event) => self.decide(now_ms, event, &mut inner, out),
            }
        }
        if self.consensus.is_long() {
            let mut actions = Vec::new();
            self.consensus.compact(self.leader.roster().encode(), &mut actions);
            self.translate(actions, &mut inner, out)?;
        }
        out.extend(self.consensus_at_ms.into_iter().chain(self.leader_at_ms).min().map(Action::WakeAt));
        Ok(())
    }

    fn agree(
        &mut self,
        now_ms: u64,
        event: consensus::Event,
        inner: &mut VecDeque<InternalEvent>,
        out: &mut Vec<Action>,
    ) -> Result<(), MachineError> {
        let mut actions = Vec::new();
        self.consensus.step(now_ms, event, &mut actions);
        self.translate(actions, inner, out)
    }

    fn translate(
        &mut self,
        actions: Vec<consensus::Action>,
        inner: &mut VecDeque<InternalEvent>,
        out: &mut Vec<Action>,
    ) -> Result<(), MachineError> {
        for action in actions {
            match action {
                consensus::Action::Save(records) => out.push(Action::Save(records)),
                consensus::Action::Replace(records) => out.push(Action::Replace(records)),
                consensus::Action::Send(peer, bytes) => out.push(Action::Send(peer, bytes)),
                consensus::Action::Apply(proposal, data) => {
                    let changes = Change::decode(&data)?;
                    inner.push_back(InternalEvent::Leader(LeaderEvent::Committed(proposal, changes)));
                }
                consensus::Action::Restore(state) => self.leader.restore(Roster::decode(&state)?),
                consensus::Action::Refused(proposal) => {
                    inner.push_back(InternalEvent::Leader(LeaderEvent::Dropped(proposal)));
                }
                consensus::Action::Leads(leads) => {
                    self.leads = leads;
                    tracing::info!("this controller {}", if leads { "leads now" } else { "leads no more" });
                    inner.push_back(InternalEvent::Leader(LeaderEvent::Leads(leads)));
                }
                consensus::Action::WakeAt(at_ms) => self.consensus_at_ms = Some(at_ms),
            }
        }
        Ok(())
    }

    fn decide(
        &mut self,
        now_ms: u64,
        event: LeaderEvent,
        inner: &mut VecDeque<InternalEvent>,
        out: &mut Vec<Action>,
    ) {
        if let LeaderEvent::Committed(_, changes) = &event
            && self.leads
        {
            changes.iter().for_each(log_change);
        }
        let mut actions = Vec::new();
        self.leader.step(now_ms, event, &mut actions);
        for action in actions {
            match action {
                LeaderAction::Answer(request, answer) => out.push(Action::Answer(request, answer)),
                LeaderAction::Propose(proposal, changes) => {
                    let event = consensus::Event::Propose(proposal, Change::encode(&changes));
                    inner.push_back(InternalEvent::Consensus(event));
                }
                LeaderAction::Notify(broker, address, mastership) => {
                    out.push(Action::Notify(broker, address, mastership));
                }
                LeaderAction::Lost(why) => tracing::error!("{why}"),
                LeaderAction::WakeAt(at_ms) => {
                    self.leader_at_ms = Some(self.leader_at_ms.map_or(at_ms, |armed| armed.min(at_ms)));
                }
            }
        }
    }
}

/// Logs a change of the table. A loss of brokers, of messages or of a master is a warning.
fn log_change(change: &Change) {
    match change {
        Change::Elected { name, master: Some(master) } => {
            tracing::info!(broker_set = name, "broker {master} was elected master");
        }
        Change::Elected { name, master: None } => {
            tracing::warn!(broker_set = name, "the master is gone and no member of the in-sync set is alive");
        }
        Change::SetAltered { name, members } => {
            let members: Vec<u64> = members.iter().map(|member| member.get()).collect();
            tracing::info!(broker_set = name, "the in-sync set is {members:?}");
        }
        Change::MemberLost { name, broker } => {
            tracing::warn!(
                broker_set = name,
                "broker {broker} may have lost messages and left the in-sync set"
            );
        }
        Change::IdApplied { name, broker, details, .. } => {
            tracing::info!(broker_set = name, "broker {broker} is at {}", details.address);
        }
        Change::Cleaned { name, brokers } => {
            let brokers: Vec<u64> = brokers.iter().map(|broker| broker.get()).collect();
            tracing::warn!(broker_set = name, "brokers were removed: {brokers:?} (none named: all)");
        }
        Change::AddressChanged { name, broker, address } => {
            tracing::info!(broker_set = name, "broker {broker} is now at {address}");
        }
        Change::Imported { name, .. } => tracing::info!(broker_set = name, "a broker set was taken over"),
    }
}

#[cfg(test)]
mod tests;
