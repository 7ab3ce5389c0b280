//! Reads records. Every read can be restricted to memory. Network threads use restricted reads, and pass reads with
//! the result [`Read::NotResident`] to a pool of blocking readers.

mod check;

pub use check::CqUnit;
pub(crate) use check::{DamagedRecords, leads_to_it};

use crate::disk::Read;
use crate::error::{Damage, ReadError, Result};
use crate::heal_list::LostQueues;
use crate::planted::{self, Bug};
use crate::queue::{Queue, Unit};
use crate::read_ahead::ReadAhead;
use crate::state::State;
use crate::wake::lock;
use std::ops::Range;
use std::sync::atomic::Ordering;
use wire::record::{RecordError, RecordView, peek_store_timestamp};
use wire::units::{LogOffset, QueueOffset};

/// Which message a search by store time returns (`BoundaryType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The first message stored at or after the time; the queue's maximum offset when there is none.
    Lower,
    /// The last message stored at or before the time; the queue's minimum offset when there is none.
    Upper,
}

/// Text of the damage report for a message whose commit log file was deleted after its unit was read.
const GONE: &str = "the log file was deleted";

/// The reader and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) state: &'a State,
    pub(crate) ahead: &'a ReadAhead,
    pub(crate) damaged: &'a DamagedRecords,
    pub(crate) lost: &'a LostQueues,
}

/// State of a read of several messages.
struct ReadState<'a> {
    queue: Option<&'a Queue>,
    damaged: Vec<Damage>,
    /// Whether a unit was wrong and is being rebuilt.
    is_rebuilding: bool,
}

impl Reader<'_> {
    pub(crate) fn read(
        &self,
        from: LogOffset,
        length: usize,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read> {
        let kept = out.len();
        let done = self.read_range(from, length, out, resident);
        if !matches!(done, Ok(Read::Done)) {
            out.truncate(kept);
        }
        done
    }

    fn read_range(&self, from: LogOffset, length: usize, out: &mut Vec<u8>, resident: bool) -> Result<Read> {
        let range = || {
            let min = LogOffset::new(self.state.log.min());
            let appended = LogOffset::new(self.state.appended.get());
            ReadError::Range { from, length, min, appended }
        };
        let start = from.get();
        let end = start.checked_add(length as u64).ok_or_else(range)?;
        let segment = self.state.log.segment_of(start).ok_or_else(range)?;
        if end > self.state.appended.get() || end > segment.base + self.state.config.segment_bytes {
            return Err(range());
        }
        let truncations = self.state.truncations.load(Ordering::SeqCst);
        let at = out.len();
        out.resize(at + length, 0);
        if !segment.file.read_resident(&mut out[at..], start - segment.base)? {
            // Some pages left memory, so they and those around them will be read from the disk.
            self.ahead.came_from_disk(self.state.appended.get());
            if resident {
                return Ok(Read::NotResident);
            }
            segment.file.read_at(&mut out[at..], start - segment.base)?;
        }
        if self.state.truncations.load(Ordering::SeqCst) != truncations {
            // The bytes may have been wiped while they were read.
            return Err(range());
        }
        if planted::is(Bug::ServeDamaged) && length > 100 && start % 1024 < 16 {
            out[at + 100] ^= 1;
        }
        Ok(Read::Done)
    }

    /// Returns how many of `length` bytes from a log position on a master sends in one piece: bytes within the same
    /// file.
    pub(crate) fn sendable(&self, from: LogOffset, length: usize) -> usize {
        let left = self.state.appended.get().saturating_sub(from.get());
        let left = left.min(self.state.config.segment_bytes - from.get() % self.state.config.segment_bytes);
        length.min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Like [`Self::read`], for a piece of the log that a slave gets ([`Self::sendable`]). As far as the log is not flushed, bytes
    /// that may come from the disk are from checked records. Pages whose write failed are read again as zeros, also before the
    /// next flush fails and the fence goes up. A slave checks the body alone.
    pub(crate) fn read_for_slave(
        &self,
        from: LogOffset,
        length: usize,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read> {
        let (end, flushed) = (from + length as u64, LogOffset::new(self.state.flushed.get()));
        if end <= flushed {
            return self.read(from, length, out, resident);
        }
        let kept = out.len();
        if resident && !self.is_doubtful(from) {
            let read = self.read(from, length, out, resident);
            // The fence may have gone up during the read.
            if !matches!(read, Ok(Read::Done)) || !self.is_doubtful(from) {
                return read;
            }
            out.truncate(kept);
        }
        let read = self.read_checked(from..end, flushed, out, resident);
        if !matches!(read, Ok(Read::Done)) {
            out.truncate(kept);
        }
        read
    }

    /// Reads a range within a file, and checks the records that begin at or behind `flushed`.
    fn read_checked(
        &self,
        Range { start: from, end }: Range<LogOffset>,
        flushed: LogOffset,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read> {
        let segment_bytes = self.state.config.segment_bytes;
        let base = from.get() - from.get() % segment_bytes;
        let first = flushed.max(LogOffset::new(base));
        let (truncations, mut record) = (self.state.truncations.load(Ordering::SeqCst), Vec::new());
        let (known_in, mut at) = *lock(&self.damaged.boundary);
        if known_in != truncations || !(first..=from).contains(&at) {
            at = first;
        }
        if from < at && self.read(from, at.since(from) as usize, out, resident)? == Read::NotResident {
            return Ok(Read::NotResident);
        }
        while at < end {
            *lock(&self.damaged.boundary) = (truncations, at);
            record.clear();
            let read = match self.record_at(at, &mut record, resident) {
                Err(ReadError::Record { source: RecordError::Blank { .. }, .. }) => {
                    let left = base + segment_bytes - at.get();
                    self.read(at, self.sendable(at, left as usize), &mut record, resident)
                }
                read => read,
            };
            if read? == Read::NotResident {
                return Ok(Read::NotResident);
            }
            let (skipped, wanted) = (from.get().saturating_sub(at.get()), end.since(at));
            let wanted = record.len().min(wanted as usize);
            out.extend_from_slice(&record[(skipped as usize).min(wanted)..wanted]);
            at = at + record.len() as u64;
        }
        Ok(Read::Done)
    }

    pub(crate) fn read_units(&self, units: &[Unit], out: &mut Vec<u8>, resident: bool) -> Result<Read> {
        if !resident {
            self.ahead.bring_in(self.state, units.iter());
        }
        let numbered =
            |index: usize| units.get(index).map(|&unit| CqUnit { offset: QueueOffset::ZERO, unit });
        self.read_each(None, numbered, out, resident)
    }

    pub(crate) fn read_messages(
        &self,
        queue: &Queue,
        messages: &[CqUnit],
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read> {
        if !resident {
            self.ahead.bring_in(self.state, messages.iter().map(|message| &message.unit));
        }
        self.read_each(Some(queue), |index| messages.get(index).copied(), out, resident)
    }

    /// Reads the records of messages, and checks records that may come from the disk. Reports all damaged records at
    /// once and then delivers no record.
    fn read_each(
        &self,
        queue: Option<&Queue>,
        message: impl Fn(usize) -> Option<CqUnit>,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read> {
        let kept = out.len();
        let mut reading = ReadState { queue, damaged: Vec::new(), is_rebuilding: false };
        let mut next = 0;
        while let Some(first) = message(next) {
            let index = next;
            next += 1;
            if first.unit.is_blank() {
                continue;
            }
            // Records of one queue are often adjacent: read them at once.
            let mut length = first.unit.size as usize;
            while let Some(beside) = message(next)
                && beside.unit.log_offset == first.unit.log_offset + length as u64
            {
                length += beside.unit.size as usize;
                next += 1;
            }
            let at = out.len();
            let mut done = self.read_range(first.unit.log_offset, length, out, resident);
            if matches!(done, Err(ReadError::Range { .. })) {
                // A unit is wrong, or its log file was deleted: read one record at a time to find out which.
                next = index + 1;
                out.truncate(at);
                done = self.read_one(&mut reading, index, first, out, resident);
            }
            match done {
                Ok(Read::Done) => {}
                stopped => {
                    out.truncate(kept);
                    return stopped;
                }
            }
            if out.len() > at && (!resident || self.is_doubtful(first.unit.log_offset)) {
                let run = (index..next).filter_map(|index| Some((index, message(index)?)));
                self.check_run(&mut reading, run, &out[at..]);
            }
        }
        if let Some(queue) = queue.filter(|_| reading.is_rebuilding) {
            out.truncate(kept);
            return Err(queue.rebuilding());
        }
        if reading.damaged.is_empty() {
            return Ok(Read::Done);
        }
        out.truncate(kept);
        Err(ReadError::Damaged(reading.damaged))
    }

    /// Whether a record in memory may differ from the record that was written. The record may come from the disk. Behind the
    /// fence, the kernel may have dropped its pages and read them again as zeros.
    fn is_doubtful(&self, at: LogOffset) -> bool {
        self.ahead.is_from_disk(at) || self.state.fence.is_up()
    }

    /// Reads a record whose range the log rejected. A deleted range is an ordinary error. A range that never existed
    /// proves that the unit is damaged.
    fn read_one(
        &self,
        reading: &mut ReadState<'_>,
        index: usize,
        message: CqUnit,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read> {
        let CqUnit { offset, unit } = message;
        match self.read_range(unit.log_offset, unit.size as usize, out, resident) {
            Err(ReadError::Range { from, min, .. })
                if from < min && reading.queue.is_some_and(|queue| offset < queue.min()) =>
            {
                reading.damaged.push(Damage { index, at: unit.log_offset, what: GONE.to_owned() });
                Ok(Read::Done)
            }
            Err(error @ ReadError::Range { .. }) => {
                // Without the queue it is unknown whether the unit or the caller is wrong.
                let Some(queue) = reading.queue else { return Err(error) };
                let damage = Damage { index, at: unit.log_offset, what: error.to_string() };
                if self.lose_unit(queue, message) {
                    reading.is_rebuilding = true;
                    return Ok(Read::Done);
                }
                self.log_damage(queue, offset, &damage);
                reading.damaged.push(damage);
                Ok(Read::Done)
            }
            done => done,
        }
    }

    /// Checks adjacent records and collects the damaged records.
    fn check_run(
        &self,
        reading: &mut ReadState<'_>,
        run: impl Iterator<Item = (usize, CqUnit)>,
        mut bytes: &[u8],
    ) {
        for (index, message) in run {
            let (at, size) = (message.unit.log_offset, message.unit.size as usize);
            let (record, rest) = bytes.split_at(size);
            bytes = rest;
            let checked = match reading.queue {
                Some(queue) => self.check_message(queue, message, record),
                None => self.check_record(record, at).map(drop),
            };
            let Err(what) = checked else { continue };
            let damage = Damage { index, at, what };
            match reading.queue {
                Some(queue) if !leads_to_it(queue, message, record) && self.lose_unit(queue, message) => {
                    reading.is_rebuilding = true;
                    continue;
                }
                Some(queue) => self.log_damage(queue, message.offset, &damage),
                None => self.log_damaged_record(&damage),
            }
            reading.damaged.push(damage);
        }
    }

    pub(crate) fn record_at(&self, at: LogOffset, out: &mut Vec<u8>, resident: bool) -> Result<Read> {
        let mut head = Vec::with_capacity(8);
        if self.read(at, 8, &mut head, resident)? == Read::NotResident {
            return Ok(Read::NotResident);
        }
        let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let refuse = |source| ReadError::Record { at, source };
        if size > self.state.config.record_bytes_max.max(1 << 26) {
            let found = i64::try_from(size).unwrap_or(i64::MAX);
            return Err(refuse(RecordError::Length { size, field: "total", found }));
        }
        // Check the magic before the size is trusted.
        if let Err(error) = RecordView::parse(&head)
            && !matches!(error, RecordError::Truncated { .. })
        {
            return Err(refuse(error));
        }
        let kept = out.len();
        if self.read(at, size, out, resident)? == Read::NotResident {
            return Ok(Read::NotResident);
        }
        let checked = self.check_record(&out[kept..], at).map(drop);
        if let Err(what) = checked {
            out.truncate(kept);
            let damage = Damage { index: 0, at, what };
            self.log_damaged_record(&damage);
            return Err(ReadError::Damaged(vec![damage]));
        }
        Ok(Read::Done)
    }

    /// Returns the store time in ms of the message at a queue offset, or `None` if the message was deleted or is
    /// damaged.
    pub(crate) fn store_time(&self, queue: &Queue, offset: QueueOffset) -> Result<Option<i64>> {
        Ok(self.next_stored(queue, offset, offset + 1)?.and_then(|(_, stored)| stored))
    }

    pub(crate) fn offset_by_time(
        &self,
        queue: &Queue,
        time_ms: i64,
        boundary: Boundary,
    ) -> Result<QueueOffset> {
        let (min, max) = (queue.min().get(), queue.max().get());
        let (mut low, mut high) = (min, max);
        // Find the first message stored at or after the time (`after`: later than it); expired messages count as earlier.
        let mut first = max;
        while low < high {
            let middle = low + (high - low) / 2;
            let next = self.next_stored(queue, QueueOffset::new(middle), QueueOffset::new(high))?;
            let Some((at, stored)) = next else {
                high = middle;
                continue;
            };
            let before = match stored {
                None => true,
                Some(stored) if boundary == Boundary::Lower => stored < time_ms,
                Some(stored) => stored <= time_ms,
            };
            if before { low = at.get() + 1 } else { (high, first) = (middle, at.get()) }
        }
        let found = match boundary {
            Boundary::Lower => first,
            Boundary::Upper => low.saturating_sub(1).max(min),
        };
        if queue.is_batched() && min < max {
            // As `BatchConsumeQueue.getOffsetInQueueByTime`: the first message of the record found; of the last record when
            // none is later.
            let last = self.store_time(queue, QueueOffset::new(max - 1))?;
            let is_last = last.is_some_and(|stored| stored <= time_ms);
            return self.first_of_record(queue, min, if is_last { max - 1 } else { found.min(max - 1) });
        }
        Ok(QueueOffset::new(found))
    }

    /// The first message in a range with a trustworthy store time, and that time; `None` as the time of an
    /// expired message. Damaged messages are skipped like blank units, because a wrong time would mislead the
    /// search.
    fn next_stored(
        &self,
        queue: &Queue,
        mut from: QueueOffset,
        end: QueueOffset,
    ) -> Result<Option<(QueueOffset, Option<i64>)>> {
        let mut record = Vec::new();
        while let Some((at, unit)) = queue.next_message(from, end)? {
            record.clear();
            let read = self.record_at(unit.log_offset, &mut record, false);
            if unit.log_offset.get() < self.state.log.min() {
                return Ok(Some((at, None)));
            }
            match read {
                // A whole record has a store time.
                Ok(_) => return Ok(Some((at, peek_store_timestamp(&record)))),
                // A wrong size or unit refers to a range outside of the log.
                Err(ReadError::Range { .. } | ReadError::Record { .. } | ReadError::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
            from = at + 1;
        }
        Ok(None)
    }

    /// Queue offset of the first message in the record that holds `message`, not below `min`.
    fn first_of_record(&self, queue: &Queue, min: u64, message: u64) -> Result<QueueOffset> {
        let position = |number| {
            let mut unit = Vec::with_capacity(1);
            queue.units_blocking(QueueOffset::new(number), 1, &mut unit)?;
            Ok::<_, ReadError>(unit.first().map_or(LogOffset::ZERO, |unit| unit.log_offset))
        };
        let record = position(message)?;
        let (mut low, mut high) = (min, message);
        while low < high {
            let middle = low + (high - low) / 2;
            if position(middle)? < record { low = middle + 1 } else { high = middle }
        }
        Ok(QueueOffset::new(low))
    }
}
