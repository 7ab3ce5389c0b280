//! The slave's side: `DefaultHAClient`.
//!
//! A Java slave reports first when its heartbeat interval is over, up to 5 s after it has connected; this one reports at once.
//! With sync flush it reports only what is flushed, so that a master's answer never depends on the slave's memory.

use crate::close::CloseReason;
use crate::slave_log::{Attempt, SlaveConfig, SlaveLog};
use crate::timer::Timer;
use wire::ha::FrameError;
use wire::ha::classic::Header;
use wire::units::LogOffset;

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
    /// What the master sent is no frame.
    Malformed(Attempt, FrameError),
    /// The log now ends here, with all that was to be appended.
    Appended(LogOffset),
    /// The log is on disk up to here.
    Flushed(LogOffset),
    /// The flush mode was changed: whether only what is on disk may be reported from now on.
    SyncFlush(bool),
    /// The log refused to append.
    AppendFailed,
    /// The timer has fired.
    Timer,
    /// This broker stops, or is no slave any more.
    Stop,
}

/// What the shell of a slave has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlaveAction {
    /// Connect to this address.
    Connect(Attempt, String),
    /// Send a report of this offset. It may replace a report that has not left yet.
    Report(Attempt, LogOffset),
    /// Append the body of the frame at this offset, and say [`SlaveEvent::Appended`]. An empty log begins there.
    Append {
        /// Where the body goes: the end of the log, or where an empty log begins.
        at: LogOffset,
        /// Size of the body in bytes.
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
            SlaveEvent::Malformed(attempt, error) if self.is_current(attempt) => {
                self.close(now_ms, error.into(), out);
            }
            SlaveEvent::Frame(attempt, header) if self.is_current(attempt) => self.frame(now_ms, header, out),
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
            SlaveEvent::AppendFailed => {
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
        attempt == self.attempt
            && matches!(self.stage, Stage::Connecting | Stage::Starting | Stage::Following)
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
            self.stage = Stage::Following;
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
        out.push(SlaveAction::Report(self.attempt, self.log.report()));
    }

    fn frame(&mut self, now_ms: u64, header: Header, out: &mut Vec<SlaveAction>) {
        self.last_read_ms = now_ms;
        let taken = if self.stage == Stage::Following {
            self.log.take(header.offset, header.body_bytes, self.config.file_bytes)
        } else {
            Err(CloseReason::OutOfOrder { expected: "nothing before the first report", found: "a frame" })
        };
        match taken {
            Ok(()) if header.body_bytes > 0 => {
                out.push(SlaveAction::Append { at: header.offset, bytes: header.body_bytes });
            }
            Ok(()) => {}
            Err(reason) => self.close(now_ms, reason, out),
        }
    }

    fn expire(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        let limit_ms = self.config.housekeeping_interval_ms;
        match self.stage {
            Stage::Paused(until_ms) if now_ms >= until_ms => self.connect(out),
            Stage::Starting | Stage::Following if now_ms > self.last_read_ms + limit_ms => {
                self.close(now_ms, CloseReason::Silent { limit_ms }, out);
            }
            Stage::Following if now_ms >= self.last_report_ms + self.config.heartbeat_interval_ms => {
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
            Stage::Following => Some(silent_ms.min(self.last_report_ms + self.config.heartbeat_interval_ms)),
        }
    }
}
