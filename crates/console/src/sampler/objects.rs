//! Samples of single topics and groups: each second while their pages are open, once a minute if they are the busiest.

use super::{LIVE_MS, SAMPLE_SHARE, ask};
use crate::answers::now_ms;
use crate::app::App;
use crate::history::Kind;
use admin::{Arguments, GroupProgress, TopicRates, TopicStatus};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use wire::names::RETRY_PREFIX;

/// Time over which rates are means, ms: consumers commit their offsets every five seconds only.
const WINDOW_MS: i64 = 10_000;
/// Time between two looks at the messages that are delivered from a topic, ms; brokers count them in means of ten seconds and more.
const DELIVERED_MS: i64 = 10_000;
/// Time between two looks at the busiest topics and groups, ms, and the number of each.
const BUSIEST_MS: i64 = 60_000;
const BUSIEST_MAX: usize = 20;

/// Samples topics and groups in an endless loop, while no broker refuses the console.
pub(crate) async fn sample_objects(app: &App) {
    let (mut counters, mut busiest_ms) = (Counters::default(), 0);
    loop {
        let begun_ms = now_ms();
        let [mut topics, mut groups] = [Kind::Topic, Kind::Group].map(|kind| app.live.watched(kind));
        if begun_ms - busiest_ms >= BUSIEST_MS {
            busiest_ms = begun_ms;
            topics.extend(app.live.busiest_topics(BUSIEST_MAX));
            groups.extend(app.lags.oldest_readers(BUSIEST_MAX).into_iter().map(|(group, _)| group));
            for names in [&mut topics, &mut groups] {
                names.sort_unstable();
                names.dedup();
            }
        }
        if !app.live.sample_unwatched().is_refused() {
            for topic in topics {
                sample_topic(app, &mut counters, &topic).await;
            }
            for group in groups {
                sample_group(app, &mut counters, &group).await;
            }
        }
        counters.forget_old(begun_ms);
        let took_ms = now_ms() - begun_ms;
        let pause_ms = LIVE_MS.max(took_ms * SAMPLE_SHARE) - took_ms;
        tokio::time::sleep(Duration::from_millis(pause_ms.clamp(1, BUSIEST_MS).unsigned_abs())).await;
    }
}

async fn sample_topic(app: &App, counters: &mut Counters, topic: &str) {
    let object = (Kind::Topic, topic);
    if let Some(TopicStatus { queues, failures, .. }) =
        of_object::<TopicStatus>(app, ("topic", "status"), ("topic", topic)).await
        && failures.is_empty()
    {
        let stored = queues.iter().map(|queue| queue.max_offset).sum();
        let rate = counters.rate(object, "stored", now_ms(), (queues.len(), stored));
        app.live.add(object, now_ms(), &[rate, None]);
    }
    if counters.is_due(object, now_ms())
        && let Some(rows) = of_object::<Vec<TopicRates>>(app, ("topic", "rates"), ("topic", topic)).await
    {
        app.live.add(object, now_ms(), &[None, Some(rows.iter().map(|row| row.out_tps).sum())]);
    }
}

async fn sample_group(app: &App, counters: &mut Counters, group: &str) {
    let progress = of_object::<GroupProgress>(app, ("group", "progress"), ("group", group)).await;
    let Some(GroupProgress { queues, .. }) = progress.filter(|progress| progress.failures.is_empty()) else {
        return;
    };
    let (object, at_ms) = ((Kind::Group, group), now_ms());
    let [mut consumed, mut retried] = [(0, 0); 2];
    for queue in &queues {
        let (count, sum) = match queue.topic.starts_with(RETRY_PREFIX) {
            true => (&mut retried, queue.broker_offset),
            false => (&mut consumed, queue.consumer_offset),
        };
        count.0 += 1;
        count.1 += sum;
    }
    let lag: i64 = queues.iter().map(|queue| queue.diff.max(0)).sum();
    let time_behind = admin::Lag::largest(queues.iter().map(|queue| queue.lag));
    let values = [
        Some(lag as f64),
        time_behind.lag_seconds.map(|seconds| seconds as f64),
        counters.rate(object, "consumed", at_ms, consumed),
        counters.rate(object, "retried", at_ms, retried),
    ];
    app.live.add(object, at_ms, &values);
}

/// Returns the answer of an operation about one topic or group; `None` if the operation fails, for example because the
/// object was deleted.
async fn of_object<T: Any>(
    app: &App,
    operation: (&str, &str),
    (name, value): (&'static str, &str),
) -> Option<T> {
    let mut arguments = Arguments::default();
    arguments.set(name, value);
    ask(app, operation, &arguments).await.ok()
}

/// Kind and name of an object, and the name of the counted figure.
type Counted = (Kind, String, &'static str);

/// Counters of the objects that are sampled, with the times of the answers.
#[derive(Default)]
struct Counters {
    counted: HashMap<Counted, Window>,
    /// When the delivered messages of a topic were last asked for.
    asked: HashMap<String, i64>,
}

#[derive(Default)]
struct Window {
    /// Number of queues over which the values are sums.
    queues: usize,
    values: VecDeque<(i64, i64)>,
}

impl Counters {
    /// Growth of a sum over queues, per second within the window. `None` for the first value, for a sum over another
    /// number of queues, and for a sum that is smaller than before.
    fn rate(
        &mut self,
        (kind, name): (Kind, &str),
        counted: &'static str,
        at_ms: i64,
        (queues, sum): (usize, i64),
    ) -> Option<f64> {
        let window = self.counted.entry((kind, name.to_owned(), counted)).or_default();
        if window.queues != queues || window.values.back().is_some_and(|(_, last)| *last > sum) {
            window.values.clear();
        }
        window.queues = queues;
        if queues > 0 && window.values.back().is_none_or(|(last_ms, _)| *last_ms < at_ms) {
            window.values.push_back((at_ms, sum));
        }
        let least_ms = if counted == "stored" { 0 } else { WINDOW_MS };
        while window.values.len() > 2 && window.values[1].0 <= at_ms - least_ms {
            window.values.pop_front();
        }
        let (since_ms, since) = *window.values.front()?;
        (at_ms > since_ms).then(|| (sum - since) as f64 * 1000.0 / (at_ms - since_ms) as f64)
    }

    /// Whether the delivered messages of a topic are to be asked for now.
    fn is_due(&mut self, (_, topic): (Kind, &str), now_ms: i64) -> bool {
        let is_due = self.asked.get(topic).is_none_or(|at_ms| now_ms - at_ms >= DELIVERED_MS);
        if is_due {
            self.asked.insert(topic.to_owned(), now_ms);
        }
        is_due
    }

    /// Forgets objects that were not sampled in the last two minutes.
    fn forget_old(&mut self, now_ms: i64) {
        let is_new = |at_ms: i64| now_ms - at_ms < 2 * BUSIEST_MS;
        self.counted.retain(|_, window| window.values.back().is_some_and(|(at_ms, _)| is_new(*at_ms)));
        self.asked.retain(|_, at_ms| is_new(*at_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_that_are_committed_every_five_seconds_have_a_steady_rate() {
        let mut counters = Counters::default();
        let mut take =
            |second: i64| counters.rate((Kind::Group, "g"), "consumed", second * 1000, (4, second / 5 * 500));
        let found: Vec<_> = (0..40).filter_map(&mut take).skip(14).collect();
        assert!(found.len() > 20 && found.iter().all(|rate| *rate == 100.0), "{found:?}");
    }

    #[test]
    fn sums_of_other_queues_are_not_compared() {
        let mut counters = Counters::default();
        let mut take = |at_ms, queues, sum| counters.rate((Kind::Topic, "T"), "stored", at_ms, (queues, sum));
        assert_eq!([take(1000, 4, 100), take(2000, 4, 150), take(3000, 8, 9000)], [None, Some(50.0), None]);
        assert_eq!([take(4000, 8, 9100), take(5000, 8, 7)], [Some(100.0), None], "made anew");
        assert_eq!([take(6000, 0, 0), take(7000, 0, 0)], [None, None], "no queue");
    }

    #[test]
    fn counters_are_forgotten() {
        let mut counters = Counters::default();
        let topic = (Kind::Topic, "T");
        counters.rate(topic, "stored", 1000, (1, 1));
        assert!(
            counters.is_due(topic, 1000) && !counters.is_due(topic, 2000) && counters.is_due(topic, 11_000)
        );
        counters.forget_old(11_000 + 2 * BUSIEST_MS);
        assert!(counters.counted.is_empty() && counters.asked.is_empty());
    }
}
