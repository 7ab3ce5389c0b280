//! The preparing thread: makes commit log files before they are needed, and for synchronous flush writes
//! zeros ahead of the appender, so that a flush has only data to write and no file metadata.

use crate::config::FlushMode;
use crate::log::Segment;
use crate::store::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Whether the appender stays within space that was written before.
    pub(crate) fn writes_ahead(&self) -> bool {
        self.config.flush == FlushMode::Sync
    }

    /// The preparing thread.
    pub(crate) fn run_prepare(&self) {
        while !self.stopping.load(Ordering::Acquire) && !self.fence.is_up() {
            let end = self.appended.load(Ordering::Acquire);
            self.make_ahead(end);
            if self.writes_ahead() {
                self.write_ahead(end);
            }
            if self.appended.load(Ordering::Acquire) == end {
                self.prepare.sleep(None);
            }
        }
    }

    /// The file being written and, from its middle on, the next one. When that fails the appender will say
    /// so, should it come that far.
    fn make_ahead(&self, end: u64) {
        let segment_bytes = self.config.segment_bytes;
        let base = end / segment_bytes * segment_bytes;
        let ahead = if end - base >= segment_bytes / 2 {
            [Some(base), Some(base + segment_bytes)]
        } else {
            [Some(base), None]
        };
        for base in ahead.into_iter().flatten() {
            if let Err(error) = self.ensure_segment(base) {
                tracing::warn!(base, %error, "cannot make the next commit log file ahead");
                return;
            }
        }
    }

    fn write_ahead(&self, end: u64) {
        let wanted = self.log.wanted_ahead.load(Ordering::Acquire);
        let target = wanted.max(end + self.config.written_ahead_bytes);
        let zeros = vec![0; usize::try_from(self.write_ahead_step()).unwrap_or(1 << 20)];
        for segment in self.log.segments_in(end, target) {
            let target = (target - segment.base).min(self.config.segment_bytes);
            while segment.written_ahead.load(Ordering::Acquire) < target {
                if self.stopping.load(Ordering::Acquire) || !self.write_step(&segment, target, &zeros) {
                    return;
                }
            }
        }
    }

    fn write_ahead_step(&self) -> u64 {
        (self.config.written_ahead_bytes / 8).clamp(4096, 8 << 20)
    }

    /// Writes one stretch of zeros. The appender cannot be there: it waits for the position published here.
    fn write_step(&self, segment: &Arc<Segment>, target: u64, zeros: &[u8]) -> bool {
        let from = segment.written_ahead.load(Ordering::Acquire);
        let length = (zeros.len() as u64).min(target - from);
        let zeros = &zeros[..usize::try_from(length).expect("not more than there are")];
        match segment.file.write_at(zeros, from).and_then(|()| segment.file.sync()) {
            Ok(()) => self.log.publish_written_ahead(Some((segment, from + length))),
            Err(error) => {
                self.put_up_fence(&format!("writing zeros ahead in {}: {error}", segment.path.display()));
                return false;
            }
        }
        true
    }
}
