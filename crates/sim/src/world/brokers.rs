//! Processes of brokers, their outputs, and the responses to clients.

use super::{Event, SENDS_END_MS, World};
use crate::broker::{Broker, Input, Note, Output, SendOutcome};
use crate::check;
use crate::clients::Call;
use crate::faults::Crash;
use crate::history::Acknowledged;
use crate::network::{Direction, Process};
use crate::settings::{BROKERS, CLIENTS, NodeId};
use replica::slave_log::Attempt;
use replica::transfer::PeerId;
use store::FakeDisk;

impl World {
    pub(super) fn feed_alive(&mut self, process: Process, input: Input) {
        if self.is_alive(process) {
            self.feed(process.0, input);
        }
    }

    pub(super) fn feed(&mut self, node: NodeId, input: Input) {
        let now = self.clock(node);
        let Some(broker) = &mut self.nodes[node.0].broker else { return };
        let outputs = broker.take(now, input);
        self.after(node, outputs);
    }

    /// Processes the outputs of a broker's step.
    fn after(&mut self, node: NodeId, outputs: Vec<Output>) {
        let it = &mut self.nodes[node.0];
        let Some(broker) = &mut it.broker else { return };
        let process = (node, it.life);
        let mut is_killed = false;
        it.disk.faults(|faults| is_killed = faults.killed_after == Some(0));
        if is_killed {
            let crash = it.dies.unwrap_or(Crash::Kill);
            let down_ms = self.random.between(20, 3_000);
            return self.crash(node, crash, down_ms);
        }
        it.end_max = it.end_max.max(broker.store().followed().get());
        it.id = it.id.or(broker.id());
        it.may_have_lost &= broker.may_have_lost();
        let is_fenced = broker.store().fenced().is_some() && it.fenced_ms.is_none();
        let (wanted_ms, rate) = (broker.wake_at_ms(), (1_000 + it.drift).unsigned_abs());
        if is_fenced {
            it.fenced_ms = Some(self.now_ms);
            self.trace.note(self.now_ms, node.name(), &"is fenced");
            let after_ms = self.random.between(300, 3_000);
            let down_ms = self.random.between(100, 2_000);
            self.schedule(after_ms, Event::Crash(process, Crash::PowerCut, down_ms));
        }
        if let Some(wanted_ms) = wanted_ms {
            let at_ms = (wanted_ms * 1_000).div_ceil(rate).max(self.now_ms + 1);
            let armed = &mut self.nodes[node.0].armed_ms;
            if armed.is_none_or(|armed_ms| at_ms < armed_ms) {
                *armed = Some(at_ms);
                self.schedule(at_ms - self.now_ms, Event::Wake(process));
            }
        }
        outputs.into_iter().for_each(|output| self.output(process, output));
    }

    fn output(&mut self, process: Process, output: Output) {
        let node = process.0;
        match output {
            Output::Connect(attempt, to) => self.travel(node, to, Event::Connect(process, attempt, to)),
            Output::Write(peer, bytes) => {
                self.trace.add(&bytes);
                if let Some(direction) = self.network.write(peer, node, &bytes) {
                    let to = self.network.connection(peer).map_or(node, |it| it.node(direction));
                    self.travel(node, to, Event::Deliver(peer, direction));
                }
            }
            Output::End(peer) => self.end(peer, process),
            Output::AskLeader(call, at) => {
                self.schedule(super::CALL_MS, Event::Leader(process, at, call, None));
                self.travel(node, at, Event::AskLeader(process, at, call));
            }
            Output::Ask(call, at, request) => {
                self.schedule(super::CALL_MS, Event::Answer(process, at, call, None));
                self.travel(node, at, Event::Ask(process, at, call, request, self.now_ms));
            }
            Output::Beat(heartbeat) => {
                self.nodes[node.0].promised = heartbeat.kept.map_or(0, wire::units::LogOffset::get);
                for at in NodeId::controllers() {
                    self.travel(node, at, Event::Beat(process, at, heartbeat.clone()));
                }
            }
            Output::Lookup(master) => {
                let after_ms = self.random.between(5, 500);
                self.schedule(after_ms, Event::MasterAt(process, master));
            }
            Output::Sent(call, outcome) => self.travel(node, CLIENTS, Event::Sent(node, call, outcome)),
            Output::Found(call, found) => self.travel(node, CLIENTS, Event::Found(node, call, found)),
            Output::Note(note) => self.note(process, note),
        }
    }

    fn note(&mut self, (node, life): Process, note: Note) {
        match &note {
            Note::Appended(number) => return self.trace.event(self.now_ms, &[node.0 as u64, *number]),
            Note::Acknowledged { .. } => {}
            other => self.trace.note(self.now_ms, node.name(), other),
        }
        match note {
            Note::Acknowledged { number, end, place, epoch } => {
                self.trace.event(self.now_ms, &[node.0 as u64, number, end, place.1]);
                let acknowledged = Acknowledged { end, place, at_ms: self.now_ms };
                let checked = self.history.acknowledge(node, epoch, number, acknowledged);
                self.fail(checked);
                let copies = self.copies_of(end);
                self.fail(copies);
                if self.now_ms >= super::HEAL_MS {
                    self.served_ms.get_or_insert(self.now_ms);
                }
            }
            Note::Refused(number) => self.history.refuse(number),
            Note::Leads(epoch) => {
                self.elections += 1;
                self.newest_epoch = self.newest_epoch.max(epoch);
                // Otherwise a late answer told a deposed master that it leads: it may lack what its successor acknowledged.
                if epoch == self.newest_epoch {
                    let checked = self.check_master(node);
                    self.fail(checked);
                }
            }
            Note::Diverged(CLIENTS) => {}
            Note::Diverged(slave) => self.schedule(100, Event::Wipe(slave)),
            Note::Broken(_) => {
                let after_ms = self.random.between(500, 1_500);
                self.schedule(after_ms, Event::Crash((node, life), Crash::Kill, 200));
            }
            Note::Appended(_) | Note::Follows(_) | Note::Cut(..) => {}
        }
    }

    /// Checks that a message that ends at `end` is on as many brokers as a classic group promises.
    /// In controller mode the check always succeeds.
    fn copies_of(&self, end: u64) -> Result<(), String> {
        let needed = self.settings.copies() as usize;
        let has = self.nodes.iter().filter(|node| node.end_max >= end).count();
        match needed == 1 || has >= needed {
            true => Ok(()),
            false => Err(format!("P1: acknowledged up to {end} on {has} brokers instead of {needed}")),
        }
    }

    /// Checks that a broker that becomes master has every message that a client knows.
    fn check_master(&self, node: NodeId) -> Result<(), String> {
        let Some(broker) = &self.nodes[node.0].broker else { return Ok(()) };
        let log = check::derived(node, broker.store())?;
        let begin = broker.store().min().get();
        self.history.check(&log, begin).map_err(|what| format!("new master {}: {what}", node.name()))
    }

    pub(super) fn start(&mut self, node: NodeId) {
        if self.nodes[node.0].broker.is_some() {
            return;
        }
        let now = self.clock(node);
        let it = &mut self.nodes[node.0];
        it.life += 1;
        (it.armed_ms, it.fenced_ms, it.slow) = (None, None, None);
        let (disk, may_have_lost) = (it.disk.clone(), it.may_have_lost);
        match Broker::start(node, self.settings, (self.base, now), disk, may_have_lost) {
            Ok(mut broker) => {
                let outputs = broker.take_outputs();
                let recovered = broker.store().recovered().clone();
                it.end_max = it.end_max.min(recovered.end).max(broker.store().followed().get());
                it.broker = Some(Box::new(broker));
                it.lost_from.take_if(|from| *from >= recovered.end);
                self.trace.note(self.now_ms, node.name(), &("starts", recovered.end, recovered.after_crash));
                if !self.has_controllers() && node == NodeId(0) {
                    self.master_is_back();
                }
                self.after(node, outputs);
            }
            Err(error) => {
                let what = format!("broker {} cannot be started: {error}", node.name());
                self.fail(Err(what));
            }
        }
    }

    /// Checks after the return of a classic master that its loss is within its mode. Empties the
    /// running slaves whose log has been longer since their last start, as the operator must. A
    /// slave that is down notices the difference when it connects ([`Note::Diverged`]), and is
    /// emptied then.
    fn master_is_back(&mut self) {
        let Some(broker) = &self.nodes[0].broker else { return };
        let (end, begin) = (broker.store().appended().get(), broker.store().min().get());
        let lost_since_ms = self.nodes[0].lost_since_ms.filter(|_| !self.settings.is_sync_flush());
        let checked = check::derived(NodeId(0), broker.store()).and_then(|log| match lost_since_ms {
            Some(since_ms) => self.history.lose(&log, end, since_ms),
            None => {
                if self.nodes[0].lost_since_ms.is_some() {
                    self.history.forget_unacknowledged(&log);
                }
                self.history.check(&log, begin)
            }
        });
        if self.nodes[0].lost_since_ms.take().is_some() {
            self.clients.forget_reads();
        }
        self.fail(checked);
        for slave in (1..BROKERS).map(NodeId) {
            if self.is_up(slave) && self.nodes[slave.0].end_max > end {
                self.wipe(slave);
            } else if !self.is_up(slave) {
                let lost_from = &mut self.nodes[slave.0].lost_from;
                *lost_from = Some(lost_from.map_or(end, |from| from.min(end)));
            }
        }
        if lost_since_ms.is_some() {
            self.clients.forget_places();
        }
    }

    /// The operator empties a slave.
    pub(super) fn wipe(&mut self, node: NodeId) {
        self.trace.note(self.now_ms, node.name(), &"is emptied");
        self.crash(node, Crash::Kill, 300);
        let it = &mut self.nodes[node.0];
        (it.disk, it.end_max, it.lost_from) = (FakeDisk::new(512), 0, None);
    }

    // Connections.

    pub(super) fn connect(&mut self, slave: Process, attempt: Attempt, to: NodeId) {
        let is_cut =
            self.network.is_cut(self.now_ms, slave.0, to) || self.network.is_cut(self.now_ms, to, slave.0);
        if is_cut || !self.is_up(to) {
            let after_ms = if is_cut { super::CALL_MS } else { 2 };
            return self.schedule(after_ms, Event::NotConnected(slave, attempt));
        }
        if !self.is_alive(slave) {
            return;
        }
        let peer = self.network.connect(slave, (to, self.nodes[to.0].life));
        self.feed(to, Input::Accepted(peer, slave.0));
        self.feed_alive(slave, Input::Opened(attempt, peer));
    }

    /// A process closes its end of a connection.
    pub(super) fn end(&mut self, peer: PeerId, process: Process) {
        if let Some(other) = self.network.close(peer, process) {
            let to = self.network.connection(peer).map_or(process.0, |it| it.node(other));
            self.travel(process.0, to, Event::Ended(peer, other));
        }
    }

    pub(super) fn ended(&mut self, peer: PeerId, direction: Direction) {
        let Some(connection) = self.network.connection(peer) else { return };
        let (to, from) = (connection.node(direction), connection.node(direction.back()));
        let Some(process) = connection.end(direction) else { return };
        if self.network.is_cut(self.now_ms, from, to) {
            return self.schedule(200, Event::Ended(peer, direction));
        }
        self.network.close(peer, process);
        self.feed_alive(process, Input::Ended(peer));
    }

    pub(super) fn deliver(&mut self, peer: PeerId, direction: Direction) {
        let Some(connection) = self.network.connection(peer) else { return };
        let (to, from) = (connection.node(direction), connection.node(direction.back()));
        let (receiver, sender) = (connection.end(direction), connection.end(direction.back()));
        if self.network.is_cut(self.now_ms, from, to) {
            return self.schedule(100, Event::Deliver(peer, direction));
        }
        let (bytes, is_left) = self.network.arrive(peer, direction, &mut self.random);
        if is_left {
            self.travel(from, to, Event::Deliver(peer, direction));
        }
        let count = bytes.len();
        self.trace.event(self.now_ms, &[peer.0, from.0 as u64, count as u64]);
        let Some(receiver) = receiver.filter(|receiver| self.is_alive(*receiver)) else {
            // The process is gone. Its machine reports it, if the machine is up.
            if self.is_up(to) {
                self.travel(to, from, Event::Ended(peer, direction.back()));
            }
            return;
        };
        self.feed_alive(receiver, Input::Received(peer, bytes));
        if let Some(sender) = sender {
            self.feed_alive(sender, Input::Taken(peer, count));
        }
    }

    // Clients.

    pub(super) fn clients_round(&mut self) {
        self.schedule(10, Event::Clients);
        for (node, call, what) in self.clients.round(self.now_ms, self.now_ms < SENDS_END_MS) {
            self.travel(CLIENTS, node, Event::Call(node, call, what, self.now_ms));
        }
    }

    pub(super) fn call(&mut self, node: NodeId, call: u64, what: Call, sent_ms: u64) {
        if self.network.is_cut(self.now_ms, CLIENTS, node) {
            if self.now_ms < sent_ms + super::CALL_MS {
                self.schedule(500, Event::Call(node, call, what, sent_ms));
            }
            return;
        }
        if !self.is_up(node) {
            // The connection is refused: what was sent is unknown.
            return self.travel(node, CLIENTS, Event::Sent(node, call, SendOutcome::Unknown));
        }
        let input = match what {
            Call::Send(sending) => Input::Send(call, sending),
            Call::Read(queue, from) => Input::Read(call, queue, from),
        };
        self.feed(node, input);
    }

    pub(super) fn found(&mut self, node: NodeId, call: u64, found: &[(u64, u64)]) {
        if self.network.is_cut(self.now_ms, node, CLIENTS) {
            return;
        }
        let Some(queue) = self.clients.found(call, found) else { return };
        if self.nodes[node.0].lost_from.is_some() {
            return;
        }
        for (offset, number) in found {
            let seen = self.history.see((queue, *offset), *number);
            self.fail(seen.map_err(|what| format!("from {}: {what}", node.name())));
        }
    }
}
