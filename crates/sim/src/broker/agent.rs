//! The shell of the agent: a broker's side of controller mode, and changes of its role.

use super::{Broker, Note, Output, Role, flushed_of};
use crate::settings::{Bug, NodeId};
use replica::acks::{AckConfig, Mode};
use replica::agent::{Agent, AgentAction, AgentConfig, AgentEvent, BrokerIdentity, CallId};
use replica::epochs::EpochList;
use replica::in_sync::{CommittedSet, InSyncConfig};
use replica::master::{ElectionState, Master, MasterConfig, MasterEvent, MasterStart};
use replica::roster::{ConnectionId, Heartbeat, Request};
use replica::slave::{Slave, SlaveEvent, SlaveStart};
use std::collections::VecDeque;
use wire::ha::Epoch;
use wire::ha::switch::Handshake;
use wire::units::LogOffset;

/// Name of the broker set.
pub(super) const SET: &str = "set";
/// The file that keeps the epochs.
const EPOCHS: &str = "epochFileCheckpoint";
/// Pause before an identity that could not be written is written again, as in the broker.
const SAVE_PAUSE_MS: u64 = 1_000;

/// Returns the controller at an address from a controller or the configuration.
fn controller_at(address: &str) -> NodeId {
    NodeId::of_controller(address).expect("a controller's name")
}

impl Broker {
    pub(super) fn start_agent(&mut self) {
        let saved = self.files.load(EPOCHS).and_then(|text| EpochList::from_file(&text).ok());
        self.epochs = saved.unwrap_or_default();
        // Epochs behind the end of the log were lost with it.
        self.epochs.cut(self.store.appended() + 1);
        let config = AgentConfig {
            cluster: "cluster".to_owned(),
            name: SET.to_owned(),
            address: self.node.name().to_owned(),
            check_code: format!("{};{}", self.node.name(), self.now.wall_ms),
            controllers: NodeId::controllers().map(|node| node.name().to_owned()).collect(),
            log_epoch: self.epochs.last().map_or(Epoch::ZERO, |last| last.epoch),
            log_end: Some(self.store.appended()).filter(|_| !self.settings.has(Bug::UntoldEnd)),
            may_have_lost: self.may_have_lost && !self.settings.has(Bug::LossyRestart),
            ..AgentConfig::default()
        };
        self.agent = Some(Agent::new(config));
        let identity = self.identity();
        self.step_agent(AgentEvent::Start(identity));
    }

    pub(super) fn step_agent(&mut self, event: AgentEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(agent) = &mut self.agent else { return };
            let mut actions = Vec::new();
            agent.step(self.now.ms, event, &mut actions);
            if let Role::Master(master) = &mut self.role
                && !self.settings.has(Bug::OvertakenHeir)
            {
                master.wait_for_heirs(agent.heirs());
            }
            for action in actions {
                match action {
                    AgentAction::AskLeader(call, at) => {
                        self.out.push(Output::AskLeader(call, controller_at(&at)));
                    }
                    AgentAction::Call(call, at, request) => self.ask(call, controller_at(&at), request),
                    AgentAction::Heartbeat(own) => self.beat(own),
                    AgentAction::Save(identity) => {
                        if self.save_identity(identity) {
                            events.push_back(AgentEvent::Saved);
                        }
                    }
                    AgentAction::Lead(epoch, set) => self.lead(epoch, set),
                    AgentAction::LeadOn(epoch, set) => {
                        self.note(Note::Leads(epoch));
                        self.step_master(MasterEvent::SetCommitted(set));
                        self.step_master(MasterEvent::Elected(epoch));
                    }
                    AgentAction::Follow(_, _, address) => self.follow_elected(&address),
                    AgentAction::FollowOn(_) | AgentAction::Resign(_) | AgentAction::Unknown => {}
                    AgentAction::Unfence => self.is_fenced = false,
                    AgentAction::SetCommitted(set) => self.step_master(MasterEvent::SetCommitted(set)),
                    AgentAction::SetRefused => self.step_master(MasterEvent::SetRefused),
                    AgentAction::SetUnknown => self.step_master(MasterEvent::SetUnknown),
                    AgentAction::StaleEpoch(epoch) => self.note(Note::Broken(format!("{epoch} is stale"))),
                    AgentAction::Refuse(error) => self.note(Note::Broken(error.to_string())),
                    AgentAction::WakeAt(at_ms) => self.agent_wake_ms = Some(at_ms),
                }
            }
        }
    }

    /// Saves the identity. Returns false if that failed and must be tried again.
    pub(super) fn save_identity(&mut self, identity: BrokerIdentity) -> bool {
        let is_saved = self.files.save("brokerIdentity", Some(&identity.to_file())).is_ok();
        self.unsaved = (!is_saved).then(|| (self.now.ms + SAVE_PAUSE_MS, identity));
        is_saved
    }

    fn ask(&mut self, call: CallId, at: NodeId, mut request: Request) {
        if let Request::Register(registration) = &mut request
            && self.settings.has(Bug::UntoldEpoch)
        {
            registration.log_epoch = None;
        }
        self.out.push(Output::Ask(call, at, request));
    }

    /// Returns the log position that a heartbeat promises for the next start. Controllers take a log that ends before
    /// the position for an older copy. The position is the end on disk with sync flush, otherwise the log's end.
    fn kept(&self) -> LogOffset {
        let end = self.store.appended();
        if self.settings.is_sync_flush() { self.store.flushed().min(end) } else { end }
    }

    fn beat(&mut self, own: wire::ha::BrokerId) {
        if self.store.fenced().is_some() {
            return;
        }
        let of_role = match &self.role {
            Role::Master(master) => master.election().map(ElectionState::epochs),
            Role::Slave(slave) => slave.epochs(),
            Role::None => None,
        };
        let heartbeat = Heartbeat {
            name: SET.to_owned(),
            broker: own,
            connection: ConnectionId(self.node.0 as u64),
            timeout_ms: self.settings.heartbeat_timeout_ms,
            epoch: of_role.unwrap_or(&self.epochs).last().map(|last| last.epoch),
            end: self.store.appended(),
            kept: Some(self.kept()),
            priority: i32::MAX,
        };
        self.out.push(Output::Beat(heartbeat));
    }

    pub(super) fn save_epochs(&mut self, epochs: EpochList) {
        if let Err(error) = self.files.save(EPOCHS, epochs.to_file().as_deref()) {
            self.note(Note::Broken(format!("the epoch file: {error}")));
        }
        self.epochs = epochs;
    }

    fn end_role(&mut self) {
        match self.role {
            Role::Master(_) => self.step_master(MasterEvent::Stop),
            Role::Slave(_) => self.step_slave(SlaveEvent::Stop, &[]),
            _ => {}
        }
        self.role = Role::None;
        self.role_wake_ms = None;
        let peers: Vec<_> = self.peers.0.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.end_peer(peer));
        if let Some(link) = self.link.take() {
            self.out.push(Output::End(link.peer));
        }
    }

    /// Returns the store's confirm offset, or zero if it was never set.
    fn confirmed(&self, end: LogOffset) -> LogOffset {
        self.store.confirmed().unwrap_or_default().min(end)
    }

    fn lead(&mut self, epoch: Epoch, committed: CommittedSet) {
        self.end_role();
        let Ok(end) = self.store.stop_following() else {
            return self.note(Note::Broken("the log cannot be made durable".to_owned()));
        };
        let mut epochs = self.epochs.clone();
        let keeps = epochs.last().is_some_and(|last| last.epoch == epoch) && !self.may_have_lost;
        if !keeps {
            if let Err(error) = epochs.begin(epoch, end) {
                return self.note(Note::Broken(error.to_string()));
            }
            self.save_epochs(epochs);
        }
        self.may_have_lost = false;
        self.note(Note::Leads(epoch));
        let acks = AckConfig {
            mode: Mode::Controller,
            is_all_ack: self.settings.is_all_ack(),
            in_sync_replicas: self.settings.min_in_sync_replicas,
            min_in_sync_replicas: self.settings.min_in_sync_replicas,
            ..AckConfig::default()
        };
        let config =
            MasterConfig { transfer: self.transfer_config(), acks, in_sync: InSyncConfig::default() };
        let start = MasterStart {
            own: self.id().expect("a broker with a role has an id"),
            committed,
            epochs: self.epochs.clone(),
            log: self.range(),
            confirm: self.confirmed(end),
        };
        self.store.set_confirmed(Some(start.confirm));
        self.published = start.log.end;
        self.role = Role::Master(Box::new(Master::elected(self.now.ms, config, start)));
        self.step_master(MasterEvent::Timer);
    }

    fn follow_elected(&mut self, address: &str) {
        self.end_role();
        self.is_consistent = false;
        if self.store.start_following().is_err() {
            return self.note(Note::Broken("the store cannot follow".to_owned()));
        }
        let master = NodeId::of_broker(address).expect("a broker's name");
        self.note(Note::Follows(master));
        self.may_have_lost = false;
        let (end, flushed) = flushed_of(&self.store);
        let broker_id = self.id().expect("a broker with a role has an id");
        let confirm = self.confirmed(end);
        self.store.set_confirmed(Some(confirm));
        let start = SlaveStart {
            handshake: Handshake { broker_id, is_from_last_file: false, is_learner: false },
            epochs: self.epochs.clone(),
            end,
            flushed,
            confirm,
        };
        self.role = Role::Slave(Box::new(Slave::of_elected(self.slave_config(), start)));
        self.followed = Some(master);
        self.out.push(Output::Lookup(master));
    }

    /// Processes the name server's answer to [`Output::Lookup`](super::Output::Lookup). Passes the HA address of `node` to the
    /// slave's machine if this broker still follows `node`.
    pub(super) fn master_at(&mut self, node: NodeId) {
        if self.followed != Some(node) {
            return;
        }
        self.step_slave(SlaveEvent::Master(Some(node.name().to_owned())), &[]);
    }
}
