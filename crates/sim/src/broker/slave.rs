//! Shell of a slave of either protocol. It takes the same steps as the shell in `broker::replication::slave`.

use super::requests::StoreEvent;
use super::{Broker, Note, Output, Role, flushed_of};
use crate::settings::{Bug, NodeId};
use replica::close::CloseReason;
use replica::master::MasterEvent;
use replica::slave::{Slave, SlaveAction, SlaveEvent};
use replica::slave_log::SlaveConfig;
use replica::transfer::PeerId;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use store::{Disk, FakeDisk};
use wire::units::LogOffset;

impl Broker {
    pub(super) fn slave_config(&self) -> SlaveConfig {
        SlaveConfig {
            file_bytes: self.settings.segment_bytes,
            is_sync_flush: self.settings.is_sync_flush(),
            ..SlaveConfig::default()
        }
    }

    pub(super) fn start_classic_slave(&mut self) {
        if self.store.start_following().is_err() {
            return self.note(Note::Broken("the store cannot follow".to_owned()));
        }
        let (end, flushed) = flushed_of(&self.store);
        self.role = Role::Slave(Box::new(Slave::classic(self.slave_config(), end, flushed)));
        (self.is_fenced, self.may_have_lost) = (false, false);
        self.step_slave(SlaveEvent::Master(Some(NodeId(0).name().to_owned())), &[]);
    }

    pub(super) fn read_master(&mut self, id: PeerId) {
        loop {
            let Role::Slave(slave) = &self.role else { return };
            let protocol = slave.protocol();
            let Some(link) = self.link.as_mut().filter(|link| link.peer == id) else { return };
            let attempt = link.attempt;
            match protocol.decode_master(&link.received) {
                Ok(None) => return,
                Ok(Some((frame, head_bytes))) => {
                    let size = head_bytes + frame.body_bytes();
                    if link.received.len() < size {
                        return;
                    }
                    let bytes = Self::split(&mut link.received, size);
                    self.step_slave(SlaveEvent::Frame(attempt, frame), &bytes[head_bytes..]);
                }
                Err(error) => return self.step_slave(SlaveEvent::Malformed(attempt, error), &[]),
            }
        }
    }

    pub(super) fn step_slave(&mut self, event: SlaveEvent, body: &[u8]) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Role::Slave(slave) = &mut self.role else { return };
            let protocol = slave.protocol();
            let mut actions = Vec::new();
            slave.step(self.now.ms, event, &mut actions);
            for action in actions {
                match action {
                    SlaveAction::CutIncomplete => events.push_back(self.cut_incomplete()),
                    SlaveAction::Cut(point) => events.push_back(self.cut(point)),
                    SlaveAction::Connect(attempt, address) => {
                        if !self.is_controlled() {
                            events.push_back(self.settled());
                        }
                        let master = NodeId::of_broker(&address).expect("a broker's name");
                        self.out.push(Output::Connect(attempt, master));
                    }
                    SlaveAction::Handshake(attempt, handshake) => {
                        self.write_to_master(attempt, &handshake.encode());
                    }
                    SlaveAction::SaveEpochs(epochs) => self.save_epochs(epochs),
                    SlaveAction::Consistent => self.is_consistent = true,
                    SlaveAction::Report(attempt, offset) => {
                        self.write_to_master(attempt, &protocol.encode_report(offset));
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
                    SlaveAction::Confirm(confirm) => self.store.set_confirmed(Some(confirm)),
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
        self.store.follow(at, body, &mut |_| {})?;
        if self.settings.is_sync_flush() {
            self.await_flush();
        }
        Ok(())
    }

    /// Drops the beginning of a record at the log's end before a classic slave connects. Returns
    /// [`SlaveEvent::Settled`] with the last record, or [`SlaveEvent::LogFailed`] if that record
    /// cannot be read.
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
            Role::Slave(_) => self.step_slave(SlaveEvent::Flushed(flushed), &[]),
            Role::Master(_) if self.store.fenced().is_none() => {
                return self.step_master(MasterEvent::Flushed(flushed));
            }
            _ => return,
        }
        if flushed < self.store.appended() && self.store.fenced().is_none() {
            self.await_flush();
        }
    }

    /// Drops an incomplete record at the log's end before the slave of an elected master connects.
    /// Flushes the rest of the log. Returns [`SlaveEvent::Cut`] with the new end, or
    /// [`SlaveEvent::LogFailed`] if the flush fails.
    fn cut_incomplete(&mut self) -> SlaveEvent {
        match self.store.stop_following().and_then(|end| self.store.start_following().map(|()| end)) {
            Ok(end) => {
                if self.settings.is_sync_flush() {
                    self.await_flush();
                }
                SlaveEvent::Cut(end)
            }
            Err(_) => SlaveEvent::LogFailed,
        }
    }

    fn cut(&mut self, point: LogOffset) -> SlaveEvent {
        let end = self.store.appended();
        self.note(Note::Cut(end.get(), point.get()));
        let tail = self.settings.has(Bug::CutNotWiped).then(|| self.tail(point)).flatten();
        match self.store.truncate(point) {
            Ok(()) => {
                tail.into_iter().for_each(|tail| tail.restore(&self.disk));
                SlaveEvent::Cut(point)
            }
            Err(error) => {
                self.note(Note::Broken(format!("cutting to {point}: {error}")));
                SlaveEvent::LogFailed
            }
        }
    }

    fn tail(&self, point: LogOffset) -> Option<Tail> {
        Tail::of(&self.disk, point.get(), self.settings.segment_bytes)
    }
}

/// Content of a log file behind a position, for a planted bug.
struct Tail {
    path: PathBuf,
    at: u64,
    bytes: Vec<u8>,
}

impl Tail {
    fn of(disk: &FakeDisk, point: u64, segment_bytes: u64) -> Option<Self> {
        let at = point % segment_bytes;
        let path = Path::new("/store/commitlog").join(format!("{:020}", point - at));
        let mut bytes = disk.read(&path).ok()?;
        bytes.drain(..usize::try_from(at).ok()?.min(bytes.len()));
        Some(Self { path, at, bytes })
    }

    /// Writes the bytes into the file again without the store, as if the truncation had not zeroed them on the disk.
    fn restore(self, disk: &FakeDisk) {
        if let Ok(file) = disk.open(&self.path)
            && file.length().is_ok_and(|length| length >= self.at + self.bytes.len() as u64)
        {
            let _ = file.write_at(&self.bytes, self.at).and_then(|()| file.sync());
        }
    }
}
