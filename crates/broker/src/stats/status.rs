//! The broker's own lines of the runtime table (code 28).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::broker::Broker;

/// Most groups with conflicting subscriptions that the runtime table names.
const CONFLICTS_NAMED: usize = 50;

/// Most settings without effect that the runtime table names.
const SETTINGS_NAMED: usize = 50;

/// Returns the names of the broker's and the store's threads and tasks that ended early.
fn stopped_threads(broker: &Broker) -> String {
    let mut names = broker.runtime.supervisor.names();
    names.extend(broker.store.stopped_threads().into_iter().map(str::to_owned));
    names.join(",")
}

/// The broker's own lines of the runtime table.
pub(crate) fn status(broker: &Broker) -> BTreeMap<&'static str, String> {
    let (flushes, progress) = (broker.store.flushes(), broker.store.progress());
    let pending = broker.runtime.disk_watch.pending(broker.store.unfinished());
    let conflicts = broker.sessions.clients.conflicts();
    let named = conflicts.iter().take(CONFLICTS_NAMED).map(String::as_str).collect::<Vec<_>>().join(",");
    let without_effect =
        broker.runtime.config.without_effect().take(SETTINGS_NAMED).collect::<Vec<_>>().join(",");
    let mut status = BTreeMap::from([
        ("vostokVersion", env!("CARGO_PKG_VERSION").to_owned()),
        ("subscriptionConflictGroups", conflicts.len().to_string()),
        ("subscriptionConflicts", named),
        ("appended", broker.store.appended().to_string()),
        ("flushed", broker.store.flushed().to_string()),
        ("flushes", flushes.count.to_string()),
        ("diskPendingMillis", pending.write.max(pending.flush).as_millis().to_string()),
        ("flushWaitersAnswered", flushes.answered.to_string()),
        ("uncheckedQueues", progress.unchecked_queues.to_string()),
        ("lostQueues", progress.lost_queues.to_string()),
        ("rebuildLeftBytes", progress.rebuild_end.saturating_sub(progress.rebuild_at).to_string()),
        ("damagedMessages", broker.store.damaged().to_string()),
        ("timerReadMs", broker.delivery.timer.read_ms.load(Ordering::Relaxed).to_string()),
        ("timerQueueOffset", broker.delivery.timer.queue_offset.load(Ordering::Relaxed).to_string()),
        ("timerPending", broker.delivery.timer.pending.load(Ordering::Relaxed).to_string()),
        ("topics", broker.tables.topics.count().to_string()),
        ("stoppedThreads", stopped_threads(broker)),
        ("settingsWithoutEffect", without_effect),
        ("unknownToControllers", broker.replication.replicas.elected().is_unknown.to_string()),
        ("servesThisMachineOnly", broker.sessions.gate.serves_this_machine_only().to_string()),
    ]);
    status.extend(broker.figures.refused.status());
    status
}
