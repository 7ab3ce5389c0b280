//! Rates of sends to topics and of consumption from topics.

use crate::operation::Typed;
use crate::request::{Request, body};
use crate::text::Table;
use crate::{Arguments, Error, Session, stats};
use serde::{Deserialize, Serialize};
use wire::codes::request;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};

/// The answer to `VIEW_BROKER_STATS_DATA` (`BrokerStatsData`).
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatsData {
    stats_minute: StatsWindow,
    stats_hour: StatsWindow,
    stats_day: StatsWindow,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StatsWindow {
    sum: i64,
    tps: f64,
}

impl StatsData {
    /// The sum of the longest window that has one (`StatsAllSubCommand.compute24HourSum`).
    fn day_sum(&self) -> i64 {
        let windows = [&self.stats_day, &self.stats_hour, &self.stats_minute];
        windows.iter().map(|window| window.sum).find(|sum| *sum != 0).unwrap_or_default()
    }
}

/// The rates of a topic, for each group that consumes it.
#[derive(Serialize)]
pub struct TopicRates {
    /// Name of the topic.
    pub topic: String,
    /// Name of the group; empty if no group consumes the topic.
    pub group: String,
    /// Messages that the group has not consumed yet.
    pub diff_total: i64,
    /// Messages stored in the topic per second.
    pub in_tps: f64,
    /// Messages passed to the group per second.
    pub out_tps: f64,
    /// Messages stored in the topic in 24 hours.
    pub in_day: i64,
    /// Messages passed to the group in 24 hours.
    pub out_day: i64,
}

impl Typed for Vec<TopicRates> {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut table = Table::new(
            "{#Topic:<64.64}  {#Consumer Group:<64.64} {#Accumulation:>12} {#InTPS:>11.2} {#OutTPS:>11.2} {#InMsg24Hour:>14} \
             {#OutMsg24Hour:>14}",
        );
        for TopicRates { topic, group, diff_total, in_tps, out_tps, in_day, out_day } in self {
            match group.is_empty() {
                true => table.row(&[topic, group, &0, in_tps, &"", in_day, &"NO_CONSUMER"]),
                false => table.row(&[topic, group, diff_total, in_tps, out_tps, in_day, out_day]),
            }
        }
        table.text
    }
}

pub(super) async fn rates(session: &Session, arguments: &Arguments) -> Result<Vec<TopicRates>, Error> {
    let topics = match arguments.get("topic") {
        Some(topic) => vec![topic.to_owned()],
        None => stats::topics(session).await?,
    };
    let mut rows = Vec::new();
    for topic in topics.iter().filter(|it| !it.starts_with(RETRY_PREFIX) && !it.starts_with(DLQ_PREFIX)) {
        rows.extend(of_topic(session, topic).await?);
    }
    if arguments.is_on("active") {
        rows.retain(|row| row.in_day > 0 || row.out_day > 0);
    }
    Ok(rows)
}

async fn of_topic(session: &Session, topic: &str) -> Result<Vec<TopicRates>, Error> {
    let brokers = session.brokers_of(topic).await?;
    if brokers.is_empty() {
        return Ok(Vec::new());
    }
    let (in_tps, in_day) = sum(session, &brokers, "TOPIC_PUT_NUMS", topic).await;
    let row = |group: String| TopicRates {
        topic: topic.to_owned(),
        group,
        diff_total: 0,
        in_tps,
        out_tps: 0.0,
        in_day,
        out_day: 0,
    };
    let mut rows = Vec::new();
    for group in stats::groups_of(session, &brokers, topic).await? {
        let (out_tps, out_day) = sum(session, &brokers, "GROUP_GET_NUMS", &format!("{topic}@{group}")).await;
        let progress = stats::consume_stats(session, &group, Some(topic)).await.unwrap_or_default();
        let diffs = progress.offset_table.values().map(|queue| queue.broker_offset - queue.consumer_offset);
        let diff_total = diffs.sum::<i64>().max(0);
        rows.push(TopicRates { diff_total, out_tps, out_day, ..row(group) });
    }
    if rows.is_empty() {
        rows.push(row(String::new()));
    }
    Ok(rows)
}

/// Rate and sum of a figure over brokers. A broker without the figure counts nothing, because a figure exists only from
/// its first message on.
pub(crate) async fn sum(
    session: &Session,
    brokers: &[(String, String)],
    name: &str,
    key: &str,
) -> (f64, i64) {
    let ask = Request::new(request::VIEW_BROKER_STATS_DATA).with("statsName", name).with("statsKey", key);
    let (mut tps, mut day) = (0.0, 0);
    for (_, broker) in brokers {
        let Ok(reply) = session.look(broker, &ask).await else { continue };
        let data: StatsData = body(broker, &reply).unwrap_or_default();
        tps += data.stats_minute.tps;
        day += data.day_sum();
    }
    (tps, day)
}
