//! Reading and checking pop requests (`PopMessageProcessor.processRequest`, `NotificationProcessor`).

use std::sync::Arc;

use net::ConnectionHandle;
use wire::codes::response;
use wire::frame::{Command, Encoding, Head};

use crate::broker::Broker;
use crate::clients::Subscription;
use crate::supervisor::SupervisedWork;
use crate::topics::Topic;
use crate::{FAQ, Refusal};

/// Most messages a client may ask for in one pop.
const COUNT_MAX: i32 = 32;
/// A pop that arrives more than this many milliseconds after its polling time is over is refused.
const LATE_MS: i64 = 500;
/// A suspended request is answered this many milliseconds before its polling time is over.
const EARLY_MS: i64 = 50;
/// Longest time a request is suspended, in milliseconds, whatever the client asks for.
const WAIT_MAX_MS: i64 = 300_000;

/// What a request asks for.
#[derive(Debug)]
pub(super) enum Want {
    /// Messages: 200050 `POP_MESSAGE`.
    Pop(Pop),
    /// Whether there are messages: 200054 `NOTIFICATION`.
    Notice,
}

/// The parameters of a pop.
#[derive(Debug)]
pub(super) struct Pop {
    /// Most messages to return.
    pub count_max: i32,
    /// How long the messages stay invisible to other consumers of the group.
    pub invisible_ms: i64,
    /// Whether a group without an offset begins with the last message of a queue, not the first (`initMode`).
    pub from_end: bool,
    pub filter: Arc<Subscription>,
}

/// A pop or notification request, which may be suspended until a message comes.
pub(crate) struct Ask {
    pub(super) want: Want,
    pub(super) topic: Arc<Topic>,
    pub(super) group: Arc<str>,
    /// Id of the queue asked for; -1 for all queues of the topic.
    pub(super) queue_id: i32,
    /// Whether the pop is ordered: further messages of a queue are withheld until those returned are acknowledged.
    pub(super) ordered: bool,
    pub(super) attempt_id: Option<String>,
    /// When to answer without a message, in milliseconds since the epoch; `None` when the request is not to be suspended.
    pub(super) wait_until_ms: Option<i64>,
    /// The same time as a plain number, by which the table of long polling timeouts is sorted.
    pub(super) deadline_ms: i64,
    pub(super) opaque: i32,
    pub(super) encoding: Encoding,
}

impl Ask {
    /// Writes the answer of a request that is refused.
    pub(crate) fn refuse(&self, refusal: &Refusal, out: &mut Vec<u8>) {
        let head = Head::response(self.encoding, refusal.code, self.opaque).remark(&refusal.remark);
        if self.notices() { head.write(out, b"") } else { super::serve::refuse(head, out) }
    }

    /// Checks that a topic found before still exists, maybe with another configuration, and that the group exists. A topic that
    /// was deleted and created again is another topic.
    ///
    /// # Errors
    /// `TOPIC_NOT_EXIST` or `SUBSCRIPTION_GROUP_NOT_EXIST`.
    pub(super) fn check_current(&self, broker: &Broker, topic: &Topic) -> Result<(), Refusal> {
        let now = known_topic(broker, topic.name())?;
        if !Arc::ptr_eq(&now.waiters, &topic.waiters) {
            let remark = format!("topic[{}] was deleted and made again, ask again", topic.name());
            return Err(Refusal::new(response::TOPIC_NOT_EXIST, remark));
        }
        if broker.groups.find(&self.group).is_none() {
            let remark = format!("subscription group [{}] does not exist, {FAQ}", self.group);
            return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        }
        Ok(())
    }

    /// Whether the request is a notification, whose answer contains no messages.
    pub(super) fn notices(&self) -> bool {
        matches!(self.want, Want::Notice)
    }
}

/// Reads and checks 200050 `POP_MESSAGE`.
pub(super) fn pop(broker: &Broker, peer: &ConnectionHandle, command: &Command<'_>) -> Result<Ask, Refusal> {
    let fields = &command.fields;
    let now_ms = broker.now_ms();
    let ip = &broker.config.broker_ip1;
    let (born_ms, poll_ms) = times(command, now_ms)?;
    let count_max: i32 = fields.need_number("maxMsgNums")?;
    let invisible_ms: i64 = fields.need_number("invisibleTime")?;
    if now_ms.saturating_sub(born_ms).saturating_sub(poll_ms) > LATE_MS {
        let remark = format!("the broker[{ip}] pop message is timeout too much");
        return Err(Refusal::new(response::POLLING_TIMEOUT, remark));
    }
    if !broker.is_readable() {
        let remark = format!("the broker[{ip}] pop message is forbidden");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if count_max > COUNT_MAX {
        let remark = format!("the broker[{ip}] pop message's num is greater than {COUNT_MAX}");
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    check_invisible(broker, invisible_ms)?;
    let (topic, group) = target(broker, peer, command)?;
    let filter = filter(broker, topic.name(), command)?;
    let from_end = fields.need_number::<i32>("initMode")? != 0;
    let want = Want::Pop(Pop { count_max, invisible_ms, from_end, filter });
    ask(command, want, (topic, group), (born_ms, poll_ms))
}

/// Reads and checks 200054 `NOTIFICATION`.
pub(super) fn notice(
    broker: &Broker,
    peer: &ConnectionHandle,
    command: &Command<'_>,
) -> Result<Ask, Refusal> {
    let times = times(command, broker.now_ms())?;
    let target = peeked(broker, peer, command)?;
    ask(command, Want::Notice, target, times)
}

/// Reads and checks the topic and group of the requests that pop nothing: notifications, peeks and polling information.
pub(super) fn peeked(
    broker: &Broker,
    peer: &ConnectionHandle,
    command: &Command<'_>,
) -> Result<(Arc<Topic>, Arc<str>), Refusal> {
    if !broker.is_readable() {
        let remark = format!("the broker[{}] peeking message is forbidden", broker.config.broker_ip1);
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    target(broker, peer, command)
}

/// Checks that the timer and the revive thread, which pops need, are running, and that the invisible time is no longer than
/// the longest delay of timed messages.
pub(super) fn check_invisible(broker: &Broker, invisible_ms: i64) -> Result<(), Refusal> {
    let timers = &broker.config.timers;
    if !timers.enabled {
        let ip = &broker.config.broker_ip1;
        let remark = format!("the broker[{ip}] pop message is forbidden because timerWheelEnable is false");
        return Err(Refusal::error(remark));
    }
    // Without these threads, messages popped now and not acknowledged would never come back to the group.
    broker.supervisor.demand(SupervisedWork::Timer)?;
    broker.supervisor.demand(SupervisedWork::Revive)?;
    let max_ms = timers.delay_max_s.saturating_mul(1000);
    if !(0..=max_ms).contains(&invisible_ms) {
        let remark = format!(
            "invisibleTime is {invisible_ms}, expected 0 to {max_ms} milliseconds (timerMaxDelaySec)"
        );
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    Ok(())
}

fn times(command: &Command<'_>, now_ms: i64) -> Result<(i64, i64), Refusal> {
    let born_ms = match command.fields.number_or("bornTime", 0)? {
        0 => now_ms,
        // The clock of a client may be ahead of the broker's; that does not make its request wait longer.
        born_ms => born_ms.min(now_ms),
    };
    Ok((born_ms, command.fields.need_number("pollTime")?))
}

fn ask(
    command: &Command<'_>,
    want: Want,
    (topic, group): (Arc<Topic>, Arc<str>),
    (born_ms, poll_ms): (i64, i64),
) -> Result<Ask, Refusal> {
    let until_ms = born_ms.saturating_add(poll_ms.min(WAIT_MAX_MS)).saturating_sub(EARLY_MS);
    Ok(Ask {
        want,
        topic,
        group,
        queue_id: command.fields.need_number::<i32>("queueId")?.max(-1),
        ordered: command.fields.flag_or("order", false),
        attempt_id: command.fields.text("attemptId").map(str::to_owned),
        wait_until_ms: (poll_ms > 0).then_some(until_ms),
        deadline_ms: until_ms,
        opaque: command.opaque,
        encoding: command.encoding,
    })
}

fn target(
    broker: &Broker,
    peer: &ConnectionHandle,
    command: &Command<'_>,
) -> Result<(Arc<Topic>, Arc<str>), Refusal> {
    let fields = &command.fields;
    let (name, group) = (fields.need("topic")?, fields.need("consumerGroup")?);
    let queue_id: i32 = fields.need_number("queueId")?;
    let topic = known_topic(broker, name)?;
    if !topic.is_readable() {
        let remark = format!("the topic[{name}] peeking message is forbidden");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if queue_id >= topic.config.read_queue_nums {
        return Err(bad_queue(&topic, queue_id, peer, response::INVALID_PARAMETER));
    }
    let Some(config) = broker.group(group)? else {
        let remark = format!("subscription group [{group}] does not exist, {FAQ}");
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    };
    if !config.consume_enable {
        let remark = format!("subscription group no permission, {group}");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if topic.batched {
        // RocketMQ's clients do not split batches they pop (`MQClientAPIImpl.processPopResponse`): the application would get a
        // whole batch as the body of one message.
        let remark = format!(
            "topic[{name}] has queue.type=BatchCQ: pull it, clients do not take batches apart that they pop"
        );
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    Ok((topic, group.into()))
}

/// Finds a topic, or refuses with `TOPIC_NOT_EXIST` and Java's remark.
pub(super) fn known_topic(broker: &Broker, name: &str) -> Result<Arc<Topic>, Refusal> {
    broker.topic(name).ok_or_else(|| {
        Refusal::new(response::TOPIC_NOT_EXIST, format!("topic[{name}] not exist, apply first please! {FAQ}"))
    })
}

/// The refusal of a queue the topic does not have.
pub(super) fn bad_queue(topic: &Topic, queue_id: i32, peer: &ConnectionHandle, code: i32) -> Refusal {
    let (name, readable, remote) = (topic.name(), topic.config.read_queue_nums, peer.remote());
    Refusal::new(
        code,
        format!(
            "queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{readable}] consumer:[{remote}]"
        ),
    )
}

fn filter(broker: &Broker, topic: &str, command: &Command<'_>) -> Result<Arc<Subscription>, Refusal> {
    let expression = command.fields.text("exp").filter(|text| !text.is_empty()).unwrap_or("*");
    let kind = command.fields.text("expType").unwrap_or_default();
    let parsed = Subscription::parse_typed(topic, expression, kind, 0).map_err(|error| {
        tracing::warn!(topic, error, "a pop brought an expression that is no filter");
        Refusal::new(response::SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    })?;
    if parsed.is_tag() || broker.config.enable_property_filter {
        return Ok(Arc::new(parsed));
    }
    let kind = parsed.expression_type();
    Err(Refusal::error(format!("The broker does not support consumer to filter message by {kind}")))
}
