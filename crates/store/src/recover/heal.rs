//! The healer: a thread of low priority that rebuilds queue files which differ from what the queue table says.
//!
//! Opening a store believes the queue table. Afterwards this thread checks the files of each queue: they exist, have their
//! full size, and their first and last units are valid. Readers report invalid units in between. A queue found bad is *lost*
//! from its first bad unit up to the newest written one: that range is wiped, reads of it answer
//! [`crate::ReadError::Rebuilding`], and one pass over the commit log writes it again for all lost queues. Appends and all
//! other reads go on. A crash in between leaves the wiped range empty, and the next check or read finds it.
//!
//! A part of the log that the disk cannot read is passed over like a damaged record, but only when the attempt before failed
//! for the same cause.
//!
//! A clean stop does not wait for the healer. While queues are lost it leaves the crash mark (`abort`): a RocketMQ broker
//! would take the hole for the queue's end.

use super::place::Place;
use super::window::{Found, Unreadable, Window, find, is_of_medium, next_whole};
use crate::digest::{Numbered, leads_to_it};
use crate::error::OpenError;
use crate::queue::{Extent, Queue, Unit};
use crate::store::Shared;
use crate::wake::{Wake, lock};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

/// Rebuilt units kept in memory before they are written to the files: 24 MiB.
const UNITS_MAX: usize = 1 << 20;
/// How often a rebuild logs its progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Longest pause before a failed rebuild is tried again, in multiples of [`crate::Config::rebuild_pause`]; pauses double from
/// one. A full disk may soon have space, but a failing one must not be read over and over.
const PAUSES_MAX: u32 = 64;
/// Unreadable bytes of one commit log file that a rebuild may pass over: enough for bad sectors, not for a failed disk.
const UNREADABLE_BYTES_MAX: u64 = 1 << 20;
/// Records between two looks at the clock.
const STEPS: u64 = 4096;

/// Progress of the healer; all zero while it has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Queues whose files were not checked since the store was opened.
    pub unchecked_queues: u64,
    /// Queues that are being rebuilt from the commit log, or wait for it.
    pub lost_queues: u64,
    /// Log position that the rebuild has reached.
    pub rebuild_at: u64,
    /// Log position at which the rebuild will be done.
    pub rebuild_end: u64,
}

/// The healer's work list, and how it is woken and waited for.
#[derive(Default)]
pub(crate) struct Healer {
    pub(crate) wake: Arc<Wake>,
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    unchecked: Vec<Arc<Queue>>,
    /// Whether the log's minimum moved since the queue table recorded the queues' minimum offsets.
    correct_minima: bool,
    lost: Vec<Arc<Queue>>,
    retry: Option<Retry>,
    progress: Progress,
    is_busy: bool,
    stopped: bool,
}

/// When and how a failed rebuild is tried again.
#[derive(Clone, Copy)]
struct Retry {
    at: Instant,
    /// Length of the pause before it, in multiples of [`crate::Config::rebuild_pause`].
    pauses: u32,
    /// Unreadable bytes of one commit log file that the next attempt passes over.
    tolerance: u64,
}

/// Why a rebuild failed.
enum Failure {
    /// The disk reports an I/O error for a part of the log.
    Unreadable(OpenError),
    Other(OpenError),
}

impl Failure {
    /// Classifies an error of reading the commit log file at `path`.
    fn of_log(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| match is_of_medium(&error) {
            true => Self::Unreadable(OpenError::io(path)(error)),
            false => Self::Other(OpenError::io(path)(error)),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::Other(error)
    }
}

/// Rebuild jobs by topic and queue id.
type Jobs = HashMap<Box<str>, BTreeMap<i32, Job>>;

/// A range of a queue, `from..until`, whose units are written again.
struct Job {
    queue: Arc<Queue>,
    from: u64,
    /// Queue offset of the next unit to write to the files.
    written: u64,
    /// Rebuilt units from `written` on, not yet in the files.
    units: Vec<Unit>,
    until: u64,
    /// Log positions between which all messages of the range lie.
    start: u64,
    end: u64,
    /// Unit of the newest message found; before any is found, the unit in front of the range.
    newest: Option<Unit>,
    /// The unit for the range's last queue offset when the log holds no message for it, see [`Shared::suspect_of`].
    suspect: Option<Unit>,
}

impl Job {
    fn next(&self) -> u64 {
        self.written + self.units.len() as u64
    }

    /// Fills the rest of the range, whose messages were not found, with blank units.
    fn fill(&mut self) {
        let missing = self.until - self.next();
        let Some(blanks) = missing.checked_sub(1) else { return };
        let is_same = |unit: &Unit| self.queue.is_batched() && self.newest == Some(*unit);
        let is_behind = |unit: &Unit| self.newest.is_none_or(|newest| unit.log_offset >= newest.end());
        let last = self.suspect.filter(|unit| is_behind(unit) || is_same(unit));
        if blanks > 0 || last.is_none() {
            tracing::error!(queue = ?self.queue, missing, "messages of a queue are not in the log any more");
        }
        let blanks = usize::try_from(blanks).unwrap_or(0);
        self.units.resize(self.units.len() + blanks, Unit::PRE_BLANK);
        self.units.push(last.unwrap_or(Unit::PRE_BLANK));
    }
}

impl Shared {
    /// Has the healer check the files of all queues.
    pub(super) fn check_later(&self, correct_minima: bool) {
        let mut state = lock(&self.healer.state);
        state.unchecked = self.queues.all();
        state.correct_minima = correct_minima;
        state.is_busy = true;
    }

    pub(crate) fn progress(&self) -> Progress {
        let state = lock(&self.healer.state);
        Progress {
            unchecked_queues: state.unchecked.len() as u64,
            lost_queues: state.lost.len() as u64,
            ..state.progress
        }
    }

    /// Whether some queue is lost or reported and not yet rebuilt.
    pub(crate) fn is_healing(&self) -> bool {
        !lock(&self.healer.state).lost.is_empty() || self.queues.open.has_reports()
    }

    /// Waits until the healer is idle: nothing to do, a pause before the next attempt, or stopped.
    pub(crate) fn wait_healed(&self) {
        let mut state = lock(&self.healer.state);
        while !state.stopped && (state.is_busy || self.queues.open.has_reports()) {
            state = self.healer.idle.wait(state).unwrap_or_else(|poison| poison.into_inner());
        }
    }

    /// Body of the healer's thread.
    pub(crate) fn run_healer(&self) {
        let _ = rustix::process::nice(19);
        while !self.stopping.load(Ordering::Acquire) && !self.fence.is_up() {
            let (reported, queue, correct_minima) = {
                let mut state = lock(&self.healer.state);
                let reported = self.queues.open.take_reports();
                state.is_busy |= !reported.is_empty();
                (reported, state.unchecked.pop(), state.correct_minima)
            };
            let reported = reported.iter().filter_map(|(topic, id)| self.queues.find(topic, *id));
            reported.for_each(|queue| self.look_at(&queue, Queue::first_bad_of_all));
            match queue {
                Some(queue) => {
                    self.look_at(&queue, Queue::first_bad);
                    if correct_minima && !queue.is_lost() {
                        self.correct_min(&queue);
                    }
                }
                None => self.rebuild_or_rest(),
            }
        }
        lock(&self.healer.state).stopped = true;
        self.healer.idle.notify_all();
    }

    fn rebuild_or_rest(&self) {
        let (lost, retry) = {
            let state = lock(&self.healer.state);
            (state.lost.clone(), state.retry)
        };
        let waits_until = retry.map(|retry| retry.at).filter(|at| *at > Instant::now());
        if !lost.is_empty() && waits_until.is_none() {
            // Pass over unreadable parts of the log only at the second attempt: a passing error then costs no message.
            let rebuilt = self.rebuild(&lost, retry.map_or(0, |retry| retry.tolerance));
            let mut state = lock(&self.healer.state);
            state.retry = rebuilt.err().map(|failure| {
                let (error, tolerance) = match failure {
                    Failure::Unreadable(error) => (error, UNREADABLE_BYTES_MAX),
                    Failure::Other(error) => (error, 0),
                };
                tracing::error!(%error, "queues cannot be rebuilt now; until they are, their lost parts are unreadable");
                let pauses = retry.map_or(1, |retry| PAUSES_MAX.min(retry.pauses * 2));
                Retry { at: Instant::now() + self.config.rebuild_pause * pauses, pauses, tolerance }
            });
            return;
        }
        let mut state = lock(&self.healer.state);
        // A queue lost since `lost` was cloned keeps the healer busy as well.
        state.is_busy = self.queues.open.has_reports() || state.lost.len() > lost.len();
        if state.is_busy {
            return;
        }
        drop(state);
        self.healer.idle.notify_all();
        self.healer.wake.sleep(waits_until);
    }

    /// Checks a queue's files and marks the queue as lost from the first bad unit on.
    fn look_at(&self, queue: &Arc<Queue>, look: fn(&Queue) -> io::Result<Option<u64>>) {
        match look(queue) {
            Ok(None) => {}
            Ok(Some(at)) => self.lose(queue, at, u64::MAX),
            Err(error) => tracing::error!(?queue, %error, "queue files cannot be checked"),
        }
    }

    /// Takes the units `from..until` of a queue out of service; the healer writes them again.
    pub(crate) fn lose(&self, queue: &Arc<Queue>, from: u64, until: u64) {
        // Held while the queue and the list change, so that a rebuild that ends now does not miss this range.
        let mut state = lock(&self.healer.state);
        if !queue.lose(from, until) {
            return;
        }
        state.is_busy = true;
        if !state.lost.iter().any(|other| Arc::ptr_eq(other, queue)) {
            state.lost.push(queue.clone());
            state.retry = None;
        }
        drop(state);
        tracing::warn!(
            ?queue,
            from,
            until,
            "queue files are missing or damaged; rebuilding them from the log"
        );
        self.healer.wake.wake();
    }

    fn correct_min(&self, queue: &Arc<Queue>) {
        let before = queue.min();
        match queue.correct_min(LogOffset::new(self.log.min())) {
            Ok(()) if queue.min() > before => queue.relist(&self.queues.unwritten),
            Ok(()) => {}
            Err(error) => tracing::warn!(?queue, %error, "a queue's minimum is not known yet"),
        }
    }

    /// Writes the lost ranges of these queues again, in one pass over the log. `tolerance` bytes of each file may be
    /// unreadable.
    fn rebuild(&self, lost: &[Arc<Queue>], tolerance: u64) -> Result<(), Failure> {
        let mut jobs = Jobs::new();
        let (mut from, mut end) = (u64::MAX, 0);
        for queue in lost {
            let Some(job) = self.begin_job(queue, tolerance)? else { continue };
            (from, end) = (from.min(job.start), end.max(job.end));
            jobs.entry(queue.topic().into()).or_default().insert(queue.queue_id(), job);
        }
        let end = end.min(self.appended.load(Ordering::Acquire));
        let from = from.max(self.log.min()).min(end);
        tracing::warn!(queues = lost.len(), from, end, "rebuilding queues from the log");
        if !self.read_log_for(&mut jobs, from..end, tolerance)? {
            return Ok(());
        }
        for job in jobs.values_mut().flat_map(BTreeMap::values_mut) {
            job.fill();
        }
        self.write_jobs(&mut jobs)?;
        // Sync now and not with the next checkpoint: a table older than that would vouch for files as a crash leaves them.
        if self.sync_touched(&mut lock(&self.touched)).is_err() {
            return Ok(());
        }
        for job in jobs.values().flat_map(BTreeMap::values) {
            job.queue.found(job.from, job.until);
            self.correct_min(&job.queue);
        }
        let mut state = lock(&self.healer.state);
        state.lost.retain(|queue| queue.is_lost());
        state.progress = Progress::default();
        drop(state);
        tracing::info!(queues = lost.len(), "queues rebuilt");
        self.checkpoint.wake();
        Ok(())
    }

    /// Wipes a queue's lost range and determines which part of the log holds its messages.
    fn begin_job(&self, queue: &Arc<Queue>, tolerance: u64) -> Result<Option<Job>, Failure> {
        // Excludes checkpoints, which write to the same files.
        let _alone = lock(&self.checkpointing);
        let Some((from, until)) = queue.lost() else { return Ok(None) };
        if queue.is_removed() {
            queue.found(from, until);
            return Ok(None);
        }
        let before = from.checked_sub(1).filter(|place| *place >= queue.min().get());
        // The records next to the range are read as well: a batch may have some of its messages in the range.
        let newest = before.and_then(|place| self.true_unit(queue, place));
        let start = newest.map_or(0, |unit| unit.log_offset.get());
        let end = self.true_unit(queue, until).map_or(u64::MAX, |unit| unit.end().get());
        let end = if end > start { end } else { u64::MAX };
        let suspect = self.suspect_of(queue, from..until, tolerance)?;
        let emptied = queue.empty(from, until, &mut lock(&self.touched));
        emptied.map_err(OpenError::io(&self.queues.directory))?;
        Ok(Some(Job {
            queue: queue.clone(),
            from,
            written: from,
            units: Vec::new(),
            until,
            start,
            end,
            newest,
            suspect,
        }))
    }

    /// The unit for the last queue offset of a lost range when its message is not found. A range of one unit keeps the old
    /// unit, so that readers report the message missing and do not pass it over silently. At the queue's end the unit leads
    /// to where the record was: RocketMQ takes the last unit for the position up to which the log is indexed, reads a blank
    /// one as 2 GiB, and assigns no unit to new messages before that position.
    fn suspect_of(&self, queue: &Queue, lost: Range<u64>, tolerance: u64) -> Result<Option<Unit>, Failure> {
        let Range { start: from, end: until } = lost;
        let kept = if until == from + 1 { queue.unit_in_files(from) } else { None };
        let Extent { max, last, .. } = queue.in_files();
        if until != max || kept.is_some_and(|unit| unit.log_offset.get() == last) {
            return Ok(kept);
        }
        let Some(segment) = self.log.segment_of(last) else { return Ok(kept) };
        let at = last - segment.base;
        let end = self.appended.load(Ordering::Acquire).saturating_sub(segment.base);
        let limit = end.min(self.log.segment_bytes);
        let path = segment.path.clone();
        let failed = || Failure::of_log(&path);
        let mut window = Window::new(segment, self.log.segment_bytes).tolerant(tolerance);
        let size = match find(&mut window, at).map_err(failed())? {
            Found::Record(size) => size as u64,
            _ => next_whole(&mut window, at, limit).map_err(failed())?.unwrap_or(limit).saturating_sub(at),
        };
        let size = u32::try_from(size.min(self.config.record_bytes_max as u64)).unwrap_or(0);
        let unit = Unit { log_offset: LogOffset::new(last), size, tags_code: 0 };
        Ok((size > 0).then_some(unit))
    }

    /// The unit at a queue offset, if it leads to that message. A wrong unit would limit the search to a wrong part of the
    /// log, and messages not found there count as gone.
    fn true_unit(&self, queue: &Queue, place: u64) -> Option<Unit> {
        let unit = queue.unit_in_files(place)?;
        let message = Numbered { offset: QueueOffset::new(place), unit };
        let mut record = Vec::new();
        let _ = self.read(unit.log_offset, unit.size as usize, &mut record, false).ok()?;
        leads_to_it(queue, message, &record).then_some(unit)
    }

    /// Collects the units of all jobs from the log range `part`; `false` when the store is closing.
    fn read_log_for(&self, jobs: &mut Jobs, part: Range<u64>, tolerance: u64) -> Result<bool, Failure> {
        let Range { start: from, end } = part;
        let (mut kept, mut steps) = (0, 0u64);
        let mut reported = Instant::now();
        for segment in self.log.segments_in(from, end) {
            let path = segment.path.clone();
            let failed = || Failure::of_log(&path);
            let mut at = from.saturating_sub(segment.base);
            let limit = (end - segment.base).min(self.log.segment_bytes);
            let base = segment.base;
            let mut window = Window::new(segment, self.log.segment_bytes).tolerant(tolerance);
            while at < limit {
                match find(&mut window, at).map_err(failed())? {
                    Found::Record(size) => {
                        let view = RecordView::parse(window.get(at, size).map_err(failed())?);
                        let view = view.map_err(|error| failed()(io::Error::other(error)))?;
                        if !self.is_altered(&view, base + at) {
                            kept += self.take(jobs, &view, base + at);
                        }
                        at += size as u64;
                    }
                    Found::Roll => break,
                    Found::Nothing | Found::Damage(_) => {
                        let Some(next) = next_whole(&mut window, at, limit).map_err(failed())? else { break };
                        at = next;
                    }
                }
                if kept > UNITS_MAX {
                    self.write_jobs(jobs)?;
                    kept = 0;
                }
                if self.stopping.load(Ordering::Acquire) {
                    return Ok(false);
                }
                steps += 1;
                if steps % STEPS == 0 {
                    self.report_rebuild(base + at, end, &mut reported);
                }
            }
            for Unreadable { at, end, error } in &window.unreadable {
                tracing::error!(
                    ?path,
                    at,
                    bytes = end - at,
                    error,
                    "a part of the log cannot be read; the messages there are lost to queues that are rebuilt"
                );
            }
        }
        Ok(true)
    }

    fn report_rebuild(&self, at: u64, end: u64, reported: &mut Instant) {
        let mut state = lock(&self.healer.state);
        (state.progress.rebuild_at, state.progress.rebuild_end) = (at, end);
        drop(state);
        if reported.elapsed() >= REPORT_INTERVAL {
            *reported = Instant::now();
            tracing::info!(at, end, "rebuilding queues");
        }
    }

    /// Adds a record's units to the jobs of its queues, where they are missing. Returns the number of units added.
    fn take(&self, jobs: &mut Jobs, view: &RecordView<'_>, at: u64) -> usize {
        let places = self.places_of(view).filter(|place| !self.queues.tombstones.covers(place.topic, at));
        places.map(|place| take_place(jobs, view, at, place)).sum()
    }

    fn write_jobs(&self, jobs: &mut Jobs) -> Result<(), OpenError> {
        let waiting = jobs.values_mut().flat_map(BTreeMap::values_mut);
        for job in waiting.filter(|job| !job.units.is_empty()) {
            // Locked for each queue separately, so that a checkpoint does not wait long.
            let _alone = lock(&self.checkpointing);
            let units = std::mem::take(&mut job.units);
            if job.queue.is_removed() {
                job.written += units.len() as u64;
                continue;
            }
            let written = job.queue.rewrite(job.written, &units, &mut lock(&self.touched));
            written.map_err(OpenError::io(&self.queues.directory))?;
            job.written += units.len() as u64;
        }
        Ok(())
    }
}

/// Adds a record's units to the job of one queue, where they are missing. Returns the number of units added.
fn take_place(jobs: &mut Jobs, view: &RecordView<'_>, at: u64, place: Place<'_>) -> usize {
    // Most records belong to queues that are not lost and end here.
    let job = jobs.get_mut(place.topic).and_then(|queues| queues.get_mut(&place.queue_id));
    let Some(job) = job else { return 0 };
    let wanted = place.queue_offset.max(job.next());
    let end = job.until.min(place.queue_offset + u64::from(place.count));
    if wanted >= end {
        return 0;
    }
    let before = job.units.len();
    let gap = usize::try_from(wanted - job.next()).unwrap_or(0);
    job.units.resize(before + gap, Unit::PRE_BLANK);
    let tags_code = place.tags.at(view.store_timestamp());
    let size = u32::try_from(view.size()).expect("a record's size fits its 4-byte field");
    let unit = Unit { log_offset: LogOffset::new(at), size, tags_code };
    job.newest = Some(unit);
    let count = usize::try_from(end - wanted).expect("as many as a record is messages");
    job.units.resize(before + gap + count, unit);
    gap + count
}

/// Whether this error of reading a queue file means that the file is damaged, rather than that the disk failed.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | InvalidData | UnexpectedEof)
}

#[cfg(test)]
mod tests;
