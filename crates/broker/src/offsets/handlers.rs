//! Requests of clients and operators about offsets (`ConsumerManageProcessor`, `AdminBrokerProcessor`).

use wire::body::{MessageQueue, ResetOffsetBody};
use wire::codes::response;

use super::Offsets;
use crate::groups::Groups;
use crate::{Refusal, Result};

/// A question for the committed offset of a group.
pub(crate) struct QueryOffset<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    pub queue_id: i32,
    /// Whether a group without a commit begins at offset 0 of a queue that still has its first message.
    pub zero_if_missing: bool,
}

/// Returns the offset at which a group continues in a queue. `is_young` returns whether a queue still has its first
/// message, in memory. A new group then begins at offset 0.
pub(crate) fn query(
    offsets: &Offsets,
    asked: &QueryOffset<'_>,
    is_young: impl FnOnce(&str, i32) -> bool,
) -> Result<i64> {
    let QueryOffset { group, topic, queue_id, zero_if_missing } = *asked;
    let known =
        offsets.pending_reset(group, topic, queue_id).or_else(|| offsets.committed(group, topic, queue_id));
    match known {
        Some(offset) => Ok(offset),
        None if !zero_if_missing => {
            let remark = "Not found, do not set to zero, maybe this group boot first";
            Err(Refusal::new(response::QUERY_NOT_FOUND, remark))
        }
        None if is_young(topic, queue_id) => Ok(0),
        None => {
            let remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
            Err(Refusal::new(response::QUERY_NOT_FOUND, remark))
        }
    }
}

/// An offset that a consumer commits.
#[derive(Clone, Copy)]
pub(crate) struct CommitOffset<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    /// Refused when absent, with a text of its own.
    pub queue_id: Option<i32>,
    /// Refused when absent, with a text of its own.
    pub offset: Option<i64>,
    /// Whether the offset counts only if it is larger than the committed offset.
    pub only_raises: bool,
    /// Whether the offset may be the first of its group, which is then made if nothing else is wrong with the request.
    pub begins_group: bool,
}

/// Commits an offset. Returns false if an operator's reset offset is pending for the queue, because the reset offset has priority.
/// A commit of a consumer creates no group (`ConsumerManageProcessor.updateConsumerOffset`). `queues` returns the number of queues of a topic,
/// `None` when the topic does not exist. `is_stored` returns whether a queue has a file or had messages: a topic that got fewer
/// queues leaves such queues to the clients that still read them. Java accepts every queue number; here the number of queues bounds
/// the number of offsets.
pub(crate) fn commit(
    offsets: &Offsets,
    wanted: &CommitOffset<'_>,
    group_exists: impl Fn(&str) -> Result<bool>,
    queues: impl FnOnce(&str) -> Option<i32>,
    is_stored: impl FnOnce(&str, i32) -> bool,
) -> Result<bool> {
    let invalid = |remark: String| Refusal::new(response::INVALID_PARAMETER, remark);
    let CommitOffset { group, topic, .. } = *wanted;
    let check_group = || match group_exists(group)? {
        true => Ok(()),
        false => {
            let remark = format!("Group {group} not exist!");
            Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark))
        }
    };
    if !wanted.begins_group {
        check_group()?;
    }
    let Some(queues) = queues(topic) else {
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, format!("Topic {topic} not exist!")));
    };
    let queue_id = wanted.queue_id.ok_or_else(|| invalid(format!("QueueId is null, topic is {topic}")))?;
    let offset = wanted.offset.ok_or_else(|| invalid(format!("Offset is null, topic is {topic}")))?;
    if !(0..queues).contains(&queue_id) && !is_stored(topic, queue_id) {
        return Err(invalid(format!("QueueId is {queue_id}, topic {topic} has {queues} queues")));
    }
    if offset < 0 {
        return Err(invalid(format!("Offset is {offset}, expected 0 or more, topic is {topic}")));
    }
    if wanted.begins_group {
        check_group()?;
    }
    if wanted.only_raises {
        offsets.raise(group, topic, queue_id, offset);
        return Ok(true);
    }
    Ok(offsets.commit(group, topic, queue_id, offset))
}

/// Target of an operator's offset reset of a group in a topic.
#[derive(Clone, Copy)]
pub(crate) struct ResetOffset<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    /// The queue; `None` for all queues of the topic.
    pub queue_id: Option<i32>,
    /// Store time that selects the target if no offset is given, in milliseconds since the epoch. The group continues
    /// with the first message stored at or after it, or at the end of the queue if it is negative.
    pub timestamp_ms: i64,
    /// The new offset. Counts only together with a queue.
    pub offset: Option<i64>,
    /// Whether offsets move backwards only, when the group's members move them.
    pub only_backwards: bool,
    /// Whether the offsets are sent to the group's members in the form for clients in C++.
    pub for_cpp: bool,
}

/// Topics, queues and groups that a reset needs. The closures look them up in the broker's tables.
pub(crate) struct ResetContext<'a> {
    pub offsets: &'a Offsets,
    pub groups: &'a Groups,
    pub broker_name: &'a str,
    /// Number of read queues of a topic, `None` when the topic does not exist.
    pub read_queues: &'a dyn Fn(&str) -> Option<i32>,
    /// First offset of a queue, and the offset its next message gets.
    pub bounds: &'a dyn Fn(&str, i32) -> (i64, i64),
    /// Offset of the first message stored at or after a time in milliseconds since the epoch.
    pub search: &'a dyn Fn(&str, i32, i64) -> Result<i64>,
}

/// Resets offsets so that the next pull takes the new offsets (`useServerSideResetOffset`), and returns them.
pub(crate) fn reset(context: &ResetContext<'_>, wanted: &ResetOffset<'_>) -> Result<ResetOffsetBody> {
    let ResetOffset { group, topic, .. } = *wanted;
    let body = reset_targets(context, wanted)?;
    for (queue, offset) in &body.offset_table {
        context.offsets.set_reset(group, topic, queue.queue_id, *offset);
    }
    tracing::info!(group, topic, queues = body.offset_table.len(), "offsets are reset");
    Ok(body)
}

/// The new offset of each queue that a reset moves.
pub(crate) fn reset_targets(context: &ResetContext<'_>, wanted: &ResetOffset<'_>) -> Result<ResetOffsetBody> {
    let ResetOffset { group, topic, queue_id, timestamp_ms, offset, .. } = *wanted;
    let Some(queues) = (context.read_queues)(topic) else {
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, format!("Topic {topic} does not exist")));
    };
    if context.groups.find(group).is_none() {
        return Err(no_group(group));
    }
    if let Some(queue_id) = queue_id.filter(|id| *id >= queues) {
        let remark = format!("QueueId is {queue_id}, topic {topic} has {queues} queues to read");
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    let chosen = queue_id.map_or(0..queues, |id| id..id + 1);
    let mut body = ResetOffsetBody::default();
    for queue in chosen {
        let offset = match offset {
            Some(target) if queue_id.is_some() => in_bounds(context, topic, queue, target)?,
            _ => by_time(context, topic, queue, timestamp_ms)?,
        };
        body.offset_table.insert(MessageQueue::new(topic, context.broker_name, queue), offset);
    }
    Ok(body)
}

/// The refusal of an operator's request about the offsets of a group that does not exist.
pub(crate) fn no_group(group: &str) -> Refusal {
    Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, format!("Group {group} does not exist"))
}

fn by_time(context: &ResetContext<'_>, topic: &str, queue: i32, timestamp_ms: i64) -> Result<i64> {
    if timestamp_ms < 0 {
        Ok((context.bounds)(topic, queue).1)
    } else {
        (context.search)(topic, queue, timestamp_ms)
    }
}

fn in_bounds(context: &ResetContext<'_>, topic: &str, queue: i32, target: i64) -> Result<i64> {
    let (min, max) = (context.bounds)(topic, queue);
    if (min..=max.saturating_add(1)).contains(&target) {
        return Ok(target);
    }
    Err(Refusal::error(format!("Target offset {target} not in consume queue range [{min}-{max}]")))
}
