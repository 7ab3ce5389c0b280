//! Reserves the queue offsets of messages that damage destroyed. A queue offset belongs to one message for ever, even
//! a lost message. If a later message of the queue follows, the lost message's offset gets a blank unit. Otherwise
//! this module reserves the offset.
//!
//! A record that differs from its digest counts as damage here too. The remains of a damaged record mostly still hold
//! its queue and queue offset. If they do not, or if `vostok store repair` replaced them by filler records, every
//! queue without a later message may have lost messages there. Each such queue gets as many reserved offsets as
//! unaccounted messages fit into the damage. The unit of a reserved offset leads to the place of the lost message,
//! like the units of lost queues, so that readers report it missing and continue.

use super::Recovery;
use super::redispatch::Jump;
use super::scan::{Gap, Scan};
use crate::dispatch::Dispatch;
use crate::log::Segment;
use crate::queue::{Queue, Unit};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use wire::record::{MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RecordView};
use wire::units::{LogOffset, QueueOffset};

/// Most queue offsets reserved in a queue: enough for a damaged sector, not for a damaged disk.
const RESERVED_MAX: u64 = 64;
/// Longest damage, in bytes, that is searched for remains of records.
const READ_BYTES_MAX: u64 = 16 << 20;
/// Position of the `physicalOffset` field in a record.
const POSITION_AT: usize = 28;

/// Remains of the records in a gap of the log.
#[derive(Default)]
struct Remains {
    /// Destroyed messages that can still be identified, by topic, queue id and queue offset.
    places: BTreeMap<(String, i32, u64), Jump>,
    /// Log position and length in bytes of the unidentifiable part at the gap's end.
    unknown: Option<(u64, u64)>,
}

impl Recovery<'_> {
    /// Reserves the queue offsets of messages that damage destroyed and that no message of the same queue follows.
    pub(super) fn reserve_numbers(&self, scan: &mut Scan) -> io::Result<()> {
        let filled = scan.filled.iter().map(|part| (part.at, part.length));
        let (mut unknown, mut accounted) = (filled.collect::<Vec<_>>(), 0);
        let followed = std::mem::take(&mut scan.behind_gaps);
        let gaps = scan.gaps.clone().into_iter().map(|gap| (gap, true));
        let altered = std::mem::take(&mut scan.altered).into_iter().map(|record| (record, false));
        for (gap, may_create) in gaps.chain(altered) {
            let remains = self.remains_of(gap)?;
            unknown.extend(remains.unknown);
            for ((topic, queue_id, _), place) in remains.places {
                if self.state.queues.tombstones.covers(&topic, place.unit.log_offset.get()) {
                    continue;
                }
                // An altered record may name a queue that never was.
                let found = self.state.queues.find(&topic, queue_id);
                let created = || self.state.queues.find_or_create(&topic, queue_id).ok();
                let Some(queue) = found.or_else(|| if may_create { created() } else { None }) else {
                    continue;
                };
                if !may_create && !is_followed(&queue, place.unit.log_offset) {
                    // The record is the newest of its queue, so that a queue offset which does not fit is damaged itself.
                    let next = queue.max().get();
                    let is_next = (next..=next + RESERVED_MAX).contains(&place.first);
                    self.put(scan, &queue, Jump { first: if is_next { place.first } else { next }, ..place });
                } else if place.first.saturating_add(u64::from(place.count)) <= queue.max().get() {
                    accounted += 1;
                } else if place.first - queue.max().get().min(place.first) <= RESERVED_MAX {
                    self.put(scan, &queue, place);
                }
            }
        }
        unknown.sort_unstable();
        let bytes: u64 = unknown.iter().map(|(_, length)| length).sum();
        // As many messages as fit into the unknown bytes, less the blank units that no remains account for.
        let room = bytes.div_ceil(RECORD_BYTES_MIN as u64);
        let missing = room.saturating_sub(scan.blanks.saturating_sub(accounted));
        let Some((at, length)) = unknown.last().copied().filter(|_| missing > 0) else { return Ok(()) };
        let count = missing.min(RESERVED_MAX).min(length);
        tracing::error!(
            at,
            length,
            missing,
            "damage may have held the newest messages of queues; their numbers are not given again"
        );
        for queue in self.state.queues.all() {
            let is_followed = followed.contains(&(Arc::as_ptr(&queue) as usize));
            if is_followed || queue.is_batched() || queue.max().get() == 0 {
                continue;
            }
            for index in 0..count {
                let size = u32::try_from(length - index).unwrap_or(u32::MAX);
                let size = size.min(u32::try_from(self.state.config.record_bytes_max).unwrap_or(u32::MAX));
                let unit = Unit { log_offset: LogOffset::new(at + index), size, tags_code: 0 };
                self.put(scan, &queue, Jump { unit, first: queue.max().get(), count: 1 });
            }
        }
        Ok(())
    }

    /// Reads the remains of the records in a gap. A gap lies in a single file.
    fn remains_of(&self, gap: Gap) -> io::Result<Remains> {
        let mut remains = Remains::default();
        let Some(segment) = self.state.log.segment_of(gap.at).filter(|_| gap.length <= READ_BYTES_MAX) else {
            remains.unknown = Some((gap.at, gap.length));
            return Ok(remains);
        };
        let mut bytes = vec![0; usize::try_from(gap.length).expect("not longer than what is read")];
        segment.file.read_at(&mut bytes, gap.at - segment.base)?;
        let mut at = 0;
        while at < bytes.len() {
            let offset = gap.at + at as u64;
            let Some(size) = self.take_remains(&mut bytes[at..], offset, &mut remains) else { break };
            at += size;
        }
        if at < bytes.len() && !self.is_file_end(&segment, gap, &bytes[at..]) {
            remains.unknown = Some((gap.at + at as u64, (bytes.len() - at) as u64));
        }
        Ok(remains)
    }

    /// Takes the queue and queue offset from the remains of the record at the start of `bytes`, and returns the record's
    /// size. When the size itself is damaged, the record is assumed to fill the rest of the gap.
    fn take_remains(&self, bytes: &mut [u8], offset: u64, remains: &mut Remains) -> Option<usize> {
        let is_its = |view: &RecordView<'_>| view.log_offset() == Some(LogOffset::new(offset));
        if let Ok(view) = RecordView::parse(bytes).as_ref()
            && is_its(view)
        {
            self.note_remains(view, offset, remains);
            return Some(view.size());
        }
        let size = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() >= RECORD_BYTES_MIN)?;
        for magic in [MAGIC_V1, MAGIC_V2] {
            let mut mended = bytes.to_vec();
            mended[..4].copy_from_slice(&size.to_be_bytes());
            mended[4..8].copy_from_slice(&magic.to_be_bytes());
            mended[POSITION_AT..POSITION_AT + 8].copy_from_slice(&offset.to_be_bytes());
            if let Ok(view) = RecordView::parse(&mended) {
                self.note_remains(&view, offset, remains);
                return Some(bytes.len());
            }
        }
        None
    }

    fn note_remains(&self, view: &RecordView<'_>, offset: u64, remains: &mut Remains) {
        for Dispatch { queue: (topic, queue_id), first, count, unit } in
            self.state.rules().dispatches_of(view, offset)
        {
            let jump = Jump { unit: Unit { tags_code: 0, ..unit }, first, count };
            remains.places.insert((topic.to_owned(), queue_id, first), jump);
        }
    }

    /// Whether the rest of a gap is the damaged blank record at the end of a file: zeros except for its first 8 bytes.
    fn is_file_end(&self, segment: &Segment, gap: Gap, rest: &[u8]) -> bool {
        let reaches_end = gap.at + gap.length == segment.base + self.state.log.segment_bytes;
        let (head, zeros) = rest.split_at(rest.len().min(8));
        reaches_end && head.iter().any(|byte| *byte != 0) && zeros.iter().all(|byte| *byte == 0)
    }
}

/// Whether a queue has a message behind a position in the log.
fn is_followed(queue: &Queue, at: LogOffset) -> bool {
    let Some(newest) = queue.max().get().checked_sub(1) else { return false };
    let mut units = Vec::new();
    // A unit that cannot be read proves nothing, and the queue offset that the record claims counts.
    let read = queue.units_blocking(QueueOffset::new(newest), 1, &mut units);
    read.is_err() || units.first().is_some_and(|unit| unit.log_offset > at)
}
