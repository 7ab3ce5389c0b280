//! Messages by key, tag and log offset (`QueryMessageProcessor`).

use store::{KeyMatches, KeyQuery};
use wire::units::LogOffset;

use crate::parts::{Replication, Runtime};
use crate::{Refusal, Result};

/// Returns the newest messages with a key, newest first. `is_unique` is true for a key that a producer gave to a
/// single message. Java returns every message with the key's hash. Here the keys are compared.
pub(crate) fn query(
    replication: &Replication,
    runtime: &Runtime,
    query: KeyQuery<'_>,
    is_unique: bool,
) -> Result<KeyMatches> {
    let limits = &runtime.config.query;
    let limit = |count: i32| usize::try_from(count).unwrap_or(0);
    let max = if is_unique { limit(limits.unique_max) } else { query.max }.min(limit(limits.count_max));
    let unread = |error| Refusal::error(format!("the key index cannot be searched: {error}"));
    let mut matches = replication.store.query(&KeyQuery { max, ..query }).map_err(unread)?;
    matches.found.retain(|found| replication.is_visible(found.at + found.record.len() as u64));
    Ok(matches)
}

/// The record at a log offset; `None` when there is none that consumers may see.
pub(crate) fn record(replication: &Replication, at: LogOffset) -> Option<Vec<u8>> {
    let mut record = Vec::new();
    replication.store.record_at(at, &mut record).ok()?;
    replication.is_visible(at + record.len() as u64).then_some(record)
}
