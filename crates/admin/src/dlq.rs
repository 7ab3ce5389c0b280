//! Operations on dead letter topics.

mod groups;

pub use groups::DeadLetterGroup;

use crate::arguments::{optional, place};
use crate::message::{self, Sent, TOOLS_GROUP};
use crate::operation::{Operation, operations};
use crate::{Argument, Arguments, Error, Session};
use client::PullRequest;
use wire::body::MessageQueue;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};

const GROUP: Argument = place("group", ("", ""), "name of the consumer group");

/// The operations on dead letter topics.
pub(crate) const OPERATIONS: &[Operation] = operations! { "dlq":
    "groups", Look, [],
        "List the groups that gave messages up, with how many are left and when the first and the last were given up",
        [optional("limit", ("", ""), "most groups; 1000 if left out")], groups::groups;
    "list", Look, [], "Show the messages that a group gave up",
        [GROUP, optional("begin", ("", ""), "store time from which on"),
         optional("end", ("", ""), "store time before which"),
         optional("limit", ("", ""), "most messages; 10000 if left out")], list;
    "resend", Change, [],
        "Give a group a message that it gave up once more, through its retry topic, and no other group",
        [GROUP, place("broker", ("", ""), "name of the broker set"),
         place("queue", ("", ""), "id of the queue of the dead letter topic"),
         place("offset", ("", ""), "offset in that queue")], resend;
};

async fn list(session: &Session, arguments: &Arguments) -> Result<crate::message::QueueMessages, Error> {
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
    let message = message::copy_of(dead, format!("{RETRY_PREFIX}{group}"));
    message::send_message(session, &message, None).await
}
