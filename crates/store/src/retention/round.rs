//! Measuring the disks and performing what was decided.

use super::decide::{LogFile, Situation, Verdict, decide};
use super::watermark::{Level, percent};
use super::{RetentionSettings, Unconsumed};
use crate::disk::Usage;
use crate::error::ReadError;
use crate::log::{GaveBack, Segment};
use crate::queue::Queue;
use crate::read::Boundary;
use crate::store::{Shared, Store};
use crate::wake::lock;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::units::{LogOffset, QueueOffset};

/// What a round is told.
pub struct Round<'a> {
    /// Wall clock in milliseconds.
    pub now_ms: i64,
    /// Hour of the local day, see [`crate::local_hour`].
    pub hour: u8,
    /// An operator asked for expired files to go, whatever the hour.
    pub asked: bool,
    /// Where the first message lies that a group has not consumed yet. Only asked when a file would go otherwise.
    pub unconsumed_from: &'a dyn Fn() -> Option<LogOffset>,
}

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// What was decided.
    pub verdict: Verdict,
    /// Where the log began before.
    pub from: LogOffset,
    /// Where it begins now.
    pub min: LogOffset,
}

/// How full the disks were when they were measured last.
#[derive(Clone, Debug, Default)]
pub struct SpaceView {
    /// What follows from it.
    pub level: Level,
    /// The writable directories of the log.
    pub log: Vec<(PathBuf, Usage)>,
    /// The disk of the queues.
    pub queues: Option<Usage>,
}

impl SpaceView {
    /// Percent in use on the log's disk, of several the one with most space.
    #[must_use]
    pub fn log_percent(&self) -> u64 {
        self.log.iter().map(|(_, usage)| percent(usage)).min().unwrap_or(0)
    }

    /// Percent in use on the queues' disk.
    #[must_use]
    pub fn queue_percent(&self) -> u64 {
        self.queues.as_ref().map_or(0, percent)
    }

    /// Bytes that can be written until appends are refused.
    #[must_use]
    pub fn room(&self, settings: &RetentionSettings) -> u64 {
        let log = self.log.iter().map(|(_, usage)| settings.refuse_at.room(usage)).max().unwrap_or(0);
        log.min(self.queues.map_or(u64::MAX, |usage| settings.refuse_at.room(&usage)))
    }
}

impl Store {
    /// Measures the disks. From now on appends are refused, or again accepted, as the warning level says.
    ///
    /// # Errors
    /// When a disk cannot be asked; then everything stays as it is.
    pub fn watch_space(&self, settings: &RetentionSettings) -> io::Result<Level> {
        let shared = &self.shared;
        let (log, queues) = shared.measure()?;
        let usages: Vec<Usage> = log.iter().map(|(_, usage)| *usage).collect();
        let level = settings.level_with_next(&usages, &queues, shared.next_file_bytes());
        *lock(&shared.retention.view) = SpaceView { level, log, queues: Some(queues) };
        let refuses = level == Level::Refuse;
        if shared.retention.refuses.swap(refuses, Ordering::Relaxed) != refuses {
            let view = lock(&shared.retention.view).clone();
            let (log_percent, queue_percent) = (view.log_percent(), view.queue_percent());
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

    /// How full the disks were when [`Self::watch_space`] looked.
    #[must_use]
    pub fn space(&self) -> SpaceView {
        lock(&self.shared.retention.view).clone()
    }

    /// Deletes what has to go now; see [`decide`]. Only one thread may call it at a time.
    ///
    /// # Errors
    /// The disk's. What was done so far stands, the next call goes on.
    pub fn retain(&self, settings: &RetentionSettings, round: &Round<'_>) -> io::Result<Retained> {
        self.shared.retain(settings, round)
    }

    /// Gives back a piece of the space of deleted log files. Call it with pauses: the pieces are small so that flushes pass
    /// between them.
    ///
    /// # Errors
    /// The disk's; the rest of that file is given back when the store is closed.
    pub fn give_back(&self) -> io::Result<GaveBack> {
        self.shared.log.cut_removed()
    }

    /// Deleted log files whose space was not given back yet.
    #[must_use]
    pub fn files_to_give_back(&self) -> u32 {
        u32::try_from(self.shared.log.uncut_files()).unwrap_or(u32::MAX)
    }

    /// Lets a queue begin at its first message stored at or after a time, but not behind `at_most`, and removes the queue
    /// files before. The messages stay in the log until its files go. Answers the queue's minimum.
    ///
    /// # Errors
    /// When queue or log cannot be read.
    pub fn expire_queue(
        &self,
        queue: &Queue,
        before_ms: i64,
        at_most: QueueOffset,
    ) -> Result<QueueOffset, ReadError> {
        let first = self.shared.store_time(queue, queue.min())?;
        if first.is_none_or(|stored| stored < before_ms) {
            let target = self.shared.offset_by_time(queue, before_ms, Boundary::Lower)?;
            queue.raise_min(target.min(at_most));
            let queues = &self.shared.queues;
            self.shared.note_minima(queues.find(queue.topic(), queue.queue_id()).into_iter().collect())?;
            queue.remove_files_before_min()?;
        }
        Ok(queue.min())
    }
}

impl Shared {
    fn measure(&self) -> io::Result<(Vec<(PathBuf, Usage)>, Usage)> {
        let directories = self.log.places.writable().iter();
        let log = directories.map(|path| Ok((path.clone(), self.usage(path)?))).collect::<io::Result<_>>()?;
        Ok((log, self.usage(&self.queues.directory)?))
    }

    fn usage(&self, path: &Path) -> io::Result<Usage> {
        self.disk.usage(path).map_err(|error| at(path, &error))
    }

    fn retain(&self, settings: &RetentionSettings, round: &Round<'_>) -> io::Result<Retained> {
        let (log_disks, queue_disk) = self.as_if_given_back()?;
        self.leave_out_full(settings, &log_disks);
        let log_disks: Vec<Usage> = log_disks.into_iter().map(|(_, usage)| usage).collect();
        let files = self.removable()?;
        let from = LogOffset::new(self.log.min());
        let situation = Situation {
            now_ms: round.now_ms,
            hour: round.hour,
            asked: round.asked,
            files: &files,
            log_bytes: self.appended.load(Ordering::Acquire).saturating_sub(from.get()),
            log_disks: &log_disks,
            next_file_bytes: self.next_file_bytes(),
            queue_disk,
            unconsumed_from: None,
        };
        let mut verdict = decide(settings, &situation);
        if verdict.below.is_some() && settings.unconsumed != Unconsumed::Drop {
            let unconsumed_from = (round.unconsumed_from)().map(LogOffset::get);
            verdict = decide(settings, &Situation { unconsumed_from, ..situation });
        }
        if let Some(below) = verdict.below {
            self.log.raise_min(below);
        }
        // Also what an interrupted round left.
        let min = self.log.min();
        if self.retention.trimmed.load(Ordering::Relaxed) != min {
            let raised = self.raise_queue_minima(LogOffset::new(min));
            self.log.remove_below(min)?;
            self.note_minima(self.queues.all())?;
            self.remove_queue_files()?;
            self.wake_index();
            // A queue that cannot be read keeps its own files only; the next round tries it again.
            raised?;
            // Whoever rebuilds queues may be reading records from before.
            if !self.is_healing() {
                self.queues.tombstones.forget_below(min);
            }
            self.retention.trimmed.store(min, Ordering::Relaxed);
        }
        Ok(Retained { verdict, from, min: LogOffset::new(min) })
    }

    /// Bytes the log's next file takes. It is needed from the middle of the one before on, as for the preparing thread; 0
    /// until then, and when it is there or just being made.
    fn next_file_bytes(&self) -> u64 {
        if self.log.is_making() {
            return 0;
        }
        let bytes = self.log.segment_bytes;
        let needed = self.appended.load(Ordering::Acquire) + bytes.div_ceil(2);
        if needed < self.log.capacity_end() { 0 } else { bytes }
    }

    /// The disks as they are when the deleted files are given back.
    fn as_if_given_back(&self) -> io::Result<(Vec<(PathBuf, Usage)>, Usage)> {
        let (mut log, mut queues) = self.measure()?;
        for (path, bytes) in self.log.uncut() {
            let device =
                path.parent().map(|directory| self.usage(directory)).transpose()?.map(|usage| usage.device);
            let usages = log.iter_mut().map(|(_, usage)| usage).chain([&mut queues]);
            usages.filter(|usage| Some(usage.device) == device).for_each(|usage| usage.give_back(bytes));
        }
        Ok((log, queues))
    }

    /// New files go to directories below the second level, as long as there are any.
    fn leave_out_full(&self, settings: &RetentionSettings, log: &[(PathBuf, Usage)]) {
        let is_full = |usage: &Usage| settings.level_of(usage) >= Level::Clean;
        self.log
            .places
            .set_full(log.iter().filter(|(_, usage)| is_full(usage)).map(|(path, _)| path.clone()).collect());
    }

    /// The files that may go, oldest first.
    fn removable(&self) -> io::Result<Vec<LogFile>> {
        let checkpointed = u64::try_from(lock(&self.page).logics_physical_offset).unwrap_or(0);
        let flushed = self.flushed.load(Ordering::Acquire);
        let safe =
            checkpointed.min(flushed).saturating_sub(1) / self.log.segment_bytes * self.log.segment_bytes;
        let segments = self.log.files_below(safe);
        if segments.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = HashMap::new();
        for directory in self.log.places.all() {
            let entries = self.disk.list(directory).map_err(|error| at(directory, &error))?;
            if entries.is_empty() && !segments.iter().any(|segment| segment.path.starts_with(directory)) {
                // One that is only read need not even be there.
                continue;
            }
            let device = self.usage(directory)?.device;
            found.extend(
                entries.into_iter().map(|entry| (directory.join(entry.name), (entry.modified_ms, device))),
            );
        }
        let file = |segment: &Arc<Segment>| {
            // One that somebody else removed is older than any.
            let (modified_ms, device) = found.get(&segment.path).copied().unwrap_or_default();
            let bytes = self.log.segment_bytes;
            LogFile { end: segment.base + bytes, bytes, modified_ms, device }
        };
        Ok(segments.iter().map(file).collect())
    }

    fn raise_queue_minima(&self, log_min: LogOffset) -> io::Result<()> {
        self.of_all_queues(|queue| match queue.follow_log(log_min) {
            // Whoever rebuilds it corrects the minimum then.
            Err(ReadError::Rebuilding { .. }) => Ok(()),
            done => done,
        })
    }

    /// Has the queue table know the minima of these queues.
    fn note_minima(&self, mut moved: Vec<Arc<Queue>>) -> io::Result<()> {
        moved.retain(|queue| queue.has_new_min());
        if moved.is_empty() {
            return Ok(());
        }
        moved.iter().for_each(|queue| queue.relist(&self.queues.unwritten));
        self.checkpoint_now().map(|_| ()).map_err(|interrupted| io::Error::other(self.explain(interrupted)))
    }

    fn remove_queue_files(&self) -> io::Result<()> {
        self.of_all_queues(|queue| Ok(queue.remove_files_before_min()?))
    }

    /// Does something with every queue, and reports the first failure at the end: one bad queue must not keep the others'
    /// space.
    fn of_all_queues(&self, change: impl Fn(&Queue) -> Result<(), ReadError>) -> io::Result<()> {
        let mut failure = None;
        for queue in self.queues.all() {
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
