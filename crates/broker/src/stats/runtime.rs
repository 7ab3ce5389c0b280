//! Totals and rates of the broker's runtime status (`StoreStatsService`, `BrokerStats`,
//! `AdminBrokerProcessor.prepareRuntimeInfo`).

use std::collections::BTreeMap;

use wire::record::RecordView;

use crate::parts::{Delivery, Replication, Runtime, Tables};
use crate::state::{Sums, decimal};

/// Returns the entries of the broker's runtime status about messages, with Java's names. Entries about request queues
/// and locks of the page cache are zero, because Vostok has neither.
pub(crate) fn table(tables: &Tables, delivery: &Delivery, runtime: &Runtime) -> BTreeMap<String, String> {
    let now_ms = runtime.now_ms();
    let sums = {
        let mut sampled = delivery.figures.stats.tables();
        let is_first = sampled.windows.is_empty();
        sampled.look(&tables.store, &tables.offsets, is_first)
    };
    let totals = delivery.figures.stats.totals();
    let put_bytes = tables.store.appended().get().saturating_sub(totals.started_at);
    let put = sums.put.max(1);
    let mut table = BTreeMap::new();
    let mut add = |key: &str, value: String| drop(table.insert(key.to_owned(), value));
    add("bootTimestamp", totals.started_ms.to_string());
    add("runtime", run_time(now_ms - totals.started_ms));
    add("putMessageTimesTotal", put.to_string());
    add("putMessageSizeTotal", put_bytes.to_string());
    add("putMessageAverageSize", decimal(put_bytes as f64 / put as f64));
    for (key, of) in [
        ("putTps", (|sums| sums.put) as fn(&Sums) -> u64),
        ("getFoundTps", |sums| sums.found),
        ("getMissTps", |sums| sums.missed),
        ("getTotalTps", |sums| sums.found + sums.missed),
        ("getTransferredTps", |sums| sums.got),
    ] {
        add(key, totals.speeds(now_ms, sums, of));
    }
    for (key, (put, got)) in [
        ("TotalYesterdayMorning", totals.yesterday),
        ("TotalTodayMorning", totals.today),
        ("TotalTodayNow", (sums.put_user, sums.got_user)),
    ] {
        add(&format!("msgPut{key}"), put.to_string());
        add(&format!("msgGet{key}"), got.to_string());
    }
    add("earliestMessageTimeStamp", earliest_ms(&tables.store).to_string());
    let mut table: BTreeMap<String, String> = table;
    table.extend(positions(delivery, &delivery.replication, runtime, now_ms));
    table.extend(pools(runtime));
    table.extend(delivery.figures.stats.puts.runtime_entries().map(|(key, value)| (key.to_owned(), value)));
    table
}

/// Store time of the oldest message in milliseconds since the epoch; -1 when there is none.
pub(crate) fn earliest_ms(store: &store::Store) -> i64 {
    let mut bytes = Vec::new();
    let read = store.record_at(store.min(), &mut bytes);
    read.ok().and_then(|()| RecordView::parse(&bytes).ok()).map_or(-1, |record| record.store_timestamp())
}

/// The entries about delivery positions and the flush position.
fn positions(
    delivery: &Delivery,
    replication: &Replication,
    runtime: &Runtime,
    now_ms: i64,
) -> BTreeMap<String, String> {
    let flush_behind = replication.store.appended().since(replication.store.flushed());
    let mut table = BTreeMap::from([
        ("remainHowManyDataToFlush".to_owned(), crate::retention::size(flush_behind)),
        ("dispatchBehindBytes".to_owned(), "0".to_owned()),
    ]);
    for level in 1..=runtime.delay_levels() {
        let queue = replication.store.find_queue(crate::names::SCHEDULE_TOPIC, level - 1);
        if let Some(max) = queue.map(|queue| queue.max().get()).filter(|max| *max > 0) {
            let value = format!("{},{max}", delivery.schedule.offset(level));
            table.insert(format!("scheduleMessageOffset_{level}"), value);
        }
    }
    // A slave delivers no messages, and the positions of a former master do not move.
    let delivers = runtime.config.timers.enabled && !replication.role.is_slave();
    let (behind_s, waiting, pending) = if delivers { delivery.timer_progress(now_ms) } else { (0, 0, 0) };
    table.insert("timerReadBehind".to_owned(), behind_s.to_string());
    table.insert("timerOffsetBehind".to_owned(), waiting.to_string());
    table.insert("timerCongestNum".to_owned(), pending.to_string());
    table
}

/// The entries about thread pools and the Java process, for tools that require them.
fn pools(runtime: &Runtime) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for pool in ["send", "pull", "litePull", "query", "ack"] {
        table.insert(format!("{pool}ThreadPoolQueueSize"), "0".to_owned());
        table.insert(format!("{pool}ThreadPoolQueueHeadWaitTimeMills"), "0".to_owned());
        let capacity = runtime.config.shown(&format!("{pool}ThreadPoolQueueCapacity"));
        table.insert(format!("{pool}ThreadPoolQueueCapacity"), capacity);
    }
    for (key, value) in [
        ("EndTransactionQueueSize", "0"),
        ("EndTransactionThreadPoolQueueCapacity", &runtime.config.shown("endTransactionPoolQueueCapacity")),
        ("brokerActive", "true"),
        ("brokerVersion", &wire::codes::VERSION.to_string()),
        ("brokerVersionDesc", "V5_5_0"),
        ("dispatchMaxBuffer", "0"),
        ("pageCacheLockTimeMills", "0"),
        ("putMessageFailedTimes", "0"),
        ("remainTransientStoreBufferNumbs", "2147483647"),
        ("startAcceptSendRequestTimeStamp", "0"),
        ("timerDequeueTps", "0.0"),
        ("timerEnqueueTps", "0.0"),
    ] {
        table.insert(key.to_owned(), value.to_owned());
    }
    table
}

/// The time since the start in Java's format.
fn run_time(elapsed_ms: i64) -> String {
    let seconds = elapsed_ms.max(0) / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("[ {days} days, {hours} hours, {minutes} minutes, {} seconds ]", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_time_in_words() {
        assert_eq!(run_time(93_784_000), "[ 1 days, 2 hours, 3 minutes, 4 seconds ]");
    }
}
