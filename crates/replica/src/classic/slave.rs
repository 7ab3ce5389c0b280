//! Slave's side of classic HA: `DefaultHAClient`.
//!
//! A Java slave reports first when its heartbeat interval is over, up to 5 s after it has connected. This slave
//! reports at once. With sync flush it reports only flushed bytes, so that a master's response never depends on the
//! slave's memory.
//!
//! The protocol has no epochs. A master that lost the end of its log, or a new master, may have other records than
//! this slave at the same positions. So the first report of a connection is the start of the last record, not the
//! log's end as from a Java slave. Any master sends its bytes from there on. The slave compares the bytes of the
//! record, reports its end, and follows. Different bytes end the connection, and the slave appends nothing.

use crate::close::CloseReason;
use crate::slave_log::{Attempt, SlaveConfig, SlaveLog, within_file};
use crate::timer::Timer;
use std::ops::Range;
use wire::ha::FrameError;
use wire::ha::classic::Header;
use wire::units::LogOffset;

/// Position at which the comparison of a record at the log's beginning starts. A first report of 0 means an empty
/// log.
const FIRST_COMPARED: LogOffset = LogOffset::new(1);

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
    Frame(Attempt, Header),
    /// Result of a [`SlaveAction::Compare`]: the first position at which the master's bytes differ.
    Compared(Option<LogOffset>),
    /// Bytes were received that do not end a frame yet.
    Part(Attempt),
    /// Bytes from the master are no valid frame.
    Malformed(Attempt, FrameError),
    /// The log ends with a whole record, or with the blank record behind it. Sent before a connection is made.
    Settled {
        /// End of the log.
        end: LogOffset,
        /// Range of the last record. `None` in a log without records.
        last_record: Option<Range<LogOffset>>,
    },
    /// The log ends here, with all requested bytes appended.
    Appended(LogOffset),
    /// The log is on disk up to here.
    Flushed(LogOffset),
    /// The flush mode changed: whether only bytes on disk may be reported from now on.
    SyncFlush(bool),
    /// The log refused to append, or cannot be read.
    LogFailed,
    /// The timer has fired.
    Timer,
    /// The broker stops, or is no longer slave.
    Stop,
}

/// Action for the shell of a slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlaveAction {
    /// Drop the beginning of a record at the log's end, report [`SlaveEvent::Settled`], and connect to this address.
    Connect(Attempt, String),
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
    Connecting,
    /// Connected; with sync flush the first report waits until the log is on disk.
    Starting,
    /// The master's next frame begins at `at`, where this log has bytes of its own.
    Comparing {
        at: LogOffset,
        body_end: LogOffset,
    },
    Following,
}

/// A classic slave.
#[derive(Clone, Debug)]
pub struct Slave {
    config: SlaveConfig,
    stage: Stage,
    master: Option<String>,
    attempt: Attempt,
    log: SlaveLog,
    last_record: Option<Range<LogOffset>>,
    last_read_ms: u64,
    last_report_ms: u64,
    timer: Timer,
}

impl Slave {
    /// A slave that knows no master, with a log that ends at `end` and is on disk up to `flushed`.
    #[must_use]
    pub fn new(config: SlaveConfig, end: LogOffset, flushed: LogOffset) -> Self {
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
        }
    }

    /// Processes an event at `now_ms` and appends the resulting actions.
    pub fn step(&mut self, now_ms: u64, event: SlaveEvent, out: &mut Vec<SlaveAction>) {
        match event {
            SlaveEvent::Master(master) if master != self.master => {
                self.follow(master, CloseReason::MasterMoved, out);
            }
            SlaveEvent::Connected(attempt) if self.is_current(attempt) && self.stage == Stage::Connecting => {
                self.stage = Stage::Starting;
                self.last_read_ms = now_ms;
                self.start(now_ms, out);
            }
            SlaveEvent::Closed(attempt) if self.is_current(attempt) => self.pause(now_ms),
            SlaveEvent::Part(attempt) if self.is_current(attempt) => self.last_read_ms = now_ms,
            SlaveEvent::Malformed(attempt, error) if self.is_current(attempt) => {
                self.close(now_ms, error.into(), out);
            }
            SlaveEvent::Frame(attempt, header) if self.is_current(attempt) => self.frame(now_ms, header, out),
            SlaveEvent::Compared(differs_at) => self.compared(now_ms, differs_at, out),
            SlaveEvent::Settled { end, last_record } => {
                self.log.cut(end);
                self.last_record = last_record;
            }
            SlaveEvent::Appended(end) => {
                self.log.append(end);
                self.report_growth(now_ms, out);
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
            SlaveEvent::LogFailed => {
                self.close(now_ms, CloseReason::LogFailed, out);
            }
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

    /// Whether this slave is connected to its master and has sent the start position (`HAConnectionState.TRANSFER`).
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.stage == Stage::Following
    }

    fn is_current(&self, attempt: Attempt) -> bool {
        attempt == self.attempt && !matches!(self.stage, Stage::Idle | Stage::Paused(_))
    }

    fn follow(&mut self, master: Option<String>, reason: CloseReason, out: &mut Vec<SlaveAction>) {
        if self.is_current(self.attempt) {
            out.push(SlaveAction::Close(self.attempt, reason));
        }
        self.master = master;
        self.connect(out);
    }

    fn connect(&mut self, out: &mut Vec<SlaveAction>) {
        self.stage = Stage::Idle;
        if let Some(master) = &self.master {
            self.stage = Stage::Connecting;
            self.attempt = Attempt(self.attempt.0 + 1);
            self.log.restart();
            out.push(SlaveAction::Connect(self.attempt, master.clone()));
        }
    }

    /// Reports the start position to the master, when the log is as safe as every later acknowledgement claims.
    fn start(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        if self.stage == Stage::Starting && self.log.is_durable() {
            self.stage = match &self.last_record {
                Some(record) => {
                    let at = record.start.max(FIRST_COMPARED);
                    Stage::Comparing { at, body_end: at }
                }
                None => Stage::Following,
            };
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

    fn frame(&mut self, now_ms: u64, header: Header, out: &mut Vec<SlaveAction>) {
        self.last_read_ms = now_ms;
        let (at, bytes) = (header.offset, header.body_bytes);
        match self.stage {
            Stage::Following => self.take(now_ms, at, bytes, out),
            Stage::Comparing { at: expected, .. } if at == expected => self.compare(now_ms, at, bytes, out),
            Stage::Comparing { at: expected, .. } => {
                self.close(now_ms, CloseReason::WrongOffset { expected, found: at }, out);
            }
            _ => {
                let expected = "nothing before the first report";
                self.close(now_ms, CloseReason::OutOfOrder { expected, found: "a frame" }, out);
            }
        }
    }

    /// Takes bytes that continue the log at its end.
    fn take(&mut self, now_ms: u64, at: LogOffset, bytes: u32, out: &mut Vec<SlaveAction>) {
        match self.log.take(at, bytes, self.config.file_bytes) {
            Ok(()) if bytes > 0 => out.push(SlaveAction::Append { at, bytes }),
            Ok(()) => {}
            Err(reason) => self.close(now_ms, reason, out),
        }
    }

    /// Requests a comparison of bytes with those of the last record. Bytes behind the record in its file are blank
    /// and may differ.
    fn compare(&mut self, now_ms: u64, at: LogOffset, bytes: u32, out: &mut Vec<SlaveAction>) {
        if let Err(reason) = within_file(at, bytes, self.config.file_bytes) {
            return self.close(now_ms, reason, out);
        }
        self.stage = Stage::Comparing { at, body_end: at + u64::from(bytes) };
        let record_end = self.last_record.as_ref().map_or(at, |record| record.end);
        let own = u32::try_from(record_end.get().saturating_sub(at.get())).unwrap_or(u32::MAX).min(bytes);
        if own > 0 {
            out.push(SlaveAction::Compare { at, bytes: own });
        } else if bytes > 0 {
            self.compared(now_ms, None, out);
        }
    }

    fn compared(&mut self, now_ms: u64, differs_at: Option<LogOffset>, out: &mut Vec<SlaveAction>) {
        let (Stage::Comparing { body_end, .. }, Some(record)) = (self.stage, &self.last_record) else {
            return;
        };
        let end = self.log.appended();
        if let Some(at) = differs_at {
            let record = record.clone();
            self.close(now_ms, CloseReason::OtherHistory { record, end, at }, out);
        } else if body_end < end {
            self.stage = Stage::Comparing { at: body_end, body_end };
        } else {
            self.stage = Stage::Following;
            self.report_growth(now_ms, out);
            let rest = u32::try_from(body_end.since(end)).expect("a part of a frame's body");
            self.take(now_ms, end, rest, out);
        }
    }

    fn expire(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        let limit_ms = self.config.housekeeping_interval_ms;
        match self.stage {
            Stage::Paused(until_ms) if now_ms >= until_ms => self.connect(out),
            Stage::Starting | Stage::Comparing { .. } | Stage::Following
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
        if self.is_current(self.attempt) {
            out.push(SlaveAction::Close(self.attempt, reason));
            self.pause(now_ms);
        }
    }

    fn pause(&mut self, now_ms: u64) {
        self.stage = Stage::Paused(now_ms + self.config.retry_interval_ms);
    }

    fn wake_at_ms(&self) -> Option<u64> {
        let silent_ms = self.last_read_ms + self.config.housekeeping_interval_ms + 1;
        match self.stage {
            Stage::Idle | Stage::Connecting => None,
            Stage::Paused(until_ms) => Some(until_ms),
            Stage::Starting => Some(silent_ms),
            Stage::Comparing { .. } | Stage::Following => {
                Some(silent_ms.min(self.last_report_ms + self.config.heartbeat_interval_ms))
            }
        }
    }
}
