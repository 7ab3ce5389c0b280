//! Pop consumption: brokers hand out messages one by one and keep track of them, so that any member of a group can consume
//! any queue (`DefaultMQPushConsumerImpl.popMessage`, `MQClientAPIImpl.processPopResponse`).
//!
//! Which queues a member pops the brokers say (`QUERY_ASSIGNMENT`), with id -1 for all queues of a broker. One request waits
//! at each of them; what one of them brings is the application's.

use crate::inbox::Door;
use crate::message::{from_record, records};
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

/// How long a broker holds a pop while there is nothing (`brokerSuspendMaxTimeMillis`).
const HOLD: Duration = Duration::from_secs(15);
/// How long beyond that it may take.
const MARGIN: Duration = Duration::from_secs(15);
/// How long other calls may take (`mqClientApiTimeout`).
const TIMEOUT: Duration = Duration::from_secs(3);
/// Between two questions which queues are ours.
const ASSIGNMENT_INTERVAL: Duration = Duration::from_secs(5);

/// How messages are popped.
#[derive(Clone, Debug)]
pub struct PopConfig {
    /// Consumer group.
    pub group: String,
    /// Topic.
    pub topic: String,
    /// What is wanted of it.
    pub expression: Expression,
    /// How long nobody else sees a popped message (`popInvisibleTime`). One that is not acknowledged until then comes again.
    pub invisible: Duration,
    /// Most messages of one request, at most 32 (`popBatchNums`).
    pub batch: i32,
    /// A new group begins with the first message instead of the last one.
    pub from_first: bool,
}

impl PopConfig {
    /// Java's defaults: a minute, 32 messages, a new group begins at the end.
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

/// A popped message, and what it is acknowledged with.
#[derive(Clone, Debug)]
pub struct Popped {
    /// The message; one that came again has its own topic.
    pub message: Received,
    /// Receipt handle of the last time it was handed out.
    pub handle: String,
}

/// Before a queue whose request failed is asked again.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// Between two such questions while there are none.
const NO_QUEUES_PAUSE: Duration = Duration::from_millis(200);
/// The longest a call waits, so that its end can be told.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a request brought, and when.
struct Brought {
    queue: MessageQueue,
    at: Instant,
    popped: Result<Vec<Popped>, Error>,
}

/// Requests that wait, and the queues they wait at.
#[derive(Default)]
struct Waiting {
    requests: JoinSet<Brought>,
    busy: BTreeSet<MessageQueue>,
    queues: Vec<MessageQueue>,
    asked: Option<Instant>,
}

/// A member of a group that pops. Dropping it leaves messages under way to come again after their invisible time.
pub struct PopConsumer {
    client: Client,
    config: Arc<PopConfig>,
    waiting: Mutex<Waiting>,
    /// Woken when the membership of the group changed.
    members_changed: Arc<Notify>,
    ended: watch::Sender<bool>,
}

impl PopConsumer {
    /// Joins the group.
    ///
    /// # Errors
    /// The client already has a consumer of this group, no name server answers, or the topic does not exist.
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
        client.inner.remote.inbox.open(&config.group, door);
        client.heartbeat().await;
        let (client, config, (ended, _)) = (client.clone(), Arc::new(config), watch::channel(false));
        Ok(Self { client, config, waiting: Mutex::default(), members_changed, ended })
    }

    /// The next messages of some queue; nothing when none came within `wait`. To be called again and again: a request waits
    /// at every queue between two calls as well.
    ///
    /// # Errors
    /// A broker does not answer, refuses, or says nothing about the group's queues; or the consumer has left its group.
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
            // A request that was cancelled has nothing to say.
            let Some(Ok(Brought { queue, at, popped })) = joined else { continue };
            waiting.busy.remove(&queue);
            let popped = popped?;
            // What lay here for too long is handed out to somebody else (`ConsumeMessagePopConcurrentlyService`).
            if !popped.is_empty() && at.elapsed() < self.config.invisible {
                return Ok(popped);
            }
        }
    }

    /// Has a request wait at every queue of ours.
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
            // Of another member, or the group is new; it is asked for again.
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
                Brought { queue, at: Instant::now(), popped }
            });
        }
        Ok(())
    }

    /// The queues that are ours, as the first broker says that answers; `None` when it cannot, and we keep what we have.
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

    /// Says that a message is done. Late, or twice, it has no effect.
    ///
    /// # Errors
    /// The broker does not answer or refuses; the message comes again.
    pub async fn ack(&self, popped: &Popped) -> Result<(), Error> {
        settle(&self.client, &self.config, popped, request::ACK_MESSAGE, None).await.map(drop)
    }

    /// Lets a message come again after `invisible` from now, instead of the time it was popped for; the one returned can be
    /// acknowledged until then, the one given cannot any more.
    ///
    /// # Errors
    /// As [`PopConsumer::ack`].
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

    /// Leaves the group; calls of [`PopConsumer::pop`] end. Messages that were popped and not acknowledged come again after
    /// their invisible time.
    pub async fn shutdown(&self) {
        self.ended.send_replace(true);
        self.waiting.lock().await.requests.shutdown().await;
        self.client.inner.remote.inbox.close(&self.config.group);
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

/// Acknowledges a message, or changes when it comes again.
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

/// One request to one queue.
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
            // Brokers compare tags by their hashes. What only looks as if it were wanted is nobody's.
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

/// The messages of an answer with their handles. One that came again carries its own; of others the answer says where the
/// reading of their queue began.
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

/// Where the reading of a queue began: entries are `kind queue start`, joined by `;`.
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
