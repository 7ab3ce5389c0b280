//! The world of a run: virtual time, an event queue, processes on disks, and the network between them.

mod brokers;
mod controllers;
mod ends;
mod perform;

use crate::broker::{Broker, Input, Now, SendOutcome};
use crate::clients::{Call, Clients};
use crate::faults::Crash;
use crate::history::History;
use crate::network::{Direction, Network, Process};
use crate::random::Random;
use crate::settings::{BROKERS, Bug, CLIENTS, CONTROLLERS, Mode, NodeId, Scenario, Settings};
use crate::trace::Trace;
use controllers::Station;
use replica::agent::CallId;
use replica::roster::{ControllerResponse, Heartbeat, Mastership, Request};
use replica::slave_log::Attempt;
use replica::transfer::PeerId;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use store::FakeDisk;
use wire::ha::{BrokerId, Epoch};

/// When faults begin.
const FAULTS_MS: u64 = 3_000;
/// When all faults are over.
const HEAL_MS: u64 = 60_000;
/// Time from which on there must be service (P14).
const SERVICE_MS: u64 = HEAL_MS + 30_000;
/// When producers stop.
const SENDS_END_MS: u64 = SERVICE_MS + 8_000;
/// When the run ends.
pub const END_MS: u64 = SENDS_END_MS + 12_000;
/// The time of day at the beginning, in ms since the epoch.
const WALL_MS: i64 = 1_700_000_000_000;
/// Timeout of a call to a controller.
const CALL_MS: u64 = 3_000;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Failed check.
    pub failure: Option<String>,
    /// The hash of everything that happened.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Number of acknowledged messages.
    pub acknowledged: u64,
    /// Number of times a broker began to lead.
    pub elections: u64,
}

enum Event {
    Wake(Process),
    Deliver(PeerId, Direction),
    Ended(PeerId, Direction),
    Connect(Process, Attempt, NodeId),
    NotConnected(Process, Attempt),
    Clients,
    Call(NodeId, u64, Call, u64),
    Sent(NodeId, u64, SendOutcome),
    Found(NodeId, u64, Vec<(u64, u64)>),
    AskLeader(Process, NodeId, CallId),
    Ask(Process, NodeId, CallId, Request, u64),
    Beat(Process, NodeId, Heartbeat),
    Leader(Process, NodeId, CallId, Option<String>),
    Answer(Process, NodeId, CallId, Option<ControllerResponse>),
    Notify(NodeId, NodeId, Mastership),
    /// A message of consensus from one controller to another.
    Consensus(NodeId, NodeId, Vec<u8>),
    /// A controller learns that another is not up.
    Unreachable(NodeId, NodeId),
    ControllerWake(Process),
    Disconnected(Process, NodeId),
    MasterAt(Process, NodeId),
    Start(NodeId),
    Crash(Process, Crash, u64),
    Wipe(NodeId),
    FreeDisk(NodeId),
    Fault,
    Heal,
}

struct Node {
    broker: Option<Box<Broker>>,
    disk: FakeDisk,
    life: u64,
    /// Start and end of each time in which the broker's process ran no code, in ms.
    pauses: Vec<(u64, u64)>,
    /// Drift of the node's clock in thousandths of the virtual time.
    drift: i64,
    /// Offset of the node's time of day, set by its last jump.
    jump_ms: i64,
    armed_ms: Option<u64>,
    may_have_lost: bool,
    /// Time after which acknowledged messages may be lost, because the machine lost power while its process was up.
    /// Earlier messages were on disk.
    lost_since_ms: Option<u64>,
    /// Crash of the process at one of its next writes.
    dies: Option<Crash>,
    /// Time in ms since which the broker's store is fenced. The operator restarts the broker soon.
    fenced_ms: Option<u64>,
    /// Duration in ms of a round of flushes on the broker's disk, since the process started.
    slow: Option<u64>,
    /// Largest end of the broker's log since the last start of the broker.
    end_max: u64,
    /// Smallest end of the classic master's log at a restart of the master while this broker was
    /// down. Records after this position may exist on this broker alone, so reads from this broker
    /// are not checked. `None` once its log is emptied, or ends at or before the position.
    lost_from: Option<u64>,
    /// Id of the broker at the controllers.
    id: Option<BrokerId>,
    /// Copy of its disk, and the end of the log in it.
    copy: Option<(FakeDisk, u64)>,
    /// Position that the last heartbeat promised for the next start.
    promised: u64,
}

struct World {
    settings: Settings,
    random: Random,
    trace: Trace,
    base: Instant,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    nodes: Vec<Node>,
    network: Network,
    stations: Vec<Station>,
    clients: Clients,
    history: History,
    elections: u64,
    /// The newest epoch that a broker has led.
    newest_epoch: Epoch,
    last_loss_ms: Option<u64>,
    served_ms: Option<u64>,
    failure: Option<String>,
}

/// Runs a scenario with a seed.
pub fn run(seed: u64, scenario: Scenario, bug: Option<Bug>, is_printed: bool) -> Outcome {
    let mut world = World::new(seed, scenario, bug, is_printed);
    let run = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = run {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.failure = Some(format!("a panic: {}", text.unwrap_or_default()));
    }
    Outcome {
        failure: world.failure.take().map(|what| format!("at {} ms: {what}", world.now_ms)),
        hash: world.trace.hash(),
        events: world.trace.events(),
        acknowledged: world.history.count,
        elections: world.elections,
    }
}

impl World {
    fn new(seed: u64, scenario: Scenario, bug: Option<Bug>, is_printed: bool) -> Self {
        let mut random = Random::new(seed);
        let settings = Settings::new(scenario, bug, &mut random);
        let has_drift = random.once_in(3);
        let nodes = (0..BROKERS).map(|_| Node {
            broker: None,
            disk: FakeDisk::new(512),
            life: 0,
            pauses: Vec::new(),
            drift: if has_drift { i64::try_from(random.below(101)).expect("small") - 50 } else { 0 },
            jump_ms: 0,
            armed_ms: None,
            may_have_lost: false,
            lost_since_ms: None,
            dies: None,
            fenced_ms: None,
            slow: None,
            end_max: 0,
            lost_from: None,
            id: None,
            copy: None,
            promised: 0,
        });
        let nodes = nodes.collect();
        let clients = Clients::new(&settings, Random::new(random.number()));
        #[expect(clippy::disallowed_methods, reason = "where the clocks begin; only differences count")]
        let base = Instant::now();
        Self {
            settings,
            random,
            trace: Trace::new(is_printed),
            base,
            now_ms: 0,
            events: BTreeMap::new(),
            sequence: 0,
            nodes,
            network: Network::default(),
            stations: (0..CONTROLLERS).map(|_| Station::new()).collect(),
            clients,
            history: History::default(),
            elections: 0,
            newest_epoch: Epoch::ZERO,
            last_loss_ms: None,
            served_ms: None,
            failure: None,
        }
    }

    fn run(&mut self) {
        if self.has_controllers() {
            NodeId::controllers().for_each(|node| self.schedule(0, Event::Start(node)));
        }
        NodeId::brokers().for_each(|node| self.schedule(0, Event::Start(node)));
        self.schedule(300, Event::Clients);
        self.schedule(FAULTS_MS, Event::Fault);
        self.schedule(HEAL_MS, Event::Heal);
        while let Some(((time_ms, sequence), event)) = self.events.pop_first() {
            if time_ms > END_MS || self.failure.is_some() {
                break;
            }
            self.now_ms = time_ms;
            let paused = Self::target(&event, &self.network).and_then(|node| self.paused_until(node));
            if let Some(until_ms) = paused {
                // In the order in which they came.
                self.events.insert((until_ms, sequence), event);
                continue;
            }
            self.happen(event);
        }
        if self.failure.is_none() {
            self.now_ms = END_MS;
            self.failure = self.check_end().err();
        }
    }

    fn schedule(&mut self, after_ms: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now_ms + after_ms, self.sequence), event);
    }

    /// Sends an event from one node to another.
    fn travel(&mut self, from: NodeId, to: NodeId, event: Event) {
        let delay_ms = self.network.delay(self.now_ms, from, to, &mut self.random);
        self.schedule(delay_ms, event);
    }

    fn fail(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.failure.get_or_insert(what);
        }
    }

    /// Returns the node that must run for an event.
    fn target(event: &Event, network: &Network) -> Option<NodeId> {
        match event {
            Event::Wake((node, _))
            | Event::NotConnected((node, _), _)
            | Event::Leader((node, _), ..)
            | Event::Answer((node, _), ..)
            | Event::MasterAt((node, _), _)
            | Event::Call(node, ..)
            | Event::Connect(_, _, node)
            | Event::Notify(node, ..) => Some(*node),
            Event::Deliver(peer, direction) | Event::Ended(peer, direction) => {
                network.connection(*peer).map(|connection| connection.node(*direction))
            }
            Event::AskLeader(_, node, _)
            | Event::Ask(_, node, ..)
            | Event::Beat(_, node, _)
            | Event::Consensus(_, node, _)
            | Event::Unreachable(node, _)
            | Event::ControllerWake((node, _))
            | Event::Disconnected(_, node) => Some(*node),
            Event::Sent(..)
            | Event::Found(..)
            | Event::Clients
            | Event::Start(_)
            | Event::Crash(..)
            | Event::Wipe(_)
            | Event::FreeDisk(_)
            | Event::Fault
            | Event::Heal => None,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(process) => {
                if self.is_alive(process) {
                    self.nodes[process.0.0].armed_ms = None;
                    self.feed(process.0, Input::Wake);
                }
            }
            Event::Deliver(peer, direction) => self.deliver(peer, direction),
            Event::Ended(peer, direction) => self.ended(peer, direction),
            Event::Connect(process, attempt, to) => self.connect(process, attempt, to),
            Event::NotConnected(process, attempt) => self.feed_alive(process, Input::NotOpened(attempt)),
            Event::Clients => {
                self.fail(self.check_service());
                self.clients_round();
            }
            Event::Call(node, call, what, sent_ms) => self.call(node, call, what, sent_ms),
            Event::Sent(node, call, outcome) => {
                if !self.network.is_cut(self.now_ms, node, CLIENTS) {
                    let place = |number| self.history.place_of(number);
                    let checked = self.clients.sent(self.now_ms, call, outcome, place);
                    self.fail(checked);
                }
            }
            Event::Found(node, call, found) => self.found(node, call, &found),
            Event::Start(node) if node.is_controller() => self.start_controller(node),
            Event::Start(node) => self.start(node),
            Event::Crash(process, crash, down_ms) => {
                if self.is_alive(process) {
                    self.crash(process.0, crash, down_ms);
                }
            }
            Event::Wipe(node) => self.wipe(node),
            Event::FreeDisk(node) => self.free_disk(node),
            Event::Fault => self.fault(),
            Event::Heal => self.heal(),
            Event::MasterAt(process, master) => self.feed_alive(process, Input::MasterAt(master)),
            event @ (Event::Leader(..) | Event::Answer(..) | Event::Notify(..)) => self.hear(event),
            event => self.happen_controller(event),
        }
    }

    fn paused_until(&self, node: NodeId) -> Option<u64> {
        let until_ms = match node {
            node if node.is_controller() => self.stations[node.0 - BROKERS].paused_ms?,
            broker => self.nodes.get(broker.0)?.pauses.iter().map(|pause| pause.1).max()?,
        };
        (until_ms > self.now_ms).then_some(until_ms)
    }

    fn is_alive(&self, (node, life): Process) -> bool {
        self.is_up(node) && self.nodes[node.0].life == life
    }

    /// Whether a broker's process runs on a node.
    fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(node.0).is_some_and(|it| it.broker.is_some())
    }

    fn has_controllers(&self) -> bool {
        self.settings.mode == Mode::Controller
    }

    /// The time as a broker reads it.
    fn clock(&self, node: NodeId) -> Now {
        let it = &self.nodes[node.0];
        let now_ms = i64::try_from(self.now_ms).expect("a short run");
        let ms = now_ms + now_ms * it.drift / 1_000;
        Now { ms: ms.unsigned_abs(), wall_ms: WALL_MS + ms + it.jump_ms }
    }
}
