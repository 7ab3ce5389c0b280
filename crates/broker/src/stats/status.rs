//! The broker's own lines of the runtime table (code 28).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::parts::{Delivery, Runtime, Sessions};

/// Most groups with conflicting subscriptions that the runtime table names.
const CONFLICTS_NAMED: usize = 50;

/// Most settings without effect that the runtime table names.
const SETTINGS_NAMED: usize = 50;

/// Returns the names of the broker's and the store's threads and tasks that ended early.
fn stopped_threads(store: &store::Store, runtime: &Runtime) -> String {
    let mut names = runtime.supervisor.names();
    names.extend(store.stopped_threads().into_iter().map(str::to_owned));
    names.join(",")
}

/// The broker's own lines of the runtime table.
pub(crate) fn status(
    sessions: &Sessions,
    delivery: &Delivery,
    runtime: &Runtime,
) -> BTreeMap<&'static str, String> {
    let (flushes, progress) = (delivery.tables.store.flushes(), delivery.tables.store.progress());
    let pending = runtime.disk_watch.pending(delivery.tables.store.unfinished());
    let conflicts = sessions.clients.conflicts();
    let named = conflicts.iter().take(CONFLICTS_NAMED).map(String::as_str).collect::<Vec<_>>().join(",");
    let without_effect = runtime.config.without_effect().take(SETTINGS_NAMED).collect::<Vec<_>>().join(",");
    let mut status = BTreeMap::from([
        ("vostokVersion", env!("CARGO_PKG_VERSION").to_owned()),
        ("subscriptionConflictGroups", conflicts.len().to_string()),
        ("subscriptionConflicts", named),
        ("appended", delivery.tables.store.appended().to_string()),
        ("flushed", delivery.tables.store.flushed().to_string()),
        ("flushes", flushes.count.to_string()),
        ("diskPendingMillis", pending.write.max(pending.flush).as_millis().to_string()),
        ("flushWaitersAnswered", flushes.answered.to_string()),
        ("uncheckedQueues", progress.unchecked_queues.to_string()),
        ("lostQueues", progress.lost_queues.to_string()),
        ("rebuildLeftBytes", progress.rebuild_end.saturating_sub(progress.rebuild_at).to_string()),
        ("damagedMessages", delivery.tables.store.damaged().to_string()),
        ("timerReadMs", delivery.timer.read_ms.load(Ordering::Relaxed).to_string()),
        ("timerQueueOffset", delivery.timer.queue_offset.load(Ordering::Relaxed).to_string()),
        ("timerPending", delivery.timer.pending.load(Ordering::Relaxed).to_string()),
        ("topics", delivery.tables.topics.count().to_string()),
        ("stoppedThreads", stopped_threads(&delivery.tables.store, runtime)),
        ("settingsWithoutEffect", without_effect),
        ("unknownToControllers", delivery.replication.replicas.elected().is_unknown.to_string()),
        ("servesThisMachineOnly", sessions.gate.serves_this_machine_only().to_string()),
    ]);
    status.extend(delivery.figures.refused.status());
    status
}
