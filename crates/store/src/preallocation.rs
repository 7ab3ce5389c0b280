//! Preallocation: creates commit log files before they are needed. For synchronous flush it also fills them with
//! zeros ahead of the appender, so that a flush writes only data and no file metadata.

use crate::disk::{DiskFile, PAGE_BYTES};
use crate::error::{AppendError, is_lack};
use crate::log::Segment;
use crate::state::State;
use crate::wake::Next;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most bytes of zeros made durable by a sync.
const STEP_BYTES_MAX: u64 = 8 << 20;

/// Bytes of zeros per write.
const PIECE_BYTES: u64 = 1 << 20;

/// Longest pause between two writes of [`PIECE_BYTES`] zeros.
const REST_MAX: Duration = Duration::from_millis(100);

/// Preallocation and the parts of the store that it uses. It has no state.
#[derive(Clone, Copy)]
pub(crate) struct Preallocator<'a> {
    pub(crate) state: &'a State,
}

impl Preallocator<'_> {
    /// Creates the commit log file if it is missing. Lack of space or of file descriptors only refuses. Any other
    /// error fences the store.
    pub(crate) fn ensure_segment(&self, base: u64) -> Result<(), AppendError> {
        self.note_making(base, self.state.log.ensure(base).map(drop))
    }

    /// Refuses, or fences the store, when a commit log file could not be made.
    pub(crate) fn note_making(&self, base: u64, made: std::io::Result<()>) -> Result<(), AppendError> {
        made.map_err(|error| {
            if is_lack(&error) {
                return AppendError::NoSpace(error);
            }
            let reason = format!("making the commit log file {base}: {error}");
            self.state.put_up_fence(&reason);
            AppendError::Fenced(reason)
        })
    }

    pub(crate) fn preallocation_round(&self) -> Next {
        if self.state.signals.stopping.load(Ordering::Acquire) || self.state.fence.is_up() {
            return Next::Over;
        }
        let end = self.state.appended.get();
        self.make_ahead(end);
        if self.state.writes_ahead() {
            self.write_ahead(end);
        }
        // A pause between two writes may have consumed the wake-up that asks this engine to stop.
        let is_quiet =
            self.state.appended.get() == end && !self.state.signals.stopping.load(Ordering::Acquire);
        if is_quiet { Next::Woken } else { Next::Now }
    }

    /// Makes sure that zeros are written up to `end` of a file before the appender writes there. Returns `false` if
    /// the store is fenced.
    pub(crate) fn wait_written_ahead(&self, segment: &Arc<Segment>, end: u64) -> bool {
        if self.state.clock.has_threads() {
            self.state.signals.preallocation.wake();
            return self.state.log.wait_written_ahead(segment, end, || self.state.fence.is_up());
        }
        while segment.written_ahead.load(Ordering::Acquire) < end {
            if !self.write_step(segment, &*segment.file) {
                return false;
            }
        }
        true
    }

    /// Creates the current commit log file and, from its middle on, the next file. An error is only logged. The
    /// appender reports it if it needs the file.
    fn make_ahead(&self, end: u64) {
        let segment_bytes = self.state.config.segment_bytes;
        let base = end / segment_bytes * segment_bytes;
        let ahead = if end - base >= segment_bytes / 2 {
            [Some(base), Some(base + segment_bytes)]
        } else {
            [Some(base), None]
        };
        for base in ahead.into_iter().flatten() {
            if let Err(error) = self.note_making(base, self.state.log.ensure_ahead(base)) {
                tracing::warn!(base, %error, "cannot make the next commit log file ahead");
                return;
            }
        }
    }

    /// Fills the files from the current file on with zeros. A file is filled long before it is used. In a file in
    /// use, zeros and flushes would wait for each other.
    fn write_ahead(&self, end: u64) {
        for segment in self.state.log.segments_in(end, u64::MAX) {
            let is_short = || segment.written_ahead.load(Ordering::Acquire) < self.state.config.segment_bytes;
            if !is_short() {
                continue;
            }
            // Use a separate file descriptor: the kernel reports a failed write-back once per descriptor, and the flush
            // thread must see the errors of its own. Without a free descriptor the shared one is used.
            let file = self.state.disk.open(&segment.path).unwrap_or_else(|_| segment.file.clone());
            while is_short() {
                if self.state.signals.stopping.load(Ordering::Acquire) || !self.write_step(&segment, &*file) {
                    return;
                }
            }
        }
    }

    /// Writes a step of zeros and syncs it. Returns `false` after an error, which fences the store. The appender
    /// cannot be in this range, because it waits for the position published here.
    fn write_step(&self, segment: &Arc<Segment>, file: &dyn DiskFile) -> bool {
        let from = segment.written_ahead.load(Ordering::Acquire);
        let step = (self.state.config.written_ahead_bytes / 8).clamp(PAGE_BYTES, STEP_BYTES_MAX);
        let until = (from + step).next_multiple_of(PAGE_BYTES).min(self.state.config.segment_bytes);
        let written = self.write_pieces(segment, file, from, until).and_then(|()| file.sync());
        match written {
            Ok(()) => self.state.log.publish_written_ahead(Some((segment, until))),
            Err(error) => {
                self.state
                    .put_up_fence(&format!("writing zeros ahead in {}: {error}", segment.path.display()));
                return false;
            }
        }
        true
    }

    fn write_pieces(&self, segment: &Segment, file: &dyn DiskFile, from: u64, until: u64) -> io::Result<()> {
        let mut at = from;
        while at < until {
            let began = self.state.clock.now();
            // The first write after a start only completes the page that already holds records.
            let end = if at.is_multiple_of(PAGE_BYTES) {
                at + PIECE_BYTES
            } else {
                at.next_multiple_of(PAGE_BYTES)
            };
            let end = end.min(until);
            file.write_zeros(at, end - at)?;
            at = end;
            let lead = (segment.base + at).saturating_sub(self.state.appended.get());
            if lead > self.state.config.written_ahead_bytes
                && !self.state.signals.stopping.load(Ordering::Acquire)
            {
                // Zeros far ahead are not urgent: pause, so that flushes get most of the disk.
                let share = if lead > self.state.config.written_ahead_bytes * 4 { 15 } else { 3 };
                let rest = (self.state.clock.now() - began) * share;
                self.state.clock.pause(&self.state.signals.preallocation, rest.min(REST_MAX));
            }
        }
        Ok(())
    }
}
