//! SendMessage and RecallMessage (`SendMessageActivity`, `RecallMessageActivity`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use broker::api::{RecallRequest, SendRequest, Sends};
use grpc::messages::{
    Code, Message, MessageType, RecallMessageRequest, RecallMessageResponse, SendMessageRequest,
    SendMessageResponse, SendResultEntry, Status, name,
};
use tokio::task::spawn_local;
use wire::body::topic::{PERM_READ, PERM_WRITE};
use wire::hash::bucket;
use wire::header::SendHeader;
use wire::properties::{self, key};
use wire::recall::RecallHandle;

use super::{Call, routes, topic_missing};
use crate::checks;
use crate::convert::{self, MessageKind, Outgoing};
use crate::failure::{Failure, Result, common};
use crate::topic::{QueuesOf, Stored, Topic};
use crate::transaction_id::TransactionId;

/// Template topic of missing topics, and its number of queues.
const DEFAULT_TOPIC: (&str, i32) = (wire::names::DEFAULT_TOPIC, 4);

/// SendMessage. Each message is stored separately and has its own entry. All messages are in one queue, in
/// the order of the request.
pub async fn send(call: Call, request: SendMessageRequest) -> Result<SendMessageResponse> {
    let corrupted = |text: &str| Failure::new(Code::MessageCorrupted, text);
    let first = request.messages.first().ok_or_else(|| corrupted("no message to send"))?;
    let topic = name(&first.topic);
    checks::topic(topic)?;
    if request.messages.iter().any(|message| message.topic != first.topic) {
        return Err(corrupted("topic in message is not same"));
    }
    let brokers = &call.proxy.brokers;
    let now_ms = brokers.now_ms();
    request.messages.iter().try_for_each(|message| convert::check(&call.proxy.config, message, now_ms))?;
    let outgoing: Vec<Outgoing> =
        request.messages.iter().map(|message| convert::outgoing(message, &call.caller, now_ms)).collect();
    let is_ordered = message_group(&request.messages).is_some();
    let known = match is_ordered {
        // A message group has its queue among those of all brokers, from the first message on.
        true => brokers.whole_topic(topic).await?,
        false => brokers.topic(topic).await?,
    };
    let is_exempt =
        [wire::names::RETRY_PREFIX, wire::names::DLQ_PREFIX].iter().any(|it| topic.starts_with(it));
    if call.proxy.config.checks_message_type && !is_exempt {
        MessageKind::of(&outgoing[0].properties).check(message_type(known.as_deref()))?;
    }
    let known = match known {
        Some(known) => known,
        None => expected(&call, topic).await?,
    };
    let turn = call.proxy.turn.fetch_add(1, Ordering::Relaxed);
    let queue = queue(&known, &request.messages, turn, |queues| routes::is_direct(&call, queues))?;
    let mut entries: Vec<SendResultEntry> = Vec::with_capacity(outgoing.len());
    for (message, outgoing) in request.messages.iter().zip(&outgoing) {
        let failed = entries.last().filter(|entry| is_ordered && !is_stored(entry)).cloned();
        // An ordered message behind a failed one would pass it in the queue when the failed one is sent again.
        entries.push(match failed {
            Some(failed) => failed,
            None => store(&call, message, outgoing, queue).await,
        });
    }
    let status = common(entries.iter().filter_map(|entry| entry.status.as_ref()), "send status is empty");
    Ok(SendMessageResponse { status: Some(status), entries })
}

/// The type of messages that a topic takes; `None` when there is no such topic.
fn message_type(topic: Option<&Topic>) -> Option<&str> {
    topic.map(|topic| topic.message_type.as_str())
}

/// The topic that a send makes when there is none, with its queues (`TopicConfigManager.createTopicInSendMessageMethod`).
///
/// # Errors
/// `TOPIC_NOT_FOUND` in a cluster, where the brokers of a missing topic are unknown.
async fn expected(call: &Call, topic: &str) -> Result<Arc<Topic>> {
    let brokers = &call.proxy.brokers;
    let broker = brokers.own().ok_or_else(|| topic_missing(topic))?.to_owned();
    let (default_topic, asked) = DEFAULT_TOPIC;
    let queues = |queues: &QueuesOf| queues.write.clamp(1, asked);
    let inherited = brokers.topic(default_topic).await?;
    // Without a topic to inherit from, the broker makes retry topics only.
    let write = inherited.and_then(|topic| topic.queues.first().map(queues)).unwrap_or(1);
    let queues = vec![QueuesOf {
        broker,
        ids: vec![0],
        host: String::new(),
        address: OnceLock::new(),
        perm: PERM_READ | PERM_WRITE,
        read: write,
        write,
    }];
    Ok(Arc::new(Topic { queues, message_type: String::new() }))
}

/// Whether the message of an entry is in its queue, even if it is not yet flushed or replicated.
fn is_stored(entry: &SendResultEntry) -> bool {
    let stored =
        [Code::Ok, Code::MasterPersistenceTimeout, Code::SlavePersistenceTimeout, Code::HaNotAvailable];
    entry.status.as_ref().is_some_and(|status| stored.iter().any(|code| *code as i32 == status.code))
}

/// The broker and the queue of the messages of a request, which all go to one queue. Messages with a message group or lite topic
/// have the same queue each time. For all other messages the brokers take turns in proportion to their queues. The broker chooses
/// the queue of a single message (-1). Producers that retry a send reach another broker, if there is another broker. Brokers that
/// the client reaches at endpoints of their own take no turn here, because the client distributes sends to these brokers. For message
/// groups all brokers count, so that the queue does not change with the reachability of a broker.
fn queue<'t>(
    topic: &'t Topic,
    messages: &[Message],
    turn: usize,
    is_direct: impl Fn(&QueuesOf) -> bool,
) -> Result<(&'t str, i32)> {
    let writable = || topic.queues.iter().filter(|queues| queues.is_writable());
    let part = |queues: &'t QueuesOf| (queues.broker.as_str(), queues.write);
    let group = message_group(messages);
    let mut parts: Vec<_> =
        writable().filter(|queues| group.is_some() || !is_direct(queues)).map(part).collect();
    if parts.is_empty() {
        parts.extend(writable().map(part));
    }
    // `MessageQueueSelector.buildWrite` sorts the queues by broker and id.
    parts.sort_unstable();
    let count: i32 = parts.iter().map(|(_, queues)| queues).sum();
    if count == 0 {
        return Err(Failure::new(Code::Forbidden, "no writable queue"));
    }
    let Some(group) = group else {
        let (broker, id) = in_turn(&parts, turn % usize::try_from(count).unwrap_or(1));
        return Ok((broker, if messages.len() > 1 { id } else { -1 }));
    };
    let mut at = bucket(group, count);
    for (broker, queues) in parts {
        if at < queues {
            return Ok((broker, at));
        }
        at -= queues;
    }
    unreachable!("the bucket is below the number of queues")
}

/// Returns the queue at an index among all queues. Queues with the lowest id come first, so that neighbours are on
/// different brokers.
fn in_turn<'t>(parts: &[(&'t str, i32)], mut at: usize) -> (&'t str, i32) {
    for id in 0.. {
        let mut level = parts.iter().filter(|(_, queues)| *queues > id).map(|(broker, _)| *broker);
        match level.nth(at) {
            Some(broker) => return (broker, id),
            None => at -= parts.iter().filter(|(_, queues)| *queues > id).count(),
        }
    }
    unreachable!("the place is below the number of queues")
}

/// The message group or lite topic of the first message that names one.
fn message_group(messages: &[Message]) -> Option<&str> {
    messages.iter().filter_map(|message| message.system_properties.as_ref()).find_map(|system| {
        let group = system.message_group.as_deref().filter(|group| !group.trim().is_empty());
        group.or(system.lite_topic.as_deref()).filter(|group| !group.is_empty())
    })
}

async fn store(
    call: &Call,
    message: &Message,
    outgoing: &Outgoing,
    (broker, queue_id): (&str, i32),
) -> SendResultEntry {
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
    let commit = |sends: Arc<Sends>| {
        spawn_local(async move { sends.commit() });
    };
    match call.proxy.brokers.send((broker, call.sends.as_ref()), &request, commit).await {
        Ok(stored) => entry(broker, &stored, outgoing),
        Err(mut failure) => {
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

/// The entry of a message that the broker stored.
fn entry(broker: &str, stored: &Stored, outgoing: &Outgoing) -> SendResultEntry {
    let message_id = properties::get_str(&outgoing.properties, key::UNIQ_KEY).unwrap_or_default();
    let &Stored { queue_offset: half_offset, log_offset, ref recall_handle } = stored;
    let id = TransactionId { message_id, half_offset, log_offset, broker };
    let is_half = MessageKind::of(&outgoing.properties).0 == MessageType::Transaction;
    SendResultEntry {
        status: Some(Status::ok()),
        // That of a message without a transaction is its own id (`LocalMessageService.sendMessage`).
        transaction_id: if is_half { id.to_string() } else { message_id.to_owned() },
        message_id: message_id.to_owned(),
        offset: half_offset.to_i64(),
        recall_handle: recall_handle.clone(),
    }
}

/// RecallMessage.
pub async fn recall(call: Call, request: RecallMessageRequest) -> Result<RecallMessageResponse> {
    let topic = name(&request.topic);
    checks::topic(topic)?;
    let brokers = &call.proxy.brokers;
    if call.proxy.config.checks_message_type {
        let known = brokers.topic(topic).await?;
        MessageKind(MessageType::Delay).check(message_type(known.as_deref()))?;
    }
    let Some(handle) = RecallHandle::decode(&request.recall_handle) else {
        return Err(Failure::new(Code::InternalServerError, "recall handle is invalid"));
    };
    let recall = RecallRequest { producer_group: topic, topic, handle: &request.recall_handle };
    let message_id = brokers.recall(&call.caller, &handle.broker_name, &recall).await?;
    Ok(RecallMessageResponse { status: Some(Status::ok()), message_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpc::messages::SystemProperties;

    fn check(topic: &Topic, group: Option<&str>, expected: &[(&str, i32)]) {
        let system = SystemProperties { message_group: group.map(str::to_owned), ..Default::default() };
        let messages = [Message { system_properties: Some(system), ..Default::default() }];
        for (turn, expected) in expected.iter().enumerate() {
            assert_eq!(queue(topic, &messages, turn, |_| false), Ok(*expected), "turn {turn}");
        }
    }

    #[test]
    fn brokers_take_turns_and_message_groups_keep_their_queue() {
        let part = |broker: &str, write, id| QueuesOf {
            broker: broker.to_owned(),
            ids: vec![id],
            host: String::new(),
            address: OnceLock::new(),
            perm: 6,
            read: write,
            write,
        };
        // The last one has no master.
        let queues = vec![part("b", 1, 0), part("a", 3, 0), part("c", 3, 1)];
        let topic = Topic { queues, message_type: "NORMAL".to_owned() };
        check(&topic, None, &[("a", -1), ("b", -1), ("a", -1), ("a", -1), ("a", -1), ("b", -1)]);
        let at = bucket("orders", 4);
        let expected = if at < 3 { ("a", at) } else { ("b", at - 3) };
        check(&topic, Some("orders"), &[expected, expected, expected]);
        let without = Topic { queues: vec![part("c", 3, 1)], message_type: "NORMAL".to_owned() };
        let of = |groups: [Option<&str>; 2]| {
            groups.map(|group| Message {
                system_properties: Some(SystemProperties {
                    message_group: group.map(str::to_owned),
                    ..Default::default()
                }),
                ..Default::default()
            })
        };
        // Several messages have a queue in any case: that of the first group, or the next.
        for groups in [[Some("orders"); 2], [Some("orders"), Some("x")], [None, Some("orders")]] {
            assert_eq!(queue(&topic, &of(groups), 1, |_| false), Ok(expected));
        }
        let next: Vec<_> =
            (0..5).map(|turn| queue(&topic, &of([None; 2]), turn, |_| false).unwrap()).collect();
        assert_eq!(next, [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("a", 0)]);
        let refused = queue(&without, &[], 0, |_| false).map_err(|failure| failure.code);
        assert_eq!(refused, Err(Code::Forbidden));
        // A client sends to the broker `a` itself, but not when no other broker takes messages.
        let direct = |name: &'static str| move |queues: &QueuesOf| name.contains(&queues.broker);
        assert_eq!(queue(&topic, &of([None; 2]), 0, direct("a")), Ok(("b", 0)));
        assert_eq!(queue(&topic, &of([None; 2]), 0, direct("ab")), Ok(("a", 0)));
        // A message group keeps its queue whichever brokers can be reached.
        for group in ["orders", "x", "y", "z"] {
            let messages = of([Some(group); 2]);
            let queue = |name| queue(&topic, &messages, 0, direct(name));
            assert_eq!([queue("a"), queue("b")], [queue(""), queue("")], "{group}");
        }
    }
}
