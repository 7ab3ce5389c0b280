//! Calls about received messages: AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue.

use std::borrow::Cow;

use grpc::messages::{
    AckMessageRequest, AckMessageResponse, AckMessageResultEntry, ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse, Code, ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse, Status, name,
};
use wire::units::LogOffset;

use super::Call;
use crate::checks;
use crate::failure::{Failure, Result, common};
use crate::receipt::{ChangeInvisibleTime, PopRef, Receipt};
use crate::renewal::NewestHandle;

/// Message that a client names by topic, group and handle. A message of a lite topic is named by the lite topic as
/// well.
pub struct NamedMessage<'a> {
    pub receipt: Receipt<'a>,
    text: &'a str,
    /// Topic that the message is stored in.
    stored_in: String,
    group: &'a str,
    lite_topic: &'a str,
}

impl<'a> NamedMessage<'a> {
    /// Parses a valid handle.
    ///
    /// # Errors
    /// `INVALID_RECEIPT_HANDLE` for a handle that is malformed, has expired, or is of another broker.
    pub fn parse(
        call: &Call,
        (topic, lite_topic): (&str, &'a str),
        group: &'a str,
        text: &'a str,
    ) -> Result<Self> {
        let receipt = Receipt::parse(text)?;
        receipt.check(call.proxy.brokers.only(), call.proxy.brokers.now_ms())?;
        let stored_in = call.proxy.brokers.stored_in(&receipt, (topic, lite_topic), group);
        Ok(Self { receipt, text, stored_in, group, lite_topic })
    }

    /// Returns the message with its broker.
    pub fn held<'b>(&'b self, call: &'b Call) -> PopRef<'b> {
        let message = self.receipt.popped(&call.caller, &self.stored_in, (self.group, self.text));
        PopRef { broker: self.receipt.handle.broker_name, message, lite_topic: self.lite_topic }
    }
}

/// Returns the last handle of a message whose renewal ends: that of its last renewal, else the client's own.
async fn newest<'a>(call: &Call, handle: &'a str) -> Cow<'a, str> {
    let client = call.proxy.registry.find(&call.client_id);
    let newest = match client.and_then(|client| call.proxy.renewals.take(&client, handle)) {
        Some(NewestHandle::Now(newest)) => Some(newest),
        Some(NewestHandle::Later(newest)) => newest.await.ok(),
        None => None,
    };
    newest.map_or(Cow::Borrowed(handle), Cow::Owned)
}

/// Returns the failure for a client when a broker did not do `what`. The failure of a handle's missing broker keeps
/// its code, because clients repeat their request for ever with any other code.
fn abnormal(what: &str, failure: Option<Failure>) -> Failure {
    let text = format!("{what} failed: status is abnormal");
    let invalid = failure.filter(|failure| failure.code == Code::InvalidReceiptHandle);
    invalid.unwrap_or_else(|| Failure::new(Code::InternalServerError, text))
}

/// AckMessage.
pub async fn ack(call: Call, request: AckMessageRequest) -> Result<AckMessageResponse> {
    let (topic, group) = (name(&request.topic), name(&request.group));
    checks::topic(topic)?;
    checks::group(group)?;
    let mut handles = Vec::with_capacity(request.entries.len());
    for entry in &request.entries {
        handles.push(newest(&call, &entry.receipt_handle).await);
    }
    let named: Vec<_> = request
        .entries
        .iter()
        .zip(&handles)
        .map(|(entry, handle)| NamedMessage::parse(&call, (topic, entry.lite_topic()), group, handle))
        .collect();
    let messages: Vec<_> = named.iter().flatten().map(|named| named.held(&call)).collect();
    let mut acked = call.proxy.brokers.acks(&messages).await.into_iter();
    let outcomes = named.iter().map(|named| match named {
        Ok(_) => match acked.next() {
            Some(Ok(())) => Status::ok(),
            refused => abnormal("ack", refused.and_then(Result::err)).status(),
        },
        Err(failure) => failure.status(),
    });
    let entries: Vec<_> = request
        .entries
        .iter()
        .zip(outcomes)
        .map(|(entry, status)| AckMessageResultEntry {
            message_id: entry.message_id.clone(),
            receipt_handle: entry.receipt_handle.clone(),
            status: Some(status),
        })
        .collect();
    let statuses = entries.iter().filter_map(|entry| entry.status.as_ref());
    let status = Some(common(statuses, "ack message result is empty"));
    Ok(AckMessageResponse { status, entries })
}

/// ChangeInvisibleDuration.
pub async fn change_invisible(
    call: Call,
    request: ChangeInvisibleDurationRequest,
) -> Result<ChangeInvisibleDurationResponse> {
    let (topic, group) = (name(&request.topic), name(&request.group));
    checks::topic(topic)?;
    checks::group(group)?;
    let ms = request.invisible_duration.map_or(0, |duration| duration.ms());
    checks::invisible(ms, 0, call.proxy.config.invisible_ms_max)?;
    let handle = newest(&call, &request.receipt_handle).await;
    let named = NamedMessage::parse(&call, (topic, request.lite_topic()), group, &handle)?;
    let change =
        ChangeInvisibleTime { held: named.held(&call), invisible_ms: ms, suspend: request.suspend() };
    let mut changed = call.proxy.brokers.change_invisible_times(&[change]).await;
    let changed = match changed.pop() {
        Some(Ok(Some(changed))) => changed,
        refused => return Err(abnormal("changeInvisibleDuration", refused.and_then(Result::err))),
    };
    let receipt_handle = named.receipt.changed(&changed);
    Ok(ChangeInvisibleDurationResponse { status: Some(Status::ok()), receipt_handle })
}

/// ForwardMessageToDeadLetterQueue. The message is acknowledged once its copy is stored.
pub async fn dead_letter(
    call: Call,
    request: ForwardMessageToDeadLetterQueueRequest,
) -> Result<ForwardMessageToDeadLetterQueueResponse> {
    let (topic, group) = (name(&request.topic), name(&request.group));
    checks::topic(topic)?;
    checks::group(group)?;
    let handle = newest(&call, &request.receipt_handle).await;
    let named = NamedMessage::parse(&call, (topic, request.lite_topic()), group, &handle)?;
    let log_offset = LogOffset::from_i64(named.receipt.log_offset)
        .ok_or_else(|| Failure::new(Code::InvalidReceiptHandle, "commit log offset is empty"))?;
    let (brokers, message) = (&call.proxy.brokers, named.held(&call));
    brokers.dead_letter(&message, log_offset).await?;
    if let Err(error) = brokers.ack(message).await {
        tracing::warn!(
            group,
            ?error,
            "a dead letter is stored, and comes again because it cannot be acknowledged"
        );
    }
    Ok(ForwardMessageToDeadLetterQueueResponse { status: Some(Status::ok()) })
}
