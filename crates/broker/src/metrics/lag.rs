//! Metrics of the groups' lag (`ConsumerLagCalculator`). May wait for the disk, for the store times of messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use store::Queue;
use wire::units::QueueOffset;

use super::catalogue::{IN_FLIGHT, LAG, LAG_LATENCY, Metric, QUEUEING_LATENCY, READY};
use super::exposition::Exposition;
use super::labels::{flag, is_system, shown_topic};
use crate::names;
use crate::offsets::GroupOffsets;
use crate::parts::MetricsParts;
use crate::state::{Cell, KnownTimes};

/// Store times that are kept until the next scrape.
const TIMES_MAX: usize = 1 << 18;

/// Lag of a group in a topic, as sums over its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    lag: i64,
    in_flight: i64,
    ready: i64,
    /// Store time of the oldest message not consumed, in milliseconds since the epoch.
    unconsumed_ms: Option<i64>,
    /// Store time of the oldest message not read.
    unread_ms: Option<i64>,
}

/// Committed offset and read offset of a group in a queue, and the end of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueueProgress {
    committed: i64,
    read: i64,
    end: i64,
}

/// Figure of the progress that a metric shows.
type Figure<'f> = &'f dyn Fn(&Progress) -> i64;

pub(super) fn write(state: &MetricsParts, text: &mut Exposition) {
    let now_ms = state.runtime.now_ms();
    let rows = rows(state);
    let age = |stored_ms: Option<i64>| stored_ms.map_or(0, |stored_ms| (now_ms - stored_ms).max(0));
    let lag_age = |progress: &Progress| age(progress.unconsumed_ms);
    let queueing_age = |progress: &Progress| age(progress.unread_ms);
    let figures: [(&'static Metric, Figure<'_>); 5] = [
        (&LAG, &|progress| progress.lag),
        (&LAG_LATENCY, &lag_age),
        (&IN_FLIGHT, &|progress| progress.in_flight),
        (&QUEUEING_LATENCY, &queueing_age),
        (&READY, &|progress| progress.ready),
    ];
    for (metric, figure) in figures {
        let mut family = text.family(metric);
        for ((group, topic, is_retry), progress) in &rows {
            let labels = [group.as_str(), topic.as_str(), flag(*is_retry), flag(is_system(topic, group))];
            family.value(&labels, figure(progress) as f64);
        }
        family.end();
    }
}

/// Returns the progress of all groups that committed offsets or are connected, by group, topic and whether the topic
/// is a retry topic.
fn rows(state: &MetricsParts) -> BTreeMap<(String, String, bool), Progress> {
    // The queues in which groups have offsets, looked up once for all groups of their topic.
    let mut queues: HashMap<String, HashMap<i32, Option<Arc<Queue>>>> = HashMap::new();
    let mut groups = state.tables.offsets.groups();
    groups.extend(state.sessions.clients.all_consumers().into_keys());
    let mut rows: BTreeMap<_, Progress> = BTreeMap::new();
    let mut times = HeadTimes::of(state);
    for group in groups {
        let mut topics: BTreeSet<String> = state.tables.offsets.topics_of(&group);
        topics.extend(state.sessions.clients.subscribed_topics(&group));
        for topic in topics.iter().filter(|topic| state.sessions.clients.is_current(&group, topic)) {
            let Some(found) = state.tables.topics.find(topic) else { continue };
            let is_retry = names::is_retry_topic(topic) || names::is_dlq_topic(topic);
            let key = (group.clone(), shown_topic(topic, &group).to_owned(), is_retry);
            let row = rows.entry(key).or_default();
            let of_topic = queues.entry(topic.clone()).or_default();
            let offsets = state.tables.offsets.offsets_by_queue(&group, topic);
            let cells = state.delivery.pops.in_flight_queues.of_group(&group, topic);
            // In all other queues the group counts as being at the end.
            let known: BTreeSet<i32> = offsets.keys().chain(cells.keys()).copied().collect();
            for queue_id in known.range(0..found.config.write_queue_nums.max(0)).copied() {
                let queue = of_topic
                    .entry(queue_id)
                    .or_insert_with(|| state.tables.store.find_queue(topic, queue_id));
                let Some(queue) = queue else { continue };
                let progress =
                    QueueProgress::of(offsets.get(&queue_id), cells.get(&queue_id), queue.max().to_i64());
                // A group that moves on reads the index at each scrape, a group that stands still does not read the log.
                let wanted = state.sessions.unconsumed(&group, queue, progress.committed, progress.end);
                add(&mut times, row, queue, (progress, wanted.map(|message| message.offset)));
            }
        }
    }
    state.figures.stats.keep_head_times(times.now);
    rows
}

/// Store times of the messages that groups consume next. A group without progress has the same message at the
/// next scrape. With a hundred thousand queues, a scrape must not read that many messages.
struct HeadTimes<'b> {
    state: &'b MetricsParts,
    /// Store times that the last scrape read.
    before: KnownTimes,
    /// Store times that this scrape read or took over.
    now: KnownTimes,
}

impl<'b> HeadTimes<'b> {
    fn of(state: &'b MetricsParts) -> Self {
        Self { state, before: state.figures.stats.take_head_times(), now: KnownTimes::default() }
    }

    /// Returns the store time of the message at an offset, or of the first remaining message behind it. An unreadable
    /// message has no age.
    fn stored_ms(&mut self, queue: &Arc<Queue>, offset: i64) -> Option<i64> {
        let offset = QueueOffset::new(u64::try_from(offset.max(queue.min().to_i64())).ok()?);
        if offset >= queue.max() {
            return None;
        }
        // The address is that of no other queue, because both tables hold the queue.
        let key = (Arc::as_ptr(queue).addr(), offset.get());
        let known = self.now.get(&key).or_else(|| self.before.get(&key));
        let stored_ms = match known {
            Some((_, stored_ms)) => *stored_ms,
            None => self.state.tables.store.store_time(queue, offset).ok()??,
        };
        if self.now.len() < TIMES_MAX {
            self.now.insert(key, (queue.clone(), stored_ms));
        }
        Some(stored_ms)
    }
}

impl QueueProgress {
    /// Returns the position of a group in a queue that ends at `end`. `popped` is the in-flight queue of a group that has
    /// popped the queue. A group without a committed offset in the queue counts as being at the end.
    fn of(offsets: Option<&GroupOffsets>, popped: Option<&Arc<Cell>>, end: i64) -> Self {
        let committed = offsets.map(|offsets| offsets.committed).filter(|offset| *offset >= 0).unwrap_or(end);
        let read = match popped {
            Some(cell) => cell.in_flight().position(committed),
            None => offsets.map_or(committed, |offsets| offsets.pulled.max(committed)),
        };
        Self { committed, read, end }
    }
}

/// Adds the lag of a group in a queue. `wanted` is the offset of the first message that the group has not consumed.
fn add(
    times: &mut HeadTimes<'_>,
    row: &mut Progress,
    queue: &Arc<Queue>,
    (progress, wanted): (QueueProgress, Option<i64>),
) {
    let QueueProgress { committed, read, end } = progress;
    row.lag += (end - committed).max(0);
    row.in_flight += (read - committed).max(0);
    row.ready += (end - read).max(0);
    let unconsumed_ms = wanted.and_then(|offset| times.stored_ms(queue, offset));
    row.unconsumed_ms = older(row.unconsumed_ms, unconsumed_ms);
    let unread_ms = match wanted {
        Some(offset) if read <= offset => unconsumed_ms,
        Some(_) => times.stored_ms(queue, read),
        None => None,
    };
    row.unread_ms = older(row.unread_ms, unread_ms);
}

fn older(left: Option<i64>, right: Option<i64>) -> Option<i64> {
    left.into_iter().chain(right).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn a_message_is_read_once_while_a_group_stands_before_it() {
        let fixture = Fixture::new();
        let queue = fixture.queue("T", 0).index.clone();
        fixture.put("T", 0, b"body", b"");
        let look = || {
            let state = fixture.broker.metrics_parts();
            let mut times = HeadTimes::of(&state);
            let found = times.stored_ms(&queue, 0);
            fixture.broker.figures.stats.keep_head_times(times.now);
            found
        };
        let first = look();
        assert!(first.is_some());
        fixture.lose_log_file();
        assert_eq!(look(), first, "the next scrape knows it");
        fixture.broker.figures.stats.take_head_times();
        assert_eq!(look(), None, "it cannot be read");
    }
}
