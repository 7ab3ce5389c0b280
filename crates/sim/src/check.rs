//! Checks of stores: equal replicas, and derived data equal to a rebuild from the log.

use crate::message::{self, QUEUES, Stored, TOPIC};
use crate::settings::NodeId;
use store::Store;
use wire::units::LogOffset;

/// Returns the messages of a broker's log, after comparing its queues with them.
///
/// # Errors
/// P4 and P11: the log has a record that is no message, or a queue differs from a rebuild.
pub fn derived(node: NodeId, store: &Store) -> Result<Vec<Stored>, String> {
    let wrong = |what: String| format!("P11: broker {}: {what}", node.name());
    let log = message::stored(store).map_err(wrong)?;
    for queue_id in 0..QUEUES {
        let rebuilt: Vec<&Stored> = log.iter().filter(|stored| stored.queue == queue_id).collect();
        let Some(queue) = store.find_queue(TOPIC, queue_id) else {
            match rebuilt.is_empty() {
                true => continue,
                false => return Err(wrong(format!("queue {queue_id} is missing"))),
            }
        };
        let Some(first) = rebuilt.first() else { continue };
        let mut units = Vec::new();
        let from = wire::units::QueueOffset::new(first.queue_offset);
        queue.units_blocking(from, 1 << 20, &mut units).map_err(|error| wrong(error.to_string()))?;
        if units.len() != rebuilt.len() {
            let (found, expected) = (units.len(), rebuilt.len());
            return Err(wrong(format!("queue {queue_id} has {found} messages, a rebuild {expected}")));
        }
        for (index, (unit, stored)) in units.iter().zip(&rebuilt).enumerate() {
            let offset = first.queue_offset + index as u64;
            let found = (unit.log_offset.get(), unit.size, offset);
            if found != (stored.at, stored.size, stored.queue_offset) {
                return Err(wrong(format!("queue {queue_id}: unit {found:?} for {stored:?}")));
            }
        }
    }
    Ok(log)
}

/// Compares the logs of two brokers up to `end`.
///
/// # Errors
/// P11: they differ, and where.
pub fn same(one: (NodeId, &Store), other: (NodeId, &Store), end: LogOffset) -> Result<(), String> {
    let names = (one.0.name(), other.0.name());
    let begin = one.1.min().max(other.1.min()).get();
    if begin >= end.get() {
        return Ok(());
    }
    let bytes_of = |store: &Store| -> Result<Vec<u8>, String> {
        let mut bytes = message::bytes_of(store, end)?;
        bytes.drain(..usize::try_from(begin - store.min().get()).expect("small logs"));
        Ok(bytes)
    };
    let (one, other) = (bytes_of(one.1)?, bytes_of(other.1)?);
    match one.iter().zip(&other).position(|(one, other)| one != other) {
        Some(at) => Err(format!("P11: the logs of {names:?} differ at {}", begin + at as u64)),
        None => Ok(()),
    }
}
