//! Gathers waiting messages in the own queues of a master: half messages, and records of popped messages. Offsets of
//! the broker's own groups show its progress.

use super::groups::first_message;
use crate::Session;
use crate::doctor::bundle::{Broker, Head};
use crate::request::{Request, body};
use wire::body::ConsumeStats;
use wire::codes::request;
use wire::names::REVIVE_PREFIX;
use wire::properties::key;

/// Half messages and the group whose offset is that of the first undecided one (`TransactionalMessageUtil`).
const HALVES: (&str, &str) = ("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC");
/// The group whose offset is that of the last record of a pop that was processed (`PopAckConstants.REVIVE_GROUP`).
const REVIVE_GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";

/// The undecided half messages; `None` when the broker does not say.
pub(super) async fn halves(session: &Session, broker: &Broker) -> Option<Vec<Head>> {
    let (group, topic) = HALVES;
    heads(session, broker, (group, topic), 0).await
}

/// The records of pops that were not processed, by queue; `None` when the broker does not say.
pub(super) async fn revives(session: &Session, broker: &Broker) -> Option<Vec<Head>> {
    let topic = format!("{REVIVE_PREFIX}{}", broker.cluster);
    heads(session, broker, (REVIVE_GROUP, &topic), 1).await
}

/// The queues of a topic with messages that wait, and the first waiting message of each. `of` is the group and the
/// topic. The first waiting message is `next` after the group's offset: 0 if the offset is that of the first waiting
/// message, 1 if it is that of the last processed one.
async fn heads(session: &Session, broker: &Broker, of: (&str, &str), next: i64) -> Option<Vec<Head>> {
    let (group, topic) = of;
    let ask = Request::new(request::GET_CONSUME_STATS).with("consumerGroup", group).with("topicList", topic);
    let stats: ConsumeStats = body(&broker.address, &session.look(&broker.address, &ask).await.ok()?).ok()?;
    let mut heads = Vec::new();
    // Brokers that know no list of topics tell of all topics of the group.
    for (queue, offsets) in stats.offset_table.into_iter().filter(|(queue, _)| queue.topic == topic) {
        let from = offsets.consumer_offset + next;
        let waiting = offsets.broker_offset - from;
        if waiting <= 0 {
            continue;
        }
        let mut head = Head { queue: queue.queue_id, waiting, ..Head::default() };
        if let Some(first) = first_message(session, &queue, from).await {
            (head.stored_ms, head.born_ms) = (Some(first.store_timestamp), Some(first.born_timestamp));
            head.producer_group = first.property(key::PRODUCER_GROUP).unwrap_or_default().to_owned();
            let checks = first.property(key::TRANSACTION_CHECK_TIMES).and_then(|text| text.parse().ok());
            head.checks = checks.unwrap_or_default();
        }
        heads.push(head);
    }
    Some(heads)
}
