//! 370 `RECALL_MESSAGE`: a producer cancels a timed message before it is delivered (`RecallMessageProcessor`).

use store::timer::wheel_time;
use wire::codes::response;
use wire::properties::{self, key};
use wire::recall::RecallHandle;

use super::delivery_time::timed;
use crate::parts::{Runtime, Tables};
use crate::{Refusal, Result};

/// Tag of cancelling messages.
const TAG: &[u8] = b"_RECALL_TAG_";

/// Body of cancelling messages.
pub(crate) const BODY: &[u8] = b"0";

/// 370 `RECALL_MESSAGE`.
pub struct RecallRequest<'a> {
    /// Group of the producer.
    pub producer_group: &'a str,
    /// Real topic of the message.
    pub topic: &'a str,
    /// The handle that the answer of the send contained.
    pub handle: &'a str,
}

/// A recall that passed the checks.
pub(crate) struct Recall {
    /// Unique key of the recalled message.
    pub message_id: String,
    /// Earliest due time of the recalled message, in milliseconds since the epoch. From then on a recall is too late.
    pub time_ms: i64,
}

/// Checks a recall and appends the properties of the cancelling message to `out`.
///
/// # Errors
/// Java's refusals: recalls are disabled, the broker is not writable, the topic does not exist, the handle is invalid
/// or belongs to another broker, or the time has passed or is too far ahead. Also with `timerStopEnqueue`, because
/// the cancelling message would not be read.
pub(crate) fn check(
    tables: &Tables,
    runtime: &Runtime,
    request: &RecallRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<Recall> {
    let &RecallRequest { producer_group: group, topic, handle } = request;
    let timers = &runtime.config.timers;
    if !timers.recall {
        return Err(Refusal::new(response::NO_PERMISSION, "recall failed, operation is forbidden"));
    }
    if !runtime.is_writable() && !timers.recall_when_read_only {
        let remark = "recall failed, broker service not available";
        return Err(Refusal::new(response::SERVICE_NOT_AVAILABLE, remark));
    }
    if tables.topics.find(topic).is_none() {
        let remark = format!("recall failed, the topic[{topic}] not exist");
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, remark));
    }
    let illegal = |remark: &'static str| Refusal::new(response::ILLEGAL_OPERATION, remark);
    let handle = RecallHandle::decode(handle).ok_or_else(|| illegal("recall handle is invalid"))?;
    if handle.topic != topic {
        return Err(illegal("recall failed, topic not match"));
    }
    if handle.broker_name != runtime.config.broker_name {
        return Err(illegal("recall failed, broker service not available"));
    }
    let now_ms = runtime.now_ms();
    let time_ms: i64 = handle.time.parse().unwrap_or(-1);
    let most_ms = timers.delay_max_s.saturating_mul(1000);
    if time_ms <= now_ms || time_ms - now_ms >= most_ms {
        return Err(too_late());
    }
    if !timers.enabled {
        return Err(failed());
    }
    if timers.stop_enqueue {
        return Err(stopped());
    }
    let cancels = match timers.recall_names_topic {
        true => format!("{topic}+{}", handle.message_id),
        false => handle.message_id.clone(),
    };
    let mut digits = itoa::Buffer::new();
    properties::append(out, key::TAGS, TAG);
    properties::append(out, key::TIMER_DEL_UNIQKEY, cancels.as_bytes());
    properties::append(out, key::UNIQ_KEY, handle.message_id.as_bytes());
    properties::append(out, key::TIMER_DELIVER_MS, handle.time.as_bytes());
    properties::append(out, key::BORN_TIMESTAMP, digits.format(now_ms).as_bytes());
    properties::append(out, key::PRODUCER_GROUP, group.as_bytes());
    timed(out, wheel_time(time_ms, timers.precision_ms), topic, 0);
    Ok(Recall { message_id: handle.message_id, time_ms })
}

/// Makes the refusal of a late recall: the message may have been delivered.
pub(crate) fn too_late() -> Refusal {
    Refusal::new(response::ILLEGAL_OPERATION, "recall failed, timestamp invalid")
}

/// The refusal of a recall while `timerStopEnqueue` is set: the cancelling message would be stored and not be read.
fn stopped() -> Refusal {
    Refusal::error("recall failed, timed messages are not added to the wheel, timerStopEnqueue is true")
}

/// Makes the refusal of a recall whose cancelling message was not stored.
pub(crate) fn failed() -> Refusal {
    Refusal::error("recall failed, execute error")
}
