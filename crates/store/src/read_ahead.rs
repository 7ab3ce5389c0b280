//! Read-ahead for consumers that are far behind the end of the log. Whole windows of the log are read into the page
//! cache before readers need them, and dropped after use. Consumers of the same backlog share a sequential read of
//! the disk, whatever their queues and groups. Together they use at most [`crate::Config::cold_bytes`] of memory.
//!
//! The first blocking read in a window reads the window ahead. If the preceding window was read ahead too, the
//! following windows are read as well. The page cache holds the bytes, and this module stores only the list of
//! windows, oldest first. The end of the log is in memory because of appends and is left alone.

use crate::queue::Unit;
use crate::state::State;
use crate::wake::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::units::LogOffset;

/// Size of a window in bytes; windows begin at multiples of it.
const WINDOW_BYTES: u64 = 4 << 20;

/// Number of windows read ahead after a window that continues a sequence.
const AHEAD: u64 = 4;

/// Numbers of the windows that were read ahead, oldest first. There are few of them: searched linearly.
#[derive(Default)]
pub(crate) struct Windows(VecDeque<u64>);

/// Windows that a read adds to and drops from the page cache.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Numbers of the windows to read ahead, ascending.
    needed: Vec<u64>,
    /// Numbers of the windows to drop from the page cache, to make room.
    forgotten: Vec<u64>,
}

impl Windows {
    /// Decides on a read that touches the windows `touched`, ascending; keeps at most `held_max` windows.
    fn plan(&mut self, touched: &[u64], held_max: usize) -> Plan {
        let mut plan = Plan::default();
        for &window in touched {
            // Read a known window again: a blocking read means that it was not in memory.
            plan.needed.push(window);
            let follows = window.checked_sub(1).is_some_and(|before| self.0.contains(&before));
            let last = if follows { window + AHEAD } else { window };
            for window in window..=last {
                if !self.0.contains(&window) {
                    self.0.push_back(window);
                    plan.needed.push(window);
                }
            }
        }
        plan.needed.sort_unstable();
        plan.needed.dedup();
        while self.0.len() > held_max.max(1) {
            plan.forgotten.extend(self.0.pop_front());
        }
        plan.needed.retain(|window| !plan.forgotten.contains(window));
        plan
    }

    fn have(&self, at: u64) -> bool {
        self.0.contains(&(at / WINDOW_BYTES))
    }
}

/// Parts of the log that were read ahead or may have come from the disk.
#[derive(Default)]
pub(crate) struct ReadAhead {
    windows: Mutex<Windows>,
    /// Log position below which bytes may have come from the disk. Only grows.
    from_disk: AtomicU64,
}

impl ReadAhead {
    /// Whether the log at this position was read ahead for readers far behind its end.
    pub(crate) fn has(&self, at: LogOffset) -> bool {
        lock(&self.windows).have(at.get())
    }

    /// Whether the bytes at a log position may have come from the disk.
    pub(crate) fn is_from_disk(&self, at: LogOffset) -> bool {
        at.get() < self.from_disk.load(Ordering::Relaxed)
    }

    /// Marks everything before log position `end` as possibly read from the disk.
    pub(crate) fn came_from_disk(&self, end: u64) {
        self.from_disk.fetch_max(end, Ordering::Relaxed);
    }

    /// Starts read-ahead for a blocking read of these units' records.
    pub(crate) fn bring_in<'a>(&self, state: &State, units: impl Iterator<Item = &'a Unit>) {
        let mut touched: Vec<u64> = Vec::new();
        for unit in units.filter(|unit| !unit.is_blank()) {
            let last = unit.end().get().saturating_sub(1) / WINDOW_BYTES;
            let first = unit.log_offset.get() / WINDOW_BYTES;
            // Units of a queue ascend in the log. A unit with a wrong size costs no more windows than the largest record.
            let first = touched.last().map_or(first, |known| first.max(known + 1));
            touched.extend((first..=last).take(64));
        }
        self.bring_in_windows(state, &touched);
    }

    /// Starts read-ahead for a blocking read of a range of the log.
    pub(crate) fn bring_in_range(&self, state: &State, from: u64, end: u64) {
        let touched: Vec<u64> = (from / WINDOW_BYTES..end.div_ceil(WINDOW_BYTES)).collect();
        self.bring_in_windows(state, &touched);
    }

    fn bring_in_windows(&self, state: &State, touched: &[u64]) {
        let held_max = usize::try_from(state.config.cold_bytes / WINDOW_BYTES).unwrap_or(usize::MAX);
        let plan = lock(&self.windows).plan(touched, held_max);
        let kept_from = state.flushed.get().saturating_sub(state.config.cached_bytes);
        for window in plan.forgotten {
            if (window + 1) * WINDOW_BYTES <= kept_from {
                hint(state, window, |file, at, length| file.forget(at, length));
            }
        }
        for window in plan.needed {
            self.came_from_disk((window + 1) * WINDOW_BYTES);
            hint(state, window, |file, at, length| file.will_need(at, length));
        }
    }
}

/// Passes the kernel a hint about the part of a window in each commit log file.
fn hint(state: &State, window: u64, give: impl Fn(&dyn crate::disk::DiskFile, u64, u64)) {
    let (from, end) = (window * WINDOW_BYTES, (window + 1) * WINDOW_BYTES);
    let end = end.min(state.appended.get());
    if end <= from {
        // The window lies behind the end of the log.
        return;
    }
    for segment in state.log.segments_in(from, end) {
        let first = from.max(segment.base);
        let last = end.min(segment.base + state.config.segment_bytes);
        give(&*segment.file, first - segment.base, last - first);
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    fn plan(needed: &[u64], forgotten: &[u64]) -> Plan {
        Plan { needed: needed.to_vec(), forgotten: forgotten.to_vec() }
    }

    #[test]
    fn a_sequence_is_read_ahead_and_left_behind() {
        let mut windows = Windows::default();
        assert_eq!(windows.plan(&[10], 8), plan(&[10], &[]), "one window is no sequence");
        assert_eq!(windows.plan(&[11], 8), plan(&[11, 12, 13, 14, 15], &[]));
        assert!(windows.have(10 * WINDOW_BYTES) && windows.have(16 * WINDOW_BYTES - 1));
        assert!(!windows.have(10 * WINDOW_BYTES - 1) && !windows.have(16 * WINDOW_BYTES));
        // The windows up to 15 are in memory; the first read that is not served from there continues the sequence.
        assert_eq!(windows.plan(&[16], 8), plan(&[16, 17, 18, 19, 20], &[10, 11, 12]));
    }

    #[test]
    fn a_window_that_was_pushed_out_of_memory_is_brought_in_again() {
        let mut windows = Windows::default();
        windows.plan(&[3], 8);
        assert_eq!(windows.plan(&[3], 8), plan(&[3], &[]));
        assert_eq!(windows.0.len(), 1);
    }

    #[test]
    fn windows_are_bounded_also_when_one_read_needs_more() {
        let mut windows = Windows::default();
        let plan = windows.plan(&[1, 5, 9, 13], 2);
        assert_eq!((plan.needed, plan.forgotten), (vec![9, 13], vec![1, 5]));
        assert_eq!(windows.0, [9, 13]);
    }
}
