//! SendMessage and RecallMessage (`SendMessageActivity`, `RecallMessageActivity`).

use broker::api::{RecallRequest, SendRequest, Sent};
use tokio::task::spawn_local;
use wire::body::TopicConfig;
use wire::body::topic::PERM_WRITE;
use wire::header::SendHeader;
use wire::recall::RecallHandle;

use super::Call;
use super::routes::MESSAGE_TYPE;
use crate::checks;
use crate::convert::{self, MessageKind, Outgoing};
use crate::failure::{Failure, common};
use crate::message_group::bucket;
use crate::messages::{
    Code, Message, MessageType, RecallMessageRequest, RecallMessageResponse, SendMessageRequest,
    SendMessageResponse, SendResultEntry, Status, name,
};
use crate::transaction_id::TransactionId;

/// Topic whose configuration a missing topic gets, and its queues.
const DEFAULT_TOPIC: (&str, i32) = (wire::names::DEFAULT_TOPIC, 4);

/// SendMessage. Each message is stored for itself and has its own entry.
pub async fn send(call: Call, request: SendMessageRequest) -> Result<SendMessageResponse, Failure> {
    let corrupted = |text: &str| Failure::new(Code::MessageCorrupted, text);
    let first = request.messages.first().ok_or_else(|| corrupted("no message to send"))?;
    let topic = name(&first.topic);
    checks::topic(topic)?;
    if request.messages.iter().any(|message| message.topic != first.topic) {
        return Err(corrupted("topic in message is not same"));
    }
    let now_ms = call.proxy.api.now_ms();
    request.messages.iter().try_for_each(|message| convert::check(&call.proxy.config, message, now_ms))?;
    let outgoing: Vec<Outgoing> =
        request.messages.iter().map(|message| convert::outgoing(message, &call.caller, now_ms)).collect();
    let config = call.proxy.api.topic(topic);
    let is_exempt =
        [wire::names::RETRY_PREFIX, wire::names::DLQ_PREFIX].iter().any(|it| topic.starts_with(it));
    if call.proxy.config.checks_message_type && !is_exempt {
        MessageKind::of(&outgoing[0].properties).check(message_type(config.as_ref()))?;
    }
    let queue_id = queue_id(config.as_ref(), &request.messages)?;
    let mut entries = Vec::with_capacity(outgoing.len());
    for (message, outgoing) in request.messages.iter().zip(&outgoing) {
        entries.push(store(&call, message, outgoing, queue_id).await);
    }
    let status = common(entries.iter().filter_map(|entry| entry.status.as_ref()), "send status is empty");
    Ok(SendMessageResponse { status: Some(status), entries })
}

/// The type of messages that a topic takes; `None` when there is no such topic.
fn message_type(topic: Option<&TopicConfig>) -> Option<&str> {
    topic.map(|topic| topic.attributes.get(MESSAGE_TYPE).map_or("NORMAL", String::as_str))
}

/// The queue of a single message with a message group or lite topic; -1 for one that the broker chooses.
fn queue_id(topic: Option<&TopicConfig>, messages: &[Message]) -> Result<i32, Failure> {
    let Some(topic) = topic else { return Ok(-1) };
    if topic.perm & PERM_WRITE == 0 || topic.write_queue_nums <= 0 {
        return Err(Failure::new(Code::Forbidden, "no writable queue"));
    }
    let [Message { system_properties: Some(system), .. }] = messages else { return Ok(-1) };
    let group = system.message_group.as_deref().filter(|group| !group.trim().is_empty());
    let group = group.or(system.lite_topic.as_deref()).filter(|group| !group.is_empty());
    Ok(group.map_or(-1, |group| bucket(group, topic.write_queue_nums)))
}

async fn store(call: &Call, message: &Message, outgoing: &Outgoing, queue_id: i32) -> SendResultEntry {
    let topic = name(&message.topic);
    let header = SendHeader {
        producer_group: topic,
        topic,
        default_topic: DEFAULT_TOPIC.0,
        default_topic_queue_nums: DEFAULT_TOPIC.1,
        queue_id,
        sys_flag: outgoing.sys_flag,
        born_timestamp: outgoing.born_ms,
        flag: 0,
        properties: &outgoing.properties,
        reconsume_times: 0,
        unit_mode: false,
        max_reconsume_times: None,
        batch: false,
        broker_name: "",
    };
    let request = SendRequest { caller: &call.caller, header, body: &message.body, is_reply: false };
    // The sends of all calls that run before this task are stored together.
    let commit = || {
        let sends = call.sends.clone();
        spawn_local(async move { sends.commit() });
    };
    match call.sends.send(&request, commit).await {
        Ok(sent) => entry(sent, MessageKind::of(&outgoing.properties).0 == MessageType::Transaction),
        Err(refusal) => {
            let mut failure = Failure::from(refusal);
            let status = match failure.code {
                Code::MasterPersistenceTimeout => Some("FLUSH_DISK_TIMEOUT"),
                Code::SlavePersistenceTimeout => Some("FLUSH_SLAVE_TIMEOUT"),
                Code::HaNotAvailable => Some("SLAVE_NOT_AVAILABLE"),
                _ => None,
            };
            if let Some(status) = status {
                failure.message = format!("send message failed, sendStatus={status}");
            }
            SendResultEntry { status: Some(failure.status()), ..Default::default() }
        }
    }
}

fn entry(sent: Sent, is_half: bool) -> SendResultEntry {
    let id = TransactionId {
        message_id: &sent.unique_key,
        half_offset: sent.queue_offset,
        log_offset: sent.log_offset,
    };
    SendResultEntry {
        status: Some(Status::ok()),
        transaction_id: if is_half { id.to_string() } else { String::new() },
        message_id: sent.unique_key,
        offset: sent.queue_offset.to_i64(),
        recall_handle: sent.recall_handle,
    }
}

/// RecallMessage.
pub async fn recall(call: Call, request: RecallMessageRequest) -> Result<RecallMessageResponse, Failure> {
    let topic = name(&request.topic);
    checks::topic(topic)?;
    let api = &call.proxy.api;
    if call.proxy.config.checks_message_type {
        let config = api.topic(topic);
        MessageKind(MessageType::Delay).check(message_type(config.as_ref()))?;
    }
    if RecallHandle::decode(&request.recall_handle).is_none() {
        return Err(Failure::new(Code::InternalServerError, "recall handle is invalid"));
    }
    let recall = RecallRequest { producer_group: topic, topic, handle: &request.recall_handle };
    let recalled = api.recall(&call.caller, &recall).await?;
    Ok(RecallMessageResponse { status: Some(Status::ok()), message_id: recalled.unique_key })
}
