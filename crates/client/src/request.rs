//! Requests between applications and their replies (`DefaultMQProducer.request`, `MessageUtil.createReplyMessage`).

use crate::{Error, Message, Producer, Received, SendOutcome};
use std::time::Duration;
use wire::properties::key;

/// Value of `MSG_TYPE` in a reply message (`MixAll.REPLY_MESSAGE_FLAG`).
pub(crate) const REPLY: &str = "reply";

impl Producer {
    /// Sends a request message and waits for the reply of its consumer.
    ///
    /// # Errors
    /// Errors of [`Producer::send`], and [`Error::NoReply`] when no consumer replies within `patience`.
    pub async fn request(&self, message: &Message, patience: Duration) -> Result<Received, Error> {
        let begin = tokio::time::Instant::now();
        let correlation = self.fresh_id();
        let inbox = &self.client().inner.remote.server_requests;
        let reply = inbox.expect_reply(&correlation);
        let _expected = ReplySlot { producer: self, correlation: &correlation };
        let message = message
            .clone()
            .property(key::CORRELATION_ID, &correlation)
            .property(key::REPLY_TO_CLIENT, self.client().id())
            .property(key::TTL, patience.as_millis().to_string());
        let asked = async {
            // The reply comes through any broker of the cluster, but only to a client which that broker knows by
            // heartbeat.
            self.introduce(&message.topic).await?;
            self.send(&message).await?;
            // The sender is kept until the reply arrives or this future ends.
            reply.await.map_err(|_| Error::NoReply(patience))
        };
        tokio::time::timeout_at(begin + patience, asked).await.unwrap_or(Err(Error::NoReply(patience)))
    }

    /// Sends the reply to a request message.
    ///
    /// # Errors
    /// [`Error::Illegal`] when the message is not a request message, otherwise as for [`Producer::send`], also when the
    /// requester is gone.
    pub async fn reply(&self, request: &Received, body: impl Into<Vec<u8>>) -> Result<SendOutcome, Error> {
        self.send(&request.reply(body)?).await
    }
}

/// Removes an expected reply when dropped, whether it arrived or not.
struct ReplySlot<'a> {
    producer: &'a Producer,
    correlation: &'a str,
}

impl Drop for ReplySlot<'_> {
    fn drop(&mut self) {
        self.producer.client().inner.remote.server_requests.forget_reply(self.correlation);
    }
}

impl Received {
    /// Makes the reply to this message, which any producer may send.
    ///
    /// # Errors
    /// [`Error::Illegal`] when the message is not a request message: it lacks the properties that identify the
    /// requester.
    pub fn reply(&self, body: impl Into<Vec<u8>>) -> Result<Message, Error> {
        let need = |name: &str| {
            self.property(name).ok_or_else(|| {
                Error::Illegal(format!("the message cannot be replied to: it has no property {name}"))
            })
        };
        let topic = format!("{}_REPLY_TOPIC", need(key::CLUSTER)?);
        let mut message = Message::new(topic, body).property(key::MSG_TYPE, REPLY);
        for name in [key::CORRELATION_ID, key::REPLY_TO_CLIENT] {
            message = message.property(name, need(name)?);
        }
        if let Some(ttl) = self.property(key::TTL) {
            message = message.property(key::TTL, ttl);
        }
        Ok(message)
    }
}
