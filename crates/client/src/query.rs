//! Messages by id and by key, from the broker's commit log and key index.

use crate::message::{decode_one, from_record, records};
use crate::{Client, Error, Received};
use std::time::Duration;
use wire::body::MessageQueue;
use wire::codes::{request, response};
use wire::frame::FrameWriter;

/// Longest time for a query (`MQAdminImpl.queryMessage`).
const TIMEOUT: Duration = Duration::from_secs(15);

/// Query for messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageQuery<'a> {
    /// Topic.
    pub topic: &'a str,
    /// A key, or the id that the producer made.
    pub key: &'a str,
    /// Most messages.
    pub max: i32,
    /// Earliest store time, ms since the epoch.
    pub begin_ms: i64,
    /// Latest store time, ms since the epoch.
    pub end_ms: i64,
    /// Kind of the key for brokers that distinguish kinds: `K` for keys, `T` for tags. `None` for any kind.
    pub kind: Option<&'a str>,
    /// Whether the key is the id that the producer made.
    pub is_unique: bool,
}

impl<'a> MessageQuery<'a> {
    /// Makes a query for up to 64 messages with a key, of any time.
    pub fn new(topic: &'a str, key: &'a str) -> Self {
        Self { topic, key, max: 64, begin_ms: 0, end_ms: i64::MAX, kind: None, is_unique: false }
    }
}

impl Client {
    /// Returns the message at an offset of a broker's commit log (`VIEW_MESSAGE_BY_ID`). The broker set of its queue
    /// stays empty.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when the offset has
    /// no message, [`Error::Answer`] when the message cannot be decoded.
    pub async fn view_message(&self, broker: &str, topic: &str, log_offset: i64) -> Result<Received, Error> {
        let write =
            |frame: FrameWriter<'_>| frame.text("topic", topic).number("offset", log_offset).finish(b"");
        let reply = self.inner.remote.call(broker, request::VIEW_MESSAGE_BY_ID, TIMEOUT, write).await?;
        decode_one(&reply.body, "").map_err(|why| Error::Answer { address: broker.to_owned(), why })
    }

    /// Returns the messages of a broker with a key (`QUERY_MESSAGE`). `name` is the name of the broker set.
    /// Unreadable messages are left out.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses.
    pub async fn query_messages(
        &self,
        broker: &str,
        name: &str,
        query: &MessageQuery<'_>,
    ) -> Result<Vec<Received>, Error> {
        let write = |frame: FrameWriter<'_>| {
            frame
                .text("topic", query.topic)
                .text("key", query.key)
                .number("maxNum", query.max)
                .number("beginTimestamp", query.begin_ms)
                .number("endTimestamp", query.end_ms)
                .maybe("indexType", query.kind)
                .flag("_UNIQUE_KEY_QUERY", query.is_unique)
                .finish(b"");
        };
        match self.inner.remote.call(broker, request::QUERY_MESSAGE, TIMEOUT, write).await {
            Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(reply) => {
                let queue = MessageQueue::new(query.topic, name, -1);
                let found = records(&reply.body, &queue, 0);
                Ok(found.filter_map(|record| from_record(&record, name).ok()).collect())
            }
        }
    }
}
