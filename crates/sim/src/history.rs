//! History of responses to clients, and the check that it stays true.

use crate::message::Stored;
use crate::settings::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use wire::ha::Epoch;

/// An acknowledged message.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// End of the message's record.
    pub end: u64,
    /// Queue and queue offset of the message.
    pub place: (i32, u64),
    /// Time of the acknowledgement.
    pub at_ms: u64,
}

/// Responses to clients.
#[derive(Default)]
pub struct History {
    acknowledged: BTreeMap<u64, Acknowledged>,
    /// The acknowledged messages by queue and queue offset.
    places: BTreeMap<(i32, u64), u64>,
    refused: BTreeSet<u64>,
    /// The message that a reader saw at a queue and queue offset.
    seen: BTreeMap<(i32, u64), u64>,
    /// Broker that acknowledged in each epoch.
    leaders: BTreeMap<u32, NodeId>,
    /// Time of the last acknowledgement, in ms.
    pub last_ms: u64,
    /// Number of messages acknowledged.
    pub count: u64,
}

impl History {
    /// Records that a broker acknowledged a message.
    ///
    /// # Errors
    /// P12: another broker has acknowledged in this epoch. P3: another message was acknowledged or read at
    /// this queue offset.
    pub fn acknowledge(
        &mut self,
        node: NodeId,
        epoch: Epoch,
        number: u64,
        acknowledged: Acknowledged,
    ) -> Result<(), String> {
        let leader = *self.leaders.entry(epoch.get()).or_insert(node);
        if leader != node {
            let (former, now) = (leader.name(), node.name());
            return Err(format!("P12: {former} and {now} both acknowledge in epoch {epoch}"));
        }
        let place = acknowledged.place;
        if let Some(other) = self.seen.get(&place).filter(|other| **other != number) {
            return Err(format!("P3: message {number} is acknowledged at {place:?}, where {other} was read"));
        }
        if let Some(other) = self.places.insert(place, number) {
            return Err(format!("P3: messages {other} and {number} are acknowledged at {place:?}"));
        }
        self.acknowledged.insert(number, acknowledged);
        self.last_ms = acknowledged.at_ms;
        self.count += 1;
        Ok(())
    }

    /// Records that a broker refused a message, which is not stored.
    pub fn refuse(&mut self, number: u64) {
        self.refused.insert(number);
    }

    /// Records that a reader got a message. Zero is a message that no client sent.
    ///
    /// # Errors
    /// P2: the message was not sent, or was refused. P3: another message was read at this offset before.
    pub fn see(&mut self, place: (i32, u64), number: u64) -> Result<(), String> {
        if number == 0 || self.refused.contains(&number) {
            return Err(format!("P2: message {number} at {place:?} was never stored"));
        }
        let before = *self.seen.entry(place).or_insert(number);
        if before != number {
            return Err(format!("P3: message {number} is read at {place:?}, where {before} was before"));
        }
        Ok(())
    }

    /// The queue offset of an acknowledged message.
    pub fn place_of(&self, number: u64) -> Option<u64> {
        self.acknowledged.get(&number).map(|acknowledged| acknowledged.place.1)
    }

    /// Compares a log that must be complete with the responses to clients.
    ///
    /// # Errors
    /// P1: an acknowledged message is missing or at another offset. P2: the log has a refused
    /// message, or a message twice. P3: a message that was read is missing or at another offset.
    pub fn check(&self, log: &[Stored], begin: u64) -> Result<(), String> {
        let by_number: BTreeMap<u64, &Stored> = log.iter().map(|stored| (stored.number, stored)).collect();
        if by_number.len() != log.len() {
            return Err("P2: a message is stored twice".to_owned());
        }
        if let Some(number) = self.refused.iter().find(|number| by_number.contains_key(number)) {
            return Err(format!("P2: message {number} was refused and is stored"));
        }
        for (number, acknowledged) in
            self.acknowledged.iter().filter(|(_, acknowledged)| acknowledged.end > begin)
        {
            let found =
                by_number.get(number).map(|it| (it.at + u64::from(it.size), (it.queue, it.queue_offset)));
            if found != Some((acknowledged.end, acknowledged.place)) {
                return Err(format!(
                    "P1: acknowledged message {number} is lost: told {acknowledged:?}, found {found:?}"
                ));
            }
        }
        let by_place: BTreeMap<(i32, u64), u64> =
            log.iter().map(|it| ((it.queue, it.queue_offset), it.number)).collect();
        let first: BTreeMap<i32, u64> = log.iter().rev().map(|it| (it.queue, it.queue_offset)).collect();
        for (place, number) in &self.seen {
            let is_behind_begin = begin == 0 || first.get(&place.0).is_some_and(|first| place.1 >= *first);
            if is_behind_begin && by_place.get(place) != Some(number) {
                let found = by_place.get(place);
                return Err(format!("P3: message {number} was read at {place:?}, there is {found:?} now"));
            }
        }
        Ok(())
    }

    /// Forgets reads of messages that are neither in the log nor acknowledged. A classic master with sync flush lost such
    /// messages with its power, and readers had got them from slaves.
    pub fn forget_unacknowledged(&mut self, log: &[Stored]) {
        let there: BTreeSet<u64> = log.iter().map(|stored| stored.number).collect();
        let acknowledged = &self.acknowledged;
        self.seen.retain(|_, number| there.contains(number) || acknowledged.contains_key(number));
    }

    /// Forgets the messages that a crash lost, which are no longer in the log. The log now ends at
    /// `end`. The crash may cost messages that were acknowledged at `since_ms` or later.
    ///
    /// # Errors
    /// P1: an acknowledged message before `end` is missing, or a message that was acknowledged
    /// before `since_ms`.
    pub fn lose(&mut self, log: &[Stored], end: u64, since_ms: u64) -> Result<(), String> {
        let there: BTreeSet<u64> = log.iter().map(|stored| stored.number).collect();
        for (number, acknowledged) in self.acknowledged.iter().filter(|(number, _)| !there.contains(number)) {
            if acknowledged.end <= end {
                return Err(format!(
                    "P1: message {number} is a hole in the log: {acknowledged:?}, the log ends at {end}"
                ));
            }
            if acknowledged.at_ms < since_ms {
                return Err(format!("P1: message {number} is lost, older than {since_ms}: {acknowledged:?}"));
            }
        }
        self.acknowledged.retain(|number, _| there.contains(number));
        self.places.retain(|_, number| there.contains(number));
        self.seen.retain(|_, number| there.contains(number));
        Ok(())
    }
}
