//! Classic mode: the shells of `broker::replication::{master, slave}`, step by step the same.

use super::requests::StoreEvent;
use super::{Broker, Note, Output, Role, flushed_of};
use crate::settings::{Bug, NodeId};
use replica::acks::{AckConfig, Need};
use replica::classic::{
    HostId, Master, MasterAction, MasterConfig, MasterEvent, Slave, SlaveAction, SlaveEvent,
};
use replica::close::CloseReason;
use replica::slave_log::SlaveConfig;
use replica::transfer::{PeerId, TransferConfig};
use std::collections::VecDeque;
use std::sync::PoisonError;
use wire::ha::classic::{HEADER_BYTES, Header, decode_reports, encode_report};
use wire::units::LogOffset;

impl Broker {
    pub(super) fn start_classic_master(&mut self) {
        if self.settings.copies() > 1 {
            self.store.set_replicated(Some(LogOffset::ZERO));
        }
        let acks = AckConfig { in_sync_replicas: self.settings.copies(), ..AckConfig::default() };
        let config = MasterConfig { transfer: self.transfer_config(), acks };
        self.published = self.store.appended();
        self.role = Role::ClassicMaster(Box::new(Master::new(config, self.range())));
        (self.is_fenced, self.may_have_lost) = (false, false);
    }

    pub(super) fn transfer_config(&self) -> TransferConfig {
        TransferConfig {
            batch_bytes: self.settings.batch_bytes,
            file_bytes: self.settings.segment_bytes,
            ..TransferConfig::default()
        }
    }

    pub(super) fn slave_config(&self) -> SlaveConfig {
        SlaveConfig {
            file_bytes: self.settings.segment_bytes,
            is_sync_flush: self.settings.is_sync_flush(),
            ..SlaveConfig::default()
        }
    }

    pub(super) fn accept_classic(&mut self, peer: PeerId, node: NodeId) {
        self.publish();
        let host = if self.settings.has(Bug::CountedTwice) { peer.0 } else { node.0 as u64 };
        self.step_classic_master(MasterEvent::Connected(peer, HostId(host.into())));
    }

    pub(super) fn read_classic_slave(&mut self, id: PeerId) {
        let Some(peer) = self.peers.0.get_mut(&id) else { return };
        match decode_reports(&peer.received) {
            Ok(None) => {}
            Ok(Some((offset, used))) => {
                peer.received.drain(..used);
                self.publish();
                self.step_classic_master(MasterEvent::Reported(id, offset));
                self.note_progress();
            }
            Err(error) => self.step_classic_master(MasterEvent::Malformed(id, error)),
        }
    }

    fn note_progress(&mut self) {
        let Role::ClassicMaster(master) = &self.role else { return };
        let copies = self.settings.copies();
        if copies > 1
            && let Some(end) = master.reached(Need::Acks(copies))
        {
            self.store.set_replicated(Some(end));
        }
    }

    pub(super) fn step_classic_master(&mut self, event: MasterEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Role::ClassicMaster(master) = &mut self.role else { return };
            let mut actions = Vec::new();
            master.step(self.now.ms, event, &mut actions);
            for action in actions {
                match action {
                    MasterAction::Send { peer, from, bytes } => {
                        let Some(body) = self.body_of(from, bytes) else {
                            self.end_peer(peer);
                            events.push_back(MasterEvent::Closed(peer));
                            continue;
                        };
                        let mut frame = Header { offset: from, body_bytes: bytes }.encode().to_vec();
                        frame.extend(body);
                        if self.write(peer, frame) {
                            events.push_back(MasterEvent::Sent(peer));
                        }
                    }
                    MasterAction::Close(peer, reason) => {
                        let node = self.peers.0.get(&peer).map(|peer| peer.node);
                        if let (CloseReason::AheadOfMaster { .. }, Some(node)) = (&reason, node) {
                            self.note(Note::Diverged(node));
                        }
                        self.end_peer(peer);
                    }
                    MasterAction::WakeAt(at_ms) => self.role_wake_ms = Some(at_ms),
                    MasterAction::Warn(..) | MasterAction::Answer(..) => {}
                }
            }
        }
    }

    pub(super) fn start_classic_slave(&mut self) {
        if self.store.start_following().is_err() {
            return self.note(Note::Broken("the store cannot follow".to_owned()));
        }
        let (end, flushed) = flushed_of(&self.store);
        self.role = Role::ClassicSlave(Box::new(Slave::new(self.slave_config(), end, flushed)));
        (self.is_fenced, self.may_have_lost) = (false, false);
        self.step_classic_slave(SlaveEvent::Master(Some(NodeId(0).name().to_owned())), &[]);
    }

    pub(super) fn read_classic_master(&mut self, id: PeerId) {
        loop {
            let Some(link) = self.link.as_mut().filter(|link| link.peer == id) else { return };
            let attempt = link.attempt;
            match Header::decode(&link.received) {
                Ok(None) => return,
                Ok(Some(header)) => {
                    let size = HEADER_BYTES + header.body_bytes as usize;
                    if link.received.len() < size {
                        return;
                    }
                    let frame = Self::split(&mut link.received, size);
                    self.step_classic_slave(SlaveEvent::Frame(attempt, header), &frame[HEADER_BYTES..]);
                }
                Err(error) => return self.step_classic_slave(SlaveEvent::Malformed(attempt, error), &[]),
            }
        }
    }

    pub(super) fn step_classic_slave(&mut self, event: SlaveEvent, body: &[u8]) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Role::ClassicSlave(slave) = &mut self.role else { return };
            let mut actions = Vec::new();
            slave.step(self.now.ms, event, &mut actions);
            for action in actions {
                match action {
                    SlaveAction::Connect(attempt, address) => {
                        events.push_back(self.settled());
                        let master = NodeId::of_broker(&address).expect("a broker's name");
                        self.out.push(Output::Connect(attempt, master));
                    }
                    SlaveAction::Report(attempt, offset) => {
                        self.write_to_master(attempt, &encode_report(offset));
                    }
                    SlaveAction::Compare { at, bytes } => {
                        let found = self.store.first_difference(at, &body[..bytes as usize]);
                        events.push_back(found.map_or(SlaveEvent::LogFailed, SlaveEvent::Compared));
                    }
                    SlaveAction::Append { at, bytes } => {
                        let has_failed = self.follow_bytes(at, &body[body.len() - bytes as usize..]).is_err();
                        events.push_back(SlaveEvent::Appended(self.store.followed()));
                        if has_failed {
                            events.push_back(SlaveEvent::LogFailed);
                        }
                    }
                    SlaveAction::Close(attempt, reason) => {
                        if let CloseReason::OtherHistory { .. } = reason {
                            self.note(Note::Diverged(self.node));
                        }
                        self.end_link(attempt);
                    }
                    SlaveAction::WakeAt(at_ms) => self.role_wake_ms = Some(at_ms),
                }
            }
        }
    }

    /// Appends a master's bytes, and waits for the disk with sync flush.
    pub(super) fn follow_bytes(&mut self, at: LogOffset, body: &[u8]) -> Result<(), store::FollowError> {
        self.store.follow(at, body)?;
        if self.settings.is_sync_flush() {
            self.await_flush();
        }
        Ok(())
    }

    /// Drops the beginning of a record at the log's end, and finds the last record, before a connection is made.
    fn settled(&mut self) -> SlaveEvent {
        let end = self.store.drop_unfinished();
        if self.settings.is_sync_flush() {
            self.await_flush();
        }
        match self.store.last_record_range() {
            Ok(last_record) => SlaveEvent::Settled { end, last_record },
            Err(_) => SlaveEvent::LogFailed,
        }
    }

    pub(super) fn await_flush(&mut self) {
        if std::mem::replace(&mut self.flush_is_awaited, true) {
            return;
        }
        let store_events = self.store_events.clone();
        let report = move |_| {
            store_events.lock().unwrap_or_else(PoisonError::into_inner).push_back(StoreEvent::LogFlushed);
        };
        self.store.when_flushed(self.store.appended(), Box::new(report));
    }

    /// Processes the end or the timeout of a requested flush.
    pub(super) fn log_flushed(&mut self) {
        self.flush_is_awaited = false;
        let flushed = self.store.flushed();
        match self.role {
            Role::ClassicSlave(_) => self.step_classic_slave(SlaveEvent::Flushed(flushed), &[]),
            Role::Follower(_) => self.step_follower(replica::switch::SlaveEvent::Flushed(flushed), &[]),
            Role::Elected(_) if self.store.fenced().is_none() => {
                return self.step_elected(replica::switch::MasterEvent::Flushed(flushed));
            }
            _ => return,
        }
        if flushed < self.store.appended() && self.store.fenced().is_none() {
            self.await_flush();
        }
    }
}
