//! Determines the queues of a stored record and adds it to them during recovery.
//!
//! RocketMQ's checksum covers the body only. So a record that has no digest yet may have a damaged queue offset: one that
//! skips offsets although nothing before it is known to be missing, or one that repeats an offset. Such a record waits for
//! the next record of its queue, which settles it. Believing a damaged offset would cost all messages up to it, or assign the
//! record's own offset again.

use super::scan::Scan;
use crate::batch::is_indexed;
use crate::batch::tags::Tags;
use crate::multi;
use crate::queue::{Queue, Unit, batched};
use crate::store::Shared;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::record::{RECORD_BYTES_MIN, RecordView};
use wire::units::LogOffset;

/// Queue offsets that a record may skip, beyond what damaged parts of the log can have held, before its queue offset counts
/// as damaged.
const GAP_MAX: u64 = 1 << 16;
/// Most messages in one record of a batch consume queue. The record's size sets no lower bound: messages may be compressed.
const BATCH_COUNT_MAX: u64 = i16::MAX as u64;

/// The queue and queue offset of a record.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) topic: &'a str,
    pub(super) queue_id: i32,
    pub(super) queue_offset: u64,
    /// How many queue offsets the record takes.
    pub(super) count: u16,
    pub(super) tags: Tags,
}

/// A record's unit with the first of its queue offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    pub(super) unit: Unit,
    pub(super) first: u64,
    pub(super) count: u16,
}

/// Records that wait for the next one of their queue, by topic and queue id.
pub(super) type Jumps = HashMap<(Box<str>, i32), Jump>;

impl Shared {
    /// The place of a stored record in its own queue; `None` for records that are not indexed.
    fn place_of<'a>(&self, view: &RecordView<'a>) -> Option<Place<'a>> {
        let topic = view.topic_str()?;
        let is_batched = self.queues.is_batched(topic);
        if !is_indexed(view.sys_flag(), is_batched) {
            return None;
        }
        let (queue_offset, count) = match is_batched {
            true => batched::place_in(view.properties())?,
            false => (view.queue_offset().get(), 1),
        };
        let tags = Tags::of(crate::queue::is_schedule(topic), view.properties(), self.delays());
        Some(Place { topic, queue_id: view.queue_id(), queue_offset, count, tags })
    }

    /// The places of a stored record in all its queues, light queues included.
    pub(super) fn places_of<'a>(&self, view: &RecordView<'a>) -> impl Iterator<Item = Place<'a>> {
        let place = self.place_of(view);
        let further =
            place.filter(|place| self.config.multi_dispatch && !self.queues.is_batched(place.topic));
        let further = further.map(|place| {
            let at = move |(topic, queue_id, queue_offset)| Place { topic, queue_id, queue_offset, ..place };
            multi::places(view).into_iter().map(at).filter(|place| !self.queues.is_batched(place.topic))
        });
        place.into_iter().chain(further.into_iter().flatten())
    }

    /// Adds a stored record to its queues, as its append did.
    pub(super) fn index_record(&self, view: &RecordView<'_>, scan: &mut Scan) {
        self.places_of(view).for_each(|place| self.index_place(view, scan, place));
    }

    fn index_place(&self, view: &RecordView<'_>, scan: &mut Scan, place: Place<'_>) {
        let (offset, key) = (scan.end, (place.topic, place.queue_id));
        let is_before = scan.known.begin_of(key).is_some_and(|begin| offset < begin);
        if is_before || self.queues.tombstones.covers(place.topic, offset) {
            return;
        }
        let Ok(queue) = self.queues.find_or_create(place.topic, place.queue_id) else {
            tracing::error!(
                offset,
                queue_id = place.queue_id,
                "a record's topic cannot be a queue; it is passed over"
            );
            return;
        };
        let wanted = place.queue_offset;
        let is_told = self.settle_jump(scan, &queue, wanted);
        let next = queue.max().get();
        let size = u32::try_from(view.size()).expect("a record's size fits its 4-byte field");
        let tags_code = place.tags.at(view.store_timestamp());
        let unit = Unit { log_offset: LogOffset::new(offset), size, tags_code };
        let jump = Jump { unit, first: wanted, count: place.count };
        let is_checked = || self.digests.find(unit.log_offset).is_some();
        let begins_anew = scan.restarts.begin_of(key).is_some();
        if scan.restarts.repeats(key, wanted..wanted + u64::from(place.count), offset, next) {
            if !is_told && !begins_anew && !is_checked() {
                self.suspect(scan, &queue, jump);
            }
            return;
        }
        if wanted > next {
            // Each missing message took at least `RECORD_BYTES_MIN` bytes of the log.
            let is_empty = queue.min() == queue.max();
            let records = if is_empty { offset } else { scan.gap_bytes } / RECORD_BYTES_MIN as u64;
            let room = records.saturating_mul(if queue.is_batched() { BATCH_COUNT_MAX } else { 1 });
            if wanted - next > room.saturating_add(GAP_MAX) {
                tracing::error!(
                    offset,
                    ?queue,
                    wanted,
                    "a record's queue offset is far ahead; it is passed over"
                );
                if !is_empty && !is_told && scan.gap_bytes == 0 {
                    self.suspect(scan, &queue, jump);
                }
                return;
            }
            if !is_told && scan.gap_bytes == 0 && !is_checked() {
                scan.jumps.insert((place.topic.into(), place.queue_id), jump);
                return;
            }
        }
        self.put(scan, &queue, jump);
    }

    /// Lets a record wait whose queue offset cannot be its own. Its position in the log gives it the queue's next offset.
    fn suspect(&self, scan: &mut Scan, queue: &Arc<Queue>, jump: Jump) {
        let jump = Jump { first: queue.max().get(), ..jump };
        scan.jumps.insert((queue.topic().into(), queue.queue_id()), jump);
    }

    /// Settles the record that waits for the next one of its queue, which has the queue offset `wanted`. Returns whether the
    /// waiting record's offset was damaged: then the offset before `wanted` is its true one.
    fn settle_jump(&self, scan: &mut Scan, queue: &Arc<Queue>, wanted: u64) -> bool {
        if scan.jumps.is_empty() {
            return false;
        }
        let Some(jump) = scan.jumps.remove(&(queue.topic().into(), queue.queue_id())) else { return false };
        let end = jump.first + u64::from(jump.count);
        let (is_empty, next) = (queue.min() == queue.max(), queue.max().get());
        let is_both = wanted > end && !is_empty && wanted != next + u64::from(jump.count);
        if wanted == end || is_both {
            self.put(scan, queue, jump);
            return false;
        }
        let (offset, found) = (jump.unit.log_offset, jump.first);
        tracing::error!(%offset, ?queue, found, "a record's queue offset does not fit those around it; it is passed over");
        if is_empty {
            queue.start_at(wanted.saturating_sub(u64::from(jump.count)));
        }
        true
    }

    /// Adds the waiting records that no record of their queue followed, at the queue offsets they claim.
    pub(super) fn put_jumps(&self, scan: &mut Scan) {
        for ((topic, queue_id), jump) in std::mem::take(&mut scan.jumps) {
            if let Some(queue) = self.queues.find(&topic, queue_id) {
                self.put(scan, &queue, jump);
            }
        }
    }

    /// Adds a record to a queue, behind blank units for skipped queue offsets.
    pub(super) fn put(&self, scan: &mut Scan, queue: &Arc<Queue>, jump: Jump) {
        let Jump { unit, first, count } = jump;
        let next = queue.max().get();
        if first > next && queue.min() == queue.max() {
            queue.start_at(first);
        } else if first > next {
            tracing::warn!(
                offset = %unit.log_offset,
                ?queue,
                first,
                "a queue misses messages; their places stay blank"
            );
            scan.blanks += first - next;
        }
        for number in queue.max().get()..first + u64::from(count) {
            queue.take_next(1);
            queue.push(if number >= first { unit } else { Unit::PRE_BLANK }, 1, &self.queues);
            self.queues.unwritten_units.fetch_add(1, Ordering::Relaxed);
        }
        if scan.gap_bytes > 0 {
            scan.behind_gaps.insert(Arc::as_ptr(queue) as usize);
        }
    }
}
