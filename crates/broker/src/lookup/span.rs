//! Administrators' requests about a queue's messages and units: 303 and 321 (`AdminBrokerProcessor`).

use std::sync::Arc;

use serde_json::{Value, json};
use wire::codes::response;
use wire::frame::Command;
use wire::units::QueueOffset;

use crate::broker::Broker;
use crate::topics::Queue;
use crate::{Answer, Refusal};

/// Most queue units of one answer.
const UNITS_MAX: usize = 10_000;

/// 303 `QUERY_CONSUME_TIME_SPAN`: for each queue the store times of the first and the last message and of the last message that
/// the group consumed, in milliseconds and -1 without such a message, and the age of the next message, 0 without one.
pub(crate) fn consume_time_span(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let (name, group) = (command.fields.need("topic")?, command.fields.need("group")?);
    let Some(topic) = broker.topics.find(name) else {
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, format!("topic[{name}] not exist")));
    };
    let spans: Vec<Value> = (0..topic.config.write_queue_nums)
        .map(|queue_id| {
            let queue = broker.log_queue(name, queue_id);
            let consumed = broker.offsets.committed(group, name, queue_id).unwrap_or(-1);
            time_span(
                broker,
                queue.as_ref(),
                consumed,
                &json!({
                    "brokerName": broker.config.broker_name, "queueId": queue_id, "topic": name,
                }),
            )
        })
        .collect();
    Ok(Answer::success().body(json!({ "consumeTimeSpanSet": spans }).to_string().into_bytes()))
}

fn time_span(broker: &Broker, queue: Option<&Arc<Queue>>, consumed: i64, message_queue: &Value) -> Value {
    let time_at = |offset: i64| {
        let offset = u64::try_from(offset).ok().map(QueueOffset::new)?;
        broker.store.store_time(&queue?.index, offset).ok()?
    };
    let (min, end) = queue.map_or((0, 0), |queue| (queue.index.min().to_i64(), broker.visible_end(queue)));
    let first = time_at(min);
    let last = time_at(end - 1);
    let done = if consumed > 0 { time_at(consumed - 1) } else { first };
    let next = if consumed < end { time_at(consumed.max(min)) } else { None };
    json!({
        "consumeTimeStamp": done.unwrap_or(-1),
        "delayTime": next.map_or(0, |next| (broker.now_ms() - next).max(0)),
        "maxTimeStamp": last.unwrap_or(-1),
        "messageQueue": message_queue,
        "minTimeStamp": first.unwrap_or(-1),
    })
}

/// 321 `QUERY_CONSUME_QUEUE`: the units of a queue, not interpreted.
pub(crate) fn consume_queue(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let (topic, queue_id) = (fields.need("topic")?, fields.need_number("queueId")?);
    let queue = broker
        .log_queue(topic, queue_id)
        .ok_or_else(|| Refusal::error(format!("{queue_id}@{topic} is not exist!")))?;
    let index: i64 = fields.need_number("index")?;
    let count: i32 = fields.need_number("count")?;
    let (min, end) = (queue.index.min().to_i64(), broker.visible_end(&queue));
    let mut body = json!({ "maxQueueIndex": end, "minQueueIndex": min });
    if let Some(group) = fields.text("consumerGroup") {
        match broker.clients.subscription(group, topic) {
            Some(found) => body["subscriptionData"] = json!(found.data()),
            None => body["filterData"] = format!("{group}@{topic} is not online!").into(),
        }
    }
    if !(min..end).contains(&index) {
        let remark = format!("Index {index} of {queue_id}@{topic} is not exist!");
        return Ok(Answer::success().remark(remark));
    }
    let wanted = usize::try_from(count.max(0)).unwrap_or(0).min(UNITS_MAX);
    let wanted = wanted.min(usize::try_from(end - index).unwrap_or(0));
    let mut units = Vec::new();
    let from = QueueOffset::new(index.unsigned_abs());
    let unread = |error| Refusal::error(format!("the queue cannot be read: {error}"));
    queue.index.units_blocking(from, wanted, &mut units).map_err(unread)?;
    let data = units.iter().map(|unit| {
        json!({
            "eval": false,
            "physicOffset": unit.log_offset.get(),
            "physicSize": unit.size,
            "tagsCode": unit.tags_code,
        })
    });
    body["queueData"] = data.collect();
    Ok(Answer::success().body(body.to_string().into_bytes()))
}
