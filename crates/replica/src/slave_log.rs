//! Log of a slave of either protocol: its positions, and the reports about them.

use crate::close::CloseReason;
use wire::units::LogOffset;

/// Numbers the attempts of a slave to reach its master. Events of former attempts are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Attempt(pub u64);

/// Settings of a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlaveConfig {
    /// Size of a log file in bytes (`mappedFileSizeCommitLog`).
    pub file_bytes: u64,
    /// A report leaves at least this often, in milliseconds (`haSendHeartbeatInterval`).
    pub heartbeat_interval_ms: u64,
    /// Time without incoming bytes after which a connection is closed, in milliseconds (`haHousekeepingInterval`).
    pub housekeeping_interval_ms: u64,
    /// Pause before the next attempt to connect, in milliseconds.
    pub retry_interval_ms: u64,
    /// Whether reports cover only bytes on disk (`flushDiskType=SYNC_FLUSH`).
    pub is_sync_flush: bool,
}

/// RocketMQ's defaults.
impl Default for SlaveConfig {
    fn default() -> Self {
        Self {
            file_bytes: 1024 * 1024 * 1024,
            heartbeat_interval_ms: 5_000,
            housekeeping_interval_ms: 20_000,
            retry_interval_ms: 5_000,
            is_sync_flush: false,
        }
    }
}

/// Positions in a slave's log: appended, flushed, reported.
#[derive(Clone, Debug)]
pub(crate) struct SlaveLog {
    is_sync_flush: bool,
    /// End of the log with the frames that are being appended.
    end: LogOffset,
    /// End of the appended bytes. Invariant: at most `end`.
    appended: LogOffset,
    /// End of the bytes on disk.
    flushed: LogOffset,
    /// Last position reported to the master on this connection.
    reported: LogOffset,
}

impl SlaveLog {
    /// A log that ends at `end` and is on disk up to `flushed`.
    pub(crate) fn new(is_sync_flush: bool, end: LogOffset, flushed: LogOffset) -> Self {
        assert!(flushed <= end, "the flushed part of a log is not longer than the log");
        Self { is_sync_flush, end, appended: end, flushed, reported: LogOffset::ZERO }
    }

    /// Returns the end of the appended bytes.
    pub(crate) fn appended(&self) -> LogOffset {
        self.appended
    }

    /// Drops frames that were not appended, and the reported position, for a new connection.
    pub(crate) fn restart(&mut self) {
        (self.end, self.reported) = (self.appended, LogOffset::ZERO);
    }

    /// Switches between acknowledging only bytes on disk and all appended bytes. Earlier reports stay valid.
    pub(crate) fn set_sync_flush(&mut self, is_sync_flush: bool) {
        self.is_sync_flush = is_sync_flush;
    }

    /// Records that the log ends at `appended`.
    pub(crate) fn append(&mut self, appended: LogOffset) {
        self.appended = appended;
        self.end = self.end.max(appended);
    }

    /// Records that the log is on disk up to `flushed`.
    pub(crate) fn flush(&mut self, flushed: LogOffset) {
        self.flushed = flushed;
    }

    /// Records that the log was cut to `end`.
    pub(crate) fn cut(&mut self, end: LogOffset) {
        (self.end, self.appended, self.flushed) = (end, end, self.flushed.min(end));
        self.reported = LogOffset::ZERO;
    }

    /// Returns the position that may be acknowledged.
    fn durable(&self) -> LogOffset {
        if self.is_sync_flush { self.flushed } else { self.appended }
    }

    /// Whether all appended bytes may be acknowledged. With sync flush they must be on disk. The first report waits for
    /// that, because the master also takes its start position for an acknowledgement.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable() == self.appended
    }

    /// Whether the position that may be acknowledged is above the reported position.
    pub(crate) fn has_grown(&self) -> bool {
        self.durable() > self.reported
    }

    /// Returns the position to report to the master now.
    pub(crate) fn report(&mut self) -> LogOffset {
        self.reported = self.durable().max(self.reported);
        self.reported
    }

    /// Takes the next frame, which begins at the log's end and stays in a single file. An empty log takes any offset,
    /// and begins there.
    pub(crate) fn take(&mut self, at: LogOffset, bytes: u32, file_bytes: u64) -> Result<(), CloseReason> {
        if self.end != LogOffset::ZERO && at != self.end {
            return Err(CloseReason::WrongOffset { expected: self.end, found: at });
        }
        within_file(at, bytes, file_bytes)?;
        if bytes > 0 {
            self.end = at + u64::from(bytes);
        }
        Ok(())
    }
}

/// Refuses a frame's body that does not stay in a single file of the log.
pub(crate) fn within_file(at: LogOffset, bytes: u32, file_bytes: u64) -> Result<(), CloseReason> {
    let is_beyond_numbers = LogOffset::from_i64(at.to_i64().wrapping_add(i64::from(bytes))).is_none();
    if is_beyond_numbers || at.get() % file_bytes + u64::from(bytes) > file_bytes {
        return Err(CloseReason::AcrossFiles { offset: at, body_bytes: bytes, file_bytes });
    }
    Ok(())
}
