//! Leading controller (`ControllerManager`, `ReplicasInfoManager` behind `DLedgerController`). Every controller runs
//! this machine. While it does not lead, it rejects requests, processes heartbeats and applies the leader's changes.
//!
//! Requests about a broker set are decided one after the other. Each waits until the changes of the preceding request
//! are committed, so that every decision is based on a current table.

use super::decide::{AlterSet, Clean, ControllerResponse, Decision, Election, Mastership, Registration};
use super::live::{ConnectionId, Heartbeat, Lives};
use super::table::{BrokerSet, Change, Roster};
use crate::timer::Timer;
use std::collections::{BTreeMap, VecDeque};
use wire::codes::response;
use wire::ha::{BrokerId, Epoch};

/// Most requests about a broker set that wait for their turn. Further requests are refused as busy.
const QUEUE_MAX: usize = 1_000;

/// Settings of a controller's decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderConfig {
    /// Whether a broker outside the in-sync set may win when no member can (`enableElectUncleanMaster`). It loses messages.
    pub may_lose: bool,
    /// Interval of scans for sets whose master is gone, in milliseconds (`scanInactiveMasterInterval`). An election
    /// starts at once when a master's heartbeats end. The scan repeats failed elections.
    pub scan_interval_ms: u64,
    /// Whether brokers get a notice of an election instead of asking (`notifyBrokerRoleChanged`).
    pub notifies: bool,
}

/// RocketMQ's defaults.
impl Default for LeaderConfig {
    fn default() -> Self {
        Self { may_lose: false, scan_interval_ms: 5_000, notifies: true }
    }
}

/// Id of a waiting request. The shell chooses the numbers and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names changes that this controller has proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposalId(pub u64);

/// Request of a broker or operator to a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The next id of the broker set with this name.
    NextId(String),
    /// An id for a broker.
    ApplyId {
        /// Cluster of the set.
        cluster: String,
        /// Name of the set.
        name: String,
        /// The id.
        broker: BrokerId,
        /// The broker's check code.
        check_code: String,
    },
    /// A broker registers.
    Register(Registration),
    /// A master replaces the in-sync set.
    AlterSet(AlterSet),
    /// An election.
    Elect(Election),
    /// Query for the master of the set with this name.
    ReplicaInfo(String),
    /// All about the sets with these names.
    SyncState(Vec<String>),
    /// Brokers are removed.
    Clean(Clean),
    /// Import of a set that another group of controllers knows.
    Import(String, BrokerSet),
}

/// Event of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderEvent {
    /// A broker's heartbeat; leaders and followers get them.
    Heartbeat(Heartbeat),
    /// A connection to a broker has ended.
    Disconnected(ConnectionId),
    /// A request.
    Asked(RequestId, Request),
    /// Consensus has committed these changes; with the proposal's name when this controller made it. All controllers get
    /// the same changes in the same order.
    Committed(Option<ProposalId>, Vec<Change>),
    /// Consensus will never commit this proposal. If the result is uncertain, this controller must stop
    /// leading instead, because the next decision about the set depends on the result.
    Dropped(ProposalId),
    /// Whether this controller leads from now on.
    Leads(bool),
    /// The timer has fired.
    Timer,
}

/// Action for the shell of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderAction {
    /// Send the answer.
    Answer(RequestId, ControllerResponse),
    /// Propose the changes to consensus, and report the result.
    Propose(ProposalId, Vec<Change>),
    /// Notify the broker at this address of the current master (request 1008).
    Notify(BrokerId, String, Mastership),
    /// Log this text: an election outside the in-sync set loses the acknowledged messages behind the winner's log end.
    Lost(String),
    /// Send [`LeaderEvent::Timer`] at this time.
    WakeAt(u64),
}

/// Requests about a broker set.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Proposal in flight, and the response that leaves when it is committed. The request is `None` for the
    /// controller's own proposal.
    under_way: Option<(ProposalId, Option<RequestId>, ControllerResponse)>,
    waiting: VecDeque<(Option<RequestId>, Request)>,
}

/// A controller.
#[derive(Clone, Debug)]
pub struct Leader {
    config: LeaderConfig,
    roster: Roster,
    lives: Lives,
    queues: BTreeMap<String, Queue>,
    last_proposal: ProposalId,
    /// When this leader looks next for sets without a living master; `None` while it does not lead.
    scan_at_ms: Option<u64>,
    timer: Timer,
}

impl Leader {
    /// A controller that does not lead yet and has this table.
    pub fn new(config: LeaderConfig, roster: Roster) -> Self {
        Self {
            config,
            roster,
            lives: Lives::default(),
            queues: BTreeMap::new(),
            last_proposal: ProposalId(0),
            scan_at_ms: None,
            timer: Timer::default(),
        }
    }

    /// Uses these settings for later decisions.
    pub fn set_config(&mut self, config: LeaderConfig) {
        self.config = config;
    }

    /// Replaces the table by that of a snapshot, which came from the controller that leads.
    pub fn restore(&mut self, roster: Roster) {
        self.roster = roster;
    }

    /// The table.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Processes an event at `now_ms` and appends the resulting actions.
    pub fn step(&mut self, now_ms: u64, event: LeaderEvent, out: &mut Vec<LeaderAction>) {
        match event {
            LeaderEvent::Heartbeat(heartbeat) => self.lives.beat(now_ms, heartbeat),
            LeaderEvent::Disconnected(connection) => {
                let gone = self.lives.disconnect(connection);
                self.replace_masters(now_ms, &gone, out);
            }
            LeaderEvent::Asked(request, _) if self.scan_at_ms.is_none() => {
                out.push(LeaderAction::Answer(request, not_leader()));
            }
            LeaderEvent::Asked(id, request) => self.ask(now_ms, id, request, out),
            LeaderEvent::Committed(proposal, changes) => self.commit(now_ms, proposal, changes, out),
            LeaderEvent::Dropped(proposal) => self.drop_proposal(now_ms, proposal, out),
            // A new leading controller may not have heard of all brokers, so it replaces no master before one
            // interval.
            LeaderEvent::Leads(true) => self.scan_at_ms = Some(now_ms + self.config.scan_interval_ms),
            LeaderEvent::Leads(false) => self.resign(out),
            LeaderEvent::Timer => {
                self.timer.fired();
                let gone = self.lives.expire(now_ms);
                self.replace_masters(now_ms, &gone, out);
                self.scan(now_ms, out);
            }
        }
        let wake_at_ms = self.lives.wake_at_ms().into_iter().chain(self.scan_at_ms).min();
        if let Some(wake_at_ms) = self.timer.arm(wake_at_ms) {
            out.push(LeaderAction::WakeAt(wake_at_ms));
        }
    }

    fn ask(&mut self, now_ms: u64, id: RequestId, request: Request, out: &mut Vec<LeaderAction>) {
        let (roster, lives) = (&self.roster, &self.lives);
        let answer = match &request {
            Request::NextId(name) => roster.next_id(name),
            Request::ReplicaInfo(name) => roster.replica_info(name),
            Request::SyncState(names) => roster.sync_state(now_ms, lives, names),
            Request::ApplyId { name, .. }
            | Request::Register(Registration { name, .. })
            | Request::AlterSet(AlterSet { name, .. })
            | Request::Elect(Election { name, .. })
            | Request::Clean(Clean { name, .. })
            | Request::Import(name, _) => {
                let name = name.clone();
                return self.enqueue(now_ms, name, Some(id), request, out);
            }
        };
        out.push(LeaderAction::Answer(id, answer));
    }

    fn enqueue(
        &mut self,
        now_ms: u64,
        name: String,
        id: Option<RequestId>,
        request: Request,
        out: &mut Vec<LeaderAction>,
    ) {
        let queue = self.queues.entry(name.clone()).or_default();
        match id {
            Some(id) if queue.waiting.len() >= QUEUE_MAX => {
                let remark = format!("{QUEUE_MAX} requests about broker-set {name} wait already");
                out.push(LeaderAction::Answer(id, ControllerResponse::refuse(response::SYSTEM_BUSY, remark)));
            }
            _ => queue.waiting.push_back((id, request)),
        }
        self.work_off(now_ms, &name, out);
    }

    /// Decides the requests of a set until a request needs changes.
    fn work_off(&mut self, now_ms: u64, name: &str, out: &mut Vec<LeaderAction>) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        while queue.under_way.is_none() {
            let Some((id, request)) = queue.waiting.pop_front() else {
                self.queues.remove(name);
                return;
            };
            let Decision { answer, changes } =
                decide(&self.roster, &self.lives, now_ms, &request, self.config);
            if let Request::Register(registration) = &request
                && registration.has_lost(&self.lives)
            {
                // Heartbeats from before the loss describe a log that the broker may no longer have.
                self.lives.forget(&registration.name, registration.broker);
            }
            if changes.is_empty() {
                out.extend(id.map(|id| LeaderAction::Answer(id, answer)));
                continue;
            }
            out.extend(changes.iter().filter_map(|change| lost(&self.roster, &self.lives, change)));
            self.last_proposal = ProposalId(self.last_proposal.0 + 1);
            queue.under_way = Some((self.last_proposal, id, answer));
            out.push(LeaderAction::Propose(self.last_proposal, changes));
        }
    }

    fn commit(
        &mut self,
        now_ms: u64,
        proposal: Option<ProposalId>,
        changes: Vec<Change>,
        out: &mut Vec<LeaderAction>,
    ) {
        let mut names: Vec<String> = changes.iter().map(|change| change.name().to_owned()).collect();
        names.dedup();
        let has_lost = changes.iter().any(|change| matches!(change, Change::MemberLost { .. }));
        let has_elected =
            changes.iter().any(|change| matches!(change, Change::Elected { master: Some(_), .. }));
        let has_fewer = changes.iter().any(|change| matches!(change, Change::Cleaned { .. }));
        changes.into_iter().for_each(|change| self.roster.apply(change));
        if has_fewer {
            let roster = &self.roster;
            let is_known =
                |name: &str, broker| roster.set(name).is_some_and(|set| set.address(broker).is_some());
            self.lives.keep_beats(is_known);
        }
        for name in names {
            let queue = self.queues.get_mut(&name);
            let finished = queue
                .and_then(|queue| queue.under_way.take_if(|(under_way, ..)| Some(*under_way) == proposal));
            if let Some((_, Some(id), answer)) = finished {
                out.push(LeaderAction::Answer(id, answer));
            }
            if self.scan_at_ms.is_none() {
                continue;
            }
            if has_elected && self.config.notifies {
                self.notify(now_ms, &name, out);
            }
            if has_lost && self.roster.set(&name).is_some_and(|set| set.master.is_none()) {
                self.elect(now_ms, name.clone(), out);
            }
            self.work_off(now_ms, &name, out);
        }
    }

    /// Notifies the living brokers of a set of the elected master (`ControllerManager.notifyBrokerRoleChanged`).
    fn notify(&self, now_ms: u64, name: &str, out: &mut Vec<LeaderAction>) {
        let Some(set) = self.roster.set(name) else { return };
        let elected = Mastership::of(set);
        for (broker, address) in &elected.members {
            if self.lives.is_alive(now_ms, name, *broker) {
                out.push(LeaderAction::Notify(*broker, address.clone(), elected.clone()));
            }
        }
    }

    /// Starts elections in the sets whose masters are in `gone`.
    fn replace_masters(&mut self, now_ms: u64, gone: &[(String, BrokerId)], out: &mut Vec<LeaderAction>) {
        if self.scan_at_ms.is_none() {
            return;
        }
        for (name, broker) in gone {
            if self.roster.set(name).is_some_and(|set| set.master == Some(*broker)) {
                self.elect(now_ms, name.clone(), out);
            }
        }
    }

    fn elect(&mut self, now_ms: u64, name: String, out: &mut Vec<LeaderAction>) {
        let election = Election { name: name.clone(), broker: None, is_designated: false };
        self.enqueue(now_ms, name, None, Request::Elect(election), out);
    }

    /// Searches sets whose master is gone while another broker is alive (`scanNeedReelectBrokerSets`).
    fn scan(&mut self, now_ms: u64, out: &mut Vec<LeaderAction>) {
        if self.scan_at_ms.is_none_or(|scan_at_ms| now_ms < scan_at_ms) {
            return;
        }
        self.scan_at_ms = Some(now_ms + self.config.scan_interval_ms);
        let lives = &self.lives;
        let needs_one = self.roster.sets().iter().filter(|(name, set)| {
            let is_alive = |broker: &BrokerId| lives.is_alive(now_ms, name, *broker);
            let is_gone = set.master.as_ref().is_some_and(|master| !is_alive(master));
            is_gone && set.brokers.keys().any(is_alive) && !self.queues.contains_key(*name)
        });
        let names: Vec<String> = needs_one.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.elect(now_ms, name, out);
        }
    }

    fn drop_proposal(&mut self, now_ms: u64, proposal: ProposalId, out: &mut Vec<LeaderAction>) {
        let is_it =
            |queue: &Queue| queue.under_way.as_ref().is_some_and(|(under_way, ..)| *under_way == proposal);
        let Some(name) = self.queues.iter().find(|(_, queue)| is_it(queue)).map(|(name, _)| name.clone())
        else {
            return;
        };
        let queue = self.queues.get_mut(&name).expect("found above");
        if let Some((_, Some(id), _)) = queue.under_way.take() {
            out.push(LeaderAction::Answer(id, not_leader()));
        }
        self.work_off(now_ms, &name, out);
    }

    fn resign(&mut self, out: &mut Vec<LeaderAction>) {
        self.scan_at_ms = None;
        for queue in std::mem::take(&mut self.queues).into_values() {
            let under_way = queue.under_way.and_then(|(_, id, _)| id);
            let waiting = queue.waiting.into_iter().filter_map(|(id, _)| id);
            out.extend(under_way.into_iter().chain(waiting).map(|id| LeaderAction::Answer(id, not_leader())));
        }
    }
}

/// The answer of a controller that does not lead (`ControllerRequestProcessor`). After a proposal it leaves open whether the
/// changes are committed.
fn not_leader() -> ControllerResponse {
    ControllerResponse::refuse(response::CONTROLLER_NOT_LEADER, "The controller is not in leader state")
}

/// Returns the action that logs a loss of messages, if the change elects a master outside the in-sync set.
fn lost(roster: &Roster, lives: &Lives, change: &Change) -> Option<LeaderAction> {
    let Change::Elected { name, master: Some(winner) } = change else { return None };
    let set = roster.set(name).filter(|set| set.master_epoch > Epoch::ZERO)?;
    if set.in_sync.members.contains(winner) {
        return None;
    }
    let end = |broker| match lives.last_end(name, broker) {
        Some(end) => format!("broker {broker}, whose log ended at {end}"),
        None => format!("broker {broker}, whose log's end is not known"),
    };
    let members: Vec<String> = set.in_sync.members.iter().map(|member| end(*member)).collect();
    Some(LeaderAction::Lost(format!(
        "broker set {name}: {} becomes master although it is not in the in-sync set (enableElectUncleanMaster): acknowledged \
         messages behind its end are lost. In the set: {}",
        end(*winner),
        members.join("; "),
    )))
}

fn decide(roster: &Roster, lives: &Lives, now_ms: u64, request: &Request, config: LeaderConfig) -> Decision {
    match request {
        Request::ApplyId { cluster, name, broker, check_code } => {
            roster.apply_id(cluster, name, *broker, check_code)
        }
        Request::Register(registration) => roster.register(now_ms, lives, registration),
        Request::AlterSet(request) => roster.alter_set(now_ms, lives, request),
        Request::Elect(election) => roster.elect(now_ms, lives, election, config.may_lose),
        Request::Clean(request) => roster.clean(now_ms, lives, request),
        Request::Import(name, set) => roster.import(name, set),
        Request::NextId(name) => roster.next_id(name).into(),
        Request::ReplicaInfo(name) => roster.replica_info(name).into(),
        Request::SyncState(names) => roster.sync_state(now_ms, lives, names).into(),
    }
}
