//! A retention round: measures the disks and performs the decision.

use super::decide::{Deletion, LogFile, Situation, decide};
use super::usage_limit::{Level, percent};
use super::{DiskSpace, RetentionSettings, UnconsumedPolicy};
use crate::append::DiskFull;
use crate::checkpoint::Checkpointer;
use crate::disk::Usage;
use crate::error::{ReadError, Result};
use crate::heal_list::LostQueues;
use crate::index::Indexer;
use crate::log::Segment;
use crate::queue::Queue;
use crate::read::{Boundary, Reader};
use crate::state::State;
use crate::wake::lock;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::units::{LogOffset, QueueOffset};

/// Input of a retention round.
pub struct RetentionRound<'a> {
    /// Wall clock in ms since the epoch.
    pub now_ms: i64,
    /// Hour of the local day, 0 to 23; see [`crate::local_hour`].
    pub hour: u8,
    /// Whether an operator asked to delete expired files at any hour.
    pub asked: bool,
    /// Returns the log position of the first message that a group has not consumed. Called only when a file would be deleted
    /// otherwise.
    pub unconsumed_from: &'a dyn Fn() -> Option<LogOffset>,
}

/// Result of a retention round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundResult {
    /// Files that the round deletes, and the reasons.
    pub verdict: Deletion,
    /// Log position where the log began before the round.
    pub from: LogOffset,
    /// Log position where the log begins after the round.
    pub min: LogOffset,
}

/// Disk usage at the last measurement.
#[derive(Clone, Debug, Default)]
pub struct SpaceView {
    /// The level that follows from the usage.
    pub level: Level,
    /// Usage of the disks of the log's writable directories.
    pub log: Vec<(PathBuf, Usage)>,
    /// Usage of the disk of the queues; `None` before the first measurement.
    pub queues: Option<Usage>,
}

impl SpaceView {
    /// Percentage in use of the log's disk. With several disks, the smallest of their percentages.
    pub fn log_percent(&self) -> u64 {
        self.log.iter().map(|(_, usage)| percent(usage)).min().unwrap_or(0)
    }

    /// Percentage in use of the queues' disk.
    pub fn queue_percent(&self) -> u64 {
        self.queues.as_ref().map_or(0, percent)
    }

    /// Bytes that can be written before appends are refused.
    pub fn room(&self, settings: &RetentionSettings) -> u64 {
        let log = self.log.iter().map(|(_, usage)| settings.refuse_at.room(usage)).max().unwrap_or(0);
        log.min(self.queues.map_or(u64::MAX, |usage| settings.refuse_at.room(&usage)))
    }
}

/// Retention and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Retention<'a> {
    pub(crate) state: &'a State,
    pub(crate) space: &'a DiskSpace,
    pub(crate) disk_full: &'a DiskFull,
    pub(crate) lost: &'a LostQueues,
    pub(crate) checkpointer: Checkpointer<'a>,
    pub(crate) indexer: Indexer<'a>,
    pub(crate) reader: Reader<'a>,
}

impl Retention<'_> {
    /// Measures the disks; see [`crate::Store::watch_space`].
    pub(crate) fn watch_space(&self, settings: &RetentionSettings) -> io::Result<Level> {
        let (log, queues) = self.measure()?;
        let usages: Vec<Usage> = log.iter().map(|(_, usage)| *usage).collect();
        let level = settings.level_with_next(&usages, &queues, self.next_file_bytes());
        let view = SpaceView { level, log, queues: Some(queues) };
        let (log_percent, queue_percent) = (view.log_percent(), view.queue_percent());
        *lock(&self.space.view) = view;
        let refuses = level == Level::Refuse;
        if self.disk_full.set(refuses, (log_percent, queue_percent)) != refuses {
            if refuses {
                tracing::error!(
                    log_percent,
                    queue_percent,
                    "the disk is over the warning level; sends are refused"
                );
            } else {
                tracing::warn!(log_percent, queue_percent, "the disk has space again; sends are accepted");
            }
        }
        Ok(level)
    }

    /// Raises a queue's minimum offset; see [`crate::Store::expire_queue`].
    pub(crate) fn expire_queue(
        &self,
        queue: &Queue,
        before_ms: i64,
        at_most: QueueOffset,
    ) -> Result<QueueOffset> {
        let first = self.reader.store_time(queue, queue.min())?;
        if first.is_none_or(|stored| stored < before_ms) {
            let target = self.reader.offset_by_time(queue, before_ms, Boundary::Lower)?;
            queue.raise_min(target.min(at_most));
            let queues = &self.state.queues;
            self.note_minima(queues.find(queue.topic(), queue.queue_id()).into_iter().collect())?;
            queue.remove_files_before_min()?;
        }
        Ok(queue.min())
    }

    fn measure(&self) -> io::Result<(Vec<(PathBuf, Usage)>, Usage)> {
        let directories = self.state.log.directories.writable().iter();
        let log = directories.map(|path| Ok((path.clone(), self.usage(path)?))).collect::<io::Result<_>>()?;
        Ok((log, self.usage(&self.state.queues.directory)?))
    }

    fn usage(&self, path: &Path) -> io::Result<Usage> {
        self.state.disk.usage(path).map_err(|error| at(path, &error))
    }

    /// Deletes files that must go now; see [`crate::Store::retain`].
    pub(crate) fn retain(
        &self,
        settings: &RetentionSettings,
        round: &RetentionRound<'_>,
    ) -> io::Result<RoundResult> {
        let (log_disks, queue_disk) = self.as_if_given_back()?;
        self.leave_out_full(settings, &log_disks);
        let log_disks: Vec<Usage> = log_disks.into_iter().map(|(_, usage)| usage).collect();
        let files = self.removable()?;
        let from = LogOffset::new(self.state.log.min());
        let situation = Situation {
            now_ms: round.now_ms,
            hour: round.hour,
            asked: round.asked,
            files: &files,
            log_bytes: self.state.appended.get().saturating_sub(from.get()),
            log_disks: &log_disks,
            next_file_bytes: self.next_file_bytes(),
            queue_disk,
            unconsumed_from: None,
        };
        let mut verdict = decide(settings, &situation);
        if verdict.below.is_some() && settings.unconsumed != UnconsumedPolicy::Drop {
            let unconsumed_from = (round.unconsumed_from)().map(LogOffset::get);
            verdict = decide(settings, &Situation { unconsumed_from, ..situation });
        }
        if let Some(below) = verdict.below {
            self.state.log.raise_min(below);
        }
        // Completes an interrupted round as well.
        let min = self.state.log.min();
        if self.space.trimmed.load(Ordering::Relaxed) != min {
            let raised = self.raise_queue_minima(LogOffset::new(min));
            self.state.log.remove_below(min)?;
            self.note_minima(self.state.queues.all())?;
            self.remove_queue_files()?;
            self.indexer.wake_index();
            // An unreadable queue only keeps its own files; the next round tries it again.
            raised?;
            // A rebuild of queues may be reading older records, which the tombstones exclude.
            if !self.lost.is_healing(&self.state.queues) {
                self.state.queues.tombstones.forget_below(min);
            }
            self.space.trimmed.store(min, Ordering::Relaxed);
        }
        Ok(RoundResult { verdict, from, min: LogOffset::new(min) })
    }

    /// Space in bytes that the log's next file needs. Preallocation needs it from the middle of the current file on; 0 before
    /// that, and when the next file exists or is being created.
    fn next_file_bytes(&self) -> u64 {
        if self.state.log.is_making() {
            return 0;
        }
        let bytes = self.state.log.segment_bytes;
        let needed = self.state.appended.get() + bytes.div_ceil(2);
        if needed < self.state.log.capacity_end() { 0 } else { bytes }
    }

    /// Returns the disk usage as it will be after the space of deleted files is freed.
    fn as_if_given_back(&self) -> io::Result<(Vec<(PathBuf, Usage)>, Usage)> {
        let (mut log, mut queues) = self.measure()?;
        for (path, bytes) in self.state.log.uncut() {
            let device =
                path.parent().map(|directory| self.usage(directory)).transpose()?.map(|usage| usage.device);
            let usages = log.iter_mut().map(|(_, usage)| usage).chain([&mut queues]);
            usages.filter(|usage| Some(usage.device) == device).for_each(|usage| usage.add_free(bytes));
        }
        Ok((log, queues))
    }

    /// Sends new files to directories below `diskSpaceCleanForciblyRatio` while such directories exist.
    fn leave_out_full(&self, settings: &RetentionSettings, log: &[(PathBuf, Usage)]) {
        let is_full = |usage: &Usage| settings.level_of(usage) >= Level::Clean;
        self.state
            .log
            .directories
            .set_full(log.iter().filter(|(_, usage)| is_full(usage)).map(|(path, _)| path.clone()).collect());
    }

    /// The commit log files that may be deleted, oldest first.
    fn removable(&self) -> io::Result<Vec<LogFile>> {
        let checkpointed = u64::try_from(lock(&self.state.page).logics_physical_offset).unwrap_or(0);
        let flushed = self.state.flushed.get();
        let safe = checkpointed.min(flushed).saturating_sub(1) / self.state.log.segment_bytes
            * self.state.log.segment_bytes;
        let segments = self.state.log.files_below(safe);
        if segments.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = HashMap::new();
        for directory in self.state.log.directories.all() {
            let entries = self.state.disk.list(directory).map_err(|error| at(directory, &error))?;
            if entries.is_empty() && !segments.iter().any(|segment| segment.path.starts_with(directory)) {
                // A read-only directory without files need not exist.
                continue;
            }
            let device = self.usage(directory)?.device;
            found.extend(
                entries.into_iter().map(|entry| (directory.join(entry.name), (entry.modified_ms, device))),
            );
        }
        let file = |segment: &Arc<Segment>| {
            // A file that another program removed counts as the oldest.
            let (modified_ms, device) = found.get(&segment.path).copied().unwrap_or_default();
            let bytes = self.state.log.segment_bytes;
            LogFile { end: segment.base + bytes, bytes, modified_ms, device }
        };
        Ok(segments.iter().map(file).collect())
    }

    fn raise_queue_minima(&self, log_min: LogOffset) -> io::Result<()> {
        self.of_all_queues(|queue| match queue.follow_log(log_min) {
            // The healer corrects the minimum when the queue is rebuilt.
            Err(ReadError::Rebuilding { .. }) => Ok(()),
            done => done,
        })
    }

    /// Records the minimum offsets of these queues in the queue table.
    fn note_minima(&self, mut moved: Vec<Arc<Queue>>) -> io::Result<()> {
        moved.retain(|queue| queue.has_new_min());
        if moved.is_empty() {
            return Ok(());
        }
        moved.iter().for_each(|queue| queue.relist(&self.state.queues.unwritten));
        self.checkpointer
            .checkpoint_now()
            .map(|_| ())
            .map_err(|interrupted| io::Error::other(self.state.explain(interrupted)))
    }

    fn remove_queue_files(&self) -> io::Result<()> {
        self.of_all_queues(|queue| Ok(queue.remove_files_before_min()?))
    }

    /// Applies `change` to every queue and returns the first error at the end. A bad queue must not keep the other
    /// queues from freeing space.
    fn of_all_queues(&self, change: impl Fn(&Queue) -> Result<()>) -> io::Result<()> {
        let mut failure = None;
        for queue in self.state.queues.all() {
            if let Err(error) = change(&queue) {
                let text = format!("queue {}/{}: {error}", queue.topic(), queue.queue_id());
                failure.get_or_insert(io::Error::other(text));
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
