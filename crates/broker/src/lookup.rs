//! Looking up offsets, and messages by key, id and time: requests 12, 29 to 33, 222, 303 and 321. Requests that may read the disk
//! are served by the disk pool ([`needs_disk`]).

mod query;
mod span;

use std::sync::Arc;

use store::Boundary;
use wire::codes::request;
use wire::frame::Command;

use crate::broker::Broker;
use crate::offsets::{self, ResetContext};
use crate::topics::Queue;
use crate::{Answer, Refusal, client_relay};
pub(crate) use query::{query, view};
pub(crate) use span::{consume_queue, consume_time_span};

/// Whether a request is served by the disk pool, because it may wait for the disk or reads tables that may be large.
pub(crate) fn needs_disk(code: i32) -> bool {
    is_for_operators(code)
        || matches!(
            code,
            request::CONSUMER_SEND_MSG_BACK
                | request::SEARCH_OFFSET_BY_TIMESTAMP
                | request::GET_EARLIEST_MSG_STORETIME
                | request::VIEW_MESSAGE_BY_ID
                | request::INVOKE_BROKER_TO_RESET_OFFSET
                | request::PEEK_MESSAGE
                | request::SET_MESSAGE_REQUEST_MODE
                | request::UPDATE_BROKER_CONFIG
                | request::CLONE_GROUP_OFFSET
                | request::RESUME_CHECK_HALF_MESSAGE
        )
}

/// Whether a request of the disk pool comes from operators and their tools: such a request changes nothing, and may read every
/// queue. It gets a thread of its own, so that consumers do not wait for it.
pub(crate) fn is_for_operators(code: i32) -> bool {
    matches!(
        code,
        request::QUERY_MESSAGE
            | request::GET_ALL_TOPIC_CONFIG
            | request::GET_BROKER_RUNTIME_INFO
            | request::GET_ALL_CONSUMER_OFFSET
            | request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            | request::GET_TOPIC_STATS_INFO
            | request::GET_CONSUMER_CONNECTION_LIST
            | request::GET_CONSUME_STATS
            | request::QUERY_TOPIC_CONSUME_BY_WHO
            | request::QUERY_CONSUME_TIME_SPAN
            | request::QUERY_CORRECTION_OFFSET
            | request::CONSUME_MESSAGE_DIRECTLY
            | request::GET_BROKER_CONSUME_STATS
            | request::QUERY_CONSUME_QUEUE
            | request::GET_ALL_PRODUCER_INFO
    )
}

/// 30 `GET_MAX_OFFSET`: the offset that the next message gets; 0 for a queue without messages.
pub(crate) fn max_offset(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let queue = broker.log_queue(command.fields.need("topic")?, command.fields.need_number("queueId")?);
    let offset = queue.map_or(0, |queue| broker.visible_end(&queue));
    Ok(Answer::success().field("offset", offset))
}

/// 31 `GET_MIN_OFFSET`: -1 for a batch queue that was never written to (`BatchConsumeQueue.getMinOffsetInQueue`).
pub(crate) fn min_offset(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let queue = broker.log_queue(command.fields.need("topic")?, command.fields.need_number("queueId")?);
    let offset = queue.map_or(0, |queue| match queue.index.max().get() {
        0 if queue.index.is_batched() => -1,
        _ => queue.index.min().to_i64(),
    });
    Ok(Answer::success().field("offset", offset))
}

/// 32 `GET_EARLIEST_MSG_STORETIME`: store time of the queue's first message in milliseconds, -1 without messages.
pub(crate) fn earliest_time(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let queue = broker.log_queue(command.fields.need("topic")?, command.fields.need_number("queueId")?);
    let first = |queue: Arc<Queue>| broker.store.store_time(&queue.index, queue.index.min()).ok().flatten();
    let time = queue.and_then(first).unwrap_or(-1);
    Ok(Answer::success().field("timestamp", time))
}

/// 29 `SEARCH_OFFSET_BY_TIMESTAMP`: the offset of a queue at a store time.
pub(crate) fn search(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let queue = broker.log_queue(fields.need("topic")?, fields.need_number("queueId")?);
    let time: i64 = fields.need_number("timestamp")?;
    let upper = fields.text("boundaryType").is_some_and(|kind| kind.eq_ignore_ascii_case("UPPER"));
    let boundary = if upper { Boundary::Upper } else { Boundary::Lower };
    let offset = match queue {
        Some(queue) => by_time(broker, &queue, time, boundary)?,
        None => 0,
    };
    Ok(Answer::success().field("offset", offset))
}

/// 222 `INVOKE_BROKER_TO_RESET_OFFSET`: moves a group to other offsets, from its next pull on.
pub(crate) fn reset(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let context = ResetContext {
        offsets: &broker.offsets,
        groups: &broker.groups,
        broker_name: &broker.config.broker_name,
        read_queues: &|topic| Some(broker.topics.find(topic)?.config.read_queue_nums),
        bounds: &|topic, queue_id| match broker.log_queue(topic, queue_id) {
            Some(queue) => (queue.index.min().to_i64(), broker.visible_end(&queue)),
            None => (0, 0),
        },
        search: &|topic, queue_id, time| {
            let queue = broker.log_queue(topic, queue_id);
            queue.map_or(Ok(0), |queue| by_time(broker, &queue, time, Boundary::Lower))
        },
    };
    if broker.config.server_side_reset {
        let answer = offsets::reset(&context, command)?;
        // Saved before the answer, because a reset that was answered must survive a kill.
        broker.save();
        return Ok(answer);
    }
    let mut targets = offsets::reset_targets(&context, command)?;
    if !command.fields.flag_or("isForce", false) {
        let (group, topic) = (command.fields.need("group")?, command.fields.need("topic")?);
        // Moves offsets only backwards, as `Broker2Client.resetOffset` does.
        for (queue, offset) in &mut targets.offset_table {
            let committed = broker.offsets.place(group, topic, queue.queue_id).committed;
            *offset = if committed >= 0 { committed.min(*offset) } else { *offset };
        }
    }
    client_relay::push_reset(broker, command, &targets)
}

fn by_time(broker: &Broker, queue: &Queue, time: i64, boundary: Boundary) -> Result<i64, Refusal> {
    let found = broker.store.offset_by_time(&queue.index, time, boundary);
    let unread = |error| Refusal::error(format!("the queue cannot be searched: {error}"));
    let end = broker.visible_end(queue);
    let last = match boundary {
        Boundary::Lower => end,
        // The last message that consumers may see, or the minimum when there is none.
        Boundary::Upper => (end - 1).max(queue.index.min().to_i64()),
    };
    found.map(|offset| offset.to_i64().min(last)).map_err(unread)
}
