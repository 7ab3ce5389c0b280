//! Visibility of messages for consumers. With sync flush, consumers see only messages on disk. Otherwise a consumer
//! could get an offset that another message has after a power cut. In controller mode, consumers see only confirmed
//! messages, so that a new master has them too.

use store::Unit;
use wire::units::{LogOffset, QueueOffset};

use super::Replication;
use crate::topics::Queue;

impl Replication {
    /// Whether consumers may see a record that ends at `end`. With sync flush the record must be on
    /// disk. In controller mode the record must be confirmed. A slave whose log may differ from its
    /// master's log shows no records.
    pub(crate) fn is_visible(&self, end: LogOffset) -> bool {
        self.role.is_consistent() && self.durability.reaches(end)
    }

    /// The end offset of a queue as consumers see it: the offset behind the last message they may read.
    pub(crate) fn visible_end(&self, queue: &Queue) -> i64 {
        self.visible_end_of(&queue.index)
    }

    /// The end offset of a queue of the store as consumers see it.
    pub(crate) fn visible_end_of(&self, index: &store::Queue) -> i64 {
        // The order matters: everything before `max` was appended before the end of the log is read below.
        let max = index.max();
        if !self.role.is_consistent() {
            return index.min().to_i64();
        }
        let Some(limit) = self.durability.limit() else { return max.to_i64() };
        if limit >= self.store.appended() {
            return max.to_i64();
        }
        let mut units: Vec<Unit> = Vec::new();
        let is_visible = |end: u64| {
            units.clear();
            // Units of records that are not on disk are in memory. Those of records that are not confirmed may have left it.
            let read = index.units_blocking(QueueOffset::new(end - 1), 1, &mut units);
            read.is_err() || units.first().is_none_or(|unit| unit.is_blank() || unit.end() <= limit)
        };
        visible_end(index.min().get(), max.get(), is_visible).cast_signed()
    }
}

/// The largest end from `min` to `max` for which `is_visible` holds, or `min`. Only the newest few messages are not visible,
/// so the search begins there, in steps that double.
fn visible_end(min: u64, max: u64, mut is_visible: impl FnMut(u64) -> bool) -> u64 {
    if max <= min || is_visible(max) {
        return max;
    }
    // Invariant: everything before `low` is visible, the unit before `high` is not.
    let (mut high, mut step) = (max, 1);
    let mut low = loop {
        let low = high.saturating_sub(step).max(min);
        if low == min || is_visible(low) {
            break low;
        }
        (high, step) = (low, step * 2);
    };
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if is_visible(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::visible_end;

    proptest! {
        #[test]
        fn the_visible_end_is_found_without_looking_far_back(min in 0_u64..100, old in 0_u64..1 << 40, new in 0_u64..5000) {
            let (durable, max) = (min + old, min + old + new);
            let mut farthest = max;
            let found = visible_end(min, max, |end| {
                farthest = farthest.min(end);
                end <= durable
            });
            prop_assert_eq!(found, durable);
            prop_assert!(max - farthest <= 2 * new, "{} units looked back for {new}", max - farthest);
        }
    }
}
