//! Operations on dead letter topics.

use crate::message::{self, Sent, TOOLS_GROUP};
use crate::operation::{Effect, Operation, answer};
use crate::{Argument, Arguments, Error, Session};
use client::{Message, PullRequest};
use wire::body::MessageQueue;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};
use wire::properties::key;

const GROUP: Argument = Argument::place("group", ("", ""), "name of the consumer group");

/// The operations on dead letter topics.
pub(crate) const OPERATIONS: [Operation; 2] = [
    Operation {
        noun: "dlq",
        verb: "list",
        mqadmin: &[],
        effect: Effect::Look,
        about: "Show the messages that a group gave up",
        arguments: &[
            GROUP,
            Argument::optional("begin", ("", ""), "store time from which on"),
            Argument::optional("end", ("", ""), "store time before which"),
            Argument::optional("limit", ("", ""), "most messages; 10000 if left out"),
        ],
        call: |session, arguments| answer(list(session, arguments)),
    },
    Operation {
        noun: "dlq",
        verb: "resend",
        mqadmin: &[],
        effect: Effect::Change,
        about: "Give a group a message that it gave up once more, through its retry topic, and no other group",
        arguments: &[
            GROUP,
            Argument::place("broker", ("", ""), "name of the broker set"),
            Argument::place("queue", ("", ""), "id of the queue of the dead letter topic"),
            Argument::place("offset", ("", ""), "offset in that queue"),
        ],
        call: |session, arguments| answer(resend(session, arguments)),
    },
];

async fn list(session: &Session, arguments: &Arguments) -> Result<crate::message::Printed, Error> {
    let mut of_topic = arguments.clone();
    of_topic.set("topic", format!("{DLQ_PREFIX}{}", arguments.need("group")?));
    message::messages_of(session, &of_topic).await
}

/// The message goes to the retry topic, which only the group's members consume; they find the message's own topic in its
/// property `RETRY_TOPIC`, which it has since its first retry (`SendMessageProcessor.consumerSendMsgBack`).
async fn resend(session: &Session, arguments: &Arguments) -> Result<Sent, Error> {
    let group = arguments.need("group")?;
    let queue = arguments.parse("queue")?.unwrap_or_default();
    let offset: i64 = arguments.parse("offset")?.unwrap_or_default();
    let queue = MessageQueue::new(format!("{DLQ_PREFIX}{group}"), arguments.need("broker")?, queue);
    let pull = PullRequest { messages_max: 1, ..PullRequest::new(TOOLS_GROUP, &queue, offset) };
    let pulled = session.client.pull(&pull).await?;
    let dead = pulled.messages.iter().find(|message| message.queue_offset == offset).ok_or_else(|| {
        Error::NotFound(format!("no message with the offset {offset} in queue {} was found", queue.queue_id))
    })?;
    let mut message = Message::new(format!("{RETRY_PREFIX}{group}"), dead.body.clone());
    message.flag = dead.flag;
    let kept = dead.properties.pairs().filter(|(name, _)| {
        // Of this delivery only; the broker sets them anew.
        ![key::WAIT_STORE_MSG_OK, key::MIN_OFFSET, key::MAX_OFFSET].contains(name)
    });
    message.properties.extend(kept.map(|(name, value)| (name.to_owned(), value.to_owned())));
    message::send_message(session, &message, None).await
}
