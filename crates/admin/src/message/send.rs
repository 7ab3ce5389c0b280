//! Sending a message (`SendMessageCommand`).

use crate::operation::Typed;
use crate::request::Request;
use crate::text::Table;
use crate::{Arguments, Error, Session};
use client::{Message, Producer, ProducerConfig};
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use wire::body::MessageQueue;
use wire::codes::request;

/// Group in whose name messages are sent.
const GROUP: &str = "TOOLS_PRODUCER";

/// Longest wait for an answer: longer than `slaveTimeout` (3 s), after which a master without its slaves answers, so that its
/// answer is seen and not a missing one.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Place at which a message was stored; without a status after a dry run.
#[derive(Serialize)]
pub(crate) struct Sent {
    topic: String,
    broker: String,
    queue: i32,
    queue_offset: i64,
    status: &'static str,
    message_id: String,
    offset_id: String,
}

/// Text like that of `SendResult.toString`.
impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, broker, queue, queue_offset, status, message_id, offset_id } = self;
        write!(
            f,
            "SendResult [sendStatus={status}, msgId={message_id}, offsetMsgId={offset_id}, messageQueue=MessageQueue \
             [topic={topic}, brokerName={broker}, queueId={queue}], queueOffset={queue_offset}, recallHandle=null]"
        )
    }
}

impl Typed for Sent {
    fn mqadmin(&self, _: &Arguments) -> String {
        let Self { broker, queue, status, message_id, .. } = self;
        let mut table = Table::new("{#Broker Name:<32}  {#QID:<4}  {#Send Result:<20}    {#MsgId:<0}");
        table.row(&[broker, queue, status, message_id]);
        table.text
    }
}

pub(super) async fn send(session: &Session, arguments: &Arguments) -> Result<Sent, Error> {
    let mut message = Message::new(arguments.need("topic")?, arguments.need("body")?);
    for pair in arguments.get("properties").unwrap_or_default().split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Error::Usage(format!("expected properties as name=value, found {pair}")))?;
        message = message.property(name.trim(), value.trim());
    }
    message = arguments.get("keys").into_iter().fold(message, |message, keys| message.keys(keys));
    message = arguments.get("tags").into_iter().fold(message, |message, tag| message.tag(tag));
    let queue = match (arguments.get("broker"), arguments.parse("queue")?) {
        (None, None) => None,
        (Some(broker), Some(queue)) => Some(MessageQueue::new(&message.topic, broker, queue)),
        _ => return Err(Error::Usage("one queue is named by its broker set and its id, both".to_owned())),
    };
    send_message(session, &message, queue).await
}

/// Sends a message to a queue, or to any of its topic. A dry run says to which broker the request would go.
pub(crate) async fn send_message(
    session: &Session,
    message: &Message,
    queue: Option<MessageQueue>,
) -> Result<Sent, Error> {
    if session.planned().is_some() {
        let servers = session.brokers_of(&message.topic).await?;
        let is_meant = |name: &str| queue.as_ref().is_none_or(|queue| queue.broker_name == name);
        let Some((broker, address)) = servers.into_iter().find(|(name, _)| is_meant(name)) else {
            return Err(Error::NotFound(format!("no such broker has queues of the topic {}", message.topic)));
        };
        session.change(&address, &outline(message)).await?;
        let queue = queue.map_or(-1, |queue| queue.queue_id);
        let topic = message.topic.clone();
        let (message_id, offset_id) = (String::new(), String::new());
        return Ok(Sent { topic, broker, queue, queue_offset: -1, status: "", message_id, offset_id });
    }
    sent(&producer(session), message, queue.as_ref()).await
}

/// The request that stands for a send in a dry run.
fn outline(message: &Message) -> Request {
    let properties = message.properties.iter().map(|(name, value)| format!("{name}={value}"));
    Request::new(request::SEND_MESSAGE_V2)
        .with("topic", &message.topic)
        .with("properties", properties.collect::<Vec<_>>().join(","))
        .message(message.body.clone())
}

/// The producer of operators' messages.
pub(super) fn producer(session: &Session) -> Producer {
    Producer::new(&session.client, ProducerConfig { timeout: SEND_TIMEOUT, ..ProducerConfig::new(GROUP) })
}

/// Sends a message to a queue, or to any of its topic.
pub(super) async fn sent(
    producer: &Producer,
    message: &Message,
    queue: Option<&MessageQueue>,
) -> Result<Sent, Error> {
    let outcome = match queue {
        Some(queue) => producer.send_to(queue, message).await,
        None => producer.send(message).await,
    }?;
    Ok(Sent {
        topic: outcome.queue.topic,
        broker: outcome.queue.broker_name,
        queue: outcome.queue.queue_id,
        queue_offset: outcome.queue_offset,
        status: match outcome.status {
            client::SendStatus::Stored => "SEND_OK",
            client::SendStatus::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
            client::SendStatus::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
            client::SendStatus::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
        },
        message_id: outcome.message_id,
        offset_id: outcome.offset_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_shows_no_body_of_a_message() {
        let message = Message::new("T", "stored text").property("name", "value");
        assert_eq!(outline(&message).content(), "topic=T properties=name=value (11 bytes, not shown)");
    }
}
