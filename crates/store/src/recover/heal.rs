//! The healer: a thread of low priority that rebuilds queue files that differ from the queue table.
//!
//! Opening a store trusts the queue table. Afterwards this thread checks the files of each queue:
//! the files exist, have their full size, and their first and last units are valid. Readers report
//! invalid units in between. A bad queue is *lost* from the start of its first bad file up to the
//! newest written unit. After a report of a reader, the units before that file are checked as well.
//! That range is wiped, and reads of it return [`crate::ReadError::Rebuilding`]. A pass over the
//! commit log then writes the range again for all lost queues. Appends and all other reads
//! continue. A crash in between leaves the wiped range empty, and the next check or read finds it.
//!
//! The healer skips a part of the log that the disk cannot read, like a damaged record, but only if the preceding
//! attempt failed for the same cause.
//!
//! A clean stop does not wait for the healer. While queues are lost, it leaves the crash mark (`abort`), because a
//! RocketMQ broker would take the hole for the queue's end.

mod job;

use super::window::{LogContent, UnreadableRange, Window, find, is_of_medium, next_whole};
use crate::checkpoint::Checkpointer;
use crate::error::OpenError;
use crate::heal_list::{HealProgress, LostQueues, Retry};
use crate::queue::{Extent, Queue, Unit};
use crate::read::{CqUnit, Reader, leads_to_it};
use crate::state::State;
use crate::wake::{Next, lock};
use job::{Job, Jobs, take_dispatch};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

/// Rebuilt units kept in memory before they are written to the files: 24 MiB.
const UNITS_MAX: usize = 1 << 20;
/// Interval at which a rebuild logs its progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Longest pause before a failed rebuild is tried again, in multiples of [`crate::Config::rebuild_pause`]. Pauses
/// double from one. A full disk may soon have space, but a failing disk must not be read over and over.
const PAUSES_MAX: u32 = 64;
/// Unreadable bytes of a commit log file that a rebuild may skip: enough for bad sectors, not for a failed disk.
const UNREADABLE_BYTES_MAX: u64 = 1 << 20;
/// Number of records after which the clock is read again.
const STEPS: u64 = 4096;

/// The healer and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Healer<'a> {
    pub(crate) state: &'a State,
    pub(crate) lost: &'a LostQueues,
    pub(crate) checkpointer: Checkpointer<'a>,
    pub(crate) reader: Reader<'a>,
}

/// Reasons why a rebuild failed.
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

impl Healer<'_> {
    pub(crate) fn healer_round(&self, now: Instant) -> Next {
        if self.state.signals.stopping.load(Ordering::Acquire) || self.state.fence.is_up() {
            lock(&self.lost.work).stopped = true;
            self.lost.idle.notify_all();
            return Next::Over;
        }
        let (reported, queue, correct_minima) = {
            let mut work = lock(&self.lost.work);
            let reported = self.state.queues.open.take_reports();
            work.is_busy |= !reported.is_empty();
            (reported, work.unchecked.pop(), work.correct_minima)
        };
        let reported = reported.iter().filter_map(|(topic, id)| self.state.queues.find(topic, *id));
        reported.for_each(|queue| self.look_at(&queue, Queue::first_bad_of_all));
        let Some(queue) = queue else { return self.rebuild_or_rest(now) };
        self.look_at(&queue, Queue::first_bad);
        if correct_minima && !queue.is_lost() {
            self.correct_min(&queue);
        }
        Next::Now
    }

    fn rebuild_or_rest(&self, now: Instant) -> Next {
        let (lost, retry) = {
            let work = lock(&self.lost.work);
            (work.lost.clone(), work.retry)
        };
        let waits_until = retry.map(|retry| retry.at).filter(|at| *at > now);
        if !lost.is_empty() && waits_until.is_none() {
            // Pass over unreadable parts of the log only at the second attempt: a passing error then costs no message.
            let rebuilt = self.rebuild(&lost, retry.map_or(0, |retry| retry.tolerance));
            let mut work = lock(&self.lost.work);
            work.retry = rebuilt.err().map(|failure| {
                let (error, tolerance) = match failure {
                    Failure::Unreadable(error) => (error, UNREADABLE_BYTES_MAX),
                    Failure::Other(error) => (error, 0),
                };
                tracing::error!(%error, "queues cannot be rebuilt now; until they are, their lost parts are unreadable");
                let pauses = retry.map_or(1, |retry| PAUSES_MAX.min(retry.pauses * 2));
                Retry { at: self.state.clock.now() + self.state.config.rebuild_pause * pauses, pauses, tolerance }
            });
            return Next::Now;
        }
        let mut work = lock(&self.lost.work);
        // A queue lost since `lost` was cloned keeps the healer busy as well.
        work.is_busy = self.state.queues.open.has_reports() || work.lost.len() > lost.len();
        if work.is_busy {
            return Next::Now;
        }
        drop(work);
        self.lost.idle.notify_all();
        waits_until.map_or(Next::Woken, Next::At)
    }

    /// Checks a queue's files with `look` and marks the queue as lost from the queue offset that
    /// `look` returns.
    fn look_at(&self, queue: &Arc<Queue>, look: impl Fn(&Queue) -> io::Result<Option<u64>>) {
        let mut seen = look(queue);
        let _without_truncations;
        if matches!(seen, Ok(Some(_))) {
            // A truncation may have changed the files while they were read. This lock excludes truncations.
            _without_truncations = lock(&self.checkpointer.checkpoints.rounds);
            seen = look(queue);
        }
        match seen {
            Ok(None) => {}
            Ok(Some(at)) => self.lost.mark_lost(queue, at, u64::MAX),
            Err(error) => tracing::error!(?queue, %error, "queue files cannot be checked"),
        }
    }

    fn correct_min(&self, queue: &Arc<Queue>) {
        let before = queue.min();
        match queue.correct_min(LogOffset::new(self.state.log.min())) {
            Ok(()) if queue.min() > before => queue.relist(&self.state.queues.unwritten),
            Ok(()) => {}
            Err(error) => tracing::warn!(?queue, %error, "a queue's minimum is not known yet"),
        }
    }

    /// Writes the lost ranges of these queues again, in a single pass over the log. `tolerance` bytes of each file
    /// may be unreadable.
    fn rebuild(&self, lost: &[Arc<Queue>], tolerance: u64) -> Result<(), Failure> {
        let mut jobs = Jobs { truncations: self.state.truncations.load(Ordering::SeqCst), ..Jobs::default() };
        let (mut from, mut end) = (u64::MAX, 0);
        for queue in lost {
            let Some(job) = self.begin_job(queue, tolerance)? else { continue };
            (from, end) = (from.min(job.start), end.max(job.end));
            jobs.by_topic.entry(queue.topic().into()).or_default().insert(queue.queue_id(), job);
        }
        let end = end.min(self.state.appended.get());
        let from = from.max(self.state.log.min()).min(end);
        tracing::warn!(queues = lost.len(), from, end, "rebuilding queues from the log");
        if !self.read_log_for(&mut jobs, from..end, tolerance)? {
            return Ok(());
        }
        for job in jobs.by_topic.values_mut().flat_map(BTreeMap::values_mut) {
            job.fill();
        }
        if !self.write_jobs(&mut jobs)? {
            return Ok(());
        }
        // Sync now and not with the next checkpoint: a table older than that would vouch for files as a crash leaves them.
        if self.checkpointer.sync_touched(&mut lock(&self.checkpointer.checkpoints.touched)).is_err() {
            return Ok(());
        }
        for job in jobs.by_topic.values().flat_map(BTreeMap::values) {
            job.queue.restore_range(job.from, job.until);
            self.correct_min(&job.queue);
        }
        let mut work = lock(&self.lost.work);
        work.lost.retain(|queue| queue.is_lost());
        work.progress = HealProgress::default();
        drop(work);
        tracing::info!(queues = lost.len(), "queues rebuilt");
        self.state.signals.checkpoint.wake();
        Ok(())
    }

    /// Wipes a queue's lost range and determines which part of the log holds its messages.
    fn begin_job(&self, queue: &Arc<Queue>, tolerance: u64) -> Result<Option<Job>, Failure> {
        // Excludes checkpoints, which write to the same files.
        let _alone = lock(&self.checkpointer.checkpoints.rounds);
        let Some((from, until)) = queue.lost_range() else { return Ok(None) };
        if queue.is_removed() {
            queue.restore_range(from, until);
            return Ok(None);
        }
        let before = from.checked_sub(1).filter(|place| *place >= queue.min().get());
        // The records next to the range are read as well: a batch may have some of its messages in the range.
        let newest = before.and_then(|place| self.true_unit(queue, place));
        let start = newest.map_or(0, |unit| unit.log_offset.get());
        let end = self.true_unit(queue, until).map_or(u64::MAX, |unit| unit.end().get());
        let end = if end > start { end } else { u64::MAX };
        let suspect = self.suspect_of(queue, from..until, tolerance)?;
        let emptied = queue.empty(from, until, &mut lock(&self.checkpointer.checkpoints.touched));
        emptied.map_err(OpenError::io(&self.state.queues.directory))?;
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

    /// Returns the unit for the last queue offset of a lost range whose message is not found. A range of one unit
    /// keeps the old unit, so that readers report the message missing and do not skip it silently. At the queue's end
    /// the unit leads to the place of the lost record, because RocketMQ takes the last unit for the position up to
    /// which the log is indexed. RocketMQ would read a blank unit as 2 GiB and assign no unit to new messages before
    /// that position.
    fn suspect_of(&self, queue: &Queue, lost: Range<u64>, tolerance: u64) -> Result<Option<Unit>, Failure> {
        let Range { start: from, end: until } = lost;
        let kept = if until == from + 1 { queue.unit_in_files(from) } else { None };
        let Extent { max, last, .. } = queue.in_files();
        if until != max || kept.is_some_and(|unit| unit.log_offset.get() == last) {
            return Ok(kept);
        }
        let Some(segment) = self.state.log.segment_of(last) else { return Ok(kept) };
        let at = last - segment.base;
        let end = self.state.appended.get().saturating_sub(segment.base);
        let limit = end.min(self.state.log.segment_bytes);
        let path = segment.path.clone();
        let failed = || Failure::of_log(&path);
        let mut window = Window::new(segment, self.state.log.segment_bytes).tolerant(tolerance);
        let size = match find(&mut window, at).map_err(failed())? {
            LogContent::Record(size) => size as u64,
            _ => next_whole(&mut window, at, limit).map_err(failed())?.unwrap_or(limit).saturating_sub(at),
        };
        let size = u32::try_from(size.min(self.state.config.record_bytes_max as u64)).unwrap_or(0);
        let unit = Unit { log_offset: LogOffset::new(last), size, tags_code: 0 };
        Ok((size > 0).then_some(unit))
    }

    /// The unit at a queue offset, if it leads to that message. A wrong unit would limit the search to a wrong part of the
    /// log, and messages not found there count as gone.
    fn true_unit(&self, queue: &Queue, place: u64) -> Option<Unit> {
        let unit = queue.unit_in_files(place)?;
        let message = CqUnit { offset: QueueOffset::new(place), unit };
        let mut record = Vec::new();
        let _ = self.reader.read(unit.log_offset, unit.size as usize, &mut record, false).ok()?;
        leads_to_it(queue, message, &record).then_some(unit)
    }

    /// Collects the units of all jobs from the log range `part`; `false` when the store is closing, or when its log was truncated.
    fn read_log_for(&self, jobs: &mut Jobs, part: Range<u64>, tolerance: u64) -> Result<bool, Failure> {
        let Range { start: from, end } = part;
        let (mut kept, mut steps) = (0, 0u64);
        let mut reported = self.state.clock.now();
        for segment in self.state.log.segments_in(from, end) {
            let path = segment.path.clone();
            let failed = || Failure::of_log(&path);
            let mut at = from.saturating_sub(segment.base);
            let limit = (end - segment.base).min(self.state.log.segment_bytes);
            let base = segment.base;
            let mut window = Window::new(segment, self.state.log.segment_bytes).tolerant(tolerance);
            while at < limit {
                match find(&mut window, at).map_err(failed())? {
                    LogContent::Record(size) => {
                        let view = RecordView::parse(window.get(at, size).map_err(failed())?);
                        let view = view.map_err(|error| failed()(io::Error::other(error)))?;
                        if !self.reader.is_altered(&view, base + at) {
                            kept += self.take(jobs, &view, base + at);
                        }
                        at += size as u64;
                    }
                    LogContent::Roll => break,
                    LogContent::Nothing | LogContent::Damage(_) => {
                        let Some(next) = next_whole(&mut window, at, limit).map_err(failed())? else { break };
                        at = next;
                    }
                }
                if kept > UNITS_MAX {
                    if !self.write_jobs(jobs)? {
                        return Ok(false);
                    }
                    kept = 0;
                }
                if self.state.signals.stopping.load(Ordering::Acquire) {
                    return Ok(false);
                }
                steps += 1;
                if steps % STEPS == 0 {
                    self.report_rebuild(base + at, end, &mut reported);
                }
            }
            for UnreadableRange { at, end, error } in &window.unreadable {
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
        let mut work = lock(&self.lost.work);
        (work.progress.rebuild_at, work.progress.rebuild_end) = (at, end);
        drop(work);
        let now = self.state.clock.now();
        if now - *reported >= REPORT_INTERVAL {
            *reported = now;
            tracing::info!(at, end, "rebuilding queues");
        }
    }

    /// Adds a record's units to the jobs of its queues, where they are missing. Returns the number of units added.
    fn take(&self, jobs: &mut Jobs, view: &RecordView<'_>, at: u64) -> usize {
        let dispatches = self.state.rules().dispatches_of(view, at);
        let dispatches =
            dispatches.filter(|dispatch| !self.state.queues.tombstones.covers(dispatch.queue.0, at));
        dispatches.map(|dispatch| take_dispatch(jobs, dispatch)).sum()
    }

    /// Writes the rebuilt units to the files. Returns `false` if the log was truncated since the rebuild began. Some
    /// units may then refer to removed records, and the rebuild starts again.
    fn write_jobs(&self, jobs: &mut Jobs) -> Result<bool, OpenError> {
        let Jobs { by_topic, truncations } = jobs;
        let waiting = by_topic.values_mut().flat_map(BTreeMap::values_mut);
        for job in waiting.filter(|job| !job.units.is_empty()) {
            // Locked for each queue separately, so that a checkpoint does not wait long.
            let _alone = lock(&self.checkpointer.checkpoints.rounds);
            if self.state.truncations.load(Ordering::SeqCst) != *truncations {
                return Ok(false);
            }
            let units = std::mem::take(&mut job.units);
            if job.queue.is_removed() {
                job.written += units.len() as u64;
                continue;
            }
            let written =
                job.queue.rewrite(job.written, &units, &mut lock(&self.checkpointer.checkpoints.touched));
            written.map_err(OpenError::io(&self.state.queues.directory))?;
            job.written += units.len() as u64;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
