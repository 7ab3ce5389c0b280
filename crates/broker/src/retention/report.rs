//! Reports of retention to operators: log lines, and entries of the broker's runtime status.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use store::{Reason, RoundResult};

use super::lag::Lags;
use crate::parts::Runtime;

/// The broker warns when the disk will be full within this many milliseconds.
const SOON_MS: i64 = 24 * 3_600_000;

/// A warning that still holds is repeated after this many milliseconds.
const REPEAT_MS: i64 = 3_600_000;

/// Most groups for which lost messages are logged in a round.
const GROUPS_NAMED: usize = 20;

/// Whether a warning must be logged now: when `holds` becomes true, and every [`REPEAT_MS`] while it stays true.
fn is_due(last: &mut Option<i64>, holds: bool, now_ms: i64) -> bool {
    if !holds {
        *last = None;
        return false;
    }
    let is_due = last.is_none_or(|last| now_ms - last >= REPEAT_MS);
    if is_due {
        *last = Some(now_ms);
    }
    is_due
}

/// Logs the deletions of a round of retention, the groups that lost messages, and the group that prevents deletions.
pub(super) fn round(store: &store::Store, runtime: &Runtime, done: &RoundResult, lags: &Lags, now_ms: i64) {
    let verdict = &done.verdict;
    let count = |reason| verdict.remove.iter().filter(|found| **found == reason).count();
    if !verdict.remove.is_empty() {
        let (expired, for_space, for_bytes) =
            (count(Reason::Expired), count(Reason::Space), count(Reason::Bytes));
        let (from, min) = (done.from.get(), done.min.get());
        tracing::info!(expired, for_space, for_bytes, from, min, "commit log files deleted");
    }
    if verdict.drops_unconsumed {
        for (group, messages) in lags.lost(store).into_iter().take(GROUPS_NAMED) {
            tracing::warn!(group, messages, "messages a group has not consumed were deleted to make room");
        }
    }
    let oldest = lags.oldest().filter(|_| verdict.kept_for_consumers);
    let named = oldest.map(|lag| format!("{} {}/{}", lag.group, lag.topic, lag.queue_id));
    *runtime.retention.held_by.lock() = named.unwrap_or_default();
    let mut warned = runtime.retention.warned.lock();
    if is_due(&mut warned.kept_ms, verdict.kept_for_consumers, now_ms)
        && let Some(lag) = lags.oldest()
    {
        let (group, topic, queue, offset) = (&lag.group, &lag.topic, lag.queue_id, lag.from);
        tracing::warn!(
            group,
            topic,
            queue,
            offset,
            "old commit log files are kept because a group has not consumed them; reset or delete the group if it is not used any more"
        );
    }
}

/// Records the size of the commit log, and warns when the disk will be full within a day.
pub(super) fn forecast(store: &store::Store, runtime: &Runtime, now_ms: i64) {
    let held = store.appended().since(store.min());
    runtime.retention.forecast.lock().note(now_ms, held);
    let full_in_ms = full_in_ms(store, runtime);
    let mut warned = runtime.retention.warned.lock();
    let soon = full_in_ms.filter(|time| *time < SOON_MS);
    if is_due(&mut warned.full_soon_ms, soon.is_some(), now_ms) {
        let minutes = soon.unwrap_or(0) / 60_000;
        let room_bytes = store.space().room(&runtime.config.retention);
        tracing::warn!(
            minutes,
            room_bytes,
            "the disk will be over the warning level soon, and sends will be refused"
        );
    }
}

/// Returns the milliseconds until sends will be refused if the log grows as in the last hour.
fn full_in_ms(store: &store::Store, runtime: &Runtime) -> Option<i64> {
    let room = store.space().room(&runtime.config.retention);
    runtime.retention.forecast.lock().full_in_ms(room)
}

/// The entries of the broker's runtime status about the disk, and the number of messages that were given up
/// (`DefaultMessageStore.getRuntimeInfo`, `BrokerStats`).
pub(crate) fn status(store: &store::Store, runtime: &Runtime) -> BTreeMap<String, String> {
    let space = store.space();
    let ratio = |percent: u64| format!("{}", percent as f64 / 100.0);
    let held_by = runtime.retention.held_by.lock().clone();
    let mut table = BTreeMap::from([
        ("commitLogDiskRatio".to_owned(), ratio(space.log_percent())),
        ("consumeQueueDiskRatio".to_owned(), ratio(space.queue_percent())),
        ("commitLogMinOffset".to_owned(), store.min().to_string()),
        ("commitLogMaxOffset".to_owned(), store.appended().to_string()),
        ("retentionHeldBy".to_owned(), held_by),
        ("sendsRefusedForSpace".to_owned(), (space.level == store::Level::Refuse).to_string()),
        ("undeliveredMessages".to_owned(), runtime.retention.undelivered.load(Ordering::Relaxed).to_string()),
    ]);
    let each = space.log.iter();
    table.extend(each.map(|(path, usage)| {
        (format!("commitLogDiskRatio_{}", path.display()), ratio(store::percent(usage)))
    }));
    let (total, free) = space
        .log
        .iter()
        .fold((0, 0), |(total, free), (_, usage)| (total + usage.total, free + usage.available));
    table.insert(
        "commitLogDirCapacity".to_owned(),
        format!("Total : {}, Free : {}.", size(total), size(free)),
    );
    if let Some(time) = full_in_ms(store, runtime) {
        table.insert("commitLogDiskFullInSeconds".to_owned(), (time / 1000).to_string());
    }
    table
}

/// A size in readable form, in units of powers of 1,024 with one decimal (`MessageStoreUtil.toHumanReadable`).
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 1024.0
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3_355_443, "3.2 MiB"), (u64::MAX, "16.0 EiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_warning_is_not_repeated_every_second() {
        let mut last = None;
        assert!(is_due(&mut last, true, 0));
        assert!(!is_due(&mut last, true, REPEAT_MS - 1));
        assert!(is_due(&mut last, true, REPEAT_MS));
        assert!(!is_due(&mut last, false, REPEAT_MS + 1));
        assert!(is_due(&mut last, true, REPEAT_MS + 2));
    }
}
