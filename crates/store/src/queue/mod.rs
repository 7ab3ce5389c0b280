//! One queue's index: which records are its messages, 20 bytes each (spec: RocketMQ's `ConsumeQueue`).
//!
//! The newest units are in memory, the *tail*; older ones only in the queue's files. Life of a unit: pushed
//! under the appender's lock, written to its file by a checkpoint (to the journal before, when checkpoints are far apart),
//! kept in the tail for a second more, so that a consumer who is up to date never reads a file. A queue without traffic
//! holds a few hundred bytes and no open file.
//!
//! Files have a fixed size and are named by their first byte's position; unit `n` lies at byte `20 * n`.
//! A queue whose first message is not number zero begins in the middle of a file; the places before it hold
//! *pre-blank* units (offset 0, size `0x7fffffff`) that mean "no message".

pub(crate) mod batched;
pub(crate) mod ext;
pub(crate) mod files;
mod fresh;
mod held;
pub(crate) mod journal;
mod lost;
pub(crate) mod registry;
pub(crate) mod removal;
pub(crate) mod table;
mod trim;

use crate::error::ReadError;
use crate::read::Read;
use crate::recover::is_damage;
use crate::soon::fetch;
use crate::wake::lock;
use batched::export::Export;
use files::QueueFiles;
use held::Held;
use registry::Queues;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wire::units::{LogOffset, QueueOffset};

/// Bytes of a unit in a queue file.
pub(crate) const UNIT_BYTES: u64 = 20;
/// With so many units a queue is worth a write of its own.
pub(crate) const RIPE_UNITS: u64 = 256;
/// Size field of a pre-blank unit.
const PRE_BLANK_SIZE: u32 = 0x7fff_ffff;

/// One message of a queue: where its record lies and what it can be filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Position of the record in the commit log.
    pub log_offset: LogOffset,
    /// Size of the record in bytes.
    pub size: u32,
    /// Hash of the tag, sign-extended; the delivery time in `SCHEDULE_TOPIC_XXXX`.
    pub tags_code: i64,
}

impl Unit {
    /// Fills the place of a message that does not exist.
    pub(crate) const PRE_BLANK: Self =
        Self { log_offset: LogOffset::ZERO, size: PRE_BLANK_SIZE, tags_code: 0 };

    /// Whether there is no message at this place.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.size == PRE_BLANK_SIZE && self.log_offset == LogOffset::ZERO
    }

    /// False when the tags code is not known: a RocketMQ broker with `enableConsumeQueueExt` put the address of an entry of
    /// `consumequeue_ext` in its place (`ConsumeQueueExt.isExtAddr`), and that is not there.
    #[must_use]
    pub fn has_tags_code(&self) -> bool {
        self.tags_code >= -(1 << 31)
    }

    /// End of the record in the commit log.
    #[must_use]
    pub fn end(&self) -> LogOffset {
        self.log_offset + u64::from(self.size)
    }

    pub(crate) fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.log_offset.get().to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    /// Reads a unit; `None` where none was written (`offset >= 0 && size > 0` in Java).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let offset = i64::from_be_bytes(bytes[..8].try_into().expect("eight bytes sliced"));
        let size = i32::from_be_bytes(bytes[8..12].try_into().expect("four bytes sliced"));
        let tags_code = i64::from_be_bytes(bytes[12..20].try_into().expect("eight bytes sliced"));
        let log_offset = LogOffset::from_i64(offset)?;
        (size > 0).then_some(Self { log_offset, size: size.unsigned_abs(), tags_code })
    }
}

/// The newest units. Invariants: `first + units.len()` is the queue's max; units below `written` are in the
/// files (they may be in `units` as well); `first <= written`.
#[repr(C)]
struct Tail {
    first: u64,
    units: Held,
    written: u64,
    /// Whether the queue is on the list of those with unwritten units.
    listed: bool,
    /// Whether it is on the list of those with units that are not in the journal.
    fresh: bool,
    /// Units below are in the journal, or were in the files before it began.
    journaled: u64,
    /// Position of the record of the last unit below `written`.
    last: u64,
    /// What the checkpoint page speaks of.
    committed: Extent,
    /// Offsets whose units in the files are lost and being written again.
    lost: Option<(u64, u64)>,
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

    /// How many units are those of records before `end` of the log.
    fn units_before(&self, end: u64) -> usize {
        let count = self.units.len();
        // Records behind the end are those that were appended since it was read: few.
        count - self.units.range(0, count).rev().take_while(|unit| unit.log_offset.get() >= end).count()
    }
}

/// A queue. Handles are shared; only the appender and recovery add units.
///
/// What an append touches comes first: with many queues every line of it comes from far away (`crate::soon`).
#[repr(C)]
pub struct Queue {
    topic: Arc<str>,
    queue_id: i32,
    /// What the hashes of its messages' keys begin with.
    key_seed: i32,
    /// Of a queue of batches: how far RocketMQ's files of it go, once that is known.
    batches: Option<Box<Mutex<Option<Export>>>>,
    /// Next offset to give out; ahead of `max` only while an append is under way. Touched only under the
    /// appender's lock.
    next: AtomicU64,
    max: AtomicU64,
    /// Where in memory the next unit will lie, as far as is known.
    next_unit: AtomicUsize,
    is_schedule: bool,
    is_removed: AtomicBool,
    tail: Mutex<Tail>,
    min: AtomicU64,
    files: QueueFiles,
    /// The message at `min` lies at or behind this position of the log; 0 when that is not known. Touched only by
    /// retention.
    first_at: AtomicU64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({}/{} {}..{})", self.topic, self.queue_id, self.min(), self.max())
    }
}

/// Whether the units of a topic's queues hold delivery times.
pub(crate) fn is_schedule(topic: &str) -> bool {
    topic == "SCHEDULE_TOPIC_XXXX"
}

/// What a queue's files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Position of the last unit's record, or [`Self::NONE`].
    pub(crate) last: u64,
}

impl Extent {
    pub(crate) const NONE: u64 = u64::MAX;

    /// Whether a message at a position of the log lies before the minimum. A message behind all there were is of a later
    /// topic of this name.
    pub(crate) fn is_past(&self, at: u64, number: u64) -> bool {
        number < self.min && at <= self.last
    }
}

impl Default for Extent {
    fn default() -> Self {
        Self { min: 0, max: 0, last: Self::NONE }
    }
}

impl Queue {
    pub(crate) fn new(topic: &Arc<str>, queue_id: i32, files: QueueFiles, extent: Extent) -> Self {
        let Extent { min, max, last } = extent;
        let tail = Tail {
            first: max,
            units: Held::new(),
            written: max,
            journaled: max,
            last,
            committed: extent,
            listed: false,
            fresh: false,
            lost: None,
        };
        Self {
            topic: topic.clone(),
            queue_id,
            key_seed: crate::index::seed_of(topic.as_bytes()),
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

    /// The same for a queue of batches.
    pub(crate) fn of_batches(topic: &Arc<str>, queue_id: i32, files: QueueFiles, extent: Extent) -> Self {
        Self { batches: Some(Box::default()), ..Self::new(topic, queue_id, files, extent) }
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The queue's number in its topic.
    #[must_use]
    pub fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// Whether one record may be many messages of it (`queue.type=BatchCQ`). Their units are alike.
    #[must_use]
    pub fn is_batched(&self) -> bool {
        self.batches.is_some()
    }

    pub(crate) fn is_schedule(&self) -> bool {
        self.is_schedule
    }

    pub(crate) fn key_seed(&self) -> i32 {
        self.key_seed
    }

    /// Offset of the first message that is still in the log; equals [`Self::max`] when there is none.
    #[must_use]
    pub fn min(&self) -> QueueOffset {
        QueueOffset::new(self.min.load(Ordering::Acquire))
    }

    /// Offset the next message will get.
    #[must_use]
    pub fn max(&self) -> QueueOffset {
        QueueOffset::new(self.max.load(Ordering::Acquire))
    }

    /// Appends up to `count` units from offset `from` on to `out`, fewer at the end of the queue. From below
    /// [`Self::min`] on it may give units whose records are gone, and blank ones.
    ///
    /// Answers [`Read::NotResident`] when that would need the disk; `out` is then as it was.
    ///
    /// # Errors
    /// When a queue file cannot be read.
    pub fn units(&self, from: QueueOffset, count: usize, out: &mut Vec<Unit>) -> Result<Read, ReadError> {
        self.collect(from, count, out, true)
    }

    /// [`Self::units`] that waits for the disk.
    ///
    /// # Errors
    /// When a queue file cannot be read.
    pub fn units_blocking(
        &self,
        from: QueueOffset,
        count: usize,
        out: &mut Vec<Unit>,
    ) -> Result<(), ReadError> {
        self.collect(from, count, out, false).map(|_| ())
    }

    fn collect(
        &self,
        from: QueueOffset,
        count: usize,
        out: &mut Vec<Unit>,
        resident: bool,
    ) -> Result<Read, ReadError> {
        let kept = out.len();
        if self.is_removed() {
            // A new topic of this name may have files where ours were.
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

    /// The first place in a range that is not blank, and its unit. Waits for the disk. Blank places tell nothing about where
    /// in the log they would lie: whoever searches a queue by position or time goes by what comes behind them.
    ///
    /// # Errors
    /// When a queue file cannot be read.
    pub fn next_message(
        &self,
        from: QueueOffset,
        end: QueueOffset,
    ) -> Result<Option<(QueueOffset, Unit)>, ReadError> {
        // Most places are not blank; where one is, there may be many.
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

    /// The offset that is given out next; the appender's lock is held.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Gives out the next queue offsets and answers the first; the appender's lock is held.
    pub(crate) fn take_next(&self, count: u16) -> QueueOffset {
        let next = self.next.load(Ordering::Relaxed);
        self.next.store(next + u64::from(count), Ordering::Relaxed);
        QueueOffset::new(next)
    }

    /// Says that a unit is added soon.
    pub(crate) fn grows_soon(&self) {
        fetch(self.next_unit.load(Ordering::Relaxed), size_of::<Unit>());
    }

    /// Adds the unit of the offset given out first and not yet used, and of as many as its record is messages; the
    /// appender's or recovery's lock is held. Puts the queue on the list of those that wait for their files.
    pub(crate) fn push(self: &Arc<Self>, unit: Unit, count: u16, queues: &Queues) {
        let mut tail = lock(&self.tail);
        let max = tail.first + tail.units.len() as u64 + u64::from(count);
        // All at once: nobody sees a part of a record.
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
        drop(tail);
        self.max.store(max, Ordering::Release);
    }

    /// Makes the first message of an empty queue this number.
    pub(crate) fn start_at(&self, offset: u64) {
        let mut tail = lock(&self.tail);
        assert!(
            tail.units.is_empty() && tail.written == tail.first,
            "only an empty queue can start elsewhere"
        );
        tail.first = offset;
        tail.written = offset;
        tail.journaled = offset;
        self.min.store(offset, Ordering::Release);
        self.max.store(offset, Ordering::Release);
        self.next.store(offset, Ordering::Relaxed);
    }

    /// What the files will hold once the units of records before `end` are written.
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

    /// Writes the unwritten units to the files as planned. Answers the number written and tells `touched` which
    /// files and directories have to become durable. The queue stays on the list when units are left.
    pub(crate) fn write_tail(
        self: &Arc<Self>,
        planned: Extent,
        unwritten: &Mutex<Vec<Arc<Self>>>,
        touched: &mut files::Touched,
    ) -> std::io::Result<u64> {
        let mut tail = lock(&self.tail);
        let (from, skip) = (tail.written, tail.unwritten());
        let count = usize::try_from(planned.max - from).expect("planned from this tail");
        let units: Vec<Unit> = tail.units.range(skip, skip + count).collect();
        tail.listed = false;
        drop(tail);
        // Only this function moves `written`, and one thread at a time runs it.
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

    /// The checkpoint page now speaks of this.
    pub(crate) fn commit(&self, extent: Extent) {
        lock(&self.tail).committed = extent;
    }

    /// What the checkpoint page speaks of.
    pub(crate) fn committed(&self) -> Extent {
        lock(&self.tail).committed
    }

    /// Wipes units from offset `from` on up to `until`, and the rest of its file.
    pub(crate) fn wipe(&self, from: u64, until: u64, touched: &mut files::Touched) -> std::io::Result<()> {
        self.files.wipe(from, until, touched)
    }

    /// Puts the queue on the list of those the next checkpoint looks at.
    pub(crate) fn relist(self: &Arc<Self>, unwritten: &Mutex<Vec<Arc<Self>>>) {
        let mut tail = lock(&self.tail);
        if !tail.listed {
            tail.listed = true;
            lock(unwritten).push(self.clone());
        }
    }

    /// Forgets the units in the files that the checkpoint page speaks of.
    pub(crate) fn trim_tail(&self) {
        let mut tail = lock(&self.tail);
        let limit = tail.committed.max.min(tail.written);
        tail.forget_before(limit);
    }

    /// Forgets the units in the files, whatever the page speaks of: only before anything is journaled.
    pub(crate) fn trim_written(&self) {
        let mut tail = lock(&self.tail);
        let limit = tail.written;
        tail.forget_before(limit);
    }

    /// Moves the minimum to the first message at or behind the start of the log. The caller has the queue
    /// [listed](Self::relist) when it moved, so that the next checkpoint takes note.
    pub(crate) fn correct_min(&self, log_min: LogOffset) -> Result<(), ReadError> {
        let (mut low, mut high) = (self.min().get(), self.max().get());
        let mut first = high;
        // The first unit is right almost always.
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

    /// Makes the queue empty if its last message was before the start of the log, without a look at the files.
    pub(crate) fn expire(&self, log_min: u64) {
        let tail = lock(&self.tail);
        if tail.units.is_empty() && tail.last < log_min {
            self.min.fetch_max(tail.written, Ordering::AcqRel);
        }
    }
}
