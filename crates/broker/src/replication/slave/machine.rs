//! State machine of a slave of either kind for the thread `ha-slave`: with a classic master, or a master that the
//! controllers elected.

use std::ops::Range;

use replica::classic;
use replica::close::CloseReason;
use replica::epochs::EpochList;
use replica::slave_log::Attempt;
use replica::switch;
use wire::ha::FrameError;
use wire::ha::classic::{HEADER_BYTES, Header, encode_report};
use wire::ha::switch::MasterFrame;
use wire::units::LogOffset;

/// A frame of a master, without its body.
#[derive(Debug)]
pub(super) enum Frame {
    Classic(Header),
    Switch(MasterFrame),
}

impl Frame {
    /// Size of the body that follows.
    pub(super) fn body_bytes(&self) -> usize {
        match self {
            Self::Classic(header) => header.body_bytes as usize,
            Self::Switch(MasterFrame::Transfer(header)) => header.body_bytes as usize,
            Self::Switch(MasterFrame::Reply(_)) => 0,
        }
    }
}

/// An event that the shell reports to the machine.
#[derive(Debug)]
pub(super) enum Event {
    Master(Option<String>),
    Connected(Attempt),
    Closed(Attempt),
    Frame(Attempt, Frame),
    /// Bytes were received that do not end a frame yet.
    Part(Attempt),
    Malformed(Attempt, FrameError),
    /// The log ends with a whole record, and its last record lies here.
    Settled(LogOffset, Option<Range<LogOffset>>),
    /// First position at which the master's bytes differ.
    Compared(Option<LogOffset>),
    Appended(LogOffset),
    /// The log was cut as asked and ends here.
    Cut(LogOffset),
    Flushed(LogOffset),
    /// Whether only bytes on disk may be reported from now on.
    SyncFlush(bool),
    LogFailed,
    Timer,
    Stop,
}

/// An action that the machine wants the shell to perform.
#[derive(Debug)]
pub(super) enum Action {
    Connect(Attempt, String),
    /// Write these bytes, in one piece, before anything else.
    Greet(Attempt, Vec<u8>),
    Report(Attempt, LogOffset),
    /// Compare this number of bytes at the start of the frame's body with the log at this offset.
    Compare(LogOffset, u32),
    /// Append so many of the last bytes of the frame's body here.
    Append(LogOffset, u32),
    CutIncomplete,
    Cut(LogOffset),
    SaveEpochs(EpochList),
    /// The log is a part of the master's log.
    Consistent,
    Confirm(LogOffset),
    Close(Attempt, CloseReason),
    WakeAt(u64),
}

/// A slave of either kind.
pub(in crate::replication) enum Machine {
    Classic(classic::Slave),
    OfElected(Box<switch::Slave>),
}

impl Machine {
    /// Whether controllers elected the master.
    pub(super) fn is_of_elected(&self) -> bool {
        matches!(self, Self::OfElected(_))
    }

    /// Whether this slave takes its master's log.
    pub(super) fn is_following(&self) -> bool {
        match self {
            Self::Classic(slave) => slave.is_following(),
            Self::OfElected(slave) => slave.is_following(),
        }
    }

    /// Returns the next frame of the received bytes, and the size of its head. `None` if the head is not complete.
    pub(super) fn decode(&self, received: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
        match self {
            Self::Classic(_) => {
                Ok(Header::decode(received)?.map(|header| (Frame::Classic(header), HEADER_BYTES)))
            }
            Self::OfElected(_) => {
                Ok(MasterFrame::decode(received)?.map(|(frame, bytes)| (Frame::Switch(frame), bytes)))
            }
        }
    }

    /// The bytes of a report.
    pub(super) fn report(&self, offset: LogOffset) -> Vec<u8> {
        match self {
            Self::Classic(_) => encode_report(offset).to_vec(),
            Self::OfElected(_) => wire::ha::switch::encode_report(offset).to_vec(),
        }
    }

    /// Events that a slave of this kind cannot have are ignored.
    pub(super) fn step(&mut self, now_ms: u64, event: Event, out: &mut Vec<Action>) {
        match self {
            Self::Classic(slave) => {
                let mut actions = Vec::new();
                if let Some(event) = of_classic(event) {
                    slave.step(now_ms, event, &mut actions);
                }
                out.extend(actions.into_iter().map(from_classic));
            }
            Self::OfElected(slave) => {
                let mut actions = Vec::new();
                if let Some(event) = of_elected(event) {
                    slave.step(now_ms, event, &mut actions);
                }
                out.extend(actions.into_iter().map(from_elected));
            }
        }
    }
}

fn of_classic(event: Event) -> Option<classic::SlaveEvent> {
    use classic::SlaveEvent as To;
    Some(match event {
        Event::Master(master) => To::Master(master),
        Event::Connected(attempt) => To::Connected(attempt),
        Event::Closed(attempt) => To::Closed(attempt),
        Event::Frame(attempt, Frame::Classic(header)) => To::Frame(attempt, header),
        Event::Part(attempt) => To::Part(attempt),
        Event::Malformed(attempt, error) => To::Malformed(attempt, error),
        Event::Settled(end, last_record) => To::Settled { end, last_record },
        Event::Compared(differs_at) => To::Compared(differs_at),
        Event::Appended(end) => To::Appended(end),
        Event::Flushed(end) => To::Flushed(end),
        Event::SyncFlush(is_sync_flush) => To::SyncFlush(is_sync_flush),
        Event::LogFailed => To::LogFailed,
        Event::Timer => To::Timer,
        Event::Stop => To::Stop,
        Event::Frame(_, Frame::Switch(_)) | Event::Cut(_) => return None,
    })
}

fn of_elected(event: Event) -> Option<switch::SlaveEvent> {
    use switch::SlaveEvent as To;
    Some(match event {
        Event::Master(master) => To::Master(master),
        Event::Connected(attempt) => To::Connected(attempt),
        Event::Closed(attempt) => To::Closed(attempt),
        Event::Frame(attempt, Frame::Switch(MasterFrame::Reply(reply))) => To::Reply(attempt, reply),
        Event::Frame(attempt, Frame::Switch(MasterFrame::Transfer(header))) => To::Transfer(attempt, header),
        Event::Part(attempt) => To::Part(attempt),
        Event::Malformed(attempt, error) => To::Malformed(attempt, error),
        Event::Appended(end) => To::Appended(end),
        Event::Cut(end) => To::Cut(end),
        Event::Flushed(end) => To::Flushed(end),
        Event::SyncFlush(is_sync_flush) => To::SyncFlush(is_sync_flush),
        Event::LogFailed => To::LogFailed,
        Event::Timer => To::Timer,
        Event::Stop => To::Stop,
        Event::Frame(_, Frame::Classic(_)) | Event::Settled(..) | Event::Compared(_) => return None,
    })
}

fn from_classic(action: classic::SlaveAction) -> Action {
    use classic::SlaveAction as From;
    match action {
        From::Connect(attempt, address) => Action::Connect(attempt, address),
        From::Report(attempt, offset) => Action::Report(attempt, offset),
        From::Compare { at, bytes } => Action::Compare(at, bytes),
        From::Append { at, bytes } => Action::Append(at, bytes),
        From::Close(attempt, reason) => Action::Close(attempt, reason),
        From::WakeAt(at_ms) => Action::WakeAt(at_ms),
    }
}

fn from_elected(action: switch::SlaveAction) -> Action {
    use switch::SlaveAction as From;
    match action {
        From::CutIncomplete => Action::CutIncomplete,
        From::Connect(attempt, address) => Action::Connect(attempt, address),
        From::Handshake(attempt, handshake) => Action::Greet(attempt, handshake.encode().to_vec()),
        From::Cut(to) => Action::Cut(to),
        From::SaveEpochs(epochs) => Action::SaveEpochs(epochs),
        From::Consistent => Action::Consistent,
        From::Report(attempt, offset) => Action::Report(attempt, offset),
        From::Append { at, bytes } => Action::Append(at, bytes),
        From::Confirm(confirm) => Action::Confirm(confirm),
        From::Close(attempt, reason) => Action::Close(attempt, reason),
        From::WakeAt(at_ms) => Action::WakeAt(at_ms),
    }
}
