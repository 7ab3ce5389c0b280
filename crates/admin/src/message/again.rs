//! A message consumed or sent once more.

use super::find::find;
use super::send::send_message;
use crate::operation::Written;
use crate::request::{Request, body};
use crate::{Arguments, Error, Session};
use client::{Message, Received};
use serde::{Deserialize, Serialize};
use wire::codes::request;
use wire::properties::key;

/// Result of a listener for a message (`ConsumeMessageDirectlyResult`).
#[derive(Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Consumed {
    order: bool,
    auto_commit: bool,
    consume_result: Option<String>,
    remark: Option<String>,
    spent_time_mills: i64,
}

/// Lets a member of a group consume a message now, whatever the group's offsets are.
pub(super) async fn consume(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let (topic, id) = (arguments.need("topic")?, arguments.need("id")?.trim());
    let message = find(session, topic, id).await?;
    let broker = message.store_host.to_string();
    let ask = Request::new(request::CONSUME_MESSAGE_DIRECTLY)
        .with("consumerGroup", arguments.need("group")?)
        .with("clientId", arguments.need("client")?)
        .with("topic", topic)
        .with("msgId", message.offset_id());
    let reply = session.change(&broker, &ask).await?;
    let done: Consumed = reply.map(|reply| body(&broker, &reply)).transpose()?.unwrap_or_default();
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "null".to_owned());
    let text = format!(
        "ConsumeMessageDirectlyResult [order={}, autoCommit={}, consumeResult={}, remark={}, spentTimeMills={}]\n",
        done.order,
        done.auto_commit,
        word(&done.consume_result),
        word(&done.remark),
        done.spent_time_mills
    );
    Ok(Written::new(done, text))
}

/// A message with the content and properties of a received message, without the properties that its broker set.
pub(crate) fn copy_of(received: &Received, topic: impl Into<String>) -> Message {
    let mut message = Message::new(topic, received.body.clone());
    message.flag = received.flag;
    let of_delivery = [key::WAIT_STORE_MSG_OK, key::MIN_OFFSET, key::MAX_OFFSET];
    let kept = received.properties.pairs().filter(|(name, _)| !of_delivery.contains(name));
    message.properties.extend(kept.map(|(name, value)| (name.to_owned(), value.to_owned())));
    message
}

/// Sends a stored message to its topic again.
pub(super) async fn resend(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let (topic, id) = (arguments.need("topic")?, arguments.need("id")?.trim());
    if !arguments.is_on("again") {
        return Err(Error::Usage("nothing was sent; expected true".to_owned()));
    }
    let message = find(session, topic, id).await?;
    let sent = send_message(session, &copy_of(&message, topic), None).await?;
    let text = format!("prepare resend msg. originalMsgId={id}{sent}\n");
    Ok(Written::new(sent, text))
}
