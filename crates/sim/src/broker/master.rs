//! Shell of a master of either protocol. It takes the same steps as the shell in
//! `broker::replication::master`.

use super::{Broker, Note, Role};
use crate::settings::{Bug, NodeId};
use replica::acks::{AckConfig, AckRequirement};
use replica::agent::AgentEvent;
use replica::close::CloseReason;
use replica::in_sync::{CommittedSet, SetEpoch};
use replica::master::{HostId, Master, MasterAction, MasterConfig, MasterEvent};
use replica::transfer::{PeerId, TransferConfig};
use std::collections::{BTreeSet, VecDeque};
use wire::ha::switch::SlaveFrame;
use wire::ha::{BrokerId, FrameHead};
use wire::units::LogOffset;

impl Broker {
    pub(super) fn start_classic_master(&mut self) {
        if self.settings.copies() > 1 {
            self.store.set_replicated(Some(LogOffset::ZERO));
        }
        let acks = AckConfig { in_sync_replicas: self.settings.copies(), ..AckConfig::default() };
        let config = MasterConfig { transfer: self.transfer_config(), acks, ..MasterConfig::default() };
        self.published = self.store.appended();
        self.role = Role::Master(Box::new(Master::classic(config, self.range())));
        (self.is_fenced, self.may_have_lost) = (false, false);
    }

    pub(super) fn transfer_config(&self) -> TransferConfig {
        TransferConfig {
            batch_bytes: self.settings.batch_bytes,
            file_bytes: self.settings.segment_bytes,
            ..TransferConfig::default()
        }
    }

    pub(super) fn accept_slave(&mut self, peer: PeerId, node: NodeId) {
        self.publish();
        let host = if self.settings.has(Bug::CountedTwice) { peer.0 } else { node.0 as u64 };
        self.step_master(MasterEvent::Connected(peer, HostId(host.into())));
    }

    pub(super) fn read_slave(&mut self, id: PeerId) {
        loop {
            let Role::Master(master) = &self.role else { return };
            let protocol = master.protocol();
            let Some(peer) = self.peers.0.get_mut(&id) else { return };
            let event = match protocol.decode_slave(&peer.received) {
                Ok(None) => return,
                Ok(Some((frame, size))) => {
                    peer.received.drain(..size);
                    match frame {
                        SlaveFrame::Report(offset) => MasterEvent::Reported(id, self.believed(id, offset)),
                        frame => MasterEvent::received(id, frame),
                    }
                }
                Err(error) => MasterEvent::Malformed(id, error),
            };
            let is_over = matches!(event, MasterEvent::Malformed(..));
            self.publish();
            self.step_master(event);
            if is_over {
                return;
            }
            self.note_progress();
        }
    }

    /// Returns the report unchanged. With the planted bug, returns the end of the sent bytes.
    fn believed(&self, id: PeerId, offset: LogOffset) -> LogOffset {
        let Role::Master(master) = &self.role else { return offset };
        let sent = master.peers().find(|status| status.peer == id).and_then(|status| status.next);
        sent.filter(|_| self.settings.has(Bug::FalseReport)).unwrap_or(offset)
    }

    /// Publishes the position up to which the slaves of a classic master have the log.
    fn note_progress(&mut self) {
        let Role::Master(master) = &self.role else { return };
        let copies = self.settings.copies();
        if copies > 1
            && !self.is_controlled()
            && let Some(end) = master.reached(AckRequirement::Acks(copies))
        {
            self.store.set_replicated(Some(end));
        }
    }

    pub(super) fn step_master(&mut self, event: MasterEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Role::Master(master) = &mut self.role else { return };
            let mut actions = Vec::new();
            master.step(self.now.ms, event, &mut actions);
            for action in actions {
                match action {
                    MasterAction::HandshakeResponse(peer, reply) => {
                        let mut bytes = Vec::new();
                        reply.encode(&mut bytes);
                        self.write(peer, bytes);
                    }
                    MasterAction::Send(peer, head) => events.extend(self.transfer(peer, head)),
                    MasterAction::Close(peer, reason) => self.close_peer(peer, &reason),
                    MasterAction::Answer(ticket, status) => self.replicas_answered(ticket.0, status),
                    MasterAction::Confirm(confirm) => self.store.set_confirmed(Some(confirm)),
                    MasterAction::Flush => self.await_flush(),
                    MasterAction::ProposeSet(members, epoch) => {
                        events.extend(self.propose(members, epoch));
                    }
                    MasterAction::SaveEpochs(epochs) => self.save_epochs(epochs),
                    MasterAction::Warn(..) => {}
                    MasterAction::WakeAt(at_ms) => self.role_wake_ms = Some(at_ms),
                }
            }
            if self.settings.has(Bug::ConfirmAhead) {
                self.store.set_confirmed(Some(self.store.appended()));
            }
        }
    }

    fn transfer(&mut self, peer: PeerId, mut head: FrameHead) -> Option<MasterEvent> {
        let (from, bytes) = head.piece();
        let Some(body) = self.body_of(from, bytes) else {
            self.end_peer(peer);
            return Some(MasterEvent::Closed(peer));
        };
        if let FrameHead::Switch(header) = &mut head
            && self.settings.has(Bug::ConfirmAhead)
        {
            header.confirm = self.store.appended();
        }
        let mut frame = Vec::new();
        head.encode(&mut frame);
        frame.extend(body);
        self.write(peer, frame).then_some(MasterEvent::Sent(peer))
    }

    fn close_peer(&mut self, peer: PeerId, reason: &CloseReason) {
        let node = self.peers.0.get(&peer).map(|peer| peer.node);
        if let (CloseReason::AheadOfMaster { .. }, Some(node), false) = (reason, node, self.is_controlled()) {
            self.note(Note::Diverged(node));
        }
        self.end_peer(peer);
    }

    fn propose(&mut self, members: BTreeSet<BrokerId>, epoch: SetEpoch) -> Option<MasterEvent> {
        let Role::Master(master) = &self.role else { return None };
        if self.store.fenced().is_some() {
            return None;
        }
        let shrinks = members.len() < master.election()?.committed().members.len();
        let early = CommittedSet { members: members.clone(), epoch: SetEpoch(epoch.0 + 1) };
        // Through the queue of all events of the agent.
        self.step_agent(AgentEvent::ProposeSet(members, epoch));
        (shrinks && self.settings.has(Bug::EarlyShrink)).then_some(MasterEvent::SetCommitted(early))
    }
}
