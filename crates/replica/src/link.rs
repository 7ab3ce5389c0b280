//! Connection of a slave in the view of a master of either protocol: the acknowledged position, the next bytes to
//! send, and timeouts.

use crate::close::CloseReason;
use crate::transfer::{LogRange, Piece, Transfer, TransferConfig, Warning};
use wire::units::LogOffset;

/// Connection of a slave.
#[derive(Clone, Debug)]
pub(crate) struct SlaveLink {
    /// State of the transfer. `None` before the first report, which contains the start.
    following: Option<TransferState>,
    last_read_ms: u64,
    is_warned: bool,
}

#[derive(Clone, Debug)]
struct TransferState {
    transfer: Transfer,
    /// Invariant: at most `transfer.next()`.
    acknowledged: LogOffset,
}

impl SlaveLink {
    /// A connection that came in at `now_ms`.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { following: None, last_read_ms: now_ms, is_warned: false }
    }

    /// Records that bytes arrived.
    pub(crate) fn read(&mut self, now_ms: u64) {
        self.last_read_ms = now_ms;
    }

    /// Processes a report. The first report also names the start: the reported position, or `start_of_empty` for an
    /// empty slave. The first report acknowledges no bytes behind `had_max`, the largest position that slaves can
    /// have.
    ///
    /// # Errors
    /// [`CloseReason::AheadOfMaster`] when the first report lies behind the end of the log, and
    /// [`CloseReason::ReportBeyondSent`] when a later report lies behind the sent bytes. Neither report counts.
    pub(crate) fn report(
        &mut self,
        now_ms: u64,
        reported: LogOffset,
        end: LogOffset,
        start_of_empty: LogOffset,
        had_max: LogOffset,
    ) -> Result<(), CloseReason> {
        self.last_read_ms = now_ms;
        match &mut self.following {
            None if reported > end => Err(CloseReason::AheadOfMaster { reported, end }),
            None => {
                let start = if reported == LogOffset::ZERO { start_of_empty } else { reported };
                let transfer = Transfer::new(now_ms, start);
                self.following = Some(TransferState { transfer, acknowledged: reported.min(had_max) });
                Ok(())
            }
            Some(TransferState { transfer, .. }) if reported > transfer.next() => {
                Err(CloseReason::ReportBeyondSent { reported, sent: transfer.next() })
            }
            Some(following) => {
                following.acknowledged = reported;
                Ok(())
            }
        }
    }

    /// Returns the last acknowledged position, or `None` before the slave's first report.
    pub(crate) fn acknowledged(&self) -> Option<LogOffset> {
        self.following.as_ref().map(|following| following.acknowledged)
    }

    /// Returns the next position to send, or `None` before the slave's first report.
    pub(crate) fn next(&self) -> Option<LogOffset> {
        self.following.as_ref().map(|following| following.transfer.next())
    }

    /// Records that the connection took the frame.
    pub(crate) fn written(&mut self, now_ms: u64) {
        if let Some(following) = &mut self.following {
            following.transfer.written(now_ms);
        }
    }

    /// Returns the warning that the slave needs deleted bytes, once per connection.
    pub(crate) fn warning(&mut self, log: LogRange) -> Option<Warning> {
        let wanted = self.next().filter(|wanted| *wanted < log.minimum && !self.is_warned)?;
        self.is_warned = true;
        Some(Warning::BelowMinimum { wanted, minimum: log.minimum })
    }

    /// Returns the next frame to send, if it is due: bytes of the log below `until`, or a heartbeat. Bytes below the
    /// log's minimum cannot be sent.
    pub(crate) fn take(
        &mut self,
        now_ms: u64,
        config: &TransferConfig,
        log: LogRange,
        until: LogOffset,
    ) -> Option<Piece> {
        let until = if self.next()? < log.minimum { LogOffset::ZERO } else { until };
        self.following.as_mut()?.transfer.take(now_ms, config, until)
    }

    /// Whether no bytes arrived for too long.
    pub(crate) fn is_silent(&self, now_ms: u64, config: &TransferConfig) -> bool {
        now_ms > self.last_read_ms + config.housekeeping_interval_ms
    }

    /// Returns the time at which the connection times out or has a frame to send without an event.
    pub(crate) fn wake_at_ms(&self, config: &TransferConfig, log: LogRange) -> u64 {
        let silent_ms = self.last_read_ms + config.housekeeping_interval_ms + 1;
        let until = if self.next() < Some(log.minimum) { LogOffset::ZERO } else { log.end };
        let transfer = self.following.as_ref().map(|following| &following.transfer);
        transfer.and_then(|it| it.wake_at_ms(config, until)).map_or(silent_ms, |at_ms| at_ms.min(silent_ms))
    }
}
