//! Totals and rates of the broker's runtime status (`StoreStatsService`, `BrokerStats`,
//! `AdminBrokerProcessor.prepareRuntimeInfo`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;

use wire::record::RecordView;

use super::Sums;
use crate::broker::Broker;

/// The spans in milliseconds for which rates are shown.
const SPEED_SPANS_MS: [i64; 3] = [10_000, 60_000, 600_000];

/// Samples of the totals, one every ten seconds for the last ten minutes.
#[derive(Default)]
pub(super) struct Totals {
    samples: VecDeque<(i64, Sums)>,
    started_ms: i64,
    /// Log offset of the end of the log when the broker started.
    started_at: u64,
    /// Total messages stored and delivered until the last midnight.
    today: (u64, u64),
    /// Total messages stored and delivered until the midnight before that.
    yesterday: (u64, u64),
    hour: Option<u8>,
}

impl Totals {
    pub(super) fn sample(&mut self, now_ms: i64, sums: Sums, appended: u64) {
        if self.samples.is_empty() {
            (self.started_ms, self.started_at) = (now_ms, appended);
        }
        let hour = store::local_hour(now_ms);
        // The first sample after midnight.
        if self.hour.is_some_and(|last| hour < last) {
            self.yesterday = std::mem::replace(&mut self.today, (sums.put_user, sums.got_user));
        }
        self.hour = Some(hour);
        self.samples.push_back((now_ms, sums));
        let oldest_ms = now_ms - SPEED_SPANS_MS[2] - super::SAMPLE_MS;
        while self.samples.front().is_some_and(|(time, _)| *time < oldest_ms) {
            self.samples.pop_front();
        }
    }

    /// The rates per second over the last 10, 60 and 600 seconds, or over the time the broker has run if that is less.
    fn speeds(&self, now_ms: i64, now: Sums, of: fn(&Sums) -> u64) -> String {
        let speed = |span_ms: i64| {
            let old = self.samples.iter().rev().find(|(time, _)| now_ms - time >= span_ms);
            let Some((from_ms, then)) = old.or_else(|| self.samples.front()) else { return 0.0 };
            let seconds = (now_ms - from_ms).max(1) as f64 / 1000.0;
            of(&now).saturating_sub(of(then)) as f64 / seconds
        };
        SPEED_SPANS_MS.map(|span_ms| decimal(speed(span_ms))).join(" ")
    }
}

/// Writes a number much as Java writes a `double`: always with a decimal point.
fn decimal(value: f64) -> String {
    format!("{value:?}")
}

/// The entries of the broker's runtime status about messages, with Java's names. Those about request queues and locks of the
/// page cache are zero, since Vostok has neither.
pub(crate) fn table(broker: &Broker) -> BTreeMap<String, String> {
    let now_ms = broker.now_ms();
    let sums = {
        let mut tables = broker.stats.tables();
        let is_first = tables.windows.is_empty();
        tables.look(broker, is_first)
    };
    let totals = broker.stats.totals.lock().unwrap_or_else(PoisonError::into_inner);
    let put_bytes = broker.store.appended().get().saturating_sub(totals.started_at);
    let put = sums.put.max(1);
    let mut table = BTreeMap::new();
    let mut tell = |key: &str, value: String| drop(table.insert(key.to_owned(), value));
    tell("bootTimestamp", totals.started_ms.to_string());
    tell("runtime", run_time(now_ms - totals.started_ms));
    tell("putMessageTimesTotal", put.to_string());
    tell("putMessageSizeTotal", put_bytes.to_string());
    tell("putMessageAverageSize", decimal(put_bytes as f64 / put as f64));
    for (key, of) in [
        ("putTps", (|sums| sums.put) as fn(&Sums) -> u64),
        ("getFoundTps", |sums| sums.found),
        ("getMissTps", |sums| sums.missed),
        ("getTotalTps", |sums| sums.found + sums.missed),
        ("getTransferredTps", |sums| sums.got),
    ] {
        tell(key, totals.speeds(now_ms, sums, of));
    }
    for (key, (put, got)) in [
        ("TotalYesterdayMorning", totals.yesterday),
        ("TotalTodayMorning", totals.today),
        ("TotalTodayNow", (sums.put_user, sums.got_user)),
    ] {
        tell(&format!("msgPut{key}"), put.to_string());
        tell(&format!("msgGet{key}"), got.to_string());
    }
    tell("earliestMessageTimeStamp", earliest_ms(broker).to_string());
    let mut table: BTreeMap<String, String> = table;
    table.extend(positions(broker, now_ms));
    table.extend(pools(broker));
    table.extend(broker.stats.puts.tell().map(|(key, value)| (key.to_owned(), value)));
    table
}

/// Store time of the oldest message in milliseconds since the epoch; -1 when there is none.
fn earliest_ms(broker: &Broker) -> i64 {
    let mut bytes = Vec::new();
    let read = broker.store.record_at(broker.store.min(), &mut bytes);
    read.ok().and_then(|()| RecordView::parse(&bytes).ok()).map_or(-1, |record| record.store_timestamp())
}

/// The entries about delivery positions and the flush position.
fn positions(broker: &Broker, now_ms: i64) -> BTreeMap<String, String> {
    let flush_behind = broker.store.appended().since(broker.store.flushed());
    let mut table = BTreeMap::from([
        ("remainHowManyDataToFlush".to_owned(), crate::retention::size(flush_behind)),
        ("dispatchBehindBytes".to_owned(), "0".to_owned()),
    ]);
    for level in 1..=broker.delay_levels() {
        let queue = broker.store.find_queue(crate::names::SCHEDULE_TOPIC, level - 1);
        if let Some(max) = queue.map(|queue| queue.max().get()).filter(|max| *max > 0) {
            let value = format!("{},{max}", broker.schedule.offset(level));
            table.insert(format!("scheduleMessageOffset_{level}"), value);
        }
    }
    let (behind_s, waiting, pending) =
        if broker.config.timers.enabled { broker.timer_progress(now_ms) } else { (0, 0, 0) };
    table.insert("timerReadBehind".to_owned(), behind_s.to_string());
    table.insert("timerOffsetBehind".to_owned(), waiting.to_string());
    table.insert("timerCongestNum".to_owned(), pending.to_string());
    table
}

/// The entries about thread pools and the Java process, for tools that require them.
fn pools(broker: &Broker) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for pool in ["send", "pull", "litePull", "query", "ack"] {
        table.insert(format!("{pool}ThreadPoolQueueSize"), "0".to_owned());
        table.insert(format!("{pool}ThreadPoolQueueHeadWaitTimeMills"), "0".to_owned());
        let capacity = broker.config.shown(&format!("{pool}ThreadPoolQueueCapacity"));
        table.insert(format!("{pool}ThreadPoolQueueCapacity"), capacity);
    }
    for (key, value) in [
        ("EndTransactionQueueSize", "0"),
        ("EndTransactionThreadPoolQueueCapacity", &broker.config.shown("endTransactionPoolQueueCapacity")),
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

    fn put(put: u64) -> Sums {
        Sums { put, put_user: put, got_user: put / 2, ..Sums::default() }
    }

    #[test]
    fn speeds_are_told_for_three_spans_and_never_empty() {
        let mut totals = Totals::default();
        let speeds = |totals: &Totals, now_ms, sums| totals.speeds(now_ms, sums, |sums| sums.put);
        assert_eq!(speeds(&totals, 0, put(0)), "0.0 0.0 0.0");
        for index in 0..200_i64 {
            totals.sample(index * 10_000, put(index as u64 * 100), 0);
        }
        let now_ms = 199 * 10_000 + 5000;
        assert_eq!(speeds(&totals, now_ms, put(200 * 100 - 50)), "10.0 10.0 10.0");
        assert!(totals.samples.len() < 64);
    }

    #[test]
    fn mornings_are_noted_at_midnight() {
        let mut totals = Totals::default();
        let hours = 60;
        for hour in 0..hours {
            totals.sample(hour * 3_600_000, put(hour as u64), 0);
        }
        assert!(totals.today.0 > totals.yesterday.0 && totals.yesterday.0 > 0);
        assert_eq!(totals.today.0 - totals.yesterday.0, 24);
        assert_eq!(totals.today.1, totals.today.0 / 2);
    }

    #[test]
    fn a_run_time_in_words() {
        assert_eq!(run_time(93_784_000), "[ 1 days, 2 hours, 3 minutes, 4 seconds ]");
    }
}
