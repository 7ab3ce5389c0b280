//! The slave's side: `DefaultHAClient`.
//!
//! A Java slave reports first when its heartbeat interval is over, up to 5 s after it has connected; this one reports at once.
//! With sync flush it reports only what is flushed, so that a master's answer never depends on the slave's memory.
//!
//! The protocol has no epochs: a master that lost the end of its log, or another one, may have other records where this slave
//! has some. So the first report of a connection is not the log's end, as a Java slave's, but where its last record begins. Any
//! master sends its bytes from there on; the slave compares those of the record, reports its end, and follows. A master's bytes
//! that differ end the connection, and nothing is appended.

use crate::close::CloseReason;
use crate::slave_log::{Attempt, SlaveConfig, SlaveLog, within_file};
use crate::timer::Timer;
use std::ops::Range;
use wire::ha::FrameError;
use wire::ha::classic::Header;
use wire::units::LogOffset;

/// Where the comparison of a record at the log's beginning starts: a first report of 0 says that the log is empty.
const FIRST_COMPARED: LogOffset = LogOffset::new(1);

/// What happened to a slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlaveEvent {
    /// Where the master's HA port is; `None` as long as nobody knows.
    Master(Option<String>),
    /// The connection is there.
    Connected(Attempt),
    /// The connection could not be made, or has ended.
    Closed(Attempt),
    /// A whole frame was received.
    Frame(Attempt, Header),
    /// How the comparison of a [`SlaveAction::Compare`] ended: the first position at which the master's bytes are others.
    Compared(Option<LogOffset>),
    /// Bytes were received that do not end a frame yet.
    Part(Attempt),
    /// What the master sent is no frame.
    Malformed(Attempt, FrameError),
    /// Before a connection is made: the log ends with a whole record, or with the blank record behind it.
    Settled {
        /// End of the log.
        end: LogOffset,
        /// Where its last record lies; `None` in a log without records.
        last_record: Option<Range<LogOffset>>,
    },
    /// The log now ends here, with all that was to be appended.
    Appended(LogOffset),
    /// The log is on disk up to here.
    Flushed(LogOffset),
    /// The flush mode was changed: whether only what is on disk may be reported from now on.
    SyncFlush(bool),
    /// The log refused to append, or cannot be read.
    LogFailed,
    /// The timer has fired.
    Timer,
    /// This broker stops, or is no slave any more.
    Stop,
}

/// What the shell of a slave has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlaveAction {
    /// Drop the beginning of a record at the log's end, say [`SlaveEvent::Settled`], and connect to this address.
    Connect(Attempt, String),
    /// Send a report of this offset. It may replace a report that has not left yet.
    Report(Attempt, LogOffset),
    /// Compare the first bytes of the frame's body with those of the log at this offset, and say [`SlaveEvent::Compared`].
    Compare {
        /// Where the bytes lie in the log.
        at: LogOffset,
        /// How many of the body are compared.
        bytes: u32,
    },
    /// Append the last bytes of the frame's body at this offset, and say [`SlaveEvent::Appended`]. An empty log begins there.
    Append {
        /// Where the bytes go: the end of the log, or where an empty log begins.
        at: LogOffset,
        /// How many bytes of the body are appended.
        bytes: u32,
    },
    /// Close the connection and log the reason.
    Close(Attempt, CloseReason),
    /// Send [`SlaveEvent::Timer`] at this time.
    WakeAt(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody knows the master, or the broker stopped.
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

    /// Takes in what happened at `now_ms` and appends what has to be done.
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

    /// Whether this slave is connected to its master and has told it where to start (`HAConnectionState.TRANSFER`).
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

    /// Tells the master where to start, once the log is as safe as every later acknowledgement says.
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

    /// Takes bytes that go on where the log ends.
    fn take(&mut self, now_ms: u64, at: LogOffset, bytes: u32, out: &mut Vec<SlaveAction>) {
        match self.log.take(at, bytes, self.config.file_bytes) {
            Ok(()) if bytes > 0 => out.push(SlaveAction::Append { at, bytes }),
            Ok(()) => {}
            Err(reason) => self.close(now_ms, reason, out),
        }
    }

    /// Has bytes compared with those of the last record. What lies behind the record in its file is blank and may differ.
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
