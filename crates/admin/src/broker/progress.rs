//! Progress of all groups of a broker.

use crate::operation::Typed;
use crate::request::{Request, body};
use crate::text::{Table, time, time_to_second};
use crate::{Arguments, Error, Lag, Session, lag};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::body::ConsumeStatsList;
use wire::codes::request;

/// The progress of the groups of a broker.
#[derive(Serialize)]
pub struct BrokerProgress {
    diff_total: i64,
    /// The progress of each group in each queue.
    pub queues: Vec<GroupQueue>,
}

/// The progress of a group in a queue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupQueue {
    /// Name of the topic.
    pub topic: String,
    /// Name of the group.
    pub group: String,
    /// Name of the broker set.
    pub broker: String,
    /// Id of the queue.
    pub queue: i32,
    /// Offset of the next message of the queue.
    pub broker_offset: i64,
    /// Offset of the next message of the group.
    pub consumer_offset: i64,
    /// Messages that the group has not consumed.
    pub diff: i64,
    /// Age of the first message that the group has not consumed.
    #[serde(flatten)]
    pub lag: Lag,
    /// Store time of the last consumed message, empty without one.
    pub(crate) last_time: String,
    #[serde(skip)]
    pub(crate) last_ms: i64,
}

impl Typed for BrokerProgress {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut table = Table::new(
            "{#Topic:<64.64}  {#Group:<64}  {#Broker Name:<32.32}  {#QID:<4}  {#Broker Offset:<20}  {#Consumer Offset:<20}  \
             {#Diff:<20}  {#LastTime:<0}",
        );
        for row in self.queues.iter().filter(|row| row.last_ms > 0) {
            let GroupQueue { topic, group, broker, queue, broker_offset, consumer_offset, diff, .. } = row;
            let last = time_to_second(row.last_ms);
            table.row(&[topic, group, broker, queue, broker_offset, consumer_offset, diff, &last]);
        }
        table.text + &format!("\nDiff Total: {}\n", self.diff_total)
    }
}

pub(super) async fn progress(session: &Session, arguments: &Arguments) -> Result<BrokerProgress, Error> {
    let broker = session.broker(arguments.need("broker")?).await?;
    let level: i64 = arguments.parse("level")?.unwrap_or_default();
    let ask = Request::new(request::GET_BROKER_CONSUME_STATS).with("isOrder", arguments.is_on("order"));
    let mut found: ConsumeStatsList = body(&broker, &session.look(&broker, &ask).await?)?;
    let stats = found.consume_stats_list.iter_mut().flat_map(BTreeMap::values_mut).flatten();
    let tables = stats.map(|stats| &mut stats.offset_table).collect();
    lag::add_first_times(session, &broker, tables).await;
    let groups = found.consume_stats_list.into_iter().flatten();
    let queues = groups.flat_map(|(group, stats)| {
        stats.into_iter().flat_map(|stats| stats.offset_table).map(move |(queue, offsets)| GroupQueue {
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
    Ok(BrokerProgress {
        diff_total: found.total_diff,
        queues: queues.filter(|row| row.diff >= level).collect(),
    })
}
