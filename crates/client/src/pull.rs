//! Pull requests to a single queue.

use crate::message::decode;
use crate::{Client, Error, Received};
use std::time::Duration;
use wire::body::MessageQueue;
use wire::codes::{request, response};
use wire::header::{PullHeader, pull_flag};

/// Time that a pull request may take beyond the time for which the broker suspends it.
const MARGIN: Duration = Duration::from_secs(15);

/// Parameters of a pull request.
#[derive(Clone, Debug)]
pub struct PullRequest<'a> {
    /// Consumer group.
    pub group: &'a str,
    /// Queue to pull from.
    pub queue: &'a MessageQueue,
    /// Offset of the first message.
    pub offset: i64,
    /// Largest number of messages.
    pub messages_max: i32,
    /// Longest time for which the broker suspends the request (long polling) while there is no message; zero for not at
    /// all.
    pub hold: Duration,
    /// Tag expression or SQL condition, `*` for all messages; `None` uses the subscription in the group's heartbeat.
    pub expression: Option<&'a str>,
    /// Type of the expression: `TAG` or `SQL92`.
    pub expression_type: &'a str,
    /// Version of the subscription, a time in milliseconds.
    pub sub_version: i64,
    /// Offset that this request commits for the group. `None` commits no offset.
    pub commit: Option<i64>,
    /// Id of the broker in its group to pull from, 0 for the master. If that broker is not available, the pull uses
    /// another broker.
    pub broker_id: i64,
}

impl<'a> PullRequest<'a> {
    /// A request for up to 32 messages with any tag from `offset`, without long polling.
    pub fn new(group: &'a str, queue: &'a MessageQueue, offset: i64) -> Self {
        Self {
            group,
            queue,
            offset,
            messages_max: 32,
            hold: Duration::ZERO,
            expression: Some("*"),
            expression_type: "TAG",
            sub_version: 0,
            commit: None,
            broker_id: 0,
        }
    }
}

/// Result of a pull request (`PullStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullStatus {
    /// Messages were found. The list is empty if none of them can be decoded. The next offset is after them.
    Found,
    /// The queue has no message at or after the offset.
    NothingNew,
    /// The broker examined messages, and no message matches the expression.
    NothingMatched,
    /// The offset is outside of the queue.
    OffsetIllegal,
}

/// Answer to a pull request.
#[derive(Clone, Debug)]
pub struct PullResult {
    /// Result of the request.
    pub status: PullStatus,
    /// Offset of the next pull request.
    pub next_offset: i64,
    /// Smallest offset of the queue.
    pub min_offset: i64,
    /// Largest offset of the queue, which is that of its next message.
    pub max_offset: i64,
    /// Id of the broker to which the next pull request should go.
    pub suggest_broker_id: i64,
    /// The messages.
    pub messages: Vec<Received>,
}

impl Client {
    /// Sends a pull request (`MQClientAPIImpl.pullMessage`).
    ///
    /// # Errors
    /// [`Error::NoBroker`] when the queue's broker is in no route, [`Error::Connect`] or [`Error::Call`] when it does
    /// not answer, [`Error::Refused`] when it refuses the group, topic, queue or expression.
    pub async fn pull(&self, pull: &PullRequest<'_>) -> Result<PullResult, Error> {
        let address = self.reader_of(pull.queue, pull.broker_id).await?;
        let flags = [
            (pull.commit.is_some(), pull_flag::COMMIT_OFFSET),
            (!pull.hold.is_zero(), pull_flag::SUSPEND),
            (pull.expression.is_some(), pull_flag::SUBSCRIPTION),
        ];
        let header = PullHeader {
            consumer_group: pull.group,
            topic: &pull.queue.topic,
            queue_id: pull.queue.queue_id,
            queue_offset: pull.offset,
            max_messages: pull.messages_max,
            sys_flag: flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum(),
            commit_offset: pull.commit.unwrap_or_default(),
            suspend_timeout_ms: i64::try_from(pull.hold.as_millis()).unwrap_or(i64::MAX),
            subscription: pull.expression.unwrap_or_default(),
            sub_version: pull.sub_version,
            expression_type: pull.expression_type,
            max_bytes: None,
        };
        let write = |frame: wire::frame::FrameWriter<'_>| {
            header.write(frame).text("bname", &pull.queue.broker_name).finish(b"");
        };
        let timeout = pull.hold + MARGIN;
        let reply = self.inner.remote.ask(&address, request::PULL_MESSAGE, timeout, write).await?;
        read(&address, pull, reply)
    }

    async fn reader_of(&self, queue: &MessageQueue, broker_id: i64) -> Result<String, Error> {
        let route = self.route(&queue.topic).await?;
        match route.reader(&queue.broker_name, broker_id) {
            Some(address) => Ok(address.to_owned()),
            None => self.master_of(queue).await,
        }
    }
}

fn read(address: &str, pull: &PullRequest<'_>, reply: net::Response) -> Result<PullResult, Error> {
    let status = match reply.code {
        response::SUCCESS => PullStatus::Found,
        response::PULL_NOT_FOUND => PullStatus::NothingNew,
        response::PULL_RETRY_IMMEDIATELY => PullStatus::NothingMatched,
        response::PULL_OFFSET_MOVED => PullStatus::OffsetIllegal,
        code => {
            let remark = reply.remark.unwrap_or_default();
            return Err(Error::Refused { address: address.to_owned(), code, remark });
        }
    };
    let malformed = |why: String| Error::Answer { address: address.to_owned(), why };
    let number = |field: &str| {
        let text = reply.text(field);
        text.and_then(|text| text.parse::<i64>().ok())
            .ok_or_else(|| malformed(format!("expected a number as {field}, found {text:?}")))
    };
    Ok(PullResult {
        status,
        next_offset: number("nextBeginOffset")?,
        min_offset: number("minOffset")?,
        max_offset: number("maxOffset")?,
        suggest_broker_id: number("suggestWhichBrokerId")?,
        messages: decode(&reply.body, pull.queue, pull.offset),
    })
}
