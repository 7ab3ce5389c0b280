//! `/metrics/exporter`: the names and labels of the separate rocketmq-exporter (`RMQMetricsCollector`), for its
//! dashboards and alerts. It covers this broker alone and sends no requests. All its metrics are gauges. Figures that
//! only clients know (`rocketmq_client_*`) are left out.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::UnboundedSender;
use wire::body::MessageModel;

use super::catalogue::{Kind, Metric};
use super::exposition::Exposition;
use crate::parts::{Figures, MetricsParts, Runtime, Tables};
use crate::state::Name;
use crate::{names, progress, retention, stats};

macro_rules! gauges {
    ($($id:ident $name:literal [$($label:literal)*])*) => {
        $(static $id: Metric = Metric { name: $name, kind: Kind::Gauge, labels: &[$($label),*], doc: "as rocketmq-exporter has it" };)*
    };
}

gauges! {
    BROKER_TPS "rocketmq_broker_tps" ["cluster" "brokerIP" "broker"]
    BROKER_QPS "rocketmq_broker_qps" ["cluster" "brokerIP" "broker"]
    SLAVE_DIFF "rocketmq_broker_commitlog_diff" ["cluster" "brokerIP" "broker"]
    PRODUCER_TPS "rocketmq_producer_tps" ["cluster" "broker" "topic"]
    PRODUCER_SIZE "rocketmq_producer_message_size" ["cluster" "broker" "topic"]
    PRODUCER_OFFSET "rocketmq_producer_offset" ["cluster" "broker" "topic"]
    RETRY_OFFSET "rocketmq_topic_retry_offset" ["cluster" "broker" "topic"]
    DLQ_OFFSET "rocketmq_topic_dlq_offset" ["cluster" "broker" "group"]
    PRODUCER_COUNT "rocketmq_producer_count" ["cluster" "broker" "group"]
    CONSUMER_TPS "rocketmq_consumer_tps" ["cluster" "broker" "topic" "group"]
    CONSUMER_SIZE "rocketmq_consumer_message_size" ["cluster" "broker" "topic" "group"]
    SEND_BACK "rocketmq_send_back_nums" ["cluster" "broker" "topic" "group"]
    CONSUMER_OFFSET "rocketmq_consumer_offset" ["cluster" "broker" "topic" "group"]
    CONSUME_TPS "rocketmq_group_consume_tps" ["cluster" "broker" "topic" "group"]
    CONSUME_OFFSET "rocketmq_group_consume_total_offset" ["cluster" "broker" "topic" "group"]
    LATENCY "rocketmq_group_get_latency_by_storetime" ["cluster" "broker" "topic" "group"]
    GROUP_DIFF "rocketmq_group_diff" ["group" "topic" "countOfOnlineConsumers" "msgModel"]
    RETRY_DIFF "rocketmq_group_retrydiff" ["group" "topic" "countOfOnlineConsumers" "msgModel"]
    DLQ_DIFF "rocketmq_group_dlqdiff" ["group" "topic" "countOfOnlineConsumers" "msgModel"]
    GROUP_COUNT "rocketmq_group_count" ["caddr" "localaddr" "group"]
}

/// Gauges of the runtime table: name, key of the table, and which of the words of its value is the number.
macro_rules! runtime {
    ($($name:literal $key:literal $word:literal)*) => {
        static RUNTIME: &[(Metric, &str, usize)] = &[$((
            Metric {
                name: concat!("rocketmq_brokeruntime_", $name),
                kind: Kind::Gauge,
                labels: &["cluster", "brokerIP", "brokerHost", "des", "boottime", "broker_version"],
                doc: concat!($key, " of the runtime info"),
            },
            $key,
            $word,
        )),*];
    };
}

runtime! {
    "pmdt_0ms" "putMessageDistributeTime" 0
    "pmdt_0to10ms" "putMessageDistributeTime" 1
    "pmdt_10to50ms" "putMessageDistributeTime" 2
    "pmdt_50to100ms" "putMessageDistributeTime" 3
    "pmdt_100to200ms" "putMessageDistributeTime" 4
    "pmdt_200to500ms" "putMessageDistributeTime" 5
    "pmdt_500to1s" "putMessageDistributeTime" 6
    "pmdt_1to2s" "putMessageDistributeTime" 7
    "pmdt_2to3s" "putMessageDistributeTime" 8
    "pmdt_3to4s" "putMessageDistributeTime" 9
    "pmdt_4to5s" "putMessageDistributeTime" 10
    "pmdt_5to10s" "putMessageDistributeTime" 11
    "pmdt_10stomore" "putMessageDistributeTime" 12
    "put_latency_99" "putLatency99" 0
    "put_latency_999" "putLatency999" 0
    "put_tps10" "putTps" 0
    "put_tps60" "putTps" 1
    "put_tps600" "putTps" 2
    "getfound_tps10" "getFoundTps" 0
    "getfound_tps60" "getFoundTps" 1
    "getfound_tps600" "getFoundTps" 2
    "getmiss_tps10" "getMissTps" 0
    "getmiss_tps60" "getMissTps" 1
    "getmiss_tps600" "getMissTps" 2
    "gettotal_tps10" "getTotalTps" 0
    "gettotal_tps60" "getTotalTps" 1
    "gettotal_tps600" "getTotalTps" 2
    "gettransfered_tps10" "getTransferredTps" 0
    "gettransfered_tps60" "getTransferredTps" 1
    "gettransfered_tps600" "getTransferredTps" 2
    "msg_put_total_today_now" "msgPutTotalTodayNow" 0
    "msg_gettotal_today_now" "msgGetTotalTodayNow" 0
    "msg_puttotal_todaymorning" "msgPutTotalTodayMorning" 0
    "msg_gettotal_todaymorning" "msgGetTotalTodayMorning" 0
    "msg_puttotal_yesterdaymorning" "msgPutTotalYesterdayMorning" 0
    "msg_gettotal_yesterdaymorning" "msgGetTotalYesterdayMorning" 0
    "putmessage_times_total" "putMessageTimesTotal" 0
    "put_message_size_total" "putMessageSizeTotal" 0
    "put_message_average_size" "putMessageAverageSize" 0
    "putmessage_entire_time_max" "putMessageEntireTimeMax" 0
    "getmessage_entire_time_max" "getMessageEntireTimeMax" 0
    "commitlog_minoffset" "commitLogMinOffset" 0
    "commitlog_maxoffset" "commitLogMaxOffset" 0
    "commitlog_disk_ratio" "commitLogDiskRatio" 0
    "consumequeue_disk_ratio" "consumeQueueDiskRatio" 0
    "dispatch_behind_bytes" "dispatchBehindBytes" 0
    "dispatch_maxbuffer" "dispatchMaxBuffer" 0
    "earliest_message_timestamp" "earliestMessageTimeStamp" 0
    "pagecache_lock_time_mills" "pageCacheLockTimeMills" 0
    "remain_howmanydata_toflush" "remainHowManyDataToFlush" 0
    "remain_transientstore_buffer_numbs" "remainTransientStoreBufferNumbs" 0
    "start_accept_sendrequest_time" "startAcceptSendRequestTimeStamp" 0
    "send_threadpool_queue_size" "sendThreadPoolQueueSize" 0
    "send_threadpoolqueue_capacity" "sendThreadPoolQueueCapacity" 0
    "send_threadpoolqueue_headwait_timemills" "sendThreadPoolQueueHeadWaitTimeMills" 0
    "pull_threadpoolqueue_size" "pullThreadPoolQueueSize" 0
    "pull_threadpoolqueue_capacity" "pullThreadPoolQueueCapacity" 0
    "pull_threadpoolqueue_headwait_timemills" "pullThreadPoolQueueHeadWaitTimeMills" 0
    "query_threadpoolqueue_size" "queryThreadPoolQueueSize" 0
    "query_threadpool_queue_capacity" "queryThreadPoolQueueCapacity" 0
    "query_threadpoolqueue_headwait_timemills" "queryThreadPoolQueueHeadWaitTimeMills" 0
    "commitlogdir_capacity_total" "total" 0
    "commitlogdir_capacity_free" "free" 0
}

/// Rows of a metric: the values of its labels, and its value.
type Rows = Vec<(Vec<String>, f64)>;

/// The page; `parts` gets all of it but the last part. May wait for the disk, for the store times of messages.
pub(super) fn scrape(state: &MetricsParts, parts: Option<UnboundedSender<String>>) -> String {
    let mut text = Exposition::new(Vec::new(), state.runtime.config.metrics.series_max, parts);
    runtime(state, &mut text);
    for (metric, rows) in of_broker(state)
        .into_iter()
        .chain(of_topics(&state.tables, &state.figures, &state.runtime))
        .chain(of_groups(state))
    {
        let mut family = text.family(metric);
        for (labels, value) in &rows {
            family.value(&labels.iter().map(String::as_str).collect::<Vec<_>>(), *value);
        }
        family.end();
    }
    text.finish()
}

/// The runtime table as gauges.
fn runtime(state: &MetricsParts, text: &mut Exposition) {
    let mut table = stats::table(&state.tables, &state.delivery, &state.runtime);
    table.extend(retention::status(&state.tables.store, &state.runtime));
    let disks = state.tables.store.space();
    let sum =
        |of: fn(&store::Usage) -> u64| disks.log.iter().map(|(_, usage)| of(usage)).sum::<u64>().to_string();
    table.insert("total".to_owned(), sum(|usage| usage.total));
    table.insert("free".to_owned(), sum(|usage| usage.available));
    let config = &state.runtime.config;
    let entry = |key: &str| table.get(key).map_or("", String::as_str);
    let address = state.identity.address();
    let labels = [
        config.broker_cluster_name.as_str(),
        &address,
        &config.broker_name,
        entry("brokerVersionDesc"),
        entry("bootTimestamp"),
        entry("brokerVersion"),
    ];
    for (metric, key, word) in RUNTIME {
        if let Some(value) = entry(key).split(' ').nth(*word).and_then(figure) {
            text.family(metric).value(&labels, value);
        }
    }
}

/// The number of a word: `12`, or `[0~10ms]:12`.
fn figure(word: &str) -> Option<f64> {
    word.rsplit(':').next()?.parse().ok()
}

fn of_broker(state: &MetricsParts) -> Vec<(&'static Metric, Rows)> {
    let (cluster, name) = (&state.runtime.config.broker_cluster_name, &state.runtime.config.broker_name);
    let labels = |address| vec![cluster.clone(), address, name.clone()];
    let rate = |of| vec![(labels(state.identity.address()), state.figures.stats.tps(of, cluster))];
    // A slave counts once it has said where its log ends.
    let slaves = state.replication.replicas.slaves().into_iter().filter(|slave| slave.has_reported());
    let end = state.tables.store.appended().get();
    let behind = slaves.map(|slave| {
        let acknowledged = slave.acknowledged.load(Ordering::Relaxed);
        (labels(slave.remote.to_string()), end.saturating_sub(acknowledged) as f64)
    });
    let producers = state.sessions.clients.all_producers().into_iter();
    let producers =
        producers.map(|(group, members)| (vec![cluster.clone(), name.clone(), group], members.len() as f64));
    vec![
        (&BROKER_TPS, rate(Name::BrokerPutNums)),
        (&BROKER_QPS, rate(Name::BrokerGetNums)),
        (&SLAVE_DIFF, behind.collect()),
        (&PRODUCER_COUNT, producers.collect()),
    ]
}

fn of_topics(tables: &Tables, figures: &Figures, runtime: &Runtime) -> [(&'static Metric, Rows); 5] {
    let [mut rates, mut sizes, mut ends, mut retries, mut dead] = [const { Rows::new() }; 5];
    let config = &runtime.config;
    for topic in tables.topics.all() {
        let name = topic.name();
        let labels = |last: &str| {
            vec![config.broker_cluster_name.clone(), config.broker_name.clone(), last.to_owned()]
        };
        let end = tables.store.topic_end(name).unwrap_or_default() as f64;
        if let Some(group) = name.strip_prefix(names::DLQ_PREFIX) {
            dead.push((labels(group), end));
        } else if names::is_retry_topic(name) {
            retries.push((labels(name), end));
        } else {
            ends.push((labels(name), end));
            rates.push((labels(name), figures.stats.tps(Name::TopicPutNums, name)));
            sizes.push((labels(name), figures.stats.tps(Name::TopicPutSize, name)));
        }
    }
    [
        (&PRODUCER_TPS, rates),
        (&PRODUCER_SIZE, sizes),
        (&PRODUCER_OFFSET, ends),
        (&RETRY_OFFSET, retries),
        (&DLQ_OFFSET, dead),
    ]
}

fn of_groups(state: &MetricsParts) -> Vec<(&'static Metric, Rows)> {
    let (config, now_ms) = (&state.runtime.config, state.runtime.now_ms());
    let mut table: BTreeMap<&str, (&'static Metric, Rows)> = BTreeMap::new();
    let mut add = |metric: &'static Metric, labels: Vec<String>, value: f64| {
        table.entry(metric.name).or_insert((metric, Rows::new())).1.push((labels, value));
    };
    for (group, stats) in
        progress::broker_consume_stats(&state.operator, false).consume_stats_list.into_iter().flatten()
    {
        let online = state.sessions.clients.consumers(&group);
        let count = online.as_ref().map_or(0, |view| view.members.len());
        let model = online.as_ref().map_or(MessageModel::Clustering, |view| view.message_model);
        if let Some(view) = &online {
            let joined = |of: fn(&crate::clients::Member) -> String| {
                view.members.iter().map(of).collect::<Vec<_>>().join(",")
            };
            let addresses = joined(|member| member.connection().client_addr);
            let labels = vec![addresses, joined(|member| member.client_id.clone()), group.clone()];
            add(&GROUP_COUNT, labels, count as f64);
        }
        for stats in stats {
            let Some(topic) = stats.offset_table.keys().next().map(|queue| queue.topic.clone()) else {
                continue;
            };
            let queues = stats.offset_table.values();
            let end: i64 = queues.clone().map(|queue| queue.broker_offset).sum();
            let done: i64 = queues.clone().map(|queue| queue.consumer_offset).sum();
            let model = if model == MessageModel::Broadcasting { "0" } else { "1" };
            let labels = vec![group.clone(), topic.clone(), count.to_string(), model.to_owned()];
            let diff = match () {
                () if names::is_retry_topic(&topic) => &RETRY_DIFF,
                () if names::is_dlq_topic(&topic) => &DLQ_DIFF,
                () => &GROUP_DIFF,
            };
            add(diff, labels, (end - done).max(0) as f64);
            let behind = queues
                .filter(|queue| queue.broker_offset > queue.consumer_offset && queue.last_timestamp > 0);
            let latency_ms = behind.map(|queue| now_ms - queue.last_timestamp).max().unwrap_or_default();
            let key = format!("{topic}@{group}");
            let (cluster, name) = (config.broker_cluster_name.clone(), config.broker_name.clone());
            let labels = vec![cluster, name, topic, group.clone()];
            for (metric, value) in [
                (&CONSUMER_TPS, state.figures.stats.tps(Name::GroupGetNums, &key)),
                (&CONSUMER_SIZE, state.figures.stats.tps(Name::GroupGetSize, &key)),
                (&SEND_BACK, state.figures.stats.minute(Name::SendBack, &key).sum as f64),
                (&CONSUMER_OFFSET, done as f64),
                (&CONSUME_TPS, stats.consume_tps),
                (&CONSUME_OFFSET, done as f64),
                (&LATENCY, latency_ms.max(0) as f64),
            ] {
                add(metric, labels.clone(), value);
            }
        }
    }
    table.into_values().collect()
}

#[cfg(test)]
mod tests {
    use wire::body::topic::TopicConfig;

    use super::*;
    use crate::replicas::SlaveProgress;
    use crate::state::SAMPLE_MS;
    use crate::testing::Fixture;

    #[test]
    fn the_page_has_the_names_of_the_exporter() {
        let fixture = Fixture::new();
        let broker = &fixture.broker;
        broker.tables.topics.put(TopicConfig::new("T", 2, 6), 0).unwrap();
        broker.tables.topics.put(TopicConfig::new("%DLQ%G", 1, 6), 0).unwrap();
        (0..3).for_each(|_| fixture.put("T", 0, b"body", b""));
        broker.tables.groups.put(wire::body::group::SubscriptionGroupConfig::new("G"), 0).unwrap();
        assert!(broker.tables.offsets.commit("G", "T", 0, 1));
        stats::sample(&broker.tables, &broker.figures, &broker.runtime, 0);
        (0..2).for_each(|_| broker.figures.stats.count(Name::SendBack, "T", "G"));
        stats::sample(&broker.tables, &broker.figures, &broker.runtime, SAMPLE_MS);
        let text = scrape(&broker.metrics_parts(), None);
        let (cluster, name) =
            (&broker.runtime.config.broker_cluster_name, &broker.runtime.config.broker_name);
        for line in [
            format!("rocketmq_producer_offset{{broker=\"{name}\",cluster=\"{cluster}\",topic=\"T\"}} 3.0"),
            format!("rocketmq_topic_dlq_offset{{broker=\"{name}\",cluster=\"{cluster}\",group=\"G\"}} 0.0"),
            format!(
                "rocketmq_consumer_offset{{broker=\"{name}\",cluster=\"{cluster}\",group=\"G\",topic=\"T\"}} 1.0"
            ),
            format!(
                "rocketmq_send_back_nums{{broker=\"{name}\",cluster=\"{cluster}\",group=\"G\",topic=\"T\"}} 2.0"
            ),
            format!(
                "rocketmq_group_consume_total_offset{{broker=\"{name}\",cluster=\"{cluster}\",group=\"G\",topic=\"T\"}} 1.0"
            ),
            "rocketmq_group_diff{countOfOnlineConsumers=\"0\",group=\"G\",msgModel=\"1\",topic=\"T\"} 2.0"
                .to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
        }
        for (metric, key, _) in RUNTIME {
            assert!(
                text.contains(&format!("\n{}{{", metric.name)),
                "{key} is no number in the runtime table: {text}"
            );
        }
    }

    #[test]
    fn a_master_tells_how_far_its_slaves_are_behind() {
        let fixture = Fixture::new();
        let broker = &fixture.broker;
        broker.tables.topics.put(TopicConfig::new("T", 2, 6), 0).unwrap();
        fixture.put("T", 0, b"body", b"");
        let end = broker.store.appended().get();
        let [known, new] = ["192.0.2.1:5", "192.0.2.2:6"]
            .map(|remote| std::sync::Arc::new(SlaveProgress::new(remote.parse().unwrap())));
        [&known, &new].into_iter().for_each(|slave| broker.replication.replicas.join(slave.clone()));
        broker.replication.replicas.note_report(&known, end - 7);
        let text = scrape(&broker.metrics_parts(), None);
        let (cluster, name) =
            (&broker.runtime.config.broker_cluster_name, &broker.runtime.config.broker_name);
        let metric = "rocketmq_broker_commitlog_diff{";
        let told: Vec<_> = text.lines().filter(|line| line.starts_with(metric)).collect();
        let line = format!("{metric}broker=\"{name}\",brokerIP=\"192.0.2.1:5\",cluster=\"{cluster}\"}} 7.0");
        assert_eq!(told, [line], "a slave that has not said where its log ends has no figure");
    }
}
