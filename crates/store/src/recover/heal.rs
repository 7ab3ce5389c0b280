//! The healer: a thread of low priority that looks after queue files that are not what the queue table says.
//!
//! Opening believes the table. Afterwards this thread looks at the files of each queue: are they there, at their full size,
//! and are the first and the last unit of each what they must be? Readers report what does not fit in between. A queue
//! found bad is *lost* from its first bad unit up to what was written so far: that range is wiped, readers of it are told
//! [`crate::ReadError::Rebuilding`], and one pass over the log for all lost queues writes it again. Appends and reads of everything
//! else go on. A crash in between leaves the wiped range empty, which the next look or read finds.
//!
//! What the disk does not give of the log is passed over like a damaged record, but only when the attempt before failed of
//! that.
//!
//! A clean stop does not wait for it. It then leaves the crash mark: a RocketMQ broker would take the hole for the
//! queue's end.

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

/// Units kept in memory before they go to the files: 24 MiB.
const UNITS_MAX: usize = 1 << 20;
/// How often the log says how far a rebuild is.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// A rebuild that failed is tried again after [`crate::Config::rebuild_pause`], and after up to so many times that: a disk
/// that was full may not be for long, and one that fails must not be read over and over.
const PAUSES_MAX: u32 = 64;
/// How much of a file of the log a rebuild may pass over because the disk gives errors: sectors, not a disk that is gone.
const UNREADABLE_BYTES_MAX: u64 = 1 << 20;
/// Records between two looks at the clock.
const STEPS: u64 = 4096;

/// What the store does besides serving, and how far it is. All zero when it does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Queues whose files were not looked at since the store was opened.
    pub unchecked_queues: u64,
    /// Queues that are being rebuilt from the log, or wait for it.
    pub lost_queues: u64,
    /// Position in the log the rebuild has reached.
    pub rebuild_at: u64,
    /// Position at which it will be done.
    pub rebuild_end: u64,
}

/// What the healer has to do.
#[derive(Default)]
pub(crate) struct Healer {
    pub(crate) wake: Arc<Wake>,
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    unchecked: Vec<Arc<Queue>>,
    /// Whether the log's start moved since the queues' minima were taken down.
    correct_minima: bool,
    lost: Vec<Arc<Queue>>,
    retry: Option<Retry>,
    progress: Progress,
    is_busy: bool,
    stopped: bool,
}

/// When a rebuild that failed is tried again.
#[derive(Clone, Copy)]
struct Retry {
    at: Instant,
    /// Pauses until then.
    pauses: u32,
    /// How much of a file of the log may be unreadable then.
    tolerance: u64,
}

/// Why a rebuild failed.
enum Failure {
    /// The disk gives an error for a place in the log.
    Unreadable(OpenError),
    Other(OpenError),
}

impl Failure {
    /// The failure to read a file of the log.
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

/// By topic and queue id.
type Jobs = HashMap<Box<str>, BTreeMap<i32, Job>>;

/// A range of a queue to be written again.
struct Job {
    queue: Arc<Queue>,
    from: u64,
    /// The next place to write in the files.
    written: u64,
    /// Units from there on.
    units: Vec<Unit>,
    until: u64,
    /// Where in the log its messages begin at the earliest, and end at the latest.
    start: u64,
    end: u64,
    /// The unit of the newest message found, or of the one before the range.
    newest: Option<Unit>,
    /// The unit of the last place: kept when the log holds nothing better, see [`Shared::suspect_of`].
    suspect: Option<Unit>,
}

impl Job {
    fn next(&self) -> u64 {
        self.written + self.units.len() as u64
    }

    /// Fills the places of messages that were not found.
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
    /// Has the files of all queues looked at, later.
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

    /// Whether something is known to be lost and not whole again.
    pub(crate) fn is_healing(&self) -> bool {
        !lock(&self.healer.state).lost.is_empty() || self.queues.open.has_reports()
    }

    /// Waits until the healer has nothing to do, cannot do it now, or ends.
    pub(crate) fn wait_healed(&self) {
        let mut state = lock(&self.healer.state);
        while !state.stopped && (state.is_busy || self.queues.open.has_reports()) {
            state = self.healer.idle.wait(state).unwrap_or_else(|poison| poison.into_inner());
        }
    }

    /// The healer's thread.
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
            // An error that passes costs no message: only when it comes again, what lies there is given up.
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
        // One that was lost since the look is no reason to rest either.
        state.is_busy = self.queues.open.has_reports() || state.lost.len() > lost.len();
        if state.is_busy {
            return;
        }
        drop(state);
        self.healer.idle.notify_all();
        self.healer.wake.sleep(waits_until);
    }

    /// Looks at a queue's files and puts it on the list of lost ones when they are not as they must be.
    fn look_at(&self, queue: &Arc<Queue>, look: fn(&Queue) -> io::Result<Option<u64>>) {
        match look(queue) {
            Ok(None) => {}
            Ok(Some(at)) => self.lose(queue, at, u64::MAX),
            Err(error) => tracing::error!(?queue, %error, "queue files cannot be checked"),
        }
    }

    /// Takes a range of a queue's units out of service; the healer writes them again.
    pub(crate) fn lose(&self, queue: &Arc<Queue>, from: u64, until: u64) {
        // Held across both, so that a rebuild that ends now does not miss this one.
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

    /// Writes the lost parts of these queues again, in one pass over the log, of which so many bytes of a file may be unreadable.
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
        // Now, and not with the next checkpoint: without the queue table the files would be believed as a crash leaves them.
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

    /// Wipes the lost range and looks around it.
    fn begin_job(&self, queue: &Arc<Queue>, tolerance: u64) -> Result<Option<Job>, Failure> {
        // No checkpoint writes to the files now.
        let _alone = lock(&self.checkpointing);
        let Some((from, until)) = queue.lost() else { return Ok(None) };
        if queue.is_removed() {
            queue.found(from, until);
            return Ok(None);
        }
        let before = from.checked_sub(1).filter(|place| *place >= queue.min().get());
        // The records beside it are read as well: they may be several messages, some of them in the range.
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

    /// The unit for the last place of a lost range, should its message not be found. That of a range of one is as it was,
    /// so that its message is missed and not silently passed over. At the queue's end it leads to where the record was:
    /// RocketMQ takes the unit there for how far the log is indexed, a blank one for 2 GiB, and gives no unit to new messages
    /// before that.
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

    /// The unit at an offset if it leads to its message: one that does not would send the search to a wrong part of the
    /// log, and what is not found there counts as gone.
    fn true_unit(&self, queue: &Queue, place: u64) -> Option<Unit> {
        let unit = queue.unit_in_files(place)?;
        let message = Numbered { offset: QueueOffset::new(place), unit };
        let mut record = Vec::new();
        let _ = self.read(unit.log_offset, unit.size as usize, &mut record, false).ok()?;
        leads_to_it(queue, message, &record).then_some(unit)
    }

    /// Finds the jobs' messages in the log; `false` when the store is being closed.
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

    /// Takes a record's units for those of its queues that wait for them. Answers the number of units.
    fn take(&self, jobs: &mut Jobs, view: &RecordView<'_>, at: u64) -> usize {
        let places = self.places_of(view).filter(|place| !self.queues.tombstones.covers(place.topic, at));
        places.map(|place| take_place(jobs, view, at, place)).sum()
    }

    fn write_jobs(&self, jobs: &mut Jobs) -> Result<(), OpenError> {
        let waiting = jobs.values_mut().flat_map(BTreeMap::values_mut);
        for job in waiting.filter(|job| !job.units.is_empty()) {
            // Per queue, so that a checkpoint need not wait long.
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

/// Takes a record's unit for one queue if that waits for it.
fn take_place(jobs: &mut Jobs, view: &RecordView<'_>, at: u64, place: Place<'_>) -> usize {
    // Only lost queues are of interest: most records end here.
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

/// Whether a queue file that reads like this is damaged, rather than the disk.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | InvalidData | UnexpectedEof)
}

#[cfg(test)]
mod tests;
