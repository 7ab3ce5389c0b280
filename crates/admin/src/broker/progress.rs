//! How far all groups of a broker are.

use crate::operation::Typed;
use crate::request::{Request, body};
use crate::text::{front, time, time_to_second};
use crate::{Arguments, Error, Lag, Session, lag};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::body::ConsumeStatsList;
use wire::codes::request;

/// The progress of the groups of a broker.
#[derive(Serialize)]
pub(super) struct Progress {
    diff_total: i64,
    queues: Vec<QueueProgress>,
}

#[derive(Serialize)]
struct QueueProgress {
    topic: String,
    group: String,
    broker: String,
    queue: i32,
    broker_offset: i64,
    consumer_offset: i64,
    diff: i64,
    #[serde(flatten)]
    lag: Lag,
    /// Store time of the last consumed message, empty without one.
    last_time: String,
    #[serde(skip)]
    last_ms: i64,
}

impl Typed for Progress {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut out = String::new();
        let heads =
            ["#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff"];
        let [topic, group, broker, queue, offset, consumed, diff] = heads;
        let _ = writeln!(
            out,
            "{topic:<64}  {group:<64}  {broker:<32}  {queue:<4}  {offset:<20}  {consumed:<20}  {diff:<20}  #LastTime"
        );
        for row in self.queues.iter().filter(|row| row.last_ms > 0) {
            let (topic, broker) = (front(&row.topic, 64), front(&row.broker, 32));
            let QueueProgress { group, queue, broker_offset, consumer_offset, diff, .. } = row;
            let _ = writeln!(
                out,
                "{topic:<64}  {group:<64}  {broker:<32}  {queue:<4}  {broker_offset:<20}  {consumer_offset:<20}  \
                 {diff:<20}  {}",
                time_to_second(row.last_ms)
            );
        }
        let _ = writeln!(out, "\nDiff Total: {}", self.diff_total);
        out
    }
}

pub(super) async fn progress(session: &Session, arguments: &Arguments) -> Result<Progress, Error> {
    let broker = session.broker(arguments.need("broker")?).await?;
    let level: i64 = arguments.parse("level")?.unwrap_or_default();
    let ask = Request::new(request::GET_BROKER_CONSUME_STATS).with("isOrder", arguments.is_on("order"));
    let mut found: ConsumeStatsList = body(&broker, &session.look(&broker, &ask).await?)?;
    let stats = found.consume_stats_list.iter_mut().flat_map(BTreeMap::values_mut).flatten();
    let tables = stats.map(|stats| &mut stats.offset_table).collect();
    lag::add_first_times(session, &broker, tables).await;
    let groups = found.consume_stats_list.into_iter().flatten();
    let queues = groups.flat_map(|(group, stats)| {
        stats.into_iter().flat_map(|stats| stats.offset_table).map(move |(queue, offsets)| QueueProgress {
            topic: queue.topic,
            group: group.clone(),
            broker: queue.broker_name,
            queue: queue.queue_id,
            broker_offset: offsets.broker_offset,
            consumer_offset: offsets.consumer_offset,
            diff: offsets.broker_offset - offsets.consumer_offset,
            lag: Lag::of(&offsets, session.now_ms),
            last_time: time(offsets.last_timestamp),
            last_ms: offsets.last_timestamp,
        })
    });
    Ok(Progress { diff_total: found.total_diff, queues: queues.filter(|row| row.diff >= level).collect() })
}
