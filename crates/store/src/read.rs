//! Reading records back. Each read says whether it had to wait for the disk: a network thread uses the ones
//! that answer [`Read::NotResident`] instead and hands those over to a pool of blocking readers.

use crate::error::ReadError;
use crate::queue::{Queue, Unit};
use crate::store::Shared;
use std::sync::atomic::Ordering;
use wire::record::{RecordView, peek_store_timestamp};
use wire::units::{LogOffset, QueueOffset};

/// How a read went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Read {
    /// Everything asked for is there.
    Done,
    /// Some of it is not in memory; nothing was delivered.
    NotResident,
}

/// Which message a search by time means (`BoundaryType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The first one stored at or after the time; the queue's max when there is none.
    Lower,
    /// The last one stored at or before the time; the queue's min when there is none.
    Upper,
}

/// Bytes of a record that tell its store time, whatever its hosts.
const HEAD_BYTES: usize = 76;

impl Shared {
    pub(crate) fn read(
        &self,
        from: LogOffset,
        length: usize,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read, ReadError> {
        let kept = out.len();
        let done = self.read_range(from, length, out, resident);
        if !matches!(done, Ok(Read::Done)) {
            out.truncate(kept);
        }
        done
    }

    fn read_range(
        &self,
        from: LogOffset,
        length: usize,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read, ReadError> {
        let range = || {
            let min = LogOffset::new(self.log.min());
            let appended = LogOffset::new(self.appended.load(Ordering::Acquire));
            ReadError::Range { from, length, min, appended }
        };
        let start = from.get();
        let end = start.checked_add(length as u64).ok_or_else(range)?;
        let segment = self.log.segment_of(start).ok_or_else(range)?;
        if end > self.appended.load(Ordering::Acquire) || end > segment.base + self.config.segment_bytes {
            return Err(range());
        }
        let at = out.len();
        out.resize(at + length, 0);
        if !resident {
            segment.file.read_at(&mut out[at..], start - segment.base)?;
            return Ok(Read::Done);
        }
        let done = segment.file.read_resident(&mut out[at..], start - segment.base)?;
        Ok(if done { Read::Done } else { Read::NotResident })
    }

    pub(crate) fn read_units(
        &self,
        units: &[Unit],
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read, ReadError> {
        if !resident {
            self.bring_in(units);
        }
        let kept = out.len();
        let mut next = 0;
        while let Some(first) = units.get(next) {
            next += 1;
            if first.is_blank() {
                continue;
            }
            // Records of one queue often lie side by side: one read for all of them.
            let mut length = first.size as usize;
            while let Some(unit) =
                units.get(next).filter(|unit| unit.log_offset == first.log_offset + length as u64)
            {
                length += unit.size as usize;
                next += 1;
            }
            let done = self.read_range(first.log_offset, length, out, resident);
            if !matches!(done, Ok(Read::Done)) {
                out.truncate(kept);
                return done;
            }
        }
        Ok(Read::Done)
    }

    pub(crate) fn record_at(
        &self,
        at: LogOffset,
        out: &mut Vec<u8>,
        resident: bool,
    ) -> Result<Read, ReadError> {
        let mut head = Vec::with_capacity(8);
        if self.read(at, 8, &mut head, resident)? == Read::NotResident {
            return Ok(Read::NotResident);
        }
        let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let refuse = |source| ReadError::Record { at, source };
        if size > self.config.record_bytes_max.max(1 << 26) {
            let found = i64::try_from(size).unwrap_or(i64::MAX);
            return Err(refuse(wire::record::RecordError::Length { size, field: "total", found }));
        }
        // The magic is judged before the size is trusted.
        if let Err(error) = RecordView::parse(&head)
            && !matches!(error, wire::record::RecordError::Truncated { .. })
        {
            return Err(refuse(error));
        }
        let kept = out.len();
        if self.read(at, size, out, resident)? == Read::NotResident {
            return Ok(Read::NotResident);
        }
        match RecordView::parse(&out[kept..]) {
            Ok(view) if view.log_offset() == Some(at) => Ok(Read::Done),
            Ok(_) => {
                out.truncate(kept);
                Err(refuse(wire::record::RecordError::Magic { found: 0 }))
            }
            Err(error) => {
                out.truncate(kept);
                Err(refuse(error))
            }
        }
    }

    /// Store time of the message at a queue offset; `None` when there is none any more.
    pub(crate) fn store_time(&self, queue: &Queue, offset: QueueOffset) -> Result<Option<i64>, ReadError> {
        let mut unit = Vec::with_capacity(1);
        queue.units_blocking(offset, 1, &mut unit)?;
        let Some(unit) = unit.first().filter(|unit| !unit.is_blank()) else { return Ok(None) };
        if unit.log_offset.get() < self.log.min() {
            return Ok(None);
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let _ = self.read(unit.log_offset, HEAD_BYTES, &mut head, false)?;
        Ok(peek_store_timestamp(&head))
    }

    pub(crate) fn offset_by_time(
        &self,
        queue: &Queue,
        time_ms: i64,
        boundary: Boundary,
    ) -> Result<QueueOffset, ReadError> {
        let (min, max) = (queue.min().get(), queue.max().get());
        let (mut low, mut high) = (min, max);
        // The first offset whose store time is at or after (upper: after) the time; expired messages count
        // as earlier.
        while low < high {
            let middle = low + (high - low) / 2;
            let before = match self.store_time(queue, QueueOffset::new(middle))? {
                None => true,
                Some(stored) if boundary == Boundary::Lower => stored < time_ms,
                Some(stored) => stored <= time_ms,
            };
            if before { low = middle + 1 } else { high = middle }
        }
        Ok(QueueOffset::new(match boundary {
            Boundary::Lower => low,
            Boundary::Upper => low.saturating_sub(1).max(min),
        }))
    }
}
