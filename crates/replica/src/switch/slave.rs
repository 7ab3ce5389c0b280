//! Slave's side of auto-switch HA: `AutoSwitchHAClient`.
//!
//! Each attempt begins with the log. An incomplete last record is removed, then the epochs are compared, then the
//! bytes that the master does not have are cut. Before that, the log may hold unconfirmed bytes, so this broker must
//! not serve it. [`SlaveAction::Consistent`] allows serving.

use crate::close::CloseReason;
use crate::epochs::EpochList;
use crate::slave_log::{Attempt, SlaveConfig, SlaveLog};
use crate::timer::Timer;
use wire::ha::switch::{Handshake, HandshakeReply, TransferHeader};
use wire::ha::{EpochStart, FrameError};
use wire::units::LogOffset;

/// Additional pause in milliseconds if the logs have no common epoch (`processReadResult`).
const NO_COMMON_EPOCH_PAUSE_MS: u64 = 2_000;

/// State of a broker that becomes slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlaveStart {
    /// Handshake of this broker.
    pub handshake: Handshake,
    /// The epochs of its log.
    pub epochs: EpochList,
    /// End of the log.
    pub end: LogOffset,
    /// The log is on disk up to here.
    pub flushed: LogOffset,
    /// Confirm offset of the log, as far as this broker knows.
    pub confirm: LogOffset,
}

/// Event of a slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlaveEvent {
    /// Address of the master's HA port. `None` while it is unknown.
    Master(Option<String>),
    /// The log was cut durably as requested, and ends here: at a record's start, or at zero if it is empty.
    Cut(LogOffset),
    /// The connection is established.
    Connected(Attempt),
    /// The connection could not be made, or has ended.
    Closed(Attempt),
    /// The master has answered the handshake.
    Reply(Attempt, HandshakeReply),
    /// A whole transfer was received.
    Transfer(Attempt, TransferHeader),
    /// Bytes were received that do not end a frame yet.
    Part(Attempt),
    /// Bytes from the master are no valid frame.
    Malformed(Attempt, FrameError),
    /// The log ends here, with all requested bytes appended.
    Appended(LogOffset),
    /// The log is on disk up to here.
    Flushed(LogOffset),
    /// The flush mode changed: whether only bytes on disk may be reported from now on.
    SyncFlush(bool),
    /// The log refused to append or to be cut.
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
    /// Connect to this address.
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
    /// Append the body of the transfer at this offset, and report [`SlaveEvent::Appended`]. An empty log begins at
    /// this offset.
    Append {
        /// Position for the body: the end of the log, or the start of an empty log.
        at: LogOffset,
        /// Size of the body in bytes.
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
    Greeting,
    /// The bytes that the master does not have are being cut: everything from this offset on.
    Cutting(LogOffset),
    /// The first report waits until the log is on disk, because of sync flush.
    Starting,
    Following,
}

/// A slave of an elected master.
#[derive(Clone, Debug)]
pub struct Slave {
    config: SlaveConfig,
    handshake: Handshake,
    stage: Stage,
    master: Option<String>,
    attempt: Attempt,
    epochs: EpochList,
    /// The master's epochs, from its reply.
    master_epochs: EpochList,
    log: SlaveLog,
    confirm: LogOffset,
    /// The newest confirm offset of the master.
    master_confirm: LogOffset,
    last_read_ms: u64,
    last_report_ms: u64,
    timer: Timer,
}

impl Slave {
    /// The machine of a broker that became slave and does not know its master's HA address yet.
    #[must_use]
    pub fn new(config: SlaveConfig, start: SlaveStart) -> Self {
        Self {
            config,
            handshake: start.handshake,
            stage: Stage::Idle,
            master: None,
            attempt: Attempt::default(),
            epochs: start.epochs,
            master_epochs: EpochList::default(),
            log: SlaveLog::new(config.is_sync_flush, start.end, start.flushed),
            confirm: start.confirm,
            master_confirm: LogOffset::ZERO,
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
            SlaveEvent::Cut(end) => self.cut(now_ms, end, out),
            SlaveEvent::Connected(attempt) if attempt == self.attempt && self.stage == Stage::Connecting => {
                self.stage = Stage::Greeting;
                self.last_read_ms = now_ms;
                out.push(SlaveAction::Handshake(self.attempt, self.handshake));
            }
            SlaveEvent::Closed(attempt) if self.is_current(attempt) => self.pause(now_ms, 0),
            SlaveEvent::Reply(attempt, reply) if self.is_current(attempt) => self.compare(now_ms, reply, out),
            SlaveEvent::Transfer(attempt, header) if self.is_current(attempt) => {
                self.transfer(now_ms, header, out);
            }
            SlaveEvent::Part(attempt) if self.is_current(attempt) => self.last_read_ms = now_ms,
            SlaveEvent::Malformed(attempt, error) if self.is_current(attempt) => {
                self.close(now_ms, error.into(), out);
            }
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
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.stage == Stage::Following
    }

    /// The epochs of the log.
    #[must_use]
    pub fn epochs(&self) -> &EpochList {
        &self.epochs
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
        if self.master.is_some() {
            self.stage = Stage::Preparing;
            out.push(SlaveAction::CutIncomplete);
        }
    }

    fn cut(&mut self, now_ms: u64, end: LogOffset, out: &mut Vec<SlaveAction>) {
        let (limit, is_compared) = match self.stage {
            Stage::Cutting(point) => (point, true),
            _ => (self.log.appended(), false),
        };
        assert!(end <= limit, "the log was to be cut to {limit} and ends at {end}");
        let has_lost = end < self.log.appended();
        self.log.cut(end);
        if has_lost || is_compared {
            let entries = self.epochs.entries().len();
            self.epochs.cut(end);
            if self.epochs.entries().len() < entries {
                out.push(SlaveAction::SaveEpochs(self.epochs.clone()));
            }
        }
        if self.confirm > end {
            self.confirm = end;
            out.push(SlaveAction::Confirm(end));
        }
        match (self.stage, &self.master) {
            (Stage::Preparing, Some(master)) => {
                self.stage = Stage::Connecting;
                self.attempt = Attempt(self.attempt.0 + 1);
                out.push(SlaveAction::Connect(self.attempt, master.clone()));
            }
            (Stage::Cutting(_), _) => self.agree(now_ms, out),
            _ => {}
        }
    }

    /// Finds the part of this log that the master has too (`doTruncate`).
    fn compare(&mut self, now_ms: u64, reply: HandshakeReply, out: &mut Vec<SlaveAction>) {
        self.last_read_ms = now_ms;
        if self.stage != Stage::Greeting {
            let reason = CloseReason::OutOfOrder { expected: "a transfer", found: "a handshake reply" };
            return self.close(now_ms, reason, out);
        }
        self.master_epochs = EpochList::new(reply.epochs).expect("decoding checks that epochs rise");
        let end = self.log.appended();
        let point = match self.epochs.consistent_point(end, &self.master_epochs, reply.end) {
            // No message of this log was acknowledged, and the set has elected a master without any of it.
            Err(_) if self.confirm == LogOffset::ZERO => Ok(Some(LogOffset::ZERO)),
            point => point,
        };
        match point {
            Ok(None) => self.agree(now_ms, out),
            Ok(Some(point)) => {
                self.stage = Stage::Cutting(point);
                if point < end {
                    out.push(SlaveAction::Cut(point));
                } else {
                    self.cut(now_ms, point, out);
                }
            }
            Err(_) => {
                out.push(SlaveAction::Close(self.attempt, CloseReason::NoCommonEpoch));
                self.pause(now_ms, NO_COMMON_EPOCH_PAUSE_MS);
            }
        }
    }

    fn agree(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        out.push(SlaveAction::Consistent);
        self.stage = Stage::Starting;
        self.master_confirm = LogOffset::ZERO;
        self.start(now_ms, out);
    }

    /// Reports the start position to the master, when the log is as safe as every later acknowledgement claims. A
    /// Java slave stays silent for up to 5 s if it had no bytes behind the consistent point.
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

    fn transfer(&mut self, now_ms: u64, header: TransferHeader, out: &mut Vec<SlaveAction>) {
        self.last_read_ms = now_ms;
        let taken = if self.stage == Stage::Following {
            self.log.take(header.offset, header.body_bytes, self.config.file_bytes)
        } else {
            Err(CloseReason::OutOfOrder { expected: "nothing before the first report", found: "a transfer" })
        };
        if let Err(reason) = taken {
            return self.close(now_ms, reason, out);
        }
        if header.body_bytes > 0 {
            // The epoch of a heartbeat is not noted: this log has no byte of it.
            self.enter(header, out);
            out.push(SlaveAction::Append { at: header.offset, bytes: header.body_bytes });
        }
        self.master_confirm = self.master_confirm.max(header.confirm);
        self.raise_confirm(out);
    }

    /// Records the epoch of a piece. A Java master sends the next epoch with the last piece of an epoch. The piece
    /// then belongs to the preceding epoch, which the master's reply named.
    fn enter(&mut self, header: TransferHeader, out: &mut Vec<SlaveAction>) {
        let begins_before = |epoch: &EpochStart| epoch.start <= header.offset;
        let of_piece = Some(header.epoch).filter(begins_before);
        let entry = of_piece.or_else(|| self.master_epochs.at(header.offset).filter(begins_before));
        if entry.is_some_and(|entry| self.epochs.append(entry)) {
            out.push(SlaveAction::SaveEpochs(self.epochs.clone()));
        }
    }

    fn raise_confirm(&mut self, out: &mut Vec<SlaveAction>) {
        let confirm = self.master_confirm.min(self.log.appended());
        if confirm > self.confirm {
            self.confirm = confirm;
            out.push(SlaveAction::Confirm(confirm));
        }
    }

    fn expire(&mut self, now_ms: u64, out: &mut Vec<SlaveAction>) {
        let limit_ms = self.config.housekeeping_interval_ms;
        match self.stage {
            Stage::Paused(until_ms) if now_ms >= until_ms => self.prepare(out),
            Stage::Greeting | Stage::Starting | Stage::Following if now_ms > self.last_read_ms + limit_ms => {
                self.close(now_ms, CloseReason::Silent { limit_ms }, out);
            }
            Stage::Following if now_ms >= self.last_report_ms + self.config.heartbeat_interval_ms => {
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
            Stage::Following => Some(silent_ms.min(self.last_report_ms + self.config.heartbeat_interval_ms)),
        }
    }
}
