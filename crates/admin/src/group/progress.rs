//! Progress of groups.

use super::owners::{Owners, QueueOwner};
use crate::operation::Typed;
use crate::text::{Table, time, time_to_second, version};
use crate::{Arguments, Error, Lag, Session, stats};
use serde::Serialize;
use std::fmt::{Display, Write as _};
use wire::body::{ConsumeType, ConsumerConnection};
use wire::names::RETRY_PREFIX;

/// The progress of a group.
#[derive(Serialize)]
pub struct GroupProgress {
    /// Messages that the members get per second.
    pub consume_tps: f64,
    /// Messages that the group has not consumed.
    pub diff_total: i64,
    /// Messages of these that a member has pulled.
    pub inflight_total: i64,
    /// Progress in each queue.
    pub queues: Vec<QueueProgress>,
    /// The failures of brokers that gave no answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// The progress of a group in a queue.
#[derive(Serialize)]
pub struct QueueProgress {
    /// Topic of the queue.
    pub topic: String,
    /// Name of the broker set.
    pub broker: String,
    /// Id of the queue.
    pub queue: i32,
    /// Offset of the next message.
    pub broker_offset: i64,
    /// Offset of the next message that the group consumes.
    pub consumer_offset: i64,
    #[serde(flatten)]
    owner: QueueOwner,
    /// Messages that the group has not consumed.
    pub diff: i64,
    /// Age of the first message that the group has not consumed.
    #[serde(flatten)]
    pub lag: Lag,
    /// Messages that a member has pulled and not consumed.
    pub inflight: i64,
    /// Store time of the last consumed message, empty without one.
    last_time: String,
    /// Store time of the last consumed message, ms since the epoch; 0 without one.
    #[serde(skip)]
    pub last_ms: i64,
}

impl Typed for GroupProgress {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let is_shown = arguments.is_on("client-ip");
        let mut table = Table::new(if is_shown {
            "{#Topic:<64.64}  {#Broker Name:<32.32}  {#QID:<4}  {#Broker Offset:<20}  {#Consumer Offset:<20}  \
             {#Client IP:<20} {#Diff:<20} {#Inflight:<20}{#LastTime:<0}"
        } else {
            "{#Topic:<64.64}  {#Broker Name:<32.32}  {#QID:<4}  {#Broker Offset:<20}  {#Consumer Offset:<20}  \
             {#Diff:<20} {#Inflight:<20}{#LastTime:<0}"
        });
        for row in &self.queues {
            let QueueProgress {
                topic, broker, queue, broker_offset, consumer_offset, diff, inflight, ..
            } = row;
            let last = if row.last_ms > 0 { time_to_second(row.last_ms) } else { "N/A".to_owned() };
            let (ip, last) = (row.owner.puller_ip().unwrap_or("N/A"), format!(" {last}"));
            let mut cells: Vec<&dyn Display> =
                vec![topic, broker, queue, broker_offset, consumer_offset, &ip, diff, inflight, &last];
            if !is_shown {
                cells.remove(5);
            }
            table.row(&cells);
        }
        let mut out = table.text;
        let _ = writeln!(out, "\nConsume TPS: {:.2}", self.consume_tps);
        let _ = writeln!(out, "Consume Diff Total: {}", self.diff_total);
        let _ = writeln!(out, "Consume Inflight Total: {}", self.inflight_total);
        out
    }
}

pub(super) async fn progress(session: &Session, arguments: &Arguments) -> Result<GroupProgress, Error> {
    let group = arguments.need("group")?;
    let (stats, failures) =
        stats::consume_stats_in(session, (group, arguments.get("topic")), arguments).await?;
    let owners = match arguments.is_on("client-ip") {
        true => Some(Owners::ask(session, group).await),
        false => None,
    };
    let queues: Vec<_> = stats
        .offset_table
        .into_iter()
        .map(|(queue, offsets)| QueueProgress {
            owner: owners.as_ref().map(|owners| owners.of(&queue)).unwrap_or_default(),
            lag: Lag::of(&offsets, session.now_ms),
            topic: queue.topic,
            broker: queue.broker_name,
            queue: queue.queue_id,
            broker_offset: offsets.broker_offset,
            consumer_offset: offsets.consumer_offset,
            diff: offsets.broker_offset - offsets.consumer_offset,
            inflight: offsets.pull_offset - offsets.consumer_offset,
            last_time: time(offsets.last_timestamp),
            last_ms: offsets.last_timestamp,
        })
        .collect();
    Ok(GroupProgress {
        consume_tps: stats.consume_tps,
        diff_total: queues.iter().map(|row| row.diff).sum(),
        inflight_total: queues.iter().map(|row| row.inflight).sum(),
        queues,
        failures: session.note(failures),
    })
}

/// A group in the list of groups.
#[derive(Serialize)]
pub(super) struct GroupRow {
    group: String,
    members: usize,
    /// Oldest version of a member; empty when no member is online.
    version: String,
    #[serde(rename = "type")]
    kind: &'static str,
    model: String,
    tps: i64,
    diff_total: i64,
}

impl Typed for Vec<GroupRow> {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut table = Table::new(
            "{#Group:<64.64}  {#Count:<6}  {#Version:<24} {#Type:<5}  {#Model:<14}  {#TPS:<7}  {#Diff Total:<0}",
        );
        for row in self {
            let version = if row.members > 0 { row.version.as_str() } else { "OFFLINE" };
            let GroupRow { group, members, kind, model, tps, diff_total, .. } = row;
            table.row(&[group, members, &version, kind, model, tps, diff_total]);
        }
        table.text
    }
}

pub(super) async fn list(session: &Session) -> Result<Vec<GroupRow>, Error> {
    let topics = stats::topics(session).await?;
    let mut rows = Vec::new();
    for group in topics.iter().filter_map(|topic| topic.strip_prefix(RETRY_PREFIX)) {
        // A group without offsets or members is listed all the same.
        let stats = stats::consume_stats(session, group, None).await.unwrap_or_default();
        let members = stats::consumer_connection(session, group, None).await.unwrap_or_default();
        let lag = stats.offset_table.values().map(|queue| queue.broker_offset - queue.consumer_offset);
        rows.push(row(group, &members, stats.consume_tps, lag.sum()));
    }
    Ok(rows)
}

fn row(group: &str, members: &ConsumerConnection, tps: f64, diff_total: i64) -> GroupRow {
    let oldest = members.connection_set.iter().map(|member| member.version).min();
    let is_online = oldest.is_some();
    let is_pull = members.consume_type == Some(ConsumeType::ConsumeActively);
    let model = members.message_model.filter(|_| is_online && !is_pull);
    let model = model.and_then(|model| serde_json::to_value(model).ok());
    GroupRow {
        group: group.to_owned(),
        members: members.connection_set.len(),
        version: oldest.map(version).unwrap_or_default(),
        kind: match (is_online, is_pull) {
            (false, _) => "",
            (true, true) => "PULL",
            (true, false) => "PUSH",
        },
        model: model.and_then(|model| model.as_str().map(str::to_owned)).unwrap_or_default(),
        tps: tps as i64,
        diff_total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster};
    use wire::body::{ConsumeStats, MessageQueue, OffsetWrapper};
    use wire::codes::request;

    /// Progress in one queue of a broker.
    fn stats(broker: &str) -> Option<ServerAnswer> {
        let offsets = OffsetWrapper { broker_offset: 10, consumer_offset: 4, ..OffsetWrapper::default() };
        let offset_table = [(MessageQueue::new("T", broker, 0), offsets)].into();
        ServerAnswer::body(&ConsumeStats { offset_table, ..ConsumeStats::default() })
    }

    fn given() -> Arguments {
        let mut arguments = Arguments::default();
        [("group", "G"), ("client-ip", "true")].iter().for_each(|(name, value)| arguments.set(name, *value));
        arguments
    }

    #[test]
    fn a_broker_that_does_not_answer_hides_no_queue_of_the_others() {
        let answers = |broker: &str, asked: &Received| match (broker, asked.code) {
            ("b", request::GET_CONSUME_STATS) => stats("b"),
            _ => None,
        };
        with_cluster(&["a", "b"], answers, async |session: &Session| {
            let progress = progress(session, &given()).await.unwrap();
            assert_eq!((progress.diff_total, progress.failures.len(), session.failures().len()), (6, 1, 1));
        });
        with_cluster(&["a"], answers, async |session: &Session| {
            assert!(progress(session, &given()).await.is_err());
        });
    }
}
