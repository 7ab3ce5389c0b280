//! The store, the timer and the revive engine.

use std::sync::atomic::Ordering;

use super::catalogue::{
    CHECKPOINTS, DISPATCH_BEHIND, FLUSH_BEHIND, RESERVE_TIME, REVIVE_LAG, REVIVE_LATENCY, STORAGE_SIZE,
    TIMER_DEQUEUE_LATENCY, TIMER_ENQUEUE_LAG, TIMER_ENQUEUE_LATENCY,
};
use super::exposition::Exposition;
use crate::names::TIMER_TOPIC;
use crate::parts::{Delivery, Runtime, Tables};
use crate::pop::REVIVE_GROUP;
use crate::stats;
use wire::units::QueueOffset;

/// Values of the labels `storage_type` and `storage_medium` for this store (`DefaultStoreMetricsConstant`).
const LOCAL: [&str; 2] = ["local", "disk"];

pub(super) fn write(tables: &Tables, delivery: &Delivery, runtime: &Runtime, text: &mut Exposition) {
    let now_ms = runtime.now_ms();
    let space = tables.store.space();
    let used: u64 = space.log.iter().map(|(_, usage)| usage.total.saturating_sub(usage.available)).sum();
    let progress = tables.store.progress();
    let earliest_ms = stats::earliest_ms(&tables.store);
    let age_ms = if earliest_ms < 0 { 0 } else { (now_ms - earliest_ms).max(0) };
    for (metric, value) in [
        (&STORAGE_SIZE, used as f64),
        (&FLUSH_BEHIND, tables.store.appended().since(tables.store.flushed()) as f64),
        (&DISPATCH_BEHIND, progress.rebuild_end.saturating_sub(progress.rebuild_at) as f64),
        (&RESERVE_TIME, age_ms as f64),
    ] {
        text.family(metric).value(&LOCAL, value);
    }
    if runtime.config.timers.enabled {
        let (_, waiting, _) = delivery.timer_progress(now_ms);
        text.family(&TIMER_ENQUEUE_LAG).value(&LOCAL, waiting as f64);
        let next = QueueOffset::new(delivery.timer.queue_offset.load(Ordering::Relaxed).unsigned_abs());
        let queue = tables.store.find_queue(TIMER_TOPIC, 0).filter(|_| waiting > 0);
        let stored_ms = queue.and_then(|queue| tables.store.store_time(&queue, next).ok().flatten());
        let waits_ms = stored_ms.map_or(0, |stored_ms| (now_ms - stored_ms).max(0));
        text.family(&TIMER_ENQUEUE_LATENCY).value(&LOCAL, waits_ms as f64);
        let read_ms = delivery.timer.read_ms.load(Ordering::Relaxed);
        let behind_ms = if read_ms > 0 { (now_ms - read_ms).max(0) } else { 0 };
        text.family(&TIMER_DEQUEUE_LATENCY).value(&LOCAL, behind_ms as f64);
    }
    let held = delivery.pops.in_flight_queues.held.load(Ordering::Relaxed);
    text.single(&CHECKPOINTS, held as f64);
    revive(tables, delivery, text, now_ms);
}

/// Writes the lag of the revive engine in each revive queue.
fn revive(tables: &Tables, delivery: &Delivery, text: &mut Exposition, now_ms: i64) {
    let topic = &delivery.pops.revive_topic;
    let count = tables.topics.find(topic).map_or(0, |topic| topic.queue_count());
    let rows: Vec<(String, i64, i64)> = (0..count)
        .filter_map(|queue_id| {
            let queue = tables.store.find_queue(topic, queue_id)?;
            // The offset of the last record that was processed.
            let done = tables.offsets.committed(REVIVE_GROUP, topic, queue_id).unwrap_or(-1);
            let next = (done + 1).max(queue.min().to_i64());
            let behind = (queue.max().to_i64() - next).max(0);
            let first = QueueOffset::new(u64::try_from(next).ok()?);
            let stored_ms =
                if behind > 0 { tables.store.store_time(&queue, first).ok().flatten() } else { None };
            let age_ms = stored_ms.map_or(0, |stored_ms| (now_ms - stored_ms).max(0));
            Some((queue_id.to_string(), behind, age_ms))
        })
        .collect();
    let mut family = text.family(&REVIVE_LATENCY);
    rows.iter().for_each(|(queue_id, _, age_ms)| family.value(&[queue_id], *age_ms as f64));
    family.end();
    let mut family = text.family(&REVIVE_LAG);
    rows.iter().for_each(|(queue_id, behind, _)| family.value(&[queue_id], *behind as f64));
    family.end();
}
