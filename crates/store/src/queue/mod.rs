//! Index of a queue: the records that are its messages, 20 bytes each (RocketMQ's `ConsumeQueue`).
//!
//! The newest units are in memory, the *tail*. Older units are only in the queue's files. Life cycle of a unit: It is
//! pushed under the appender's lock. A checkpoint writes it to its file. If checkpoints are far apart, it goes to the
//! unit journal before. It stays in the tail for another second, so that an up-to-date consumer never reads a file.
//! An idle queue needs a few hundred bytes and no open file.
//!
//! Files have a fixed size and are named by the position of their first byte. The unit of queue offset `n` is at byte
//! `20 * n`. A queue whose first message does not have offset 0 begins in the middle of a file. The places before it
//! hold *pre-blank* units (log offset 0, size `0x7fffffff`), which mean that the place has no message.

pub(crate) mod batched;
mod cut;
pub(crate) mod ext;
pub(crate) mod files;
mod fresh;
mod held;
pub(crate) mod journal;
mod lost;
mod open;
mod put;
pub(crate) mod registry;
pub(crate) mod removal;
pub(crate) mod table;
mod trim;
mod unit;

use crate::disk::Read;
use crate::error::{ReadError, Result, is_damage};
use crate::prefetch::fetch;
use crate::wake::lock;
use batched::export::Export;
pub(crate) use cut::QueueRemainder;
use files::QueueFiles;
use held::TailUnits;
use registry::Queues;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
pub(crate) use unit::Extent;
pub use unit::Unit;
use wire::units::{LogOffset, QueueOffset};

/// Size of a unit in a queue file, in bytes.
pub(crate) const UNIT_BYTES: u64 = 20;
/// Unwritten units from which a queue is worth a write to its own file.
pub(crate) const RIPE_UNITS: u64 = 256;

/// The newest units of a queue. Invariants: `first + units.len()` is the queue's maximum offset. Units below
/// `written` are in the files (and may be in `units` too). `first <= written`.
#[repr(C)]
struct Tail {
    first: u64,
    units: TailUnits,
    written: u64,
    /// Whether the queue is on the list of queues with units that are in no file.
    listed: bool,
    /// Whether the queue is on the list of queues with units that are not in the journal.
    fresh: bool,
    /// Whether the queue is on the list of queues that grew.
    grown: bool,
    /// Queue offset below which units are in the journal, or were in the files before the journal began.
    journaled: u64,
    /// Log position of the last record with a unit below `written`.
    last: u64,
    /// The extent of the files that the last checkpoint committed.
    committed: Extent,
    /// Range of queue offsets whose units in the files are lost and being rebuilt.
    lost: Option<(u64, u64)>,
    /// Queue offset up to which messages were returned by [`Queue::take_growth`].
    counted: u64,
}

impl Tail {
    /// Index of the first unit that is in no file.
    fn unwritten(&self) -> usize {
        usize::try_from(self.written - self.first).expect("written lies inside the tail")
    }

    fn forget_before(&mut self, limit: u64) {
        let count = limit.saturating_sub(self.first);
        self.units.drop_front(usize::try_from(count).expect("inside the tail"));
        self.first += count;
    }

    /// Number of units of records before log position `end`.
    fn units_before(&self, end: u64) -> usize {
        let count = self.units.len();
        // Few records lie behind `end`: those appended since it was read.
        count - self.units.range(0, count).rev().take_while(|unit| unit.log_offset.get() >= end).count()
    }
}

/// A queue. Handles are shared; only the appender and recovery add units.
///
/// Fields that an append accesses come first: with many queues each of these cache lines is read from main memory
/// (`crate::prefetch`).
#[repr(C)]
pub struct Queue {
    topic: Arc<str>,
    queue_id: i32,
    /// Hash of the topic, from which the hashes of the messages' keys continue.
    key_seed: i32,
    /// Progress of RocketMQ's files of a batch consume queue, once it is known.
    batches: Option<Box<Mutex<Option<Export>>>>,
    /// Queue offset that the next message gets; higher than `max` only during an append. Accessed only under the appender's
    /// lock.
    next: AtomicU64,
    max: AtomicU64,
    /// Memory address where the next unit will be stored, for prefetch.
    next_unit: AtomicUsize,
    is_schedule: bool,
    is_removed: AtomicBool,
    tail: Mutex<Tail>,
    min: AtomicU64,
    files: QueueFiles,
    /// Log position at or behind which the message at `min` lies; 0 when unknown. Accessed only by retention.
    first_at: AtomicU64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({}/{} {}..{})", self.topic, self.queue_id, self.min(), self.max())
    }
}

/// Whether the units of this topic hold delivery times instead of tag hashes.
pub(crate) fn is_schedule(topic: &str) -> bool {
    topic == wire::names::SCHEDULE_TOPIC
}

impl Queue {
    pub(crate) fn new(topic: &Arc<str>, queue_id: i32, files: QueueFiles, extent: Extent) -> Self {
        let Extent { min, max, last } = extent;
        let tail = Tail {
            first: max,
            units: TailUnits::new(),
            written: max,
            journaled: max,
            last,
            committed: extent,
            listed: false,
            fresh: false,
            grown: false,
            lost: None,
            counted: max,
        };
        Self {
            topic: topic.clone(),
            queue_id,
            key_seed: crate::keys::seed_of(topic.as_bytes()),
            batches: None,
            next: AtomicU64::new(max),
            max: AtomicU64::new(max),
            next_unit: AtomicUsize::new(0),
            is_schedule: is_schedule(topic),
            is_removed: AtomicBool::new(false),
            tail: Mutex::new(tail),
            min: AtomicU64::new(min),
            files,
            first_at: AtomicU64::new(0),
        }
    }

    /// Creates a batch consume queue.
    pub(crate) fn of_batches(topic: &Arc<str>, queue_id: i32, files: QueueFiles, extent: Extent) -> Self {
        Self { batches: Some(Box::default()), ..Self::new(topic, queue_id, files, extent) }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic's name, shared with the queue, for tables with an entry for each of many queues.
    pub fn shared_topic(&self) -> Arc<str> {
        self.topic.clone()
    }

    /// The queue id within the topic.
    pub fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// Whether this is a batch consume queue (`queue.type=BatchCQ`), in which one record may hold many messages. Their units
    /// are equal.
    pub fn is_batched(&self) -> bool {
        self.batches.is_some()
    }

    /// Returns the progress of RocketMQ's files of a batch consume queue, or `None` for other queues.
    pub(crate) fn exported(&self) -> Option<&Mutex<Option<Export>>> {
        self.batches.as_deref()
    }

    pub(crate) fn is_schedule(&self) -> bool {
        self.is_schedule
    }

    pub(crate) fn key_seed(&self) -> i32 {
        self.key_seed
    }

    /// Queue offset of the first message that is still in the log; equals [`Self::max`] when there is none.
    pub fn min(&self) -> QueueOffset {
        QueueOffset::new(self.min.load(Ordering::Acquire))
    }

    /// Queue offset that the next message will get.
    pub fn max(&self) -> QueueOffset {
        QueueOffset::new(self.max.load(Ordering::Acquire))
    }

    /// Appends up to `count` units from queue offset `from` on to `out`, fewer at the end of the queue. Units below
    /// [`Self::min`] may be blank or refer to deleted records.
    ///
    /// Returns [`Read::NotResident`] and leaves `out` unchanged if the disk would be needed.
    ///
    /// # Errors
    /// [`ReadError::Rebuilding`] while the healer rebuilds some of the units; [`ReadError::Io`] when a queue file cannot be
    /// read.
    pub fn units(&self, from: QueueOffset, count: usize, out: &mut Vec<Unit>) -> Result<Read> {
        self.collect(from, count, out, true)
    }

    /// Like [`Self::units`], but waits for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::units`].
    pub fn units_blocking(&self, from: QueueOffset, count: usize, out: &mut Vec<Unit>) -> Result<()> {
        self.collect(from, count, out, false).map(|_| ())
    }

    fn collect(&self, from: QueueOffset, count: usize, out: &mut Vec<Unit>, resident: bool) -> Result<Read> {
        let kept = out.len();
        if self.is_removed() {
            // A re-created topic of the same name may have files at the same paths.
            return Ok(Read::Done);
        }
        let mut next = from.get();
        let end = next.saturating_add(count as u64);
        loop {
            let tail = lock(&self.tail);
            let end = end.min(tail.first + tail.units.len() as u64);
            if next >= end {
                return Ok(Read::Done);
            }
            if next >= tail.first {
                let index = |offset: u64| usize::try_from(offset - tail.first).expect("inside the deque");
                out.extend(tail.units.range(index(next), index(end)));
                return Ok(Read::Done);
            }
            let file_end = end.min(tail.first);
            if let Some((from, until)) = tail.lost
                && next < until
                && from < file_end
            {
                out.truncate(kept);
                return Err(self.rebuilding());
            }
            drop(tail);
            let found = self.files.read(next, file_end, out, resident);
            match found {
                Ok(Read::Done) => next = file_end,
                Ok(Read::NotResident) => {
                    out.truncate(kept);
                    return Ok(Read::NotResident);
                }
                Err(error) => {
                    out.truncate(kept);
                    if next < self.min().get() || !is_damage(&error) {
                        return Err(error.into());
                    }
                    self.files.report(&self.topic, self.queue_id);
                    return Err(self.rebuilding());
                }
            }
        }
    }

    /// The first unit in a range that is not blank, and its queue offset. Waits for the disk. Blank units
    /// have no log position and no time, so a search by position or time goes by the unit behind them.
    ///
    /// # Errors
    /// Errors of [`Self::units`].
    pub fn next_message(&self, from: QueueOffset, end: QueueOffset) -> Result<Option<(QueueOffset, Unit)>> {
        // Most units are not blank; where one is, many may follow.
        const STEP_UNITS: usize = 4096;
        let mut units = Vec::with_capacity(1);
        let (mut next, mut step) = (from, 1);
        while next < end {
            units.clear();
            let left = usize::try_from(end.get() - next.get()).unwrap_or(usize::MAX);
            self.units_blocking(next, left.min(step), &mut units)?;
            if units.is_empty() {
                break;
            }
            if let Some(index) = units.iter().position(|unit| !unit.is_blank()) {
                return Ok(Some((next + index as u64, units[index])));
            }
            (next, step) = (next + units.len() as u64, STEP_UNITS);
        }
        Ok(None)
    }

    pub(crate) fn rebuilding(&self) -> ReadError {
        ReadError::Rebuilding { topic: self.topic.to_string(), queue_id: self.queue_id }
    }

    /// Queue offset that is assigned next. The caller holds the appender's lock.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Assigns the next `count` queue offsets and returns the first. The caller holds the appender's lock.
    pub(crate) fn take_next(&self, count: u16) -> QueueOffset {
        let next = self.next.load(Ordering::Relaxed);
        self.next.store(next + u64::from(count), Ordering::Relaxed);
        QueueOffset::new(next)
    }

    /// Prefetches the memory where the next unit will be stored.
    pub(crate) fn grows_soon(&self) {
        fetch(self.next_unit.load(Ordering::Relaxed), size_of::<Unit>());
    }

    /// Adds `count` equal units, one for each message of a record, at the queue offsets that were assigned first. The
    /// caller holds the appender's lock, or is recovery. Adds the queue to three lists: queues with
    /// unwritten units, queues with unjournaled units, and grown queues.
    pub(crate) fn push(self: &Arc<Self>, unit: Unit, count: u16, queues: &Queues) {
        let mut tail = lock(&self.tail);
        let max = tail.first + tail.units.len() as u64 + u64::from(count);
        // Under one lock, so that no reader sees a part of the record's messages.
        (0..count).for_each(|_| tail.units.push(unit));
        self.next_unit.store(tail.units.next_place(), Ordering::Relaxed);
        let waiting = max - tail.written;
        if waiting >= RIPE_UNITS && waiting - u64::from(count) < RIPE_UNITS {
            queues.ripe.fetch_add(1, Ordering::Relaxed);
        }
        if !tail.listed {
            tail.listed = true;
            lock(&queues.unwritten).push(self.clone());
        }
        if !tail.fresh {
            tail.fresh = true;
            lock(&queues.fresh).push(self.clone());
        }
        if !tail.grown {
            tail.grown = true;
            lock(&queues.grown).push(self.clone());
        }
        drop(tail);
        self.max.store(max, Ordering::Release);
    }

    /// Marks that the caller took the queue from the list of grown queues, so that the next append
    /// adds the queue again. Returns the number of messages since the last call.
    pub(crate) fn take_growth(&self) -> u64 {
        let mut tail = lock(&self.tail);
        tail.grown = false;
        let end = tail.first + tail.units.len() as u64;
        end - std::mem::replace(&mut tail.counted, end)
    }

    /// Sets the queue offset of the first message of an empty queue.
    pub(crate) fn start_at(&self, offset: u64) {
        let mut tail = lock(&self.tail);
        assert!(
            tail.units.is_empty() && tail.written == tail.first,
            "only an empty queue can start elsewhere"
        );
        tail.first = offset;
        tail.written = offset;
        tail.journaled = offset;
        tail.counted = offset;
        self.min.store(offset, Ordering::Release);
        self.max.store(offset, Ordering::Release);
        self.next.store(offset, Ordering::Relaxed);
    }

    /// The extent of the files once the units of records before log position `end` are written.
    pub(crate) fn plan(&self, end: u64) -> Extent {
        let tail = lock(&self.tail);
        let from = tail.unwritten();
        let count = tail.units_before(end).saturating_sub(from);
        let last = tail.units.range(from, from + count).rev().find(|unit| !unit.is_blank());
        Extent {
            min: self.min.load(Ordering::Acquire),
            max: tail.written + count as u64,
            last: last.map_or(tail.last, |unit| unit.log_offset.get()),
        }
    }

    /// Writes the unwritten units to the files as planned. Returns the number of written units, and adds the changed
    /// files and directories to `touched`. If units remain, the queue stays on the list.
    pub(crate) fn write_tail(
        self: &Arc<Self>,
        planned: Extent,
        unwritten: &Mutex<Vec<Arc<Self>>>,
        touched: &mut files::SyncList,
    ) -> std::io::Result<u64> {
        let tail = lock(&self.tail);
        let (from, skip) = (tail.written, tail.unwritten());
        let count = usize::try_from(planned.max - from).expect("planned from this tail");
        let units: Vec<Unit> = tail.units.range(skip, skip + count).collect();
        drop(tail);
        // Only this function changes `written`, and one thread at a time runs it.
        self.files.write(from, &units, planned.min, touched)?;
        let mut tail = lock(&self.tail);
        tail.written = planned.max;
        tail.last = planned.last;
        let is_done = tail.unwritten() == tail.units.len();
        drop(tail);
        if !is_done {
            self.relist(unwritten);
        }
        Ok(units.len() as u64)
    }

    /// Stores the extent that a checkpoint has committed.
    pub(crate) fn commit(&self, extent: Extent) {
        lock(&self.tail).committed = extent;
    }

    /// The extent that the last checkpoint committed.
    pub(crate) fn committed(&self) -> Extent {
        lock(&self.tail).committed
    }

    /// Wipes the units `from..until` and the rest of the file with the last unit.
    pub(crate) fn wipe(&self, from: u64, until: u64, touched: &mut files::SyncList) -> std::io::Result<()> {
        self.files.wipe(from, until, touched)
    }

    /// Marks that a checkpoint took the queue from the list of unwritten queues.
    pub(crate) fn unlist(&self) {
        lock(&self.tail).listed = false;
    }

    /// Adds the queue to the list of queues for the next checkpoint.
    pub(crate) fn relist(self: &Arc<Self>, unwritten: &Mutex<Vec<Arc<Self>>>) {
        let mut tail = lock(&self.tail);
        if !tail.listed {
            tail.listed = true;
            lock(unwritten).push(self.clone());
        }
    }

    /// Drops the units from memory that a checkpoint has committed to the files.
    pub(crate) fn trim_tail(&self) {
        let mut tail = lock(&self.tail);
        let limit = tail.committed.max.min(tail.written);
        tail.forget_before(limit);
    }

    /// Drops units from memory that are in the files, committed or not. Allowed only before the first journal write.
    pub(crate) fn trim_written(&self) {
        let mut tail = lock(&self.tail);
        let limit = tail.written;
        tail.forget_before(limit);
    }

    /// Raises the queue's minimum offset to the first message at or behind the log's start. If it changed, the caller
    /// [lists](Self::relist) the queue, so that the next checkpoint records it.
    pub(crate) fn correct_min(&self, log_min: LogOffset) -> Result<()> {
        let (mut low, mut high) = (self.min().get(), self.max().get());
        let mut first = high;
        // Almost always the first unit is the right one.
        let mut probe = low;
        while low < high {
            match self.next_message(QueueOffset::new(probe), QueueOffset::new(high))? {
                Some((at, unit)) if unit.log_offset < log_min => low = at.get() + 1,
                Some((at, _)) => (high, first) = (probe, at.get()),
                None => high = probe,
            }
            probe = low + (high - low) / 2;
        }
        self.min.fetch_max(first, Ordering::AcqRel);
        Ok(())
    }

    /// Makes the queue empty if its last message lies before the log's start, without reading its files.
    pub(crate) fn expire(&self, log_min: u64) {
        let tail = lock(&self.tail);
        if tail.units.is_empty() && tail.last < log_min {
            self.min.fetch_max(tail.written, Ordering::AcqRel);
        }
    }
}
