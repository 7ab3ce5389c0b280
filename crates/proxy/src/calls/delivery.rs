//! Messages and status of a receive, until they are sent to the client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use grpc::messages::{Message, ReceiveContent as Content, ReceiveMessageResponse, Status, Timestamp};
use tokio_stream::Stream;

use super::Proxy;
use crate::memory::Charge;
use crate::registry::Client;
use crate::renewal::Received;

/// Receiver of messages, and its settings.
pub struct Recipient {
    pub proxy: Arc<Proxy>,
    pub client: Arc<Client>,
    pub topic: String,
    pub group: String,
    /// Whether the messages are of lite topics.
    pub is_lite: bool,
    /// Whether the server keeps the messages invisible until they are acknowledged.
    pub renews: bool,
}

impl Recipient {
    fn received(&self, message: &Message) -> Option<Received> {
        let system = message.system_properties.as_ref()?;
        Some(Received {
            topic: self.topic.clone(),
            group: self.group.clone(),
            handle: system.receipt_handle.clone()?,
            lite_topic: system.lite_topic.clone().filter(|_| self.is_lite).unwrap_or_default(),
            reconsume_times: system.delivery_attempt.unwrap_or(1).saturating_sub(1),
        })
    }
}

/// Response to a receiver: a status, the messages, and the time of the delivery, which ends every response. Messages
/// that are not taken, because the call or its connection has ended, are delivered again soon.
#[derive(Default)]
pub struct Delivery {
    responses: VecDeque<ReceiveMessageResponse>,
    recipient: Option<Recipient>,
    _charge: Option<Charge>,
}

fn response(content: Content) -> ReceiveMessageResponse {
    ReceiveMessageResponse { content: Some(content) }
}

impl Delivery {
    /// Makes a response without messages. The time of the delivery is left out if the client does not need it.
    pub fn of_status(status: Status, now_ms: Option<i64>) -> Self {
        let mut delivery = Self::default();
        delivery.responses.push_back(response(Content::Status(status)));
        delivery.end(now_ms);
        delivery
    }

    /// Makes a response for `recipient`, to which messages are added.
    pub fn to(recipient: Recipient, charge: Charge) -> Self {
        let responses = VecDeque::from([response(Content::Status(Status::ok()))]);
        Self { responses, recipient: Some(recipient), _charge: Some(charge) }
    }

    pub fn push(&mut self, message: Message) {
        self.responses.push_back(response(Content::Message(message)));
    }

    pub fn has_messages(&self) -> bool {
        self.responses.len() > 1
    }

    pub fn end(&mut self, now_ms: Option<i64>) {
        let end = now_ms.map(|now_ms| response(Content::DeliveryTimestamp(Timestamp::of_ms(now_ms))));
        self.responses.extend(end);
    }
}

impl Stream for Delivery {
    type Item = Result<ReceiveMessageResponse, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.responses.pop_front();
        if let (Some(ReceiveMessageResponse { content: Some(Content::Message(message)) }), Some(recipient)) =
            (&next, &self.recipient)
            && recipient.renews
            && let Some(received) = recipient.received(message)
        {
            recipient.proxy.renewals.renew(&recipient.client, received);
        }
        Poll::Ready(next.map(Ok))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let Some(recipient) = &self.recipient else { return };
        for left in &self.responses {
            if let Some(Content::Message(message)) = &left.content
                && let Some(received) = recipient.received(message)
            {
                recipient.proxy.renewals.give_back(received);
            }
        }
    }
}
