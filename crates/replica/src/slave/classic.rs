//! Comparison of a classic slave's last record with its master's (`DefaultHAClient`).
//!
//! The protocol has no epochs. A master that lost the end of its log, or a new master, may have other records than
//! this slave at the same positions. So the first report of a connection is the start of the last record, not the
//! log's end as from a Java slave. Any master sends its bytes from there on. The slave compares the bytes of the
//! record, reports its end, and follows. Different bytes end the connection, and the slave appends nothing.

use super::{Slave, SlaveAction, Stage};
use crate::close::CloseReason;
use crate::slave_log::within_file;
use wire::ha::FrameHead;
use wire::ha::classic::Header;
use wire::units::LogOffset;

/// Position at which the comparison of a record at the log's beginning starts. A first report of 0 means an empty
/// log.
const FIRST_COMPARED: LogOffset = LogOffset::new(1);

impl Slave {
    /// Returns the start of the comparison, or `None` without a record to compare.
    pub(super) fn first_compared(&self) -> Option<LogOffset> {
        self.last_record.as_ref().map(|record| record.start.max(FIRST_COMPARED))
    }

    /// Requests a comparison of bytes with those of the last record. Bytes behind the record in its file are blank
    /// and may differ.
    pub(super) fn compare(&mut self, now_ms: u64, at: LogOffset, bytes: u32, out: &mut Vec<SlaveAction>) {
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

    /// Continues after a comparison. Different bytes close the connection. If the frame ends before this log, the next
    /// frame is compared too. Otherwise the slave appends the bytes of the frame that lie behind this log's end.
    pub(super) fn compared(
        &mut self,
        now_ms: u64,
        differs_at: Option<LogOffset>,
        out: &mut Vec<SlaveAction>,
    ) {
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
            let body_bytes = u32::try_from(body_end.since(end)).expect("a part of a frame's body");
            self.take(now_ms, FrameHead::Classic(Header { offset: end, body_bytes }), out);
        }
    }
}
