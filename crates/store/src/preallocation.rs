//! The preallocation thread: creates commit log files before they are needed. For synchronous flush it also fills them with
//! zeros ahead of the appender, so that a flush writes only data and no file metadata.

use crate::config::FlushMode;
use crate::disk::{DiskFile, PAGE_BYTES};
use crate::log::Segment;
use crate::store::Shared;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most bytes of zeros made durable by one sync.
const STEP_BYTES_MAX: u64 = 8 << 20;

/// Bytes of zeros per write.
const PIECE_BYTES: u64 = 1 << 20;

/// Longest pause between two such writes.
const REST_MAX: Duration = Duration::from_millis(100);

impl Shared {
    /// Whether files are filled with zeros before the appender writes to them (synchronous flush only).
    pub(crate) fn writes_ahead(&self) -> bool {
        self.config.flush == FlushMode::Sync
    }

    /// Body of the preallocation thread.
    pub(crate) fn run_preallocation(&self) {
        while !self.stopping.load(Ordering::Acquire) && !self.fence.is_up() {
            let end = self.appended.load(Ordering::Acquire);
            self.make_ahead(end);
            if self.writes_ahead() {
                self.write_ahead(end);
            }
            // A pause between two writes may have consumed the wake-up that asks this thread to stop.
            if self.appended.load(Ordering::Acquire) == end && !self.stopping.load(Ordering::Acquire) {
                self.preallocation.sleep(None);
            }
        }
    }

    /// Creates the current commit log file and, from its middle on, the next one. An error is only logged: the appender
    /// reports it if it needs the file.
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

    /// Fills the files from the current one on with zeros. A file is full long before it is used: in a file in use, zeros and
    /// flushes would wait for each other.
    fn write_ahead(&self, end: u64) {
        for segment in self.log.segments_in(end, u64::MAX) {
            let is_short = || segment.written_ahead.load(Ordering::Acquire) < self.config.segment_bytes;
            if !is_short() {
                continue;
            }
            // Use a separate file descriptor: the kernel reports a failed write-back once per descriptor, and the flush
            // thread must see the errors of its own. Without a free descriptor the shared one is used.
            let file = self.disk.open(&segment.path).unwrap_or_else(|_| segment.file.clone());
            while is_short() {
                if self.stopping.load(Ordering::Acquire) || !self.write_step(&segment, &*file) {
                    return;
                }
            }
        }
    }

    /// Writes one step of zeros. The appender cannot be in this range: it waits for the position published here.
    fn write_step(&self, segment: &Arc<Segment>, file: &dyn DiskFile) -> bool {
        let from = segment.written_ahead.load(Ordering::Acquire);
        let step = (self.config.written_ahead_bytes / 8).clamp(PAGE_BYTES, STEP_BYTES_MAX);
        let until = (from + step).next_multiple_of(PAGE_BYTES).min(self.config.segment_bytes);
        let written = self.write_pieces(segment, file, from, until).and_then(|()| file.sync());
        match written {
            Ok(()) => self.log.publish_written_ahead(Some((segment, until))),
            Err(error) => {
                self.put_up_fence(&format!("writing zeros ahead in {}: {error}", segment.path.display()));
                return false;
            }
        }
        true
    }

    fn write_pieces(&self, segment: &Segment, file: &dyn DiskFile, from: u64, until: u64) -> io::Result<()> {
        let mut at = from;
        while at < until {
            let began = Instant::now();
            // The first write after a start only completes the page that already holds records.
            let end = if at.is_multiple_of(PAGE_BYTES) {
                at + PIECE_BYTES
            } else {
                at.next_multiple_of(PAGE_BYTES)
            };
            let end = end.min(until);
            file.write_zeros(at, end - at)?;
            at = end;
            let lead = (segment.base + at).saturating_sub(self.appended.load(Ordering::Acquire));
            if lead > self.config.written_ahead_bytes && !self.stopping.load(Ordering::Acquire) {
                // Nobody waits for zeros far ahead: pause, so that flushes get most of the disk.
                let share = if lead > self.config.written_ahead_bytes * 4 { 15 } else { 3 };
                self.preallocation.sleep(Some(Instant::now() + (began.elapsed() * share).min(REST_MAX)));
            }
        }
        Ok(())
    }
}
