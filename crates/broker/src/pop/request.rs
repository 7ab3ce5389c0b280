//! Pop requests and their checks (`PopMessageProcessor.processRequest`, `NotificationProcessor`).

use std::sync::Arc;

use wire::codes::response;

use crate::caller::Caller;
use crate::clients::Subscription;
use crate::long_polling::{Ask, Pop, Waiters, Want};
use crate::parts::{Runtime, Tables};
use crate::supervisor::SupervisedWork;
use crate::topics::Topic;
use crate::{FAQ, Refusal, Result};

/// Most messages that a client may request with a pop.
const COUNT_MAX: i32 = 32;
/// A pop that arrives more than this many milliseconds after its polling time is over is refused.
const LATE_MS: i64 = 500;
/// A suspended request is answered this many milliseconds before its polling time is over.
const EARLY_MS: i64 = 50;
/// Longest suspension of a request, in milliseconds, whatever the client requests.
const WAIT_MAX_MS: i64 = 300_000;

/// Returns the current topic of a request, possibly with another configuration than at the request's arrival. A
/// re-created topic is another topic.
///
/// # Errors
/// `TOPIC_NOT_EXIST` or `SUBSCRIPTION_GROUP_NOT_EXIST`.
pub(super) fn current_topic(tables: &Tables, ask: &Ask) -> Result<Arc<Topic>> {
    if ask.lite.is_some() {
        // The client's suspended pops do not stand at the topic.
        check_group(tables, ask)?;
        return known_topic(tables, &ask.topic);
    }
    check_current(tables, ask, &ask.topic, &ask.waiters)
}

/// Returns the current topic `name` of a request. It must still be the topic that the request found, which `waiters`,
/// its list of suspended requests, identifies. The group of the request must exist.
pub(super) fn check_current(
    tables: &Tables,
    ask: &Ask,
    name: &str,
    waiters: &Arc<Waiters>,
) -> Result<Arc<Topic>> {
    let now = known_topic(tables, name)?;
    if !Arc::ptr_eq(&now.waiters, waiters) {
        let remark = format!("topic[{name}] was deleted and made again, ask again");
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, remark));
    }
    check_group(tables, ask)?;
    Ok(now)
}

fn check_group(tables: &Tables, ask: &Ask) -> Result<()> {
    if tables.groups.find(&ask.group).is_none() {
        let remark = format!("subscription group [{}] does not exist, {FAQ}", ask.group);
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    Ok(())
}

/// Topic, group and queue that a pop, a notification or a peek names.
pub struct PopTarget<'a> {
    /// Caller of the request.
    pub caller: &'a Caller,
    /// Name of the topic.
    pub topic: &'a str,
    /// Name of the consumer group.
    pub group: &'a str,
    /// Id of the queue; below 0 for all queues of the topic.
    pub queue_id: i32,
}

/// Time for which a pop or notification may wait for a message.
pub struct Polling<'a> {
    /// Send time of the request by the client's clock, in milliseconds since the epoch. 0 if the client does not send
    /// it.
    pub born_ms: i64,
    /// Longest wait; 0 for no wait.
    pub poll_ms: i64,
    /// Whether the pop is ordered.
    pub ordered: bool,
    /// Id that distinguishes a repeated ordered pop from another pop.
    pub attempt_id: Option<&'a str>,
}

impl Polling<'_> {
    /// When the request was sent. The clock of a client may be ahead of the broker's; that does not make its request wait longer.
    fn born_ms(&self, now_ms: i64) -> i64 {
        if self.born_ms == 0 { now_ms } else { self.born_ms.min(now_ms) }
    }
}

/// 200050 `POP_MESSAGE` as a front decoded it.
pub struct PopRequest<'a> {
    /// Topic, group and queue.
    pub target: PopTarget<'a>,
    /// Time for which the pop may wait.
    pub polling: Polling<'a>,
    /// Most messages to return.
    pub count_max: i32,
    /// Time for which the messages stay invisible to other consumers of the group.
    pub invisible_ms: i64,
    /// Whether a group without an offset begins with the last message of a queue, not the first.
    pub from_end: bool,
    /// The filter expression; empty for every message.
    pub expression: &'a str,
    /// The kind of the expression; empty for tags.
    pub expression_type: &'a str,
}

/// Checks a pop, in the order of `PopMessageProcessor.processRequest`.
pub(super) fn pop(tables: &Tables, runtime: &Runtime, request: &PopRequest<'_>) -> Result<Ask> {
    let &PopRequest { count_max, invisible_ms, from_end, ref polling, ref target, .. } = request;
    check_time(runtime, polling, count_max)?;
    check_invisible(runtime, invisible_ms)?;
    let found = find(tables, runtime, target)?;
    let filter = filter(found.0.name(), request)?;
    let want = Want::Pop(Pop { count_max, invisible_ms, from_end, filter });
    Ok(ask(want, found, target.queue_id, polling, runtime.now_ms()))
}

/// Checks the time of a pop, the broker's permission, and the number of messages.
pub(super) fn check_time(runtime: &Runtime, polling: &Polling<'_>, count_max: i32) -> Result<()> {
    let now_ms = runtime.now_ms();
    let ip = &runtime.config.broker_ip1;
    if now_ms.saturating_sub(polling.born_ms(now_ms)).saturating_sub(polling.poll_ms) > LATE_MS {
        let remark = format!("the broker[{ip}] pop message is timeout too much");
        return Err(Refusal::new(response::POLLING_TIMEOUT, remark));
    }
    if !runtime.is_readable() {
        let remark = format!("the broker[{ip}] pop message is forbidden");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if count_max > COUNT_MAX {
        let remark = format!("the broker[{ip}] pop message's num is greater than {COUNT_MAX}");
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    Ok(())
}

/// Checks a notification.
pub(super) fn notice(
    tables: &Tables,
    runtime: &Runtime,
    target: &PopTarget<'_>,
    polling: &Polling<'_>,
) -> Result<Ask> {
    let found = peeked(tables, runtime, target)?;
    Ok(ask(Want::Notice, found, target.queue_id, polling, runtime.now_ms()))
}

/// Checks the topic and group of requests that pop no messages: notifications, peeks and polling information.
pub(super) fn peeked(
    tables: &Tables,
    runtime: &Runtime,
    target: &PopTarget<'_>,
) -> Result<(Arc<Topic>, Arc<str>)> {
    if !runtime.is_readable() {
        let remark = format!("the broker[{}] peeking message is forbidden", runtime.config.broker_ip1);
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    find(tables, runtime, target)
}

/// Checks that the timer and the revive thread, which pops need, are running. Checks also that the invisible time is
/// no longer than the longest delay of timed messages.
pub(super) fn check_invisible(runtime: &Runtime, invisible_ms: i64) -> Result<()> {
    let timers = &runtime.config.timers;
    if !timers.enabled {
        let ip = &runtime.config.broker_ip1;
        let remark = format!("the broker[{ip}] pop message is forbidden because timerWheelEnable is false");
        return Err(Refusal::error(remark));
    }
    // Without these threads, messages popped now and not acknowledged would never come back to the group.
    runtime.supervisor.demand(SupervisedWork::Timer)?;
    runtime.supervisor.demand(SupervisedWork::Revive)?;
    let max_ms = timers.delay_max_s.saturating_mul(1000);
    if !(0..=max_ms).contains(&invisible_ms) {
        let remark = format!(
            "invisibleTime is {invisible_ms}, expected 0 to {max_ms} milliseconds (timerMaxDelaySec)"
        );
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    Ok(())
}

fn ask(
    want: Want,
    (topic, group): (Arc<Topic>, Arc<str>),
    queue_id: i32,
    polling: &Polling<'_>,
    now_ms: i64,
) -> Ask {
    let waited = (topic.name(), group, topic.waiters.clone());
    Ask { queue_id: queue_id.max(-1), lite: None, ..of_client(want, waited, "", polling, now_ms) }
}

/// Makes the pop of a client's lite topics. `waiters` is the list of the client's suspended pops.
pub(super) fn of_client(
    want: Want,
    (topic, group, waiters): (&str, Arc<str>, Arc<Waiters>),
    client: &str,
    polling: &Polling<'_>,
    now_ms: i64,
) -> Ask {
    let poll_ms = polling.poll_ms;
    let until_ms = polling.born_ms(now_ms).saturating_add(poll_ms.min(WAIT_MAX_MS)).saturating_sub(EARLY_MS);
    Ask {
        want,
        topic: topic.to_owned(),
        waiters,
        group,
        queue_id: -1,
        ordered: polling.ordered,
        lite: Some(client.into()),
        attempt_id: polling.attempt_id.map(str::to_owned),
        wait_until_ms: (poll_ms > 0).then_some(until_ms),
        deadline_ms: until_ms,
    }
}

fn find(tables: &Tables, runtime: &Runtime, target: &PopTarget<'_>) -> Result<(Arc<Topic>, Arc<str>)> {
    let &PopTarget { caller, topic: name, group, queue_id } = target;
    let topic = known_topic(tables, name)?;
    if !topic.is_readable() {
        let remark = format!("the topic[{name}] peeking message is forbidden");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if queue_id >= topic.config.read_queue_nums {
        return Err(bad_queue(&topic, queue_id, caller, response::INVALID_PARAMETER));
    }
    let Some(config) = tables.group(&runtime.config, group)? else {
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
pub(super) fn known_topic(tables: &Tables, name: &str) -> Result<Arc<Topic>> {
    tables.topic(name).ok_or_else(|| {
        Refusal::new(response::TOPIC_NOT_EXIST, format!("topic[{name}] not exist, apply first please! {FAQ}"))
    })
}

/// The refusal of a queue the topic does not have.
pub(super) fn bad_queue(topic: &Topic, queue_id: i32, caller: &Caller, code: i32) -> Refusal {
    let (name, readable, remote) = (topic.name(), topic.config.read_queue_nums, caller.remote);
    Refusal::new(
        code,
        format!(
            "queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{readable}] consumer:[{remote}]"
        ),
    )
}

/// Returns the filter of a pop. Pops by SQL are served whatever `enablePropertyFilter` says, because
/// `PopMessageProcessor` does not check it.
fn filter(topic: &str, request: &PopRequest<'_>) -> Result<Arc<Subscription>> {
    let expression = if request.expression.is_empty() { "*" } else { request.expression };
    let parsed = Subscription::parse_typed(topic, expression, request.expression_type, 0);
    parsed.map(Arc::new).map_err(|error| {
        tracing::warn!(topic, error, "a pop brought an expression that is no filter");
        Refusal::new(response::SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    })
}
