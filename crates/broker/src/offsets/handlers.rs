//! Requests about offsets: 14 `QUERY_CONSUMER_OFFSET`, 15 `UPDATE_CONSUMER_OFFSET` and 222 `INVOKE_BROKER_TO_RESET_OFFSET`
//! (`ConsumerManageProcessor`, `AdminBrokerProcessor`).

use wire::body::{MessageQueue, ResetOffsetBody};
use wire::codes::response;
use wire::frame::Command;
use wire::json;

use super::Offsets;
use crate::groups::Groups;
use crate::{Answer, Refusal};

/// Serves 14 `QUERY_CONSUMER_OFFSET`. `is_young` tells whether a queue still has its first message, in memory; a new group
/// then begins at offset 0.
pub(crate) fn query(
    offsets: &Offsets,
    command: &Command<'_>,
    is_young: impl FnOnce(&str, i32) -> bool,
) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let (group, topic) = (fields.need("consumerGroup")?, fields.need("topic")?);
    let queue_id: i32 = fields.need_number("queueId")?;
    let known =
        offsets.pending_reset(group, topic, queue_id).or_else(|| offsets.committed(group, topic, queue_id));
    let offset = match known {
        Some(offset) => offset,
        None if !fields.flag_or("setZeroIfNotFound", true) => {
            let remark = "Not found, do not set to zero, maybe this group boot first";
            return Err(Refusal::new(response::QUERY_NOT_FOUND, remark));
        }
        None if is_young(topic, queue_id) => 0,
        None => {
            let remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
            return Err(Refusal::new(response::QUERY_NOT_FOUND, remark));
        }
    };
    Ok(Answer::success().field("offset", offset))
}

/// Serves 15 `UPDATE_CONSUMER_OFFSET`. `group_exists` may create the group; `queues` returns the number of queues of a topic,
/// `None` when the topic does not exist.
pub(crate) fn update(
    offsets: &Offsets,
    command: &Command<'_>,
    group_exists: impl FnOnce(&str) -> Result<bool, Refusal>,
    queues: impl FnOnce(&str) -> Option<i32>,
) -> Result<Answer, Refusal> {
    let invalid = |remark: String| Refusal::new(response::INVALID_PARAMETER, remark);
    let fields = &command.fields;
    let (group, topic) = (fields.need("consumerGroup")?, fields.need("topic")?);
    if !group_exists(group)? {
        let remark = format!("Group {group} not exist!");
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    let Some(queues) = queues(topic) else {
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, format!("Topic {topic} not exist!")));
    };
    if fields.bytes("queueId").is_none() {
        return Err(invalid(format!("QueueId is null, topic is {topic}")));
    }
    if fields.bytes("commitOffset").is_none() {
        return Err(invalid(format!("Offset is null, topic is {topic}")));
    }
    let queue_id: i32 = fields.need_number("queueId")?;
    let offset: i64 = fields.need_number("commitOffset")?;
    if !(0..queues).contains(&queue_id) {
        return Err(invalid(format!("QueueId is {queue_id}, topic {topic} has {queues} queues")));
    }
    if offset < 0 {
        return Err(invalid(format!("Offset is {offset}, expected 0 or more, topic is {topic}")));
    }
    if offsets.commit(group, topic, queue_id, offset) {
        Ok(Answer::success())
    } else {
        Ok(Answer::success().remark("Offset has been previously reset"))
    }
}

/// What a reset needs to know of topics, queues and groups; the closures look it up in the broker's tables.
pub(crate) struct ResetContext<'a> {
    pub offsets: &'a Offsets,
    pub groups: &'a Groups,
    pub broker_name: &'a str,
    /// Number of read queues of a topic, `None` when the topic does not exist.
    pub read_queues: &'a dyn Fn(&str) -> Option<i32>,
    /// First offset of a queue, and the offset its next message gets.
    pub bounds: &'a dyn Fn(&str, i32) -> (i64, i64),
    /// Offset of the first message stored at or after a time in milliseconds since the epoch.
    pub search: &'a dyn Fn(&str, i32, i64) -> Result<i64, Refusal>,
}

/// Serves 222 `INVOKE_BROKER_TO_RESET_OFFSET` with `useServerSideResetOffset`: the next pull takes the new offsets.
pub(crate) fn reset(context: &ResetContext<'_>, command: &Command<'_>) -> Result<Answer, Refusal> {
    let (group, topic) = (command.fields.need("group")?, command.fields.need("topic")?);
    let body = reset_targets(context, command)?;
    for (queue, offset) in &body.offset_table {
        context.offsets.set_reset(group, topic, queue.queue_id, *offset);
    }
    tracing::info!(group, topic, queues = body.offset_table.len(), "offsets are reset");
    Ok(Answer::success().body(json::to_vec(&body)))
}

/// The new offset of each queue that a 222 `INVOKE_BROKER_TO_RESET_OFFSET` resets.
pub(crate) fn reset_targets(
    context: &ResetContext<'_>,
    command: &Command<'_>,
) -> Result<ResetOffsetBody, Refusal> {
    let fields = &command.fields;
    let (group, topic) = (fields.need("group")?, fields.need("topic")?);
    let queue_id: i32 = fields.number_or("queueId", -1)?;
    let timestamp_ms: i64 = fields.need_number("timestamp")?;
    let target: i64 = fields.number_or("offset", -1)?;
    let Some(queues) = (context.read_queues)(topic) else {
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, format!("Topic {topic} does not exist")));
    };
    if context.groups.find(group).is_none() {
        let remark = format!("Group {group} does not exist");
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    if queue_id >= queues {
        let remark = format!("QueueId is {queue_id}, topic {topic} has {queues} queues to read");
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    let chosen = if queue_id >= 0 { queue_id..queue_id + 1 } else { 0..queues };
    let mut body = ResetOffsetBody::default();
    for queue in chosen {
        let offset = match target {
            _ if queue_id < 0 || target == -1 => by_time(context, topic, queue, timestamp_ms)?,
            _ => in_bounds(context, topic, queue, target)?,
        };
        body.offset_table.insert(MessageQueue::new(topic, context.broker_name, queue), offset);
    }
    Ok(body)
}

fn by_time(context: &ResetContext<'_>, topic: &str, queue: i32, timestamp_ms: i64) -> Result<i64, Refusal> {
    if timestamp_ms < 0 {
        Ok((context.bounds)(topic, queue).1)
    } else {
        (context.search)(topic, queue, timestamp_ms)
    }
}

fn in_bounds(context: &ResetContext<'_>, topic: &str, queue: i32, target: i64) -> Result<i64, Refusal> {
    let (min, max) = (context.bounds)(topic, queue);
    if (min..=max.saturating_add(1)).contains(&target) {
        return Ok(target);
    }
    Err(Refusal::error(format!("Target offset {target} not in consume queue range [{min}-{max}]")))
}
