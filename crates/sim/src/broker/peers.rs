//! Connections of a broker: those of slaves at a master, and a slave's connection to its master.

use super::{Broker, Output, Role};
use crate::settings::NodeId;
use replica::master::MasterEvent;
use replica::slave::SlaveEvent;
use replica::slave_log::Attempt;
use replica::transfer::PeerId;
use std::collections::BTreeMap;

/// Bytes in flight on a connection at which the machine waits before its next frame (`BUFFER_BYTES` of the
/// shell in the crate `broker`, smaller).
const BUFFER_BYTES: usize = 2_000;

/// A slave's connection at its master.
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) received: Vec<u8>,
    unsent: usize,
    is_held: bool,
}

/// The connections of slaves.
#[derive(Default)]
pub(super) struct Peers(pub(super) BTreeMap<PeerId, Peer>);

/// A slave's connection to its master.
pub(super) struct Link {
    pub(super) attempt: Attempt,
    pub(super) peer: PeerId,
    pub(super) received: Vec<u8>,
}

impl Broker {
    pub(super) fn accept(&mut self, peer: PeerId, node: NodeId) {
        if !self.is_master() {
            return self.out.push(Output::End(peer));
        }
        let accepted = Peer { node, received: Vec::new(), unsent: 0, is_held: false };
        self.peers.0.insert(peer, accepted);
        self.accept_slave(peer, node);
    }

    /// Processes bytes from a slave or from the master. A frame may end the connection.
    pub(super) fn received(&mut self, id: PeerId, bytes: &[u8]) {
        if let Some(peer) = self.peers.0.get_mut(&id) {
            peer.received.extend_from_slice(bytes);
            self.read_slave(id);
        } else if let Some(link) = self.link.as_mut().filter(|link| link.peer == id) {
            link.received.extend_from_slice(bytes);
            self.read_master(id);
        }
    }

    /// Writes a frame to a slave. Returns whether there is room for the next frame.
    pub(super) fn write(&mut self, id: PeerId, bytes: Vec<u8>) -> bool {
        let Some(peer) = self.peers.0.get_mut(&id) else { return false };
        peer.unsent += bytes.len();
        peer.is_held = peer.unsent >= BUFFER_BYTES;
        let has_room = !peer.is_held;
        self.out.push(Output::Write(id, bytes));
        has_room
    }

    pub(super) fn taken(&mut self, id: PeerId, bytes: usize) {
        let Some(peer) = self.peers.0.get_mut(&id) else { return };
        peer.unsent = peer.unsent.saturating_sub(bytes);
        if peer.unsent < BUFFER_BYTES && std::mem::take(&mut peer.is_held) {
            self.step_master(MasterEvent::Sent(id));
        }
    }

    pub(super) fn opened(&mut self, attempt: Attempt, peer: Option<PeerId>) {
        self.link = peer.map(|peer| Link { attempt, peer, received: Vec::new() });
        match (&self.role, peer) {
            (Role::Slave(_), Some(_)) => self.step_slave(SlaveEvent::Connected(attempt), &[]),
            (Role::Slave(_), None) => self.step_slave(SlaveEvent::Closed(attempt), &[]),
            (_, Some(peer)) => {
                self.link = None;
                self.out.push(Output::End(peer));
            }
            (_, None) => {}
        }
    }

    pub(super) fn ended(&mut self, id: PeerId) {
        if self.peers.0.remove(&id).is_some() {
            self.step_master(MasterEvent::Closed(id));
        } else if let Some(link) = self.link.take_if(|link| link.peer == id) {
            self.step_slave(SlaveEvent::Closed(link.attempt), &[]);
        }
    }

    /// Ends a slave's connection, which the machine has forgotten.
    pub(super) fn end_peer(&mut self, id: PeerId) {
        if self.peers.0.remove(&id).is_some() {
            self.out.push(Output::End(id));
        }
    }

    /// Ends the connection of an attempt to the master.
    pub(super) fn end_link(&mut self, attempt: Attempt) {
        if let Some(link) = self.link.take_if(|link| link.attempt == attempt) {
            self.out.push(Output::End(link.peer));
        }
    }

    /// Writes a slave's frame to its master.
    pub(super) fn write_to_master(&mut self, attempt: Attempt, bytes: &[u8]) {
        if let Some(link) = self.link.as_ref().filter(|link| link.attempt == attempt) {
            self.out.push(Output::Write(link.peer, bytes.to_vec()));
        }
    }

    /// Takes the next frame, which has `size` bytes, out of the received bytes.
    pub(super) fn split(received: &mut Vec<u8>, size: usize) -> Vec<u8> {
        let rest = received.split_off(size);
        std::mem::replace(received, rest)
    }

    /// Returns the body of a frame from the log, or `None` if it is unreadable.
    pub(super) fn body_of(&self, from: wire::units::LogOffset, bytes: u32) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        if bytes > 0 {
            self.store.read_log_blocking(from, bytes as usize, &mut body).ok()?;
        }
        (body.len() == bytes as usize).then_some(body)
    }
}
