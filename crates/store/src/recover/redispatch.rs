//! Adds a stored record to its queues during recovery.
//!
//! RocketMQ's checksum covers the body only. So a record without a digest may have a damaged queue offset. Suspicious
//! offsets skip other offsets although no earlier bytes are missing, or repeat an offset. Such a record waits for the
//! next record of its queue, which decides. A damaged offset that is trusted would cost all messages up to it, or
//! assign the record's own offset again.

use super::Recovery;
use super::scan::Scan;
use crate::dispatch::{Dispatch, QueueName};
use crate::queue::{Queue, Unit};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::record::RecordView;

/// A record's unit with the first of its queue offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    pub(super) unit: Unit,
    pub(super) first: u64,
    pub(super) count: u16,
}

/// Records that wait for the next record of their queue, by topic and queue id.
pub(super) type Jumps = HashMap<(Box<str>, i32), Jump>;

impl Recovery<'_> {
    /// Adds a stored record to its queues, as its append did.
    pub(super) fn index_record(&self, view: &RecordView<'_>, scan: &mut Scan) {
        self.state
            .rules()
            .dispatches_of(view, scan.end)
            .for_each(|dispatch| self.index_dispatch(scan, dispatch));
    }

    fn index_dispatch(&self, scan: &mut Scan, dispatch: Dispatch<QueueName<'_>>) {
        let (offset, key) = (scan.end, dispatch.queue);
        let Dispatch { queue: (topic, queue_id), first: wanted, count, unit } = dispatch;
        let is_before = scan.known.begin_of(key).is_some_and(|begin| offset < begin);
        if is_before || self.state.queues.tombstones.covers(topic, offset) {
            return;
        }
        let Ok(queue) = self.state.queues.find_or_create(topic, queue_id) else {
            tracing::error!(offset, queue_id, "a record's topic cannot be a queue; it is passed over");
            return;
        };
        let is_jump_damaged = self.settle_jump(scan, &queue, wanted);
        let next = queue.max().get();
        let jump = Jump { unit, first: wanted, count };
        let is_checked = || self.state.digests.find(unit.log_offset).is_some();
        let begins_anew = scan.restarts.begin_of(key).is_some();
        if scan.restarts.repeats(key, wanted..wanted + u64::from(count), offset, next) {
            if !is_jump_damaged && !begins_anew && !is_checked() {
                self.suspect(scan, &queue, jump);
            }
            return;
        }
        if wanted > next {
            let is_empty = queue.min() == queue.max();
            if queue.is_far_ahead(wanted, if is_empty { offset } else { scan.gap_bytes }) {
                tracing::error!(
                    offset,
                    ?queue,
                    wanted,
                    "a record's queue offset is far ahead; it is passed over"
                );
                if !is_empty && !is_jump_damaged && scan.gap_bytes == 0 {
                    self.suspect(scan, &queue, jump);
                }
                return;
            }
            if !is_jump_damaged && scan.gap_bytes == 0 && !is_checked() {
                scan.jumps.insert((topic.into(), queue_id), jump);
                return;
            }
        }
        self.put(scan, &queue, jump);
    }

    /// Holds back a record whose queue offset must be wrong. Its position in the log gives it the queue's next
    /// offset.
    fn suspect(&self, scan: &mut Scan, queue: &Arc<Queue>, jump: Jump) {
        let jump = Jump { first: queue.max().get(), ..jump };
        scan.jumps.insert((queue.topic().into(), queue.queue_id()), jump);
    }

    /// Settles the record that waits for the next record of its queue, which has the queue offset `wanted`. Returns
    /// whether the waiting record's offset was damaged. Then the offset before `wanted` is its true offset.
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
            if let Some(queue) = self.state.queues.find(&topic, queue_id) {
                self.put(scan, &queue, jump);
            }
        }
    }

    /// Adds a record to a queue, behind blank units for skipped queue offsets.
    pub(super) fn put(&self, scan: &mut Scan, queue: &Arc<Queue>, jump: Jump) {
        let put = queue.put(jump.unit, jump.first, jump.count, &self.state.queues);
        scan.blanks += put.blanks;
        self.state.queues.unwritten_units.fetch_add(put.pushed, Ordering::Relaxed);
        if scan.gap_bytes > 0 {
            scan.behind_gaps.insert(Arc::as_ptr(queue) as usize);
        }
    }
}
