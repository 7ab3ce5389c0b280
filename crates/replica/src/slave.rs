//! Slave of either protocol: connects, agrees with its master about the log, appends what the master sends, and
//! reports. A classic slave ([`classic`]) compares its last record, the slave of an elected master ([`elected`]) its
//! epochs.
//!
//! A Java slave reports first when its heartbeat interval is over, up to 5 s after it has connected. This slave
//! reports at once. With sync flush it reports only flushed bytes, so that a master's response never depends on the
//! slave's memory.

mod classic;
mod elected;

pub use elected::SlaveStart;

use crate::close::CloseReason;
use crate::epochs::EpochList;
use crate::slave_log::{Attempt, SlaveConfig, SlaveLog};
use crate::timer::Timer;
use elected::EpochState;
use std::ops::Range;
use wire::ha::switch::Handshake;
use wire::ha::{FrameError, FrameHead, MasterFrame, Protocol};
use wire::units::LogOffset;

/// Event of a slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlaveEvent {
    /// Address of the master's HA port. `None` while it is unknown.
    Master(Option<String>),
    /// The connection is established.
    Connected(Attempt),
    /// The connection could not be made, or has ended.
    Closed(Attempt),
    /// A whole frame was received.
    Frame(Attempt, MasterFrame),
    /// Bytes were received that do not end a frame yet.
    Part(Attempt),
    /// Bytes from the master are no valid frame.
    Malformed(Attempt, FrameError),
    /// The log ends with a whole record, or with the blank record behind it. Sent to a classic slave before a
    /// connection is made.
    Settled {
        /// End of the log.
        end: LogOffset,
        /// Range of the last record. `None` in a log without records.
        last_record: Option<Range<LogOffset>>,
    },
    /// Result of a [`SlaveAction::Compare`]: the first position at which the master's bytes differ.
    Compared(Option<LogOffset>),
    /// The log was cut durably as requested, and ends here: at a record's start, or at zero if it is empty.
    Cut(LogOffset),
    /// The log ends here, with all requested bytes appended.
    Appended(LogOffset),
    /// The log is on disk up to here.
    Flushed(LogOffset),
    /// The flush mode changed: whether only bytes on disk may be reported from now on.
    SyncFlush(bool),
    /// The log refused to append or to be cut, or cannot be read.
    LogFailed,
    /// The timer has fired.
    Timer,
    /// The broker stops, or is no longer slave.
    Stop,
}

/// Action for the shell of a slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlaveAction {
    /// Cut an incomplete record off the end of the log, and report [`SlaveEvent::Cut`].
    CutIncomplete,
    /// Connect to this address. A classic slave first drops the beginning of a record at the log's end, and reports
    /// [`SlaveEvent::Settled`].
    Connect(Attempt, String),
    /// Send the handshake, in one write.
    Handshake(Attempt, Handshake),
    /// Cut the log, its queues and index to this offset, or to the start of the record that crosses the offset. Zero
    /// and sync the removed bytes first, so that they do not return after a crash. Then report [`SlaveEvent::Cut`].
    Cut(LogOffset),
    /// Write these epochs to the epoch file.
    SaveEpochs(EpochList),
    /// The log is a part of the master's log. This broker may serve the confirmed part.
    Consistent,
    /// Send a report of this offset. It may replace an unsent report.
    Report(Attempt, LogOffset),
    /// Compare the first bytes of the frame's body with the log at this offset, and answer with
    /// [`SlaveEvent::Compared`].
    Compare {
        /// Position of the bytes in the log.
        at: LogOffset,
        /// Number of bytes of the body to compare.
        bytes: u32,
    },
    /// Append the last bytes of the frame's body at this offset, and report [`SlaveEvent::Appended`]. An empty log
    /// begins at this offset.
    Append {
        /// Position for the bytes: the end of the log, or the start of an empty log.
        at: LogOffset,
        /// Number of bytes of the body to append.
        bytes: u32,
    },
    /// Let consumers see the log up to here.
    Confirm(LogOffset),
    /// Close the connection and log the reason.
    Close(Attempt, CloseReason),
    /// Send [`SlaveEvent::Timer`] at this time.
    WakeAt(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The master is unknown, or the broker stopped.
    Idle,
    /// The next attempt is due at this time.
    Paused(u64),
    /// The incomplete last record is being cut.
    Preparing,
    Connecting,
    /// The elected master's reply to the handshake is awaited.
    Greeting,
    /// The bytes that the elected master does not have are being cut: everything from this offset on.
    Cutting(LogOffset),
    /// The first report waits until the log is on disk, because of sync flush.
    Starting,
    /// The classic master's next frame begins at `at`, where this log has bytes of its own.
    Comparing {
        at: LogOffset,
        body_end: LogOffset,
    },
    Following,
}

/// A slave.
#[derive(Clone, Debug)]
pub struct Slave {
    config: SlaveConfig,
    stage: Stage,
    master: Option<String>,
    attempt: Attempt,
    log: SlaveLog,
    /// Last record of a classic slave.
    last_record: Option<Range<LogOffset>>,
    last_read_ms: u64,
    last_report_ms: u64,
    timer: Timer,
    of_elected: Option<Box<EpochState>>,
}

impl Slave {
    /// Makes a classic slave that knows no master. Its log ends at `end` and is on disk up to `flushed`.
    pub fn classic(config: SlaveConfig, end: LogOffset, flushed: LogOffset) -> Self {
        Self {
            config,
            stage: Stage::Idle,
            master: None,
            attempt: Attempt::default(),
            log: SlaveLog::new(config.is_sync_flush, end, flushed),
            last_record: None,
            last_read_ms: 0,
            last_report_ms: 0,
            timer: Timer::default(),
            of_elected: None,
        }
    }

    /// Makes the slave of an elected master whose HA address is unknown.
    pub fn of_elected(config: SlaveConfig, start: SlaveStart) -> Self {
        let slave = Self::classic(config, start.end, start.flushed);
        Self { of_elected: Some(Box::new(EpochState::new(start))), ..slave }
    }

    /// Protocol of the connection.
    pub fn protocol(&self) -> Protocol {
        if self.of_elected.is_some() { Protocol::Switch } else { Protocol::Classic }
    }

    /// Processes an event at `now_ms` and appends the resulting actions.
    pub fn step(&mut self, now_ms: u64, event: SlaveEvent, out: &mut Vec<SlaveAction>) {
        match event {
            SlaveEvent::Master(master) if master != self.master => {
                self.follow(master, CloseReason::MasterMoved, out);
            }
            SlaveEvent::Settled { end, last_record } => {
                self.log.cut(end);
                self.last_record = last_record;
            }
            SlaveEvent::Cut(end) => self.cut(now_ms, end, out),
            SlaveEvent::Connected(attempt) if attempt == self.attempt && self.stage == Stage::Connecting => {
                self.last_read_ms = now_ms;
                self.begin(now_ms, out);
            }
            SlaveEvent::Closed(attempt) if self.is_current(attempt) => self.pause(now_ms, 0),
            SlaveEvent::Frame(attempt, frame) if self.is_current(attempt) => self.frame(now_ms, frame, out),
            SlaveEvent::Part(attempt) if self.is_current(attempt) => self.last_read_ms = now_ms,
            SlaveEvent::Malformed(attempt, error) if self.is_current(attempt) => {
                self.close(now_ms, error.into(), out);
            }
            SlaveEvent::Compared(differs_at) => self.compared(now_ms, differs_at, out),
            SlaveEvent::Appended(end) => {
                self.log.append(end);
                self.report_growth(now_ms, out);
                self.raise_confirm(out);
            }
            SlaveEvent::SyncFlush(is_sync_flush) => {
                self.log.set_sync_flush(is_sync_flush);
                self.start(now_ms, out);
                self.report_growth(now_ms, out);
            }
            SlaveEvent::Flushed(flushed) => {
                self.log.flush(flushed);
                self.start(now_ms, out);
                self.report_growth(now_ms, out);
            }
            SlaveEvent::LogFailed => self.close(now_ms, CloseReason::LogFailed, out),
            SlaveEvent::Timer => {
                self.timer.fired();
                self.expire(now_ms, out);
            }
            SlaveEvent::Stop => self.follow(None, CloseReason::Stopped, out),
            _ => {}
        }
        if let Some(wake_at_ms) = self.timer.arm(self.wake_at_ms()) {
            out.push(SlaveAction::WakeAt(wake_at_ms));
        }
    }

    /// Whether this slave receives its master's log (`HAConnectionState.TRANSFER`).
    pub fn is_following(&self) -> bool {
        self.stage == Stage::Following
    }

    /// The epochs of the log. `None` at a classic slave.
    pub fn epochs(&self) -> Option<&EpochList> {
        self.of_elected.as_ref().map(|of_elected| &of_elected.epochs)
    }

    fn is_connected(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Paused(_) | Stage::Preparing)
    }

    fn is_current(&self, attempt: Attempt) -> bool {
        attempt == self.attempt && self.is_connected()
    }

    fn follow(&mut self, master: Option<String>, reason: CloseReason, out: &mut Vec<SlaveAction>) {
        if self.is_connected() {
            out.push(SlaveAction::Close(self.attempt, reason));
        }
        self.master = master;
        self.prepare(out);
    }

    /// Begins an attempt. Pending appends of the preceding attempt come first, in the order of the actions.
    fn prepare(&mut self, out: &mut Vec<SlaveAction>) {
        self.stage = Stage::Idle;
        if self.of_elected.is_none() {
            self.connect(out);
        } else if self.master.is_some() {
            self.stage = Stage::Preparing;
            out.push(SlaveAction::CutIncomplete);
        }
    }

    fn connect(&mut self, out: &mut Vec<SlaveAction>) {
        if let Some(master) = &self.master {
            self.stage = Stage::Connecting;
            self.attempt = Attempt(self.attempt.0 + 1);
            self.log.restart();
            out.push(SlaveAction::Connect(self.attempt, master.clone()));
        }
    }

    /// Begins the conversation on a new connection.
    fn begin(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        if let Some(of_elected) = &self.of_elected {
            self.stage = Stage::Greeting;
            out.push(SlaveAction::Handshake(self.attempt, of_elected.handshake));
        } else {
            self.stage = Stage::Starting;
            self.start(now_ms, out);
        }
    }

    /// Reports the start position to the master, when the log is as safe as every later acknowledgement claims. A
    /// Java slave of an elected master stays silent for up to 5 s if it had no bytes behind the consistent point.
    fn start(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        if self.stage == Stage::Starting && self.log.is_durable() {
            self.stage =
                self.first_compared().map_or(Stage::Following, |at| Stage::Comparing { at, body_end: at });
            self.report(now_ms, out);
        }
    }

    fn report_growth(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        if self.stage == Stage::Following && self.log.has_grown() {
            self.report(now_ms, out);
        }
    }

    fn report(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        self.last_report_ms = now_ms;
        let offset = match self.stage {
            Stage::Comparing { at, .. } => at,
            _ => self.log.report(),
        };
        out.push(SlaveAction::Report(self.attempt, offset));
    }

    fn frame(&mut self, now_ms: u64, frame: MasterFrame, out: &mut Vec<SlaveAction>) {
        self.last_read_ms = now_ms;
        let head = match frame {
            MasterFrame::Handshake(reply) => return self.reply(now_ms, reply, out),
            MasterFrame::Transfer(head) => head,
        };
        let (at, bytes) = head.piece();
        match self.stage {
            Stage::Following => self.take(now_ms, head, out),
            Stage::Comparing { at: expected, .. } if at == expected => self.compare(now_ms, at, bytes, out),
            Stage::Comparing { at: expected, .. } => {
                self.close(now_ms, CloseReason::WrongOffset { expected, found: at }, out);
            }
            _ => {
                let expected = "nothing before the first report";
                let found = match head {
                    FrameHead::Classic(_) => "a frame",
                    FrameHead::Switch(_) => "a transfer",
                };
                self.close(now_ms, CloseReason::OutOfOrder { expected, found }, out);
            }
        }
    }

    /// Takes a piece of the log that continues this log at its end.
    fn take(&mut self, now_ms: u64, head: FrameHead, out: &mut Vec<SlaveAction>) {
        let (at, bytes) = head.piece();
        if let Err(reason) = self.log.take(at, bytes, self.config.file_bytes) {
            return self.close(now_ms, reason, out);
        }
        if let (FrameHead::Switch(header), Some(of_elected)) = (head, &mut self.of_elected) {
            of_elected.take(header, out);
        }
        if bytes > 0 {
            out.push(SlaveAction::Append { at, bytes });
        }
        self.raise_confirm(out);
    }

    fn expire(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        let limit_ms = self.config.housekeeping_interval_ms;
        match self.stage {
            Stage::Paused(until_ms) if now_ms >= until_ms => self.prepare(out),
            Stage::Greeting | Stage::Starting | Stage::Comparing { .. } | Stage::Following
                if now_ms > self.last_read_ms + limit_ms =>
            {
                self.close(now_ms, CloseReason::Silent { limit_ms }, out);
            }
            Stage::Comparing { .. } | Stage::Following
                if now_ms >= self.last_report_ms + self.config.heartbeat_interval_ms =>
            {
                self.report(now_ms, out);
            }
            _ => {}
        }
    }

    fn close(&mut self, now_ms: u64, reason: CloseReason, out: &mut Vec<SlaveAction>) {
        if self.is_connected() {
            out.push(SlaveAction::Close(self.attempt, reason));
            self.pause(now_ms, 0);
        }
    }

    fn pause(&mut self, now_ms: u64, longer_ms: u64) {
        self.stage = Stage::Paused(now_ms + self.config.retry_interval_ms + longer_ms);
    }

    fn wake_at_ms(&self) -> Option<u64> {
        let silent_ms = self.last_read_ms + self.config.housekeeping_interval_ms + 1;
        match self.stage {
            Stage::Idle | Stage::Preparing | Stage::Connecting | Stage::Cutting(_) => None,
            Stage::Paused(until_ms) => Some(until_ms),
            Stage::Greeting | Stage::Starting => Some(silent_ms),
            Stage::Comparing { .. } | Stage::Following => {
                Some(silent_ms.min(self.last_report_ms + self.config.heartbeat_interval_ms))
            }
        }
    }
}
