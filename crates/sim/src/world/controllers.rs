//! Processes of controllers, the messages between them, and the calls of brokers.

use super::{CALL_MS, Event, World};
use crate::broker::Input;
use crate::controller::{Action, Controller};
use crate::faults::Crash;
use crate::network::Process;
use crate::settings::{BROKERS, NODES, NodeId};
use replica::roster::ConnectionId;
use store::FakeDisk;

/// The machine of a controller. Its disk stays when the controller's process ends.
pub(super) struct Station {
    pub(super) controller: Option<Box<Controller>>,
    pub(super) disk: FakeDisk,
    life: u64,
    armed_ms: Option<u64>,
    pub(super) paused_ms: Option<u64>,
    /// Crash of the process at one of its next writes.
    pub(super) dies: Option<Crash>,
}

impl Station {
    pub(super) fn new() -> Self {
        let disk = FakeDisk::new(512);
        Self { controller: None, disk, life: 0, armed_ms: None, paused_ms: None, dies: None }
    }
}

impl World {
    pub(super) fn station(&mut self, node: NodeId) -> &mut Station {
        &mut self.stations[node.0 - BROKERS]
    }

    /// Returns the controller's process on a node, if it is up.
    fn controller(&mut self, node: NodeId) -> Option<&mut Controller> {
        self.station(node).controller.as_deref_mut()
    }

    pub(super) fn start_controller(&mut self, node: NodeId) {
        let bug = self.settings.bug;
        let station = self.station(node);
        if station.controller.is_some() {
            return;
        }
        station.life += 1;
        station.armed_ms = None;
        match Controller::open(node, &station.disk, bug) {
            Ok(controller) => station.controller = Some(Box::new(controller)),
            Err(what) => return self.fail(Err(format!("controller {} does not start: {what}", node.name()))),
        }
        self.step_controller(node, controller::Event::Started);
    }

    fn step_controller(&mut self, node: NodeId, event: controller::Event) {
        let now_ms = self.now_ms;
        let actions = self.controller(node).map(|it| it.step(now_ms, event));
        self.perform_actions(node, actions);
    }

    /// Ends a controller's process, and starts the controller again after `down_ms`. A power cut
    /// also costs a part of the unsynced data.
    pub(super) fn crash_controller(&mut self, node: NodeId, crash: Crash, down_ms: u64) {
        let number = self.random.number();
        let station = self.station(node);
        if station.controller.take().is_none() {
            return;
        }
        station.disk = match crash {
            Crash::Kill => station.disk.killed(),
            Crash::PowerCut => station.disk.power_cut(number),
        };
        (station.dies, station.paused_ms) = (None, None);
        self.trace.note(self.now_ms, node.name(), &("crashes", crash));
        self.schedule(down_ms, Event::Start(node));
    }

    pub(super) fn happen_controller(&mut self, event: Event) {
        let now_ms = self.now_ms;
        let is_cut = |world: &Self, node: NodeId, to: NodeId| world.network.is_cut(now_ms, node, to);
        match event {
            Event::AskLeader(process, at, call) if !is_cut(self, process.0, at) => {
                let Some(controller) = self.controller(at) else { return };
                let leader = controller.leading().map(|leader| leader.name().to_owned());
                self.travel(at, process.0, Event::Leader(process, at, call, leader));
            }
            // Sent again by the network, until the caller gives up.
            Event::Ask(process, at, call, request, sent_ms)
                if is_cut(self, process.0, at) && now_ms < sent_ms + CALL_MS =>
            {
                self.schedule(300, Event::Ask(process, at, call, request, sent_ms));
            }
            Event::Ask(process, at, call, request, _) if !is_cut(self, process.0, at) => {
                self.trace.note(now_ms, process.0.name(), &request);
                let actions = self.controller(at).map(|it| it.ask(now_ms, process, call, request));
                self.perform_actions(at, actions);
            }
            Event::Beat(process, at, mut heartbeat) if !is_cut(self, process.0, at) => {
                heartbeat.connection = Self::connection_of(process);
                let beat = replica::roster::LeaderEvent::Heartbeat(heartbeat);
                self.step_controller(at, controller::Event::Leader(beat));
            }
            Event::Consensus(from, to, message) if !is_cut(self, from, to) => {
                let actions = self.controller(to).map(|it| it.receive(now_ms, from, message));
                if actions.is_none() {
                    self.schedule(1, Event::Unreachable(from, to));
                }
                self.perform_actions(to, actions);
            }
            Event::Unreachable(node, peer) => {
                let actions = self.controller(node).map(|it| it.unreachable(now_ms, peer));
                self.perform_actions(node, actions);
            }
            Event::ControllerWake((node, life)) if self.station(node).life == life => {
                self.station(node).armed_ms = None;
                self.step_controller(node, controller::Event::Timer);
            }
            Event::Disconnected(process, at) => {
                let gone = replica::roster::LeaderEvent::Disconnected(Self::connection_of(process));
                self.step_controller(at, controller::Event::Leader(gone));
            }
            _ => {}
        }
    }

    fn connection_of((node, life): Process) -> ConnectionId {
        ConnectionId(life * NODES as u64 + node.0 as u64)
    }

    /// Performs the actions of a controller.
    fn perform_actions(&mut self, node: NodeId, actions: Option<Vec<Action>>) {
        for action in actions.into_iter().flatten() {
            match action {
                Action::Answer(process, call, answer) => {
                    self.trace.note(self.now_ms, node.name(), &answer);
                    self.travel(node, process.0, Event::Answer(process, node, call, Some(answer)));
                }
                Action::Send(peer, message) => {
                    self.trace.add(&message);
                    self.travel(node, peer, Event::Consensus(node, peer, message));
                }
                Action::Notify(broker, mastership) => {
                    self.travel(node, broker, Event::Notify(broker, node, mastership));
                }
                Action::WakeAt(at_ms) => self.wake_controller(node, at_ms),
                Action::End(what) => {
                    self.trace.note(self.now_ms, node.name(), &what);
                    let crash = self.station(node).dies.unwrap_or(Crash::Kill);
                    let down_ms = self.random.between(20, 3_000);
                    self.crash_controller(node, crash, down_ms);
                }
            }
        }
    }

    fn wake_controller(&mut self, node: NodeId, at_ms: u64) {
        let at_ms = at_ms.max(self.now_ms + 1);
        let after_ms = at_ms - self.now_ms;
        let station = self.station(node);
        let process = (node, station.life);
        if station.armed_ms.is_none_or(|armed_ms| at_ms < armed_ms) {
            station.armed_ms = Some(at_ms);
            self.schedule(after_ms, Event::ControllerWake(process));
        }
    }

    /// Passes an answer or a notice of a controller to its broker, unless the link between the two is cut.
    pub(super) fn hear(&mut self, event: Event) {
        let is_cut = |world: &Self, from: NodeId, to: NodeId| world.network.is_cut(world.now_ms, from, to);
        match event {
            Event::Leader(process, at, call, leader) if leader.is_none() || !is_cut(self, at, process.0) => {
                self.feed_alive(process, Input::Leader(call, leader));
            }
            Event::Answer(process, at, call, answer) if answer.is_none() || !is_cut(self, at, process.0) => {
                self.feed_alive(process, Input::Answered(call, answer));
            }
            Event::Notify(node, at, mastership) if !is_cut(self, at, node) => {
                self.feed(node, Input::Notified(mastership.epoch));
            }
            _ => {}
        }
    }

    /// The members of the in-sync set as they were committed last.
    pub(super) fn members(&self) -> Vec<wire::ha::BrokerId> {
        let known = self.stations.iter().filter_map(|station| station.controller.as_ref());
        known.map(|controller| controller.members()).max().unwrap_or_default().1
    }

    /// Checks that a single controller leads at the end, and that all have equal tables.
    pub(super) fn check_controllers(&self) -> Result<(), String> {
        if !self.has_controllers() {
            return Ok(());
        }
        let mut up = Vec::new();
        for (node, station) in NodeId::controllers().zip(&self.stations) {
            let controller = station.controller.as_deref();
            up.push(controller.ok_or(format!("P14: controller {} is down", node.name()))?);
        }
        let leaders = up.iter().filter(|controller| controller.leads()).count();
        if leaders != 1 {
            return Err(format!("P14: {leaders} controllers lead at the end"));
        }
        match up.iter().all(|controller| controller.roster().encode() == up[0].roster().encode()) {
            true => Ok(()),
            false => Err("P14: the tables of the controllers differ at the end".to_owned()),
        }
    }
}
