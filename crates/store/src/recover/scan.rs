//! Reads the commit log from a position to its end and indexes every record.

use super::Recovery;
use super::behind::BrokenPosition;
use super::evidence::{Meaning, RecordsBehind};
use super::redispatch::Jumps;
use super::restarts::Restarts;
use super::window::{LogContent, Walk, Window, find, walk};
use crate::error::OpenError;
use crate::log::Segment;
use crate::wake::lock;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};
use wire::record::{RecordView, sys_flag};

/// Topic of the records that replace damage.
pub(crate) const FILLER_TOPIC: &str = "VOSTOK_DAMAGED";
/// Number of records after which the clock is read again.
const STEPS: u64 = 4096;
/// Interval at which reading logs its progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Threads that check records before the scanning thread indexes them.
const WALKERS: usize = 2;

/// Start of the scan, and facts about the log before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) from: u64,
    /// Log position before which everything was durable, by the checkpoint or a clean stop.
    pub(super) checkpointed: u64,
    /// Position before which the log is durable: the start, or a higher position that an earlier opening recorded
    /// when it skipped damage.
    pub(super) sure: u64,
    /// Whether no page that was written can have been lost.
    pub(super) kept_pages: bool,
    /// Whether the store followed a master. Store times then prove nothing about flushes.
    pub(super) has_followed: bool,
    /// Log position of the end, when the store was stopped cleanly.
    pub(super) clean_end: Option<u64>,
    /// Store time in ms of the record before `from`.
    pub(super) store_timestamp: i64,
}

/// Whole records lost behind the log's end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostRecords {
    pub(super) records: u64,
    /// Number of commit log files that begin behind the log's end and hold lost records.
    pub(super) files: u64,
}

/// A position that is either damage or a power cut's loss. The facts do not decide which.
#[derive(Debug)]
pub(super) struct AmbiguousPosition {
    pub(super) what: String,
    pub(super) behind: RecordsBehind,
}

/// State and result of a scan.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) origin: Origin,
    pub(super) end: u64,
    pub(super) records: u64,
    pub(super) last_record: Option<u64>,
    pub(super) store_timestamp: i64,
    /// Reason why the scan ended, unless it ended at empty space.
    pub(super) reason: Option<String>,
    /// Whole records behind the log's end, which are lost.
    pub(super) lost: LostRecords,
    pub(super) undecided: Option<AmbiguousPosition>,
    /// Store time in ms of the newest record read. The next record must not be older.
    pub(super) last_timestamp: i64,
    pub(super) gaps: Vec<Gap>,
    /// Parts of the log that a repair filled with filler records, in log order. They hold no remains of the destroyed
    /// messages.
    pub(super) filled: Vec<Gap>,
    /// Whole records that differ from their digests. They are in no queue.
    pub(super) altered: Vec<Gap>,
    /// Bytes of the log that damage destroyed, including damage that a repair has filled.
    pub(super) gap_bytes: u64,
    /// Queue offsets that got a blank unit because their messages are missing.
    pub(super) blanks: u64,
    /// Addresses of the queues that have a message behind the last gap or filled part.
    pub(super) behind_gaps: HashSet<usize>,
    /// Records that wait because their queue offset may be damaged.
    pub(super) jumps: Jumps,
    /// End of the damage found last. Positions before it need no further decision.
    decided: u64,
    /// Queues that this scan found deleted and created again by another broker.
    pub(super) restarts: Restarts,
    /// Queues that earlier scans found deleted and created again by another broker.
    pub(super) known: Restarts,
    reported: Instant,
}

/// A damaged part of the log with whole records behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Log position where the gap begins.
    pub at: u64,
    /// Length of the gap in bytes.
    pub length: u64,
}

impl Scan {
    fn new(origin: Origin, known: Restarts, now: Instant) -> Self {
        Self {
            origin,
            end: origin.from,
            records: 0,
            last_record: None,
            store_timestamp: 0,
            reason: None,
            lost: LostRecords::default(),
            undecided: None,
            last_timestamp: origin.store_timestamp,
            gaps: Vec::new(),
            filled: Vec::new(),
            altered: Vec::new(),
            gap_bytes: 0,
            blanks: 0,
            behind_gaps: HashSet::new(),
            jumps: Jumps::new(),
            decided: 0,
            restarts: Restarts::default(),
            known,
            reported: now,
        }
    }

    /// Moves re-created queues found by this scan to `known`. Returns whether any is new.
    pub(super) fn learn(&mut self) -> bool {
        self.known.learn(std::mem::take(&mut self.restarts))
    }

    /// Records a gap from the current end to `next` and continues at `next`.
    fn pass_gap(&mut self, next: u64) {
        let gap = Gap { at: self.end, length: next - self.end };
        self.gaps.push(gap);
        self.behind_gaps.clear();
        self.gap_bytes += gap.length;
        self.end = next;
    }

    fn is_time_to_report(&mut self, now: Instant) -> bool {
        let is_time = now.saturating_duration_since(self.reported) >= REPORT_INTERVAL;
        if is_time {
            self.reported = now;
        }
        is_time
    }
}

/// Whether a record is a filler that replaced damage.
pub(super) fn is_filler(view: &RecordView<'_>) -> bool {
    let is_rolled_back = sys_flag::transaction(view.sys_flag()) == sys_flag::TRANSACTION_ROLLBACK;
    is_rolled_back && (view.topic() == FILLER_TOPIC.as_bytes() || view.topic().is_empty())
}

/// Limits the number of files by which the checking threads are ahead of the indexing thread.
struct Semaphore(Mutex<usize>, Condvar);

impl Semaphore {
    fn new(count: usize) -> Self {
        Self(Mutex::new(count), Condvar::new())
    }

    fn take(&self) {
        let mut count = lock(&self.0);
        while *count == 0 {
            count = self.1.wait(count).unwrap_or_else(|poison| poison.into_inner());
        }
        *count -= 1;
    }

    fn give(&self, count: usize) {
        *lock(&self.0) += count;
        self.1.notify_all();
    }
}

impl Recovery<'_> {
    /// Reads to the end of the log. Damage is logged and skipped. Records of the queues in `known` that lie
    /// before their re-creation are ignored.
    pub(super) fn scan(&self, origin: Origin, known: Restarts) -> Result<Scan, OpenError> {
        let mut scan = Scan::new(origin, known, self.state.clock.now());
        if scan.end.is_multiple_of(self.state.log.segment_bytes) && self.state.clock.has_threads() {
            self.scan_ahead(&mut scan)?;
        }
        while let Some(segment) = self.state.log.segment_of(scan.end) {
            let path = segment.path.clone();
            let mut window = Window::new(segment, self.state.log.segment_bytes);
            if !self.scan_segment(&mut window, &mut scan).map_err(OpenError::io(&path))? {
                break;
            }
        }
        self.put_jumps(&mut scan);
        self.reserve_numbers(&mut scan).map_err(OpenError::io(&self.state.config.commit_log))?;
        Ok(scan)
    }

    /// Reads the rest of a file. Returns `true` if the log continues in the next file.
    fn scan_segment(&self, window: &mut Window, scan: &mut Scan) -> io::Result<bool> {
        let file_end = window.base() + self.state.log.segment_bytes;
        while scan.end < file_end {
            let at = scan.end - window.base();
            let reason = match find(window, at)? {
                LogContent::Record(size) => {
                    self.scan_record(window, scan, size)?;
                    continue;
                }
                LogContent::Roll => {
                    scan.end = file_end;
                    return Ok(true);
                }
                LogContent::Nothing if scan.origin.clean_end == Some(scan.end) => return Ok(false),
                LogContent::Nothing => None,
                LogContent::Damage(reason) => Some(reason),
            };
            let Some(next) = self.next_behind(scan, reason)? else { return Ok(false) };
            // The part of a gap in the next file becomes a gap of its own.
            scan.pass_gap(next.min(file_end));
        }
        Ok(true)
    }

    /// Log position of the next whole record behind a broken position; `None` when the log ends there.
    fn next_behind(&self, scan: &mut Scan, reason: Option<String>) -> io::Result<Option<u64>> {
        if scan.end < scan.decided {
            return Ok(Some(scan.decided));
        }
        let BrokenPosition { verdict, next, last, behind } = self.judge_end(scan)?;
        let zeros = || "zeros where a record should begin".to_owned();
        match (verdict, next) {
            (Meaning::Damage, Some(next)) => {
                tracing::error!(
                    at = scan.end,
                    length = next - scan.end,
                    what = reason.unwrap_or_else(zeros),
                    "a part of the log is damaged and cannot be read; what lies behind it is kept"
                );
                scan.decided = next;
                return Ok(Some(next));
            }
            (Meaning::Undecided, _) => {
                scan.undecided = Some(AmbiguousPosition { what: reason.unwrap_or_else(zeros), behind });
            }
            _ => {
                let is_over = reason.is_none() && behind.records == 0;
                scan.reason = (!is_over).then(|| reason.unwrap_or_else(zeros));
                let files = self.state.log.segments_in(scan.end, last.map_or(0, |last| last + 1));
                let removed = files.iter().filter(|segment| segment.base >= scan.end).count();
                scan.lost = LostRecords { records: behind.records, files: removed as u64 };
            }
        }
        Ok(None)
    }

    /// Indexes the whole record that begins at the current end of the scan.
    fn scan_record(&self, window: &mut Window, scan: &mut Scan, size: usize) -> io::Result<()> {
        let offset = scan.end;
        let view = RecordView::parse(window.get(offset - window.base(), size)?).map_err(io::Error::other)?;
        if !self.reader.is_altered(&view, offset) {
            self.index_record(&view, scan);
            self.digest_recovered(&view, offset);
        } else {
            scan.altered.push(Gap { at: offset, length: size as u64 });
        }
        scan.records += 1;
        scan.last_record = Some(offset);
        scan.store_timestamp = scan.store_timestamp.max(view.store_timestamp());
        if is_filler(&view) {
            // The filler that a repair wrote may stand for this many bytes of destroyed messages.
            scan.filled.push(Gap { at: offset, length: size as u64 });
            scan.behind_gaps.clear();
            scan.gap_bytes += size as u64;
        } else {
            scan.last_timestamp = view.store_timestamp();
        }
        scan.end += size as u64;
        if self.state.queues.unwritten_units.load(Ordering::Relaxed) > self.state.config.unwritten_units_max {
            self.spill_tails(scan.end)?;
        }
        if scan.records.is_multiple_of(STEPS) && scan.is_time_to_report(self.state.clock.now()) {
            let (at, capacity, records) = (scan.end, self.state.log.capacity_end(), scan.records);
            tracing::info!(at, from = scan.origin.from, capacity, records, "reading the log");
        }
        Ok(())
    }

    /// Reads undamaged whole files except the last. Worker threads find and check the records, and the calling thread
    /// indexes them in log order.
    fn scan_ahead(&self, scan: &mut Scan) -> Result<(), OpenError> {
        let mut segments = self.state.log.segments_in(scan.end, u64::MAX);
        segments.pop();
        if segments.len() < 2 {
            return Ok(());
        }
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let (senders, receivers): (Vec<_>, Vec<_>) = segments.iter().map(|_| mpsc::sync_channel(1)).unzip();
        let ahead = Semaphore::new(WALKERS + 1);
        std::thread::scope(|scope| {
            for _ in 0..WALKERS {
                scope.spawn(|| {
                    loop {
                        ahead.take();
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(segment) = segments.get(index).filter(|_| !stop.load(Ordering::Relaxed))
                        else {
                            break;
                        };
                        let walked = walk(&mut Window::new(segment.clone(), self.state.log.segment_bytes));
                        // Never blocks: each file has a channel with room for its one result.
                        let _ = senders[index].send(walked);
                    }
                });
            }
            let mut result = Ok(());
            for (segment, walked) in segments.iter().zip(&receivers) {
                result = walked
                    .recv()
                    .map_err(io::Error::other)
                    .and_then(|walked| self.scan_walked(segment, &walked?, scan))
                    .map_err(OpenError::io(&segment.path));
                ahead.give(1);
                if result.is_err() || scan.end < segment.base + self.state.log.segment_bytes {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            ahead.give(segments.len());
            result
        })
    }

    fn scan_walked(&self, segment: &Arc<Segment>, walked: &Walk, scan: &mut Scan) -> io::Result<()> {
        let mut window = Window::new(segment.clone(), self.state.log.segment_bytes);
        for (at, size) in &walked.records {
            assert_eq!(segment.base + u64::from(*at), scan.end, "records lie one behind the other");
            self.scan_record(&mut window, scan, *size as usize)?;
        }
        self.scan_segment(&mut window, scan).map(|_| ())
    }

    /// Writes the queues' in-memory tails to the queue files, so that rebuilding a big store needs little memory.
    fn spill_tails(&self, end: u64) -> io::Result<()> {
        let written = self.checkpointer.write_round(
            &mut lock(&self.checkpointer.checkpoints.rounds),
            end,
            &mut lock(&self.checkpointer.checkpoints.touched),
        );
        match written {
            Ok(queues) => {
                // The journal lacks these units: it begins anew behind the next checkpoint.
                lock(&self.checkpointer.checkpoints.journaling).give_up(
                    &*self.state.disk,
                    &self.state.config.root,
                    end,
                );
                queues.iter().for_each(|queue| queue.trim_written());
            }
            Err(crate::state::Interruption::NoSpace(error)) => return Err(error),
            Err(crate::state::Interruption::Fenced) => {
                return Err(io::Error::other(self.state.fence.reason().unwrap_or_default()));
            }
        }
        Ok(())
    }
}
