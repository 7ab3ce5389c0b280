//! Pulling from one queue.

use crate::message::decode;
use crate::{Client, Error, Received};
use std::time::Duration;
use wire::body::MessageQueue;
use wire::codes::{request, response};
use wire::header::{PullHeader, pull_flag};

/// How long beyond its hold a pull may take before it counts as lost.
const MARGIN: Duration = Duration::from_secs(15);

/// What to pull.
#[derive(Clone, Debug)]
pub struct PullRequest<'a> {
    /// Consumer group.
    pub group: &'a str,
    /// Queue.
    pub queue: &'a MessageQueue,
    /// First message wanted.
    pub offset: i64,
    /// Most messages.
    pub messages_max: i32,
    /// How long the broker may hold the request while there is nothing; zero for not at all.
    pub hold: Duration,
    /// Tag expression, `*` for everything; `None` uses what the group subscribed to by heartbeat.
    pub expression: Option<&'a str>,
    /// `TAG` or `SQL92`.
    pub expression_type: &'a str,
    /// Version of the subscription.
    pub sub_version: i64,
    /// Offset to store for the group on the way.
    pub commit: Option<i64>,
    /// Broker of the group to read from, 0 for the master; another one when it is not there.
    pub broker_id: i64,
}

impl<'a> PullRequest<'a> {
    /// Up to 32 messages of any tag from `offset`, without holding.
    #[must_use]
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

/// How a pull ended (`PullStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullStatus {
    /// There are messages; none of them is here when they cannot be read, and reading goes on behind them.
    Found,
    /// The queue has nothing at or after the offset.
    NothingNew,
    /// What was looked at does not match the expression.
    NothingMatched,
    /// The offset is outside the queue.
    OffsetIllegal,
}

/// The answer to a pull.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// How it ended.
    pub status: PullStatus,
    /// Where to go on.
    pub next_offset: i64,
    /// Offset of the oldest message.
    pub min_offset: i64,
    /// Offset the next message will get.
    pub max_offset: i64,
    /// Broker to read from next.
    pub suggest_broker_id: i64,
    /// Messages.
    pub messages: Vec<Received>,
}

impl Client {
    /// Pulls once from a queue (`MQClientAPIImpl.pullMessage`).
    ///
    /// # Errors
    /// The broker is unknown, does not answer, or refuses the group, topic, queue or expression.
    pub async fn pull(&self, pull: &PullRequest<'_>) -> Result<Pulled, Error> {
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

fn read(address: &str, pull: &PullRequest<'_>, reply: net::Reply) -> Result<Pulled, Error> {
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
    Ok(Pulled {
        status,
        next_offset: number("nextBeginOffset")?,
        min_offset: number("minOffset")?,
        max_offset: number("maxOffset")?,
        suggest_broker_id: number("suggestWhichBrokerId")?,
        messages: decode(&reply.body, pull.queue, pull.offset),
    })
}
