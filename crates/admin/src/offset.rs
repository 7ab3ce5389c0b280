//! Operations on the offsets of groups.

mod reset;

pub use reset::{Reset, ResetQueue};

use crate::arguments::{CLUSTER, optional, place};
use crate::operation::{Operation, Typed, operations};
use crate::request::{Request, number};
use crate::{Argument, Arguments, Error, Session, stats};
use serde::Serialize;
use wire::body::{MessageQueue, SubscriptionGroupConfig};
use wire::codes::{request, response};
use wire::json;

const GROUP: Argument = place("group", ("g", "group"), "name of the consumer group");
const TOPIC: Argument = place("topic", ("t", "topic"), "name of the topic");
const FORCE: Argument =
    optional("force", ("f", "force"), "false to move offsets only backwards; true if left out");

/// The operations on offsets.
pub(crate) const OPERATIONS: &[Operation] = operations! { "offset":
    "reset", Destroy, ["resetOffsetByTime"],
        "Set the offsets of a group to the first message stored at or after a time, or one offset to a number",
        [GROUP, TOPIC,
         place("time", ("s", "timestamp"), "store time of the first message to consume"),
         FORCE, optional("broker", ("b", "broker"), "broker of the only queue, by address or broker set"),
         optional("queue", ("q", "queue"), "id of the only queue"),
         optional("offset", ("o", "offset"), "offset for the only queue, instead of the time"), CLUSTER], reset::by_time;
    "skip", Destroy, ["skipAccumulatedMessage"],
        "Set the offsets of a group to the ends of the queues, so that it skips what it has not consumed",
        [GROUP, TOPIC, FORCE, CLUSTER], reset::skip;
    "clone", Destroy, ["cloneGroupOffset"], "Give a group the offsets that another group has in a topic",
        [place("source", ("s", "srcGroup"), "the group whose offsets are copied"),
         place("target", ("d", "destGroup"), "the group that gets them"), TOPIC,
         optional("offline", ("o", "offline"), "taken for compatibility, without effect as in mqadmin")], clone;
};

#[derive(Serialize)]
struct QueueOffset {
    broker: String,
    queue: i32,
    offset: i64,
}

/// The offsets that a group got from another.
#[derive(Serialize)]
#[serde(transparent)]
struct Cloned {
    queues: Vec<QueueOffset>,
}

impl Typed for Cloned {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let [source, target, topic] =
            ["source", "target", "topic"].map(|name| arguments.get(name).unwrap_or_default());
        format!("clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]\n")
    }
}

async fn clone(session: &Session, arguments: &Arguments) -> Result<Cloned, Error> {
    let (source, target) = (arguments.need("source")?, arguments.need("target")?);
    let topic = arguments.need("topic")?;
    let stats = stats::consume_stats(session, source, Some(topic)).await?;
    let mut found = Vec::new();
    for queue in stats.offset_table.into_keys() {
        let broker = session.master_of(&queue).await?;
        if let Some(offset) = committed(session, &broker, source, &queue).await? {
            found.push((broker, queue, offset));
        }
    }
    if found.is_empty() {
        return Err(Error::NotFound(format!(
            "the group {source} has committed no offset in the topic {topic}"
        )));
    }
    let (mut queues, mut done) = (Vec::new(), Vec::new());
    for (broker, queue, offset) in found {
        let given = give(session, &broker, target, &queue, offset).await;
        given.map_err(|why| session.partly(&done, why))?;
        if !done.contains(&broker) {
            done.push(broker);
        }
        queues.push(QueueOffset { broker: queue.broker_name, queue: queue.queue_id, offset });
    }
    Ok(Cloned { queues })
}

/// The committed offset of a group in a queue (`QUERY_CONSUMER_OFFSET`). `None` when the group has committed none there; the
/// statistics of a group (`GET_CONSUME_STATS`) show 0 then.
async fn committed(
    session: &Session,
    broker: &str,
    group: &str,
    queue: &MessageQueue,
) -> Result<Option<i64>, Error> {
    let ask = Request::new(request::QUERY_CONSUMER_OFFSET)
        .with("consumerGroup", group)
        .with("topic", &queue.topic)
        .with("queueId", queue.queue_id)
        .with("setZeroIfNotFound", false);
    match session.look(broker, &ask).await {
        Ok(reply) => number(broker, &reply, "offset").map(Some),
        Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores the offset of a group in a queue, and makes the group first where a broker does not have it: RocketMQ takes no offset of such
/// a group from 5.3 on.
async fn give(
    session: &Session,
    broker: &str,
    group: &str,
    queue: &MessageQueue,
    offset: i64,
) -> Result<(), Error> {
    match commit(session, broker, group, queue, offset).await {
        Err(error) if error.code() == Some(response::SUBSCRIPTION_GROUP_NOT_EXIST) => {
            let config = json::to_vec(&SubscriptionGroupConfig::new(group));
            let ask = Request::new(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(config);
            session.change(broker, &ask).await?;
            commit(session, broker, group, queue, offset).await
        }
        done => done,
    }
}

/// Stores the offset of a group in a queue (`UPDATE_CONSUMER_OFFSET`).
async fn commit(
    session: &Session,
    broker: &str,
    group: &str,
    queue: &MessageQueue,
    offset: i64,
) -> Result<(), Error> {
    let ask = Request::new(request::UPDATE_CONSUMER_OFFSET)
        .with("consumerGroup", group)
        .with("topic", &queue.topic)
        .with("queueId", queue.queue_id)
        .with("commitOffset", offset);
    session.change(broker, &ask).await.map(|_| ())
}
