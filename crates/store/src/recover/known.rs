//! Opens a store from the queue table: the queues as the last checkpoint recorded them, without reading their files.

use super::Recovery;
use super::window::{LogContent, Window, find};
use crate::checkpoint::InvalidUnits;
use crate::checkpoint_file::{Checkpoint, Mark};
use crate::disk::{DirEntry, Disk};
use crate::error::OpenError;
use crate::queue::batched::JAVA_DIR;
use crate::queue::table::{self, QueueTable};
use crate::wake::lock;
use std::path::Path;
use wire::record::{RecordView, peek};

/// The newest record before a log position: its own position and its store time in ms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewestRecord {
    pub(super) at: u64,
    pub(super) store_timestamp: i64,
}

/// The queue table of a store, after every check that is cheap.
pub(super) struct CheckedTable {
    table: QueueTable,
    intended: QueueTable,
    pub(super) newest: NewestRecord,
}

impl Recovery<'_> {
    /// Loads the queue table. `None` unless the table belongs to the checkpoint, the checkpoint fits the log, and no other
    /// program had the store open since.
    pub(super) fn known_queues(&self, page: &Checkpoint) -> Result<Option<CheckedTable>, OpenError> {
        let Some(mark) = page.mark else { return Ok(None) };
        let root = &self.state.config.root;
        if !is_ours(&*self.state.disk, root, mark).map_err(OpenError::io(root.join("abort")))? {
            tracing::warn!("another program had the store open; loading all queues from their files");
            return Ok(None);
        }
        let bytes = table::load(&*self.state.disk, root, mark.generation)
            .map_err(OpenError::io(table::directory(root)))?
            .unwrap_or_default();
        let Some((table, intended)) = QueueTable::read(&bytes, mark.generation, mark.committed) else {
            tracing::warn!(
                mark.generation,
                "the queue table is damaged; loading all queues from their files"
            );
            return Ok(None);
        };
        if table.file_bytes != self.state.config.queue_file_bytes {
            return Ok(None);
        }
        if let Some(topic) = self.unknown_batches()? {
            tracing::warn!(
                topic,
                "queues of batches are only RocketMQ's; loading all queues from their files"
            );
            return Ok(None);
        }
        let Some(newest) = self.newest_record(page)? else {
            tracing::warn!(
                claimed = page.logics_physical_offset,
                "the log does not hold what the checkpoint speaks of; loading all queues from their files"
            );
            return Ok(None);
        };
        Ok(Some(CheckedTable { table, intended, newest }))
    }

    /// Returns a topic with a RocketMQ directory of batch consume queues and no Vostok directory. Older Vostok
    /// versions had no batch consume queues.
    fn unknown_batches(&self) -> Result<Option<Box<str>>, OpenError> {
        let directories =
            [self.state.config.root.join(JAVA_DIR), self.state.queues.batched_directory.clone()];
        let [javas, ours] =
            directories.map(|directory| self.state.disk.list(&directory).map_err(OpenError::io(directory)));
        let (javas, ours) = (javas?, ours?);
        let has = |entries: &[DirEntry], topic: &str| entries.iter().any(|entry| entry.name == topic);
        let mut topics = self.state.queues.batched_topics().into_iter();
        Ok(topics.find(|topic| has(&javas, topic) && !has(&ours, topic)))
    }

    /// Takes over the tombstones of removed topics from a queue table that is otherwise not used.
    pub(super) fn keep_tombstones(&self) -> Result<(), OpenError> {
        let root = &self.state.config.root;
        let failed = || OpenError::io(table::directory(root));
        let Some(generation) = table::newest_generation(&*self.state.disk, root).map_err(failed())? else {
            return Ok(());
        };
        lock(&self.checkpointer.checkpoints.rounds).generation = generation;
        let bytes = table::load(&*self.state.disk, root, generation).map_err(failed())?.unwrap_or_default();
        let removed = QueueTable::read_whole(&bytes, generation).removed;
        removed.iter().for_each(|(topic, before)| self.state.queues.tombstones.insert(topic, *before));
        Ok(())
    }

    /// Returns the newest record that the checkpoint names, if the record is whole and ends at the checkpoint's
    /// position. All fields are zero for a store without messages. `None` if checkpoint and log do not match.
    fn newest_record(&self, page: &Checkpoint) -> Result<Option<NewestRecord>, OpenError> {
        let (Ok(claimed), Ok(at)) =
            (u64::try_from(page.logics_physical_offset), u64::try_from(page.newest_record()))
        else {
            return Ok(None);
        };
        if claimed == 0 {
            return Ok(Some(NewestRecord::default()));
        }
        if claimed > self.state.log.capacity_end() || claimed < self.state.log.min() {
            return Ok(None);
        }
        let Some(newest) = self.record_ending_by(at, claimed)? else { return Ok(None) };
        Ok(self.is_plausible_start(claimed)?.then_some(newest))
    }

    pub(super) fn record_ending_by(&self, at: u64, end: u64) -> Result<Option<NewestRecord>, OpenError> {
        let Some(segment) = self.state.log.segment_of(at) else { return Ok(None) };
        let path = segment.path.clone();
        let position = at - segment.base;
        let mut window = Window::new(segment, self.state.log.segment_bytes);
        let LogContent::Record(size) = find(&mut window, position).map_err(OpenError::io(&path))? else {
            return Ok(None);
        };
        let bytes = window.get(position, size).map_err(OpenError::io(&path))?;
        let view =
            RecordView::parse(bytes).map_err(|error| OpenError::io(&path)(std::io::Error::other(error)))?;
        let next = at + size as u64;
        // A blank record may follow, so that the next record begins in the next file.
        let is_next = next == end || end.is_multiple_of(self.state.log.segment_bytes) && next < end;
        Ok(is_next.then(|| NewestRecord { at, store_timestamp: view.store_timestamp() }))
    }

    /// Whether a record, a blank record, empty space or a file's end lies at this log position.
    pub(super) fn is_plausible_start(&self, at: u64) -> Result<bool, OpenError> {
        let Some(segment) = self.state.log.segment_of(at) else { return Ok(true) };
        let position = at - segment.base;
        if position + 8 > self.state.log.segment_bytes {
            return Ok(false);
        }
        let mut head = [0; 8];
        segment.file.read_at(&mut head, position).map_err(OpenError::io(&segment.path))?;
        let magic = peek(&head).map_or(0, |(_, magic)| magic);
        Ok(head == [0; 8]
            || [wire::record::MAGIC_V1, wire::record::MAGIC_V2, wire::record::MAGIC_BLANK].contains(&magic))
    }

    /// Creates the queues that the table lists.
    pub(super) fn insert_known(&self, known: &CheckedTable) {
        let CheckedTable { table, intended, .. } = known;
        for (topic, before) in table.removed.iter().chain(&intended.removed) {
            self.state.queues.tombstones.insert(topic, *before);
        }
        let file_units = self.state.config.queue_file_bytes / crate::queue::UNIT_BYTES;
        let mut dirty = Vec::new();
        for (topic, queues) in &intended.queues {
            for (queue_id, extent) in queues {
                let is_kept = !intended.removed.contains_key(topic);
                let held =
                    table.queues.get(topic).filter(|_| is_kept).and_then(|queues| queues.get(queue_id));
                // The first file of a new queue may begin with blank units.
                let from = held.map_or(extent.min / file_units * file_units, |held| held.max);
                if extent.max > from {
                    dirty.push((topic, *queue_id, from, extent.max));
                }
            }
        }
        // Topics that are being removed have lost a part of their files.
        let kept = table.queues.iter().filter(|(topic, _)| !intended.removed.contains_key(*topic));
        self.state.queues.insert_all(kept);
        let log_min = self.state.log.min();
        let is_shorter = log_min > table.log_min;
        for queue in self.state.queues.all().iter().filter(|_| is_shorter) {
            queue.expire(log_min);
        }
        self.lost.check_later(self.state.queues.all(), is_shorter);
        let mut rounds = lock(&self.checkpointer.checkpoints.rounds);
        rounds.removed = intended.removed.iter().map(|(topic, before)| (topic.clone(), *before)).collect();
        rounds.dirty.clear();
        for (topic, queue_id, from, until) in dirty {
            match self.state.queues.find_or_create(topic, queue_id) {
                Ok(queue) => rounds.dirty.push(InvalidUnits { queue, from, until }),
                Err(error) => tracing::error!(%error, "a row of the queue table is passed over"),
            }
        }
    }
}

/// Whether the crash mark (`abort`) belongs to this checkpoint, so that no other program opened the store since.
pub(crate) fn is_ours(disk: &dyn Disk, root: &Path, mark: Mark) -> std::io::Result<bool> {
    Ok(match read_openings(disk, &root.join("abort"))? {
        // No crash mark: the store is not open, and the checkpoint proves that Vostok closed it.
        None => !mark.running,
        // The mark is of the opening that wrote the checkpoint, or of the next one, which then wrote nothing but the mark.
        Some(number) => number == mark.openings || number == mark.openings + 1,
    })
}

/// Whether the last program that had the store open was Vostok and crashed.
pub(super) fn has_crashed(disk: &dyn Disk, root: &Path) -> std::io::Result<bool> {
    Ok(read_openings(disk, &root.join("abort"))?.is_some_and(|openings| openings > 0))
}

/// The opening number behind the process id in `abort`; `None` without that file, zero when another program wrote it.
fn read_openings(disk: &dyn Disk, path: &Path) -> std::io::Result<Option<u64>> {
    let file = match disk.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = vec![0; usize::try_from(file.length()?.min(64)).unwrap_or(0)];
    file.read_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text);
    Ok(Some(text.split(' ').nth(1).and_then(|number| number.trim().parse().ok()).unwrap_or(0)))
}

/// Content of `abort`: the process id as RocketMQ writes it, the number of this opening, and the mark of this program.
pub(super) fn crash_mark(openings: u64) -> String {
    format!("{} {openings}{}", std::process::id(), super::digests::MARK)
}
