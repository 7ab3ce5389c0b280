//! Pop consumption: brokers hand out single messages and track them, so that any member of a group can consume any
//! queue (`DefaultMQPushConsumerImpl.popMessage`, `MQClientAPIImpl.processPopResponse`).
//!
//! Brokers decide which queues a member pops (`QUERY_ASSIGNMENT`); id -1 stands for all queues of a broker. One pop
//! request waits at each of these queues, and its messages go to the application.

use crate::message::{from_record, records};
use crate::server_requests::Door;
use crate::{Client, Error, Expression, MessageQueue, Received, clock, subscription};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinSet;
use wire::body::{
    ConsumeFromWhere, ConsumeType, ConsumerData, MessageModel, QueryAssignmentBody,
    QueryAssignmentResponseBody,
};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::json;
use wire::pop::{Handle, Kind};
use wire::properties::key;

/// Longest time for which a broker suspends a pop request (long polling) while there is no message
/// (`brokerSuspendMaxTimeMillis`).
const HOLD: Duration = Duration::from_secs(15);
/// Time that a pop request may take beyond [`HOLD`].
const MARGIN: Duration = Duration::from_secs(15);
/// Longest time for other calls (`mqClientApiTimeout`).
const TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between two queries for the assigned queues.
const ASSIGNMENT_INTERVAL: Duration = Duration::from_secs(5);

/// Settings of a pop consumer.
#[derive(Clone, Debug)]
pub struct PopConfig {
    /// Consumer group.
    pub group: String,
    /// Topic.
    pub topic: String,
    /// Filter expression for the topic.
    pub expression: Expression,
    /// Time for which a popped message is invisible to other members (`popInvisibleTime`). A message that is not
    /// acknowledged in that time is delivered again.
    pub invisible: Duration,
    /// Largest number of messages per request, at most 32 (`popBatchNums`).
    pub batch: i32,
    /// Whether a new group begins at the first message instead of at the end.
    pub from_first: bool,
}

impl PopConfig {
    /// The defaults of RocketMQ's Java client: one minute, 32 messages, a new group begins at the end.
    #[must_use]
    pub fn new(
        group: impl Into<String>,
        topic: impl Into<String>,
        expression: impl Into<Expression>,
    ) -> Self {
        Self {
            group: group.into(),
            topic: topic.into(),
            expression: expression.into(),
            invisible: Duration::from_secs(60),
            batch: 32,
            from_first: false,
        }
    }
}

/// A popped message with the receipt handle that acknowledges it.
#[derive(Clone, Debug)]
pub struct Popped {
    /// Message. A message that is delivered again has its original topic.
    pub message: Received,
    /// Receipt handle of the latest delivery.
    pub handle: String,
}

/// Pause before a queue is popped again after a failed request.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// Interval between two queries for the assigned queues while there are none.
const NO_QUEUES_PAUSE: Duration = Duration::from_millis(200);
/// Upper limit for the time that a call waits, so that its end can be represented.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The result of a pop request: its queue, the time at which the response arrived, and the messages.
struct PopResult {
    queue: MessageQueue,
    at: Instant,
    popped: Result<Vec<Popped>, Error>,
}

/// The waiting requests, and the queues at which they wait.
#[derive(Default)]
struct Waiting {
    requests: JoinSet<PopResult>,
    busy: BTreeSet<MessageQueue>,
    queues: Vec<MessageQueue>,
    asked: Option<Instant>,
}

/// Member of a group that pops messages. After it is dropped, messages in flight are delivered again when their
/// invisible time is over.
pub struct PopConsumer {
    client: Client,
    config: Arc<PopConfig>,
    waiting: Mutex<Waiting>,
    /// Notified when the members of the group changed.
    members_changed: Arc<Notify>,
    ended: watch::Sender<bool>,
}

impl PopConsumer {
    /// Joins the group.
    ///
    /// # Errors
    /// [`Error::Illegal`] when the client already has a consumer of this group, otherwise as for
    /// [`Client::fetch_route`].
    pub async fn start(client: &Client, config: PopConfig) -> Result<Self, Error> {
        client.refresh_route(&config.topic).await?;
        let data = ConsumerData {
            group_name: config.group.clone(),
            consume_type: ConsumeType::ConsumePassively,
            message_model: MessageModel::Clustering,
            consume_from_where: if config.from_first {
                ConsumeFromWhere::ConsumeFromFirstOffset
            } else {
                ConsumeFromWhere::ConsumeFromLastOffset
            },
            subscription_data_set: vec![subscription::data(
                &config.topic,
                &config.expression,
                clock::now_ms(),
            )],
            unit_mode: false,
        };
        if !client.inner.groups.add_consumer(data) {
            return Err(Error::Illegal(format!(
                "the client already has a consumer of group {}",
                config.group
            )));
        }
        let members_changed = Arc::<Notify>::default();
        let door = Door { members_changed: members_changed.clone(), asked: None };
        client.inner.remote.server_requests.open(&config.group, door);
        client.heartbeat().await;
        let (client, config, (ended, _)) = (client.clone(), Arc::new(config), watch::channel(false));
        Ok(Self { client, config, waiting: Mutex::default(), members_changed, ended })
    }

    /// Returns the next messages of a queue, or none if no message came within `wait`. Applications call it
    /// repeatedly. Requests keep waiting at all queues between two calls.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when a broker does not answer, [`Error::Refused`] when it refuses,
    /// [`Error::NoQueue`] when no queues are assigned, [`Error::Illegal`] when the consumer has left its group.
    pub async fn pop(&self, wait: Duration) -> Result<Vec<Popped>, Error> {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => {
                Err(Error::Illegal(format!("the consumer has left group {}", self.config.group)))
            }
            popped = self.next(tokio::time::Instant::now() + wait.min(WAIT_MAX)) => popped,
        }
    }

    async fn next(&self, end: tokio::time::Instant) -> Result<Vec<Popped>, Error> {
        let mut waiting = self.waiting.lock().await;
        loop {
            self.ask(&mut waiting).await?;
            let joined = tokio::select! {
                joined = waiting.requests.join_next() => joined,
                () = tokio::time::sleep_until(end) => return Ok(Vec::new()),
                () = self.members_changed.notified() => {
                    waiting.asked = None;
                    continue;
                }
            };
            // A cancelled request brought nothing.
            let Some(Ok(PopResult { queue, at, popped })) = joined else { continue };
            waiting.busy.remove(&queue);
            let popped = popped?;
            // A message whose invisible time is over is delivered to another member
            // (`ConsumeMessagePopConcurrentlyService`).
            if !popped.is_empty() && at.elapsed() < self.config.invisible {
                return Ok(popped);
            }
        }
    }

    /// Sends a pop request to every assigned queue without a waiting request.
    async fn ask(&self, waiting: &mut Waiting) -> Result<(), Error> {
        if waiting.asked.is_none_or(|asked| asked.elapsed() >= ASSIGNMENT_INTERVAL) {
            waiting.asked = Some(Instant::now());
            match self.assigned().await {
                Ok(Some(queues)) => waiting.queues = queues,
                Ok(None) => {}
                Err(error) if waiting.queues.is_empty() => return Err(error),
                Err(error) => {
                    let group = &self.config.group;
                    tracing::warn!(group, %error, "no broker says which queues are ours; they stay as they are");
                }
            }
        }
        if waiting.queues.is_empty() && waiting.busy.is_empty() {
            // The queue belongs to another member, or the group is new; the assigned queues are queried again.
            waiting.asked = None;
            tokio::time::sleep(NO_QUEUES_PAUSE).await;
        }
        for queue in waiting.queues.clone() {
            if !waiting.busy.insert(queue.clone()) {
                continue;
            }
            let (client, config) = (self.client.clone(), self.config.clone());
            waiting.requests.spawn(async move {
                let popped = request_from(&client, &config, &queue).await;
                if popped.is_err() {
                    tokio::time::sleep(FAILED_PAUSE).await;
                }
                PopResult { queue, at: Instant::now(), popped }
            });
        }
        Ok(())
    }

    /// Returns the assigned queues by the first broker that responds. `None` if that broker does not support the
    /// query, and the queues then stay unchanged.
    async fn assigned(&self) -> Result<Option<Vec<MessageQueue>>, Error> {
        let topic = &self.config.topic;
        let route = self.client.route(topic).await?;
        let mut failed = Error::NoQueue(topic.clone());
        for address in route.brokers.keys().filter_map(|broker| route.reader(broker, 0)) {
            match self.assigned_by(address).await {
                Ok(queues) => return Ok(queues),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn assigned_by(&self, address: &str) -> Result<Option<Vec<MessageQueue>>, Error> {
        let topic = &self.config.topic;
        let body = json::to_vec(&QueryAssignmentBody {
            client_id: self.client.id().to_owned(),
            consumer_group: self.config.group.clone(),
            message_model: MessageModel::Clustering,
            strategy_name: Some("AVG".to_owned()),
            topic: topic.clone(),
        });
        let write = |frame: FrameWriter<'_>| frame.finish(&body);
        let reply = self.client.inner.remote.call(address, request::QUERY_ASSIGNMENT, TIMEOUT, write).await?;
        let answer: QueryAssignmentResponseBody = json::from_slice(&reply.body)
            .map_err(|error| Error::Answer { address: address.to_owned(), why: error.to_string() })?;
        let queues = answer.message_queue_assignments;
        Ok(queues.map(|queues| queues.into_iter().map(|assigned| assigned.message_queue).collect()))
    }

    /// Acknowledges a message. Has no effect if the invisible time is over or the message is acknowledged already.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses. The
    /// message is delivered again.
    pub async fn ack(&self, popped: &Popped) -> Result<(), Error> {
        settle(&self.client, &self.config, popped, request::ACK_MESSAGE, None).await.map(drop)
    }

    /// Changes the invisible time of a message: it is delivered again after `invisible` from now. Returns the message
    /// with a new receipt handle. The given handle becomes invalid (`CHANGE_MESSAGE_INVISIBLETIME`).
    ///
    /// # Errors
    /// Errors of [`PopConsumer::ack`].
    pub async fn keep(&self, popped: &Popped, invisible: Duration) -> Result<Popped, Error> {
        let (client, code) = (&self.client, request::CHANGE_MESSAGE_INVISIBLETIME);
        let reply = settle(client, &self.config, popped, code, Some(invisible)).await?;
        let Popped { message, handle } = popped;
        let old = parse(handle)?;
        let number = |field: &str| reply.text(field).and_then(|text| text.parse::<i64>().ok());
        let handle = Handle {
            start_offset: message.queue_offset,
            pop_ms: number("popTime").unwrap_or(old.pop_ms),
            invisible_ms: number("invisibleTime").unwrap_or_else(|| millis(invisible)),
            revive_queue: number("reviveQid")
                .and_then(|id| i32::try_from(id).ok())
                .unwrap_or(old.revive_queue),
            ..old
        };
        let handle = handle.to_string();
        Ok(Popped { message: message.clone(), handle })
    }

    /// Leaves the group and ends calls of [`PopConsumer::pop`]. Unacknowledged messages are delivered again after
    /// their invisible time.
    pub async fn shutdown(&self) {
        self.ended.send_replace(true);
        self.waiting.lock().await.requests.shutdown().await;
        self.client.inner.remote.server_requests.close(&self.config.group);
        self.client.inner.groups.remove_consumer(&self.config.group);
        self.client.unregister("consumerGroup", &self.config.group).await;
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn parse(handle: &str) -> Result<Handle<'_>, Error> {
    Handle::parse(handle).ok_or_else(|| Error::Illegal(format!("{handle:?} is not a receipt handle")))
}

/// Acknowledges a message, or changes its invisible time.
async fn settle(
    client: &Client,
    config: &PopConfig,
    popped: &Popped,
    code: i32,
    invisible: Option<Duration>,
) -> Result<net::Reply, Error> {
    let Popped { message, handle } = popped;
    let kind = parse(handle)?.kind;
    let address = client.master_of(&message.queue).await?;
    let topic = kind.topic(&config.topic, &config.group);
    let write = |frame: FrameWriter<'_>| {
        let frame = frame
            .text("consumerGroup", &config.group)
            .text("topic", &topic)
            .number("queueId", message.queue.queue_id)
            .text("extraInfo", handle)
            .number("offset", message.queue_offset);
        let frame = match invisible {
            Some(invisible) => frame.number("invisibleTime", millis(invisible)),
            None => frame,
        };
        frame.text("bname", &message.queue.broker_name).finish(b"");
    };
    client.inner.remote.call(&address, code, TIMEOUT, write).await
}

/// Sends one pop request to one queue.
async fn request_from(
    client: &Client,
    config: &PopConfig,
    queue: &MessageQueue,
) -> Result<Vec<Popped>, Error> {
    let address = client.master_of(queue).await?;
    let write = |frame: FrameWriter<'_>| {
        frame
            .text("consumerGroup", &config.group)
            .text("topic", &config.topic)
            .number("queueId", queue.queue_id)
            .number("maxMsgNums", config.batch)
            .number("invisibleTime", millis(config.invisible))
            .number("pollTime", millis(HOLD))
            .number("bornTime", clock::now_ms())
            .number("initMode", i32::from(!config.from_first))
            .text("expType", config.expression.kind())
            .text("exp", config.expression.text())
            .flag("order", false)
            .text("bname", &queue.broker_name)
            .finish(b"");
    };
    let reply = client.inner.remote.ask(&address, request::POP_MESSAGE, HOLD + MARGIN, write).await?;
    match reply.code {
        response::SUCCESS => {
            // Brokers compare only the hashes of tags. A message whose tag differs is skipped here.
            let tags = config.expression.tags();
            let popped = read(&address, queue, &reply)?;
            let (wanted, others): (Vec<_>, Vec<_>) =
                popped.into_iter().partition(|popped| tags.admit(popped.message.tag()));
            for other in others {
                if let Err(error) = settle(client, config, &other, request::ACK_MESSAGE, None).await {
                    tracing::debug!(%error, "a message with another tag comes again");
                }
            }
            Ok(wanted)
        }
        response::POLLING_TIMEOUT | response::POLLING_FULL | response::PULL_NOT_FOUND => Ok(Vec::new()),
        code => Err(Error::Refused { address, code, remark: reply.remark.unwrap_or_default() }),
    }
}

/// Decodes the messages of a response with their receipt handles. A message of the retry topic carries its own
/// handle. For other messages, the handle is made from the start offset of the pop in the response.
fn read(address: &str, queue: &MessageQueue, reply: &net::Reply) -> Result<Vec<Popped>, Error> {
    let malformed = |why: String| Error::Answer { address: address.to_owned(), why };
    let number = |field: &str| {
        let text = reply.text(field);
        text.and_then(|text| text.parse::<i64>().ok())
            .ok_or_else(|| malformed(format!("expected a number as {field}, found {text:?}")))
    };
    let starts = reply.text("startOffsetInfo").unwrap_or_default();
    let (pop_ms, invisible_ms, revive_queue) =
        (number("popTime")?, number("invisibleTime")?, number("reviveQid")?);
    let mut popped = Vec::new();
    for record in records(&reply.body, queue, -1) {
        let message = match from_record(&record, &queue.broker_name) {
            Ok(message) => message,
            Err(why) => {
                let offset = record.raw_queue_offset();
                tracing::error!(address, offset, why, "a message cannot be read; it comes again");
                continue;
            }
        };
        let handle = match message.property(key::POP_CK) {
            Some(handle) => handle.to_owned(),
            None => {
                let (kind, queue_id) = (Kind::of(&message.topic), message.queue.queue_id);
                let start = start_of(starts, kind, queue_id).ok_or_else(|| {
                    malformed(format!("expected where queue {queue_id} begins, found {starts:?}"))
                })?;
                let handle = Handle {
                    start_offset: start,
                    pop_ms,
                    invisible_ms,
                    revive_queue: i32::try_from(revive_queue).unwrap_or_default(),
                    kind,
                    broker_name: &queue.broker_name,
                    queue_id: Some(queue_id),
                    offset: Some(message.queue_offset),
                };
                handle.to_string()
            }
        };
        popped.push(Popped { message, handle });
    }
    Ok(popped)
}

/// The offset at which the pop of a queue began. `starts` holds entries `kind queue start`, joined by `;`.
fn start_of(starts: &str, kind: Kind, queue_id: i32) -> Option<i64> {
    let prefix = format!("{} {queue_id} ", kind.number());
    starts.split(';').find_map(|entry| entry.strip_prefix(&prefix))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::record::{Fields, encode, sys_flag};

    #[test]
    fn a_message_that_cannot_be_read_hides_no_other() {
        let mut body = Vec::new();
        for (content, sys_flag) in [(&b"one"[..], 0), (b"not zlib", sys_flag::COMPRESSED), (b"two", 0)] {
            let fields = Fields {
                topic: "T",
                queue_id: 0,
                flag: 0,
                sys_flag,
                born_timestamp: 1,
                born_host: "127.0.0.1:1".parse().unwrap(),
                store_host: "127.0.0.1:2".parse().unwrap(),
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: content,
                properties: b"",
                crc_property: false,
            };
            encode(&fields, &mut body).unwrap();
        }
        let fields =
            [("popTime", "1"), ("invisibleTime", "2"), ("reviveQid", "0"), ("startOffsetInfo", "0 0 0")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let reply = net::Reply { fields, body, ..net::Reply::default() };
        let popped = read("b:1", &MessageQueue::new("T", "b", 0), &reply).unwrap();
        let bodies: Vec<_> = popped.into_iter().map(|popped| popped.message.body).collect();
        assert_eq!(bodies, [b"one", b"two"]);
    }

    #[test]
    fn the_start_of_a_queue_is_that_of_its_kind() {
        let starts = "0 2 100;1 0 7;0 12 5";
        assert_eq!(start_of(starts, Kind::Normal, 2), Some(100));
        assert_eq!(start_of(starts, Kind::RetryV1, 0), Some(7));
        assert_eq!(start_of(starts, Kind::Normal, 12), Some(5));
        assert_eq!(start_of(starts, Kind::Normal, 1), None);
        assert_eq!(start_of("", Kind::Normal, 0), None);
    }
}
