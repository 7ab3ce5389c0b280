//! The queue offsets of messages that damage took. A queue offset names one message for ever, also one that is gone: where a later
//! message of the queue follows, its place stays blank; where none does, this reserves it.
//!
//! What remains of a damaged record mostly still says its queue and number. Where it does not, every queue without a message behind
//! the damage may have had some there, and each gets as many places as messages fit that are not accounted for. A reserved place leads to where the
//! message was, as the units of lost queues do: readers report it and go on.

use super::place::Jump;
use super::scan::{Gap, Scan};
use crate::log::Segment;
use crate::queue::Unit;
use crate::store::Shared;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use wire::record::{MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RecordView};
use wire::units::LogOffset;

/// Places reserved in a queue at most: damage of a sector, not of a disk.
const RESERVED_MAX: u64 = 64;
/// Damage longer than this is not read for what it may still say.
const READ_BYTES_MAX: u64 = 16 << 20;
/// Where a record has its position in the log.
const POSITION_AT: usize = 28;

/// What remains of the records in a gap.
#[derive(Default)]
struct Remains {
    /// Places of messages, by topic, queue id and number.
    places: BTreeMap<(String, i32, u64), Jump>,
    /// Where that ends which says nothing any more, and how long the rest is.
    unknown: Option<(u64, u64)>,
}

impl Shared {
    /// Reserves the numbers of messages that damage took and no other message follows.
    pub(super) fn reserve_numbers(&self, scan: &mut Scan) -> io::Result<()> {
        let (mut unknown, mut accounted) = (Vec::new(), 0);
        let followed = std::mem::take(&mut scan.behind_gaps);
        for gap in scan.gaps.clone() {
            let remains = self.remains_of(gap)?;
            unknown.extend(remains.unknown);
            for ((topic, queue_id, _), place) in remains.places {
                if self.queues.tombstones.covers(&topic, place.unit.log_offset.get()) {
                    continue;
                }
                let Ok(queue) = self.queues.find_or_create(&topic, queue_id) else { continue };
                if place.first + u64::from(place.count) <= queue.max().get() {
                    accounted += 1;
                } else if place.first - queue.max().get().min(place.first) <= RESERVED_MAX {
                    self.put(scan, &queue, place);
                }
            }
        }
        let bytes: u64 = unknown.iter().map(|(_, length)| length).sum();
        // As many as can have been there. The blank places are some of them, but for those that are accounted for.
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
        for queue in self.queues.all() {
            let is_followed = followed.contains(&(Arc::as_ptr(&queue) as usize));
            if is_followed || queue.is_batched() || queue.max().get() == 0 {
                continue;
            }
            for index in 0..count {
                let size = u32::try_from(length - index).unwrap_or(u32::MAX);
                let size = size.min(u32::try_from(self.config.record_bytes_max).unwrap_or(u32::MAX));
                let unit = Unit { log_offset: LogOffset::new(at + index), size, tags_code: 0 };
                self.put(scan, &queue, Jump { unit, first: queue.max().get(), count: 1 });
            }
        }
        Ok(())
    }

    /// What remains of the records in a gap, which lies in one file.
    fn remains_of(&self, gap: Gap) -> io::Result<Remains> {
        let mut remains = Remains::default();
        let Some(segment) = self.log.segment_of(gap.at).filter(|_| gap.length <= READ_BYTES_MAX) else {
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

    /// Takes what the record at the start of `bytes` still says, and answers its size. Where its size is damaged, it may be all there
    /// is.
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
        for place in self.places_of(view) {
            let size = u32::try_from(view.size()).unwrap_or(u32::MAX);
            let unit = Unit { log_offset: LogOffset::new(offset), size, tags_code: 0 };
            let jump = Jump { unit, first: place.queue_offset, count: place.count };
            remains.places.insert((place.topic.to_owned(), place.queue_id, place.queue_offset), jump);
        }
    }

    /// Whether a gap is the blank record at the end of a file: zeros but for its head.
    fn is_file_end(&self, segment: &Segment, gap: Gap, rest: &[u8]) -> bool {
        let reaches_end = gap.at + gap.length == segment.base + self.log.segment_bytes;
        let (head, zeros) = rest.split_at(rest.len().min(8));
        reaches_end && head.iter().any(|byte| *byte != 0) && zeros.iter().all(|byte| *byte == 0)
    }
}
