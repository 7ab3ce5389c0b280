//! Part of a lost queue that is rebuilt from the log.

use crate::dispatch::{Dispatch, QueueName};
use crate::queue::{Queue, Unit};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Rebuild jobs.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) by_topic: HashMap<Box<str>, BTreeMap<i32, Job>>,
    /// Number of truncations of the log before the rebuild began.
    pub(super) truncations: u64,
}

/// Range of a queue, `from..until`, whose units are written again.
pub(super) struct Job {
    pub(super) queue: Arc<Queue>,
    pub(super) from: u64,
    /// Queue offset of the next unit to write to the files.
    pub(super) written: u64,
    /// Rebuilt units from `written` on, not yet in the files.
    pub(super) units: Vec<Unit>,
    pub(super) until: u64,
    /// Log positions between which all messages of the range lie.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Unit of the newest message found; before any is found, the unit in front of the range.
    pub(super) newest: Option<Unit>,
    /// The unit for the range's last queue offset when the log holds no message for it, see `suspect_of`.
    pub(super) suspect: Option<Unit>,
}

impl Job {
    fn next(&self) -> u64 {
        self.written + self.units.len() as u64
    }

    /// Fills the rest of the range with blank units, because its messages were not found.
    pub(super) fn fill(&mut self) {
        let missing = self.until - self.next();
        let Some(blanks) = missing.checked_sub(1) else { return };
        let is_same = |unit: &Unit| self.queue.is_batched() && self.newest == Some(*unit);
        let is_behind = |unit: &Unit| self.newest.is_none_or(|newest| unit.log_offset >= newest.end());
        let last = self.suspect.filter(|unit| is_behind(unit) || is_same(unit));
        if blanks > 0 || last.is_none() {
            tracing::error!(queue = ?self.queue, missing, "messages of a queue are not in the log any more");
        }
        let blanks = usize::try_from(blanks).unwrap_or(0);
        self.units.resize(self.units.len() + blanks, Unit::PRE_BLANK);
        self.units.push(last.unwrap_or(Unit::PRE_BLANK));
    }
}

/// Adds a record's missing units to the job of a queue. Returns the number of units added.
pub(super) fn take_dispatch(jobs: &mut Jobs, dispatch: Dispatch<QueueName<'_>>) -> usize {
    let Dispatch { queue: (topic, queue_id), first, count, unit } = dispatch;
    // Most records belong to queues that are not lost and end here.
    let job = jobs.by_topic.get_mut(topic).and_then(|queues| queues.get_mut(&queue_id));
    let Some(job) = job else { return 0 };
    let wanted = first.max(job.next());
    let end = job.until.min(first + u64::from(count));
    if wanted >= end {
        return 0;
    }
    let before = job.units.len();
    let gap = usize::try_from(wanted - job.next()).unwrap_or(0);
    job.units.resize(before + gap, Unit::PRE_BLANK);
    job.newest = Some(unit);
    let count = usize::try_from(end - wanted).expect("as many as a record is messages");
    job.units.resize(before + gap + count, unit);
    gap + count
}
