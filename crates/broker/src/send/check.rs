//! The checks of a send before its records are encoded, in the order of Java's.

use std::sync::Arc;

use wire::codes::{VERSION_3_4_9, response};
use wire::properties::{self, key};
use wire::record::sys_flag;

use super::message::Target;
use super::{SendRequest, illegal};
use crate::caller::Caller;
use crate::parts::{Runtime, Sessions, Tables};
use crate::topics::Topic;
use crate::{FAQ, Refusal, Result, message_access, names};

/// Checks a send like `AbstractSendMessageProcessor.msgCheck` and the store, in their order. A topic's write permission only
/// affects routes: producers that still have an older route are served, so that a topic can be drained without refusals.
pub(super) fn check(
    sessions: &Sessions,
    runtime: &Runtime,
    topic: &Topic,
    sent: &SendRequest<'_>,
) -> Result<()> {
    let SendRequest { caller, header, body, is_reply } = *sent;
    let producer = caller.remote;
    let name = topic.name();
    // A read-only broker refuses only ordered topics. Other producers continue until they refresh their routes.
    if !runtime.is_writable() && topic.config.order {
        let remark = format!("the broker[{}] sending message is forbidden", runtime.config.broker_ip1);
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if topic.forbidden {
        let remark = format!("Sending message to topic[{name}] is forbidden.");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    let queues = topic.config.read_queue_nums.max(topic.config.write_queue_nums);
    if header.queue_id >= queues {
        let remark = format!(
            "request queueId[{}] is illegal, topic[{name}] has queues 0 to {} Producer: {producer}",
            header.queue_id,
            queues - 1
        );
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    if header.batch && header.topic.starts_with(names::RETRY_PREFIX) {
        let remark = format!("batch request does not support retry group {name}");
        return Err(Refusal::new(response::MESSAGE_ILLEGAL, remark));
    }
    let body_max = runtime.config.max_message_size;
    // Only the broker itself may set this flag.
    let inner_batch = header.sys_flag & sys_flag::INNER_BATCH != 0;
    // The Go client sends replies without a body.
    let lacks_body = body.is_empty() && !is_reply;
    if lacks_body || body.len() > body_max || inner_batch {
        return Err(illegal(runtime));
    }
    // Only single sends to a compacted topic must have a key (`SendMessageProcessor.sendMessage`).
    let is_single = !header.batch && !is_reply;
    if is_single && topic.compacts && properties::get(header.properties, key::KEYS).is_none() {
        return Err(Refusal::new(response::MESSAGE_ILLEGAL, "Required message key is missing"));
    }
    match super::message::lite_queue(runtime, &header)?.filter(|_| !header.batch) {
        // The broker replaces the further queues that the sender names.
        Some(_) => Ok(()),
        None => further_topics(sessions, runtime, caller, header.properties),
    }
}

/// Checks the sender's permission for the further topics that a message names.
pub(super) fn further_topics(
    sessions: &Sessions,
    runtime: &Runtime,
    caller: &Caller,
    properties: &[u8],
) -> Result<()> {
    if runtime.config.store.multi_dispatch {
        let named = properties::get_str(properties, key::INNER_MULTI_DISPATCH).unwrap_or_default();
        let topics = named.split(',').filter(|name| !name.is_empty() && !names::is_light(name));
        message_access::publish(sessions, runtime, caller, topics)?;
    }
    Ok(())
}

/// Returns the target of a message sent to a retry topic: that topic, or the dead letter topic of its group
/// (`AbstractSendMessageProcessor.handleRetryAndDLQ`).
pub(super) fn retry_target(
    tables: &Tables,
    runtime: &Runtime,
    topic: Arc<Topic>,
    request: &SendRequest<'_>,
) -> Result<Target> {
    let SendRequest { caller, header, .. } = request;
    let group = &header.topic[names::RETRY_PREFIX.len()..];
    let Some(config) = tables.group(&runtime.config, group)? else {
        let remark = format!("subscription group not exist, {group} {FAQ}");
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    };
    let times_max = match header.max_reconsume_times {
        Some(times) if caller.version >= VERSION_3_4_9 => times,
        _ => config.retry_max_times,
    };
    let given_up = tables.locks.is_locked_by_anyone(group, runtime.now_ms());
    if header.reconsume_times > times_max || given_up {
        let topic = tables.dead_letter_topic(group)?;
        return Ok(Target { topic, queue_id: 0, dead: true });
    }
    Ok(Target { topic, queue_id: header.queue_id, dead: false })
}
