//! One queue's index: which records are its messages, 20 bytes each (spec: RocketMQ's `ConsumeQueue`).
//!
//! The newest units are in memory, the *tail*; older ones only in the queue's files. Life of a unit: pushed
//! under the appender's lock, written to its file by the next checkpoint, kept in the tail until the
//! checkpoint after that, so that a consumer who is up to date never reads a file. A queue without traffic
//! holds a few hundred bytes and no open file.
//!
//! Files have a fixed size and are named by their first byte's position; unit `n` lies at byte `20 * n`.
//! A queue whose first message is not number zero begins in the middle of a file; the places before it hold
//! *pre-blank* units (offset 0, size `0x7fffffff`) that mean "no message".

pub(crate) mod files;
pub(crate) mod registry;
mod trim;

use crate::error::ReadError;
use crate::read::Read;
use crate::wake::lock;
use files::QueueFiles;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use wire::units::{LogOffset, QueueOffset};

/// Bytes of a unit in a queue file.
pub(crate) const UNIT_BYTES: u64 = 20;
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

    /// Stands for a unit that cannot be one: its file is damaged. Leads nowhere.
    pub(crate) const DAMAGED: Self =
        Self { log_offset: LogOffset::new(i64::MAX.unsigned_abs()), size: 0, tags_code: 0 };

    /// Whether the unit itself is damaged, so that nothing is known of the message.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.size == 0
    }

    /// Whether there is no message at this place.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.size == PRE_BLANK_SIZE && self.log_offset == LogOffset::ZERO
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
struct Tail {
    first: u64,
    units: VecDeque<Unit>,
    written: u64,
    /// `written` as of the last checkpoint: below it nothing is kept at the next one.
    settled: u64,
    /// Whether the queue is on the list of those with unwritten units.
    listed: bool,
}

/// A queue. Handles are shared; only the appender and recovery add units.
pub struct Queue {
    topic: Box<str>,
    queue_id: i32,
    is_schedule: bool,
    min: AtomicU64,
    max: AtomicU64,
    /// Next offset to give out; ahead of `max` only while an append is under way. Touched only under the
    /// appender's lock.
    next: AtomicU64,
    tail: Mutex<Tail>,
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

/// What a queue's files held when it was loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Queue {
    pub(crate) fn new(topic: &str, queue_id: i32, files: QueueFiles, extent: Extent) -> Self {
        let Extent { min, max } = extent;
        let tail = Tail { first: max, units: VecDeque::new(), written: max, settled: max, listed: false };
        Self {
            topic: topic.into(),
            queue_id,
            is_schedule: topic == "SCHEDULE_TOPIC_XXXX",
            min: AtomicU64::new(min),
            max: AtomicU64::new(max),
            next: AtomicU64::new(max),
            tail: Mutex::new(tail),
            files,
            first_at: AtomicU64::new(0),
        }
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

    pub(crate) fn is_schedule(&self) -> bool {
        self.is_schedule
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
                out.extend(tail.units.range(index(next)..index(end)));
                return Ok(Read::Done);
            }
            let file_end = end.min(tail.first);
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
                    return Err(error.into());
                }
            }
        }
    }

    /// Gives out the next queue offset; the appender's lock is held.
    pub(crate) fn take_next(&self) -> QueueOffset {
        let next = self.next.load(Ordering::Relaxed);
        self.next.store(next + 1, Ordering::Relaxed);
        QueueOffset::new(next)
    }

    /// Adds the unit of the offset given out first and not yet used; the appender's or recovery's lock is held. Puts the queue on the list of those
    /// that wait for their files.
    pub(crate) fn push(self: &Arc<Self>, unit: Unit, unwritten: &Mutex<Vec<Arc<Self>>>) {
        let mut tail = lock(&self.tail);
        tail.units.push_back(unit);
        let max = tail.first + tail.units.len() as u64;
        if !tail.listed {
            tail.listed = true;
            lock(unwritten).push(self.clone());
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
        tail.settled = offset;
        self.min.store(offset, Ordering::Release);
        self.max.store(offset, Ordering::Release);
        self.next.store(offset, Ordering::Relaxed);
    }

    /// Writes the unwritten units to the files. Answers the number written and tells `touched` which files
    /// and directories have to become durable.
    pub(crate) fn write_tail(&self, touched: &mut files::Touched) -> std::io::Result<u64> {
        let mut tail = lock(&self.tail);
        let from = tail.written;
        let skip = usize::try_from(from - tail.first).expect("written lies inside the tail");
        let units: Vec<Unit> = tail.units.range(skip..).copied().collect();
        tail.listed = false;
        drop(tail);
        // Only this function moves `written`, and one thread at a time runs it.
        self.files.write(from, &units, touched)?;
        lock(&self.tail).written = from + units.len() as u64;
        Ok(units.len() as u64)
    }

    /// Puts the queue back on the list after [`Self::write_tail`] failed.
    pub(crate) fn relist(self: &Arc<Self>, unwritten: &Mutex<Vec<Arc<Self>>>) {
        let mut tail = lock(&self.tail);
        if !tail.listed {
            tail.listed = true;
            lock(unwritten).push(self.clone());
        }
    }

    /// Forgets the units that were in the files at the last call already; `all` forgets everything written.
    pub(crate) fn trim_tail(&self, all: bool) {
        let mut tail = lock(&self.tail);
        let limit = if all { tail.written } else { tail.settled };
        let count = usize::try_from(limit.saturating_sub(tail.first)).expect("inside the deque");
        tail.units.drain(..count);
        tail.first += count as u64;
        tail.settled = tail.written;
        if tail.units.is_empty() {
            tail.units = VecDeque::new();
        }
    }

    /// Moves the minimum to the first message at or behind the start of the log.
    pub(crate) fn correct_min(&self, log_min: LogOffset) -> Result<(), ReadError> {
        let (mut low, mut high) = (self.min().get(), self.max().get());
        let mut unit = Vec::with_capacity(1);
        // The first unit is right almost always.
        let mut probe = low;
        while low < high {
            unit.clear();
            self.units_blocking(QueueOffset::new(probe), 1, &mut unit)?;
            if unit.first().is_some_and(|unit| unit.is_blank() || unit.log_offset < log_min) {
                low = probe + 1;
            } else {
                high = probe;
            }
            probe = low + (high - low) / 2;
        }
        self.min.fetch_max(low, Ordering::AcqRel);
        Ok(())
    }
}
