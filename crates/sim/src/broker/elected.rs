//! The shell of an elected master.

use super::{Broker, Role};
use crate::settings::Bug;
use replica::agent::AgentEvent;
use replica::in_sync::{CommittedSet, SetEpoch};
use replica::switch::{MasterAction, MasterEvent};
use replica::transfer::PeerId;
use std::collections::{BTreeSet, VecDeque};
use wire::ha::BrokerId;
use wire::ha::switch::{SlaveFrame, TransferHeader};
use wire::units::LogOffset;

impl Broker {
    pub(super) fn accept_follower(&mut self, peer: PeerId) {
        self.publish();
        self.step_elected(MasterEvent::Connected(peer));
    }

    pub(super) fn read_follower(&mut self, id: PeerId) {
        loop {
            let Some(peer) = self.peers.0.get_mut(&id) else { return };
            let event = match SlaveFrame::decode(&peer.received) {
                Ok(None) => return,
                Ok(Some((frame, size))) => {
                    peer.received.drain(..size);
                    match frame {
                        SlaveFrame::Handshake(handshake) => MasterEvent::Handshake(id, handshake),
                        SlaveFrame::Report(offset) => MasterEvent::Reported(id, self.believed(id, offset)),
                    }
                }
                Err(error) => MasterEvent::Malformed(id, error),
            };
            let is_over = matches!(event, MasterEvent::Malformed(..));
            self.publish();
            self.step_elected(event);
            if is_over {
                return;
            }
        }
    }

    /// Returns the report unchanged. With the planted bug, returns the end of the sent bytes.
    fn believed(&self, id: PeerId, offset: LogOffset) -> LogOffset {
        let Role::Elected(master) = &self.role else { return offset };
        let sent = master.peers().find(|status| status.peer == id).and_then(|status| status.next);
        sent.filter(|_| self.settings.has(Bug::FalseReport)).unwrap_or(offset)
    }

    pub(super) fn step_elected(&mut self, event: MasterEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Role::Elected(master) = &mut self.role else { return };
            let mut actions = Vec::new();
            master.step(self.now.ms, event, &mut actions);
            for action in actions {
                match action {
                    MasterAction::Reply(peer, reply) => {
                        let mut bytes = Vec::new();
                        reply.encode(&mut bytes);
                        self.write(peer, bytes);
                    }
                    MasterAction::Send(peer, header) => events.extend(self.transfer(peer, header)),
                    MasterAction::Close(peer, _) => self.end_peer(peer),
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

    fn transfer(&mut self, peer: PeerId, mut header: TransferHeader) -> Option<MasterEvent> {
        let Some(body) = self.body_of(header.offset, header.body_bytes) else {
            self.end_peer(peer);
            return Some(MasterEvent::Closed(peer));
        };
        if self.settings.has(Bug::ConfirmAhead) {
            header.confirm = self.store.appended();
        }
        let mut frame = header.encode().to_vec();
        frame.extend(body);
        self.write(peer, frame).then_some(MasterEvent::Sent(peer))
    }

    fn propose(&mut self, members: BTreeSet<BrokerId>, epoch: SetEpoch) -> Option<MasterEvent> {
        let Role::Elected(master) = &self.role else { return None };
        if self.store.fenced().is_some() {
            return None;
        }
        let shrinks = members.len() < master.committed().members.len();
        let early = CommittedSet { members: members.clone(), epoch: SetEpoch(epoch.0 + 1) };
        // Through the queue of all events of the agent.
        self.step_agent(AgentEvent::ProposeSet(members, epoch));
        (shrinks && self.settings.has(Bug::EarlyShrink)).then_some(MasterEvent::SetCommitted(early))
    }
}
