//! Broker's side of controller mode (`ReplicasManager`). It finds the leading controller, gets an id, registers,
//! sends heartbeats, learns its role from responses and polls, and passes proposals of the in-sync set on.
//!
//! Start-up: leader (1005), id (1012, `brokerIdentity-temp`, 1013, `brokerIdentity`), registration (1003), heartbeat,
//! and election (1002) if there is no master. Then follow a poll (1004) every 5 s, and a poll at once after a notice
//! (1008). The broker is fenced until it has a role. It keeps its role while no controller can be reached, because
//! only newer epochs depose a broker.

mod config;
mod events;
mod identity;
mod resignation;

pub use config::AgentConfig;
pub use events::{AgentAction, AgentEvent, CallId};
pub use identity::{BrokerIdentity, IdentityError};

use crate::in_sync::SetEpoch;
use crate::roster::{AlterSet, Content, ControllerResponse, Election, Mastership, Registration, Request};
use crate::timer::Timer;
use resignation::Resignation;
use std::collections::BTreeSet;
use wire::codes::response;
use wire::ha::{BrokerId, Epoch};

/// Pause in milliseconds between registrations of a broker that has a role. Polls do not tell whether controllers
/// still know the broker.
const REGISTER_INTERVAL_MS: u64 = 30_000;

/// Pause in milliseconds between warnings that the controllers do not know this broker.
const WARNING_INTERVAL_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not started, or rejected.
    Idle,
    NextId,
    Saving,
    ApplyId,
    Register,
    Elect,
    Running,
}

/// Content of a notice that no response of a controller has confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Hint {
    epoch: Epoch,
    /// Number of further calls that the notice may cause without a pause before them.
    calls_left: usize,
}

/// Agent of a broker.
#[derive(Clone, Debug)]
pub struct Agent {
    config: AgentConfig,
    stage: Stage,
    identity: Option<BrokerIdentity>,
    leader: Option<String>,
    /// Index of the next controller to ask for the leader.
    next_controller: usize,
    last_call: CallId,
    /// The call of the present stage that is on its way.
    call: Option<CallId>,
    /// The proposal that is on its way.
    proposal: Option<CallId>,
    master: Option<(BrokerId, String)>,
    /// Members of the in-sync set, as far as this broker knows.
    members: BTreeSet<BrokerId>,
    resignation: Resignation,
    /// Epoch of the role this broker has.
    epoch: Epoch,
    is_fenced: bool,
    hint: Option<Hint>,
    /// Whether the controllers have reported this broker as unknown.
    is_unknown: bool,
    next_warning_ms: u64,
    next_register_ms: u64,
    next_step_ms: u64,
    next_leader_ms: u64,
    next_heartbeat_ms: u64,
    timer: Timer,
}

impl Agent {
    /// Makes an agent that has not started.
    pub fn new(config: AgentConfig) -> Self {
        assert!(!config.controllers.is_empty(), "controller mode needs an address of a controller");
        Self {
            config,
            stage: Stage::Idle,
            identity: None,
            leader: None,
            next_controller: 0,
            last_call: CallId::default(),
            call: None,
            proposal: None,
            master: None,
            members: BTreeSet::new(),
            resignation: Resignation::default(),
            epoch: Epoch::ZERO,
            is_fenced: true,
            hint: None,
            is_unknown: false,
            next_warning_ms: 0,
            next_register_ms: 0,
            next_step_ms: 0,
            next_leader_ms: 0,
            next_heartbeat_ms: 0,
            timer: Timer::default(),
        }
    }

    /// Processes an event at `now_ms` and appends the resulting actions.
    pub fn step(&mut self, now_ms: u64, event: AgentEvent, out: &mut Vec<AgentAction>) {
        match event {
            AgentEvent::Start(identity) => self.start(now_ms, identity, out),
            AgentEvent::Leader(call, leader) if self.call == Some(call) => {
                self.call = None;
                self.next_leader_ms = now_ms + self.config.leader_interval_ms;
                if leader.is_none() {
                    self.next_step_ms = now_ms + self.config.retry_interval_ms;
                }
                self.leader = leader;
                self.pursue_hint(now_ms);
            }
            AgentEvent::Answered(call, answer) if self.call == Some(call) => {
                self.call = None;
                self.answered(now_ms, answer, out);
                self.pursue_hint(now_ms);
            }
            AgentEvent::Answered(call, answer) if self.proposal == Some(call) => {
                self.proposal = None;
                self.proposed(now_ms, answer, out);
            }
            AgentEvent::Answered(call, answer) if self.resignation.call == Some(call) => {
                self.resigned(now_ms, answer);
            }
            AgentEvent::DiskStalled(stalled_ms, heirs) => self.resign(now_ms, stalled_ms, &heirs, out),
            AgentEvent::Saved if self.stage == Stage::Saving => {
                let is_confirmed =
                    self.identity.as_ref().is_some_and(|identity| identity.check_code.is_none());
                self.stage = if is_confirmed { Stage::Register } else { Stage::ApplyId };
            }
            AgentEvent::Notified(epoch) if !self.is_fenced && epoch > self.epoch => {
                // The known leader may be gone. Then each controller is asked once, and the leader.
                self.hint = Some(Hint { epoch, calls_left: self.config.controllers.len() + 2 });
                if self.call.is_none() {
                    self.pursue_hint(now_ms);
                }
            }
            AgentEvent::ProposeSet(members, epoch) => self.propose(members, epoch, out),
            AgentEvent::Timer => self.timer.fired(),
            _ => {}
        }
        self.resignation.expire(now_ms);
        self.heartbeat(now_ms, out);
        self.ask(now_ms, out);
        if let Some(wake_at_ms) = self.timer.arm(self.wake_at_ms()) {
            out.push(AgentAction::WakeAt(wake_at_ms));
        }
    }

    /// Returns this broker's id after its confirmation.
    pub fn broker(&self) -> Option<BrokerId> {
        self.identity
            .as_ref()
            .filter(|identity| identity.check_code.is_none())
            .map(|identity| identity.broker)
    }

    /// Returns the epoch of this broker's role, or zero before the first role.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the controllers do not know this broker.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Returns the members that this master has named as its successor and that the controllers may still elect. Until
    /// that is decided, a sender may be told that its message is stored only if these members have the message
    /// ([`Master::wait_for_heirs`](crate::master::Master::wait_for_heirs)).
    pub fn heirs(&self) -> &BTreeSet<BrokerId> {
        self.resignation.heirs()
    }

    /// Whether this broker is master.
    pub fn is_master(&self) -> bool {
        self.master.as_ref().is_some_and(|(master, _)| Some(*master) == self.broker())
    }

    fn start(&mut self, now_ms: u64, identity: Option<BrokerIdentity>, out: &mut Vec<AgentAction>) {
        if let Some(identity) = &identity
            && let Err(error) = identity.check(&self.config.cluster, &self.config.name)
        {
            return out.push(AgentAction::Refuse(error));
        }
        self.stage = match &identity {
            None => Stage::NextId,
            Some(BrokerIdentity { check_code: Some(_), .. }) => Stage::ApplyId,
            Some(_) => Stage::Register,
        };
        self.identity = identity;
        (self.next_step_ms, self.next_leader_ms) = (now_ms, now_ms);
    }

    /// Sends a heartbeat. Heartbeats begin with the registration. A Java broker without a role sends a heartbeat with
    /// each attempt to get a role.
    fn heartbeat(&mut self, now_ms: u64, out: &mut Vec<AgentAction>) {
        let is_registered = matches!(self.stage, Stage::Elect | Stage::Running);
        if let Some(broker) = self.broker().filter(|_| is_registered && now_ms >= self.next_heartbeat_ms) {
            out.push(AgentAction::Heartbeat(broker));
            self.next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms;
        }
    }

    /// Makes the call of the current stage, unless a call is in flight.
    fn ask(&mut self, now_ms: u64, out: &mut Vec<AgentAction>) {
        if self.call.is_some()
            || matches!(self.stage, Stage::Idle | Stage::Saving)
            || now_ms < self.next_step_ms
        {
            return;
        }
        let leader = self.leader.clone().filter(|_| now_ms < self.next_leader_ms);
        let Some(leader) = leader else {
            let controllers = &self.config.controllers;
            let controller = controllers[self.next_controller % controllers.len()].clone();
            self.next_controller += 1;
            let call = self.begin();
            return out.push(AgentAction::AskLeader(call, controller));
        };
        let name = self.config.name.clone();
        let request = match (self.stage, &self.identity) {
            (Stage::ApplyId, Some(identity)) => Request::ApplyId {
                cluster: self.config.cluster.clone(),
                name,
                broker: identity.broker,
                check_code: identity.check_code.clone().unwrap_or_default(),
            },
            (stage @ (Stage::Register | Stage::Running), Some(identity))
                if stage == Stage::Register || now_ms >= self.next_register_ms =>
            {
                self.next_register_ms = now_ms + REGISTER_INTERVAL_MS;
                Request::Register(Registration {
                    name,
                    broker: identity.broker,
                    address: self.config.address.clone(),
                    may_have_lost: self.config.may_have_lost,
                    log_epoch: Some(self.config.log_epoch),
                    log_end: self.config.log_end,
                })
            }
            (Stage::Elect, Some(identity)) => {
                Request::Elect(Election { name, broker: Some(identity.broker), is_designated: false })
            }
            (Stage::Running, _) => Request::ReplicaInfo(name),
            _ => Request::NextId(name),
        };
        let call = self.begin();
        out.push(AgentAction::Call(call, leader, request));
    }

    /// Asks without a pause until the epoch of the notice is known or the calls are used up.
    fn pursue_hint(&mut self, now_ms: u64) {
        let epoch = self.epoch;
        match self.hint.as_mut().filter(|hint| hint.epoch > epoch && hint.calls_left > 0) {
            Some(hint) => {
                hint.calls_left -= 1;
                self.next_step_ms = now_ms;
            }
            None => self.hint = None,
        }
    }

    fn begin(&mut self) -> CallId {
        self.last_call = CallId(self.last_call.0 + 1);
        self.call = Some(self.last_call);
        self.last_call
    }

    fn answered(&mut self, now_ms: u64, answer: Option<ControllerResponse>, out: &mut Vec<AgentAction>) {
        let pause_ms = match self.stage {
            Stage::Running => self.config.poll_interval_ms,
            _ => self.config.retry_interval_ms,
        };
        self.next_step_ms = now_ms + pause_ms;
        let Some(answer) = answer.filter(|answer| answer.code != response::CONTROLLER_NOT_LEADER) else {
            self.leader = None;
            self.next_step_ms = now_ms + self.config.retry_interval_ms;
            return;
        };
        if matches!(self.stage, Stage::Register | Stage::Running) {
            self.note_whether_known(now_ms, answer.code, out);
        }
        match (self.stage, answer.code, answer.content) {
            (Stage::NextId, response::SUCCESS, Content::NextId(broker)) => {
                self.save(broker, Some(self.config.check_code.clone()), now_ms, out);
            }
            (Stage::ApplyId, response::SUCCESS, _) => {
                let broker = self.identity.as_ref().expect("it has applied for an id").broker;
                self.save(broker, None, now_ms, out);
            }
            // Another broker has the id. A Java broker also gives the id up when no answer came, and then loses it.
            (Stage::ApplyId, response::CONTROLLER_BROKER_ID_INVALID, _) => self.stage = Stage::NextId,
            (Stage::Register, response::SUCCESS, Content::Master(mastership)) => {
                (self.config.may_have_lost, self.config.log_end) = (false, None);
                self.stage = if self.is_fenced { Stage::Elect } else { Stage::Running };
                self.next_step_ms = now_ms;
                if mastership.master.is_some() {
                    self.adopt(now_ms, &mastership, out);
                }
            }
            (
                Stage::Elect,
                response::SUCCESS | response::CONTROLLER_MASTER_STILL_EXIST,
                Content::Master(mastership),
            ) => self.adopt(now_ms, &mastership, out),
            (Stage::Elect, _, _) if !self.is_fenced => {
                self.stage = Stage::Running;
                self.next_step_ms = now_ms + self.config.poll_interval_ms;
            }
            (Stage::Running, response::SUCCESS, Content::Master(mastership)) => {
                self.adopt(now_ms, &mastership, out);
            }
            (Stage::Running, response::CONTROLLER_BROKER_METADATA_NOT_EXIST, _) => {
                self.stage = Stage::Register
            }
            _ => {}
        }
    }

    /// Records whether the controllers know this broker. An unknown broker is logged once a minute, because no
    /// controller replaces the master meanwhile.
    fn note_whether_known(&mut self, now_ms: u64, code: i32, out: &mut Vec<AgentAction>) {
        match code {
            response::SUCCESS => (self.is_unknown, self.next_warning_ms) = (false, 0),
            response::CONTROLLER_BROKER_NEED_TO_BE_REGISTERED => {
                self.is_unknown = true;
                if now_ms >= self.next_warning_ms {
                    self.next_warning_ms = now_ms + WARNING_INTERVAL_MS;
                    out.push(AgentAction::Unknown);
                }
            }
            _ => {}
        }
    }

    fn save(
        &mut self,
        broker: BrokerId,
        check_code: Option<String>,
        now_ms: u64,
        out: &mut Vec<AgentAction>,
    ) {
        let (cluster, name) = (self.config.cluster.clone(), self.config.name.clone());
        let identity = BrokerIdentity { cluster, name, broker, check_code };
        self.identity = Some(identity.clone());
        self.stage = Stage::Saving;
        self.next_step_ms = now_ms;
        out.push(AgentAction::Save(identity));
    }

    /// Takes the role that a controller assigns (`ReplicasManager.changeBrokerRole`). An older epoch changes nothing.
    /// The current epoch changes no role, but its master may have a new address.
    fn adopt(&mut self, now_ms: u64, mastership: &Mastership, out: &mut Vec<AgentAction>) {
        if mastership.epoch < self.epoch {
            return;
        }
        self.members.clone_from(&mastership.in_sync.members);
        if mastership.epoch == self.epoch {
            match &mastership.master {
                _ if self.is_master() => out.push(AgentAction::SetCommitted(mastership.in_sync.clone())),
                Some((master, Some(address))) if self.has_moved(*master, address) => {
                    self.master = Some((*master, address.clone()));
                    out.push(AgentAction::Follow(self.epoch, *master, address.clone()));
                }
                _ => {}
            }
            return;
        }
        if mastership.epoch < self.config.log_epoch {
            return out.push(AgentAction::StaleEpoch(mastership.epoch));
        }
        let Some((master, Some(address))) = &mastership.master else {
            // The election had no winner, so this broker asks for another election.
            self.stage = Stage::Elect;
            self.next_step_ms = now_ms;
            return;
        };
        let has_led = self.is_master();
        let former = self.master.replace((*master, address.clone()));
        self.epoch = mastership.epoch;
        out.push(match (self.is_master(), former == self.master) {
            (true, _) if has_led => AgentAction::LeadOn(mastership.epoch, mastership.in_sync.clone()),
            (true, _) => AgentAction::Lead(mastership.epoch, mastership.in_sync.clone()),
            (false, true) => AgentAction::FollowOn(mastership.epoch),
            (false, false) => AgentAction::Follow(mastership.epoch, *master, address.clone()),
        });
        if self.stage != Stage::Running {
            self.stage = Stage::Running;
            self.next_step_ms = now_ms + self.config.poll_interval_ms;
        }
        if std::mem::replace(&mut self.is_fenced, false) {
            out.push(AgentAction::Unfence);
        }
    }

    /// Whether the master is this broker as before, but at another address.
    fn has_moved(&self, master: BrokerId, address: &str) -> bool {
        self.master.as_ref().is_some_and(|(known, at)| *known == master && at != address)
    }

    fn propose(&mut self, members: BTreeSet<BrokerId>, epoch: SetEpoch, out: &mut Vec<AgentAction>) {
        let (Some(leader), Some(master), true) = (&self.leader, self.broker(), self.is_master()) else {
            return out.push(AgentAction::SetRefused);
        };
        let name = self.config.name.clone();
        let request = AlterSet { name, master, master_epoch: self.epoch, members, epoch };
        self.last_call = CallId(self.last_call.0 + 1);
        self.proposal = Some(self.last_call);
        out.push(AgentAction::Call(self.last_call, leader.clone(), Request::AlterSet(request)));
    }

    /// Processes the response to a proposal. Only rejections that exclude this very set are certain. After any other
    /// response the set may have changed already, by a proposal whose response was lost, so the next poll decides.
    fn proposed(&mut self, now_ms: u64, answer: Option<ControllerResponse>, out: &mut Vec<AgentAction>) {
        let code = answer.as_ref().map(|answer| answer.code);
        out.push(match answer.map(|answer| answer.content) {
            Some(Content::Set(committed)) if code == Some(response::SUCCESS) => {
                self.members.clone_from(&committed.members);
                AgentAction::SetCommitted(committed)
            }
            _ if matches!(
                code,
                Some(response::CONTROLLER_INVALID_REPLICAS | response::CONTROLLER_BROKER_NOT_ALIVE)
            ) =>
            {
                AgentAction::SetRefused
            }
            _ => {
                self.next_step_ms = self.next_step_ms.min(now_ms);
                AgentAction::SetUnknown
            }
        });
    }

    fn wake_at_ms(&self) -> Option<u64> {
        let is_waiting = self.call.is_some() || matches!(self.stage, Stage::Idle | Stage::Saving);
        let step_ms = Some(self.next_step_ms).filter(|_| !is_waiting);
        let is_registered = matches!(self.stage, Stage::Elect | Stage::Running);
        step_ms.into_iter().chain(Some(self.next_heartbeat_ms).filter(|_| is_registered)).min()
    }
}

#[cfg(test)]
mod tests;
