//! Faults as they happen, and their end.

use super::{Event, HEAL_MS, World};
use crate::broker::Input;
use crate::faults::{self, Crash, Fault};
use crate::network::Direction;
use crate::settings::{CLIENTS, Faults, NODES, NodeId};
use store::FakeDisk;
use wire::ha::switch::Handshake;
use wire::ha::{BrokerId, Epoch};

/// Time after a loss of power in which no other broker may lose data, if brokers flush later than they respond.
const LOSSES_APART_MS: u64 = 30_000;
/// The longest time that a message stays unflushed with asynchronous flush, and a little more.
const UNFLUSHED_MS: u64 = 650;

impl World {
    pub(super) fn fault(&mut self) {
        if self.now_ms >= HEAL_MS {
            return;
        }
        let after_ms = self.random.between(100, 5_000);
        self.schedule(after_ms, Event::Fault);
        let fault = faults::next(&mut self.random, &self.settings);
        self.trace.note(self.now_ms, "fault", &fault);
        self.perform(fault);
    }

    fn perform(&mut self, fault: Fault) {
        let now_ms = self.now_ms;
        match fault {
            Fault::Crash(node, crash, down_ms) if node.is_controller() => {
                self.crash_controller(node, crash, down_ms);
            }
            Fault::Crash(node, crash, down_ms) => self.crash(node, crash, down_ms),
            Fault::CrashMajority(one, other, crash, down_ms) => {
                self.crash_controller(one, crash, down_ms);
                self.crash_controller(other, crash, down_ms);
            }
            Fault::CrashAtWrite(node, crash, writes) if node.is_controller() => {
                let station = self.station(node);
                if station.controller.is_some() && station.dies.is_none() {
                    station.dies = Some(crash);
                    station.disk.faults(|faults| faults.killed_after = Some(writes));
                }
            }
            Fault::CrashAtWrite(node, crash, writes) => {
                let it = &mut self.nodes[node.0];
                if it.broker.is_some() && it.dies.is_none() {
                    it.dies = Some(crash);
                    it.disk.faults(|faults| faults.killed_after = Some(writes));
                }
            }
            Fault::CrashAll(crash, down_ms) => {
                NodeId::brokers().for_each(|node| self.crash(node, crash, down_ms));
            }
            Fault::OldCopy(node, down_ms) => self.old_copy(node, down_ms),
            Fault::Cut(from, to, is_both, lasts_ms) => {
                self.network.cut(from, to, now_ms + lasts_ms);
                if is_both {
                    self.network.cut(to, from, now_ms + lasts_ms);
                }
            }
            Fault::LoseAnswers(broker, lasts_ms) => {
                NodeId::controllers().for_each(|node| self.network.cut(node, broker, now_ms + lasts_ms));
            }
            Fault::Isolate(node, lasts_ms) => {
                for other in (0..NODES).map(NodeId).filter(|other| *other != node) {
                    self.network.cut(node, other, now_ms + lasts_ms);
                    self.network.cut(other, node, now_ms + lasts_ms);
                }
            }
            Fault::CutOff(one, second, lasts_ms) => {
                let inside = |node: &NodeId| *node == one || Some(*node) == second;
                let group: Vec<NodeId> = NodeId::brokers().chain(NodeId::controllers()).collect();
                for from in group.iter().filter(|node| inside(node)) {
                    for to in group.iter().filter(|node| !inside(node)) {
                        self.network.cut(*from, *to, now_ms + lasts_ms);
                        self.network.cut(*to, *from, now_ms + lasts_ms);
                    }
                }
            }
            Fault::Stranger(node, offset) => self.stranger(node, offset),
            Fault::SlowLink(one, other, lasts_ms) => self.network.slow_down(one, other, now_ms + lasts_ms),
            Fault::Reset(which) => self.reset(which),
            Fault::Pause(node, lasts_ms) if node.is_controller() => {
                self.station(node).paused_ms = Some(now_ms + lasts_ms);
            }
            Fault::Pause(node, lasts_ms) => self.nodes[node.0].pauses.push((now_ms, now_ms + lasts_ms)),
            Fault::Jump(node, by_ms) => self.nodes[node.0].jump_ms = by_ms,
            Fault::SlowDisk(..) if self.settings.faults == Faults::SlowDisks && self.has_slow_disk() => {}
            Fault::SlowDisk(node, slow_ms, lasts_ms) => {
                let it = &mut self.nodes[node.0];
                if let Some(broker) = &mut it.broker {
                    broker.set_slow(slow_ms);
                    it.slow = Some(slow_ms);
                    self.schedule(lasts_ms, Event::FreeDisk(node));
                }
            }
            Fault::FullDisk(node, _) | Fault::FailingDisk(node) if !self.is_up(node) => {}
            Fault::FullDisk(node, lasts_ms) => {
                self.nodes[node.0].disk.faults(|faults| faults.space_left = Some(0));
                self.schedule(lasts_ms, Event::FreeDisk(node));
            }
            Fault::FailingDisk(node) if self.may_lose(node) => {
                self.nodes[node.0].disk.faults(|faults| faults.syncs_left = Some(0));
                self.last_loss_ms = Some(now_ms);
            }
            Fault::FailingDisk(_) => {}
        }
    }

    /// Copies a broker's disk, or ends all brokers and puts an older copy in the place of the disk. The last member of
    /// the in-sync set keeps its disk, and the next loss waits until the broker has everything again.
    fn old_copy(&mut self, node: NodeId, down_ms: u64) {
        let is_due = self.last_loss_ms.is_none_or(|last_ms| self.now_ms > last_ms + LOSSES_APART_MS);
        let (members, it) = (self.members(), &mut self.nodes[node.0]);
        // A copy without an id is the store of a new broker.
        let Some((broker, id)) = it.broker.as_ref().and_then(|broker| Some((broker, broker.id()?))) else {
            return;
        };
        let end = broker.store().flushed().get();
        let is_older = |(_, end): &mut (FakeDisk, u64)| *end < it.promised;
        let may_lose = is_due && members.iter().any(|member| *member != id);
        let Some((disk, _)) = it.copy.take_if(|copy| may_lose && is_older(copy)) else {
            it.copy.get_or_insert_with(|| (it.disk.killed(), end));
            return;
        };
        self.last_loss_ms = Some(self.now_ms);
        for other in NodeId::brokers().filter(|other| *other != node) {
            let after_ms = down_ms + self.random.between(0, 2_000);
            self.crash(other, Crash::Kill, after_ms);
        }
        self.crash(node, Crash::Kill, down_ms);
        self.nodes[node.0].disk = disk;
    }

    /// Connects to a broker's HA port without being a slave, and sends a report. In controller mode
    /// it first sends a handshake with a broker id that no broker has, and a notice of a false
    /// election.
    fn stranger(&mut self, node: NodeId, offset: u64) {
        if !self.is_up(node) {
            return;
        }
        if self.has_controllers() {
            let lie = u32::try_from(offset % 0x7fff_ffff).expect("31 bits");
            self.feed(node, Input::Notified(Epoch::new(lie)));
        }
        let peer = self.network.connect((CLIENTS, 0), (node, self.nodes[node.0].life));
        self.feed(node, Input::Accepted(peer, CLIENTS));
        let mut bytes = Vec::new();
        if self.has_controllers() {
            let broker_id = BrokerId::new(9);
            bytes.extend(Handshake { broker_id, is_from_last_file: false, is_learner: false }.encode());
            bytes.extend(2_i32.to_be_bytes());
        }
        bytes.extend(offset.to_be_bytes());
        self.feed(node, Input::Received(peer, bytes));
    }

    /// Frees a broker's disk, so that it has space and is quick again.
    pub(super) fn free_disk(&mut self, node: NodeId) {
        let it = &mut self.nodes[node.0];
        it.disk.faults(|faults| faults.space_left = None);
        if let Some(broker) = &mut it.broker {
            broker.set_slow(0);
        }
    }

    fn has_slow_disk(&self) -> bool {
        self.nodes.iter().any(|node| node.broker.as_ref().is_some_and(|broker| broker.is_slow()))
    }

    fn reset(&mut self, which: u64) {
        let peers: Vec<_> = self.network.peers().collect();
        if peers.is_empty() {
            return;
        }
        let index = usize::try_from(which % peers.len() as u64).expect("an index");
        for direction in [Direction::ToSlave, Direction::ToMaster] {
            self.schedule(1, Event::Ended(peers[index], direction));
        }
    }

    /// Whether a broker may lose unflushed bytes without breaking its mode's promise.
    fn may_lose(&self, node: NodeId) -> bool {
        if self.settings.is_sync_flush() || !self.has_controllers() {
            return true;
        }
        let own = self.nodes[node.0].broker.as_ref().and_then(|broker| broker.id());
        let is_whole = |member| self.nodes.iter().any(|node| node.id == Some(member) && !node.may_have_lost);
        let mut members = self.members().into_iter();
        let has_another = members.any(|member| Some(member) != own && is_whole(member));
        let is_first = self.last_loss_ms.is_none_or(|last_ms| self.now_ms > last_ms + LOSSES_APART_MS);
        own.is_some() && has_another && is_first
    }

    /// Ends a broker's process, and starts the broker again after `down_ms`. A power cut costs a
    /// part of the unsynced data if [`Self::may_lose`] allows that, or if the store is fenced.
    /// Otherwise a power cut has the effect of a kill.
    pub(super) fn crash(&mut self, node: NodeId, crash: Crash, down_ms: u64) {
        let loses =
            crash == Crash::PowerCut && (self.may_lose(node) || self.nodes[node.0].fenced_ms.is_some());
        let (now_ms, is_sync) = (self.now_ms, self.settings.is_sync_flush());
        let it = &mut self.nodes[node.0];
        let Some(broker) = it.broker.take() else { return };
        let process = (node, it.life);
        let stopped_ms = it.fenced_ms.unwrap_or(now_ms);
        it.dies = None;
        it.may_have_lost &= broker.may_have_lost();
        if loses {
            it.disk = it.disk.power_cut(self.random.number());
            it.may_have_lost |= !is_sync;
            let unflushed_ms = UNFLUSHED_MS + 2 * it.slow.unwrap_or(0);
            // While a process stood still it flushed nothing.
            let back = |at_ms: u64, (from_ms, until_ms): &(u64, u64)| {
                let is_within = *from_ms <= at_ms && until_ms + unflushed_ms > at_ms;
                if is_within { *from_ms } else { at_ms }
            };
            let since_ms = it.pauses.iter().rev().fold(stopped_ms, back).saturating_sub(unflushed_ms);
            it.lost_since_ms = Some(it.lost_since_ms.map_or(since_ms, |former| former.min(since_ms)));
        } else {
            it.disk = it.disk.killed();
        }
        it.pauses.clear();
        // Dropped when its disk was copied: a store that is dropped still flushes.
        drop(broker);
        self.trace.note(now_ms, node.name(), &("crashes", crash, loses));
        if loses && !is_sync {
            self.last_loss_ms = Some(now_ms);
        }
        if loses {
            self.network.forget(process);
        } else {
            self.disconnect_peers(process);
        }
        self.schedule(down_ms, Event::Start(node));
    }

    /// Disconnects the peers of a killed process. A machine without power sends no notice.
    fn disconnect_peers(&mut self, process: (NodeId, u64)) {
        for peer in self.network.of(process) {
            self.end(peer, process);
        }
        for node in NodeId::controllers().filter(|_| self.has_controllers()).collect::<Vec<_>>() {
            if !self.network.is_cut(self.now_ms, process.0, node) {
                self.travel(process.0, node, Event::Disconnected(process, node));
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.trace.note(self.now_ms, "heal", &());
        self.network.heal();
        for node in NodeId::controllers().filter(|_| self.has_controllers()).collect::<Vec<_>>() {
            let station = self.station(node);
            (station.dies, station.paused_ms) = (None, None);
            station.disk.faults(|faults| faults.killed_after = None);
            self.schedule(1, Event::Start(node));
        }
        for node in NodeId::brokers() {
            let now_ms = self.now_ms;
            let it = &mut self.nodes[node.0];
            it.disk.faults(|faults| (faults.syncs_left, faults.killed_after) = (None, None));
            it.dies = None;
            // Not forgotten: a broker whose disk failed before goes down later, and has flushed nothing in a pause.
            it.pauses.iter_mut().for_each(|pause| pause.1 = pause.1.min(now_ms));
            self.free_disk(node);
            self.schedule(1, Event::Start(node));
        }
    }
}
