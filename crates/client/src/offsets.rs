//! Calls for offsets of queues and of consumer groups.

use crate::{Client, Error};
use std::time::Duration;
use wire::body::MessageQueue;
use wire::codes::{request, response};
use wire::frame::FrameWriter;

/// Longest time for an offset call (`MQClientAPIImpl`).
const TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// Returns the smallest offset of a queue, which is that of its oldest message.
    ///
    /// # Errors
    /// [`Error::NoBroker`] when the queue's broker is in no route, [`Error::Connect`] or [`Error::Call`] when it does
    /// not answer, [`Error::Refused`] when it refuses.
    pub async fn min_offset(&self, queue: &MessageQueue) -> Result<i64, Error> {
        self.offset_of(queue, request::GET_MIN_OFFSET, |frame| frame).await
    }

    /// Returns the largest offset of a queue, which is that of its next message.
    ///
    /// # Errors
    /// Errors of [`Client::min_offset`].
    pub async fn max_offset(&self, queue: &MessageQueue) -> Result<i64, Error> {
        self.offset_of(queue, request::GET_MAX_OFFSET, |frame| frame).await
    }

    /// Offset of the first message stored at or after a time, milliseconds since 1970.
    ///
    /// # Errors
    /// Errors of [`Client::min_offset`].
    pub async fn search_offset(&self, queue: &MessageQueue, timestamp: i64) -> Result<i64, Error> {
        self.offset_of(queue, request::SEARCH_OFFSET_BY_TIMESTAMP, |frame| {
            frame.number("timestamp", timestamp).text("boundaryType", "LOWER")
        })
        .await
    }

    /// Committed offset of a group in a queue; `None` when the group has none there.
    ///
    /// # Errors
    /// Errors of [`Client::min_offset`].
    pub async fn committed_offset(&self, group: &str, queue: &MessageQueue) -> Result<Option<i64>, Error> {
        let address = self.master_of(queue).await?;
        let write = |frame: FrameWriter<'_>| {
            name(frame.text("consumerGroup", group), queue).finish(b"");
        };
        let reply = self.inner.remote.call(&address, request::QUERY_CONSUMER_OFFSET, TIMEOUT, write).await;
        match reply {
            Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
            Ok(reply) => offset(&address, &reply).map(Some),
        }
    }

    /// Commits the offset of a group in a queue, and waits until the broker has stored it.
    ///
    /// # Errors
    /// Errors of [`Client::min_offset`].
    pub async fn commit_offset(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<(), Error> {
        let address = self.master_of(queue).await?;
        let write = |frame: FrameWriter<'_>| commit(frame, group, queue, offset);
        self.inner.remote.call(&address, request::UPDATE_CONSUMER_OFFSET, TIMEOUT, write).await.map(|_| ())
    }

    /// Commits the offset of a group in a queue without waiting for an answer (a one-way request).
    pub(crate) async fn commit_offset_one_way(
        &self,
        group: &str,
        queue: &MessageQueue,
        offset: i64,
    ) -> Result<(), Error> {
        let address = self.master_of(queue).await?;
        let write = |frame: FrameWriter<'_>| commit(frame, group, queue, offset);
        self.inner.remote.send_one_way(&address, request::UPDATE_CONSUMER_OFFSET, 0, write).await
    }

    /// Address of the master of a queue's broker group.
    pub(crate) async fn master_of(&self, queue: &MessageQueue) -> Result<String, Error> {
        let route = self.route(&queue.topic).await?;
        if let Some(address) = route.master(&queue.broker_name) {
            return Ok(address.to_owned());
        }
        let route = self.refresh_route(&queue.topic).await?;
        let address = route.master(&queue.broker_name);
        address.map(str::to_owned).ok_or_else(|| Error::NoBroker(queue.broker_name.clone()))
    }

    async fn offset_of(
        &self,
        queue: &MessageQueue,
        code: i32,
        more: impl for<'b> FnOnce(FrameWriter<'b>) -> FrameWriter<'b>,
    ) -> Result<i64, Error> {
        let address = self.master_of(queue).await?;
        let write = |frame: FrameWriter<'_>| more(name(frame, queue)).finish(b"");
        let reply = self.inner.remote.call(&address, code, TIMEOUT, write).await?;
        offset(&address, &reply)
    }
}

fn name<'b>(frame: FrameWriter<'b>, queue: &MessageQueue) -> FrameWriter<'b> {
    frame.text("topic", &queue.topic).number("queueId", queue.queue_id).text("bname", &queue.broker_name)
}

fn commit(frame: FrameWriter<'_>, group: &str, queue: &MessageQueue, offset: i64) {
    name(frame.text("consumerGroup", group), queue).number("commitOffset", offset).finish(b"");
}

fn offset(address: &str, reply: &net::Response) -> Result<i64, Error> {
    let text = reply.text("offset");
    text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::Answer {
        address: address.to_owned(),
        why: format!("expected a number as offset, found {text:?}"),
    })
}
