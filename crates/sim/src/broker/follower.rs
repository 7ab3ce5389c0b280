//! The shell of a slave of an elected master.

use super::{Broker, Note, Output, Role};
use crate::settings::{Bug, NodeId};
use replica::switch::{SlaveAction, SlaveEvent};
use replica::transfer::PeerId;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use store::{Disk, FakeDisk};
use wire::ha::switch::{MasterFrame, TRANSFER_HEADER_BYTES, encode_report};
use wire::units::LogOffset;

impl Broker {
    pub(super) fn read_elected(&mut self, id: PeerId) {
        loop {
            let Some(link) = self.link.as_mut().filter(|link| link.peer == id) else { return };
            let attempt = link.attempt;
            match MasterFrame::decode(&link.received) {
                Ok(None) => return,
                Ok(Some((MasterFrame::Reply(reply), size))) => {
                    link.received.drain(..size);
                    self.step_follower(SlaveEvent::Reply(attempt, reply), &[]);
                }
                Ok(Some((MasterFrame::Transfer(header), _))) => {
                    let size = TRANSFER_HEADER_BYTES + header.body_bytes as usize;
                    if link.received.len() < size {
                        return;
                    }
                    let frame = Self::split(&mut link.received, size);
                    let body = &frame[TRANSFER_HEADER_BYTES..];
                    self.step_follower(SlaveEvent::Transfer(attempt, header), body);
                }
                Err(error) => return self.step_follower(SlaveEvent::Malformed(attempt, error), &[]),
            }
        }
    }

    pub(super) fn step_follower(&mut self, event: SlaveEvent, body: &[u8]) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Role::Follower(slave) = &mut self.role else { return };
            let mut actions = Vec::new();
            slave.step(self.now.ms, event, &mut actions);
            for action in actions {
                match action {
                    SlaveAction::CutIncomplete => events.push_back(self.cut_incomplete()),
                    SlaveAction::Cut(point) => events.push_back(self.cut(point)),
                    SlaveAction::Connect(attempt, address) => {
                        let master = NodeId::of_broker(&address).expect("a broker's name");
                        self.out.push(Output::Connect(attempt, master));
                    }
                    SlaveAction::Handshake(attempt, handshake) => {
                        self.write_to_master(attempt, &handshake.encode());
                    }
                    SlaveAction::SaveEpochs(epochs) => self.save_epochs(epochs),
                    SlaveAction::Consistent => self.is_consistent = true,
                    SlaveAction::Report(attempt, offset) => {
                        self.write_to_master(attempt, &encode_report(offset));
                    }
                    SlaveAction::Append { at, .. } => {
                        let has_failed = self.follow_bytes(at, body).is_err();
                        events.push_back(SlaveEvent::Appended(self.store.followed()));
                        if has_failed {
                            events.push_back(SlaveEvent::LogFailed);
                        }
                    }
                    SlaveAction::Confirm(confirm) => self.store.set_confirmed(Some(confirm)),
                    SlaveAction::Close(attempt, _) => self.end_link(attempt),
                    SlaveAction::WakeAt(at_ms) => self.role_wake_ms = Some(at_ms),
                }
            }
        }
    }

    /// Drops the beginning of a record at the log's end; everything else is durable then.
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

    /// Restores the bytes below the store, like a truncation that moves positions in memory only.
    fn restore(self, disk: &FakeDisk) {
        if let Ok(file) = disk.open(&self.path)
            && file.length().is_ok_and(|length| length >= self.at + self.bytes.len() as u64)
        {
            let _ = file.write_at(&self.bytes, self.at).and_then(|()| file.sync());
        }
    }
}
