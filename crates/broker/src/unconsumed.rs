//! The first message of a queue that a group has not consumed. The store time of this message is the group's lag in time for
//! operators, metrics and clients. `ConsumerLagCalculator` takes the message at the committed offset instead, whether or not the
//! group selects that message.

use std::sync::Arc;

use store::{Queue, Store};
use wire::body::MessageModel;
use wire::units::QueueOffset;

use crate::clients::Subscription;
use crate::parts::Sessions;

/// Most index units that are compared with the tags of a group. A group with a rare tag may have a longer backlog.
const UNITS_MAX: u64 = 4096;
/// Store time if unknown.
const UNKNOWN: i64 = -1;
/// Most index units that are read at a time.
const UNITS_AT_ONCE: usize = 256;

/// The position of a message that a group has not consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unconsumed {
    /// Queue offset of the message.
    pub offset: i64,
    /// Whether the first message that the group selects may be a later message: because of an SQL92 filter, or more than
    /// `UNITS_MAX` other tags.
    pub is_bound: bool,
}

impl Unconsumed {
    /// Finds the first message from `committed` on that the subscription selects by its tags. Returns `None` if there is none
    /// before `end`. A group without members has no subscription, and every message counts. May read the disk.
    pub fn find(
        queue: &Queue,
        subscription: Option<&Subscription>,
        committed: i64,
        end: i64,
    ) -> Option<Self> {
        let first = committed.max(queue.min().to_i64());
        if first >= end {
            return None;
        }
        let is_bound = subscription.is_some_and(|subscription| !subscription.is_tag());
        let Some(subscription) = subscription.filter(|it| it.is_tag() && !queue.is_batched()) else {
            return Some(Self { offset: first, is_bound });
        };
        let (mut next, mut units) = (first, Vec::new());
        while next < end {
            let read = u64::try_from(next - first).unwrap_or(u64::MAX);
            if read >= UNITS_MAX {
                return Some(Self { offset: next, is_bound: true });
            }
            units.clear();
            let from = QueueOffset::from_i64(next)?;
            if queue.units_blocking(from, UNITS_AT_ONCE, &mut units).is_err() || units.is_empty() {
                return Some(Self { offset: next, is_bound: true });
            }
            let wanted = units.iter().position(|unit| {
                !unit.is_blank() && (!unit.has_tags_code() || subscription.matches(unit.tags_code))
            });
            if let Some(index) = wanted.and_then(|index| i64::try_from(index).ok()) {
                return (next + index < end).then_some(Self { offset: next + index, is_bound: false });
            }
            next += i64::try_from(units.len()).unwrap_or(i64::MAX);
        }
        None
    }
}

impl Sessions {
    /// The first message of a queue that a group has not consumed, see [`Unconsumed::find`].
    pub(crate) fn unconsumed(
        &self,
        group: &str,
        queue: &Queue,
        committed: i64,
        end: i64,
    ) -> Option<Unconsumed> {
        let subscription = self.clients.subscription(group, queue.topic());
        Unconsumed::find(queue, subscription.as_deref(), committed, end)
    }

    /// Returns the store time of the first unconsumed message of a group in a queue, in ms since the epoch. The flag tells
    /// whether the message that the group selects may be newer. The time is 0 if no message waits. The time is -1 for a
    /// group that consumes by broadcast, because its clients keep the offsets, and if the message is unreadable. May read
    /// the disk.
    pub(crate) fn unconsumed_time(
        &self,
        store: &Store,
        group: &str,
        queue: &Arc<Queue>,
        (committed, end): (i64, i64),
    ) -> (i64, bool) {
        if self.clients.message_model(group) == Some(MessageModel::Broadcasting) {
            return (UNKNOWN, false);
        }
        let Some(message) = self.unconsumed(group, queue, committed, end) else { return (0, false) };
        let offset = QueueOffset::from_i64(message.offset);
        let stored_ms = offset.and_then(|offset| store.store_time(queue, offset).ok()?);
        (stored_ms.unwrap_or(UNKNOWN), message.is_bound)
    }
}

#[cfg(test)]
mod tests;
