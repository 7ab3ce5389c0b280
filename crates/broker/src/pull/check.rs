//! The checks of a pull, in the order of `PullMessageProcessor.processRequest`.

use std::sync::Arc;

use wire::body::group::SubscriptionGroupConfig;
use wire::body::heartbeat::MessageModel;
use wire::codes::response;
use wire::header::{PullHeader, pull_flag};

use super::{Pull, PullRequest};
use crate::caller::Caller;
use crate::clients::Subscription;
use crate::long_polling::{PullAsk, SuspendedPull};
use crate::parts::{Runtime, Sessions, Tables};
use crate::topics::{Queue, Topic};
use crate::{FAQ, Refusal, Result};

pub(super) fn check(
    tables: &Tables,
    sessions: &Sessions,
    runtime: &Runtime,
    request: &PullRequest<'_>,
) -> Result<(Pull, Arc<SubscriptionGroupConfig>)> {
    let header = &request.header;
    let forbidden = |remark| Refusal::new(response::NO_PERMISSION, remark);
    let ip = &runtime.config.broker_ip1;
    if !runtime.is_readable() {
        return Err(forbidden(format!("the broker[{ip}] pulling message is forbidden")));
    }
    if request.is_lite && !runtime.config.lite_pull_message_enable {
        return Err(forbidden(format!("the broker[{ip}] for lite pull consumer is forbidden")));
    }
    let group = header.consumer_group;
    let Some(config) = tables.group(&runtime.config, group)? else {
        let remark = format!("subscription group [{group}] does not exist, {FAQ}");
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    };
    if !config.consume_enable {
        return Err(forbidden(format!("subscription group no permission, {group}")));
    }
    let Some(topic) = tables.topic(header.topic) else {
        let remark = format!("topic[{}] not exist, apply first please! {FAQ}", header.topic);
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, remark));
    };
    if !topic.is_readable() {
        return Err(forbidden(format!("the topic[{}] pulling message is forbidden", header.topic)));
    }
    let queue = find_queue(&tables.store, request.caller, &topic, header)?;
    let filter = find_filter(tables, sessions, runtime, header, &config)?;
    let reader = tables.offsets.reader(group, header.topic);
    let ask = PullAsk {
        reader,
        filter,
        topic_sys_flag: topic.config.topic_sys_flag,
        group_sys_flag: config.group_sys_flag,
        read_from: (config.broker_id, config.which_broker_when_consume_slowly),
        offset: header.queue_offset,
        asked: header.queue_offset,
        max_messages: header.max_messages,
    };
    Ok((Pull { queue, ask }, config))
}

/// Updates a suspended pull before it is run again. When the group's subscription has changed, the pull starts again at the
/// offset the client asked for. False when the pull would be refused now (`PullMessageProcessor.executeRequestWhenWakeup`
/// repeats all checks).
pub(super) fn renew(
    tables: &Tables,
    sessions: &Sessions,
    runtime: &Runtime,
    queue: &Queue,
    held: &mut SuspendedPull,
) -> bool {
    let (ask, group) = (&mut held.ask, held.group.group_name.as_deref().unwrap_or_default());
    let topic = queue.index.topic();
    let is_served = runtime.is_readable()
        && tables.topic(topic).is_some_and(|topic| topic.is_readable())
        && tables.groups.find(group).is_some_and(|group| group.consume_enable);
    if !is_served || held.brings_filter {
        return is_served;
    }
    if tables.groups.is_read_forbidden(group, topic) {
        return false;
    }
    let Some(filter) = sessions.clients.subscription(group, topic) else { return false };
    if !Arc::ptr_eq(&filter, &ask.filter) {
        (ask.filter, ask.offset) = (filter, ask.asked);
    }
    !ask.filter.is_bad()
}

fn find_queue(
    store: &store::Store,
    caller: &Caller,
    topic: &Topic,
    header: &PullHeader<'_>,
) -> Result<Arc<Queue>> {
    let readable = topic.config.read_queue_nums;
    let known = (0..readable).contains(&header.queue_id);
    known.then(|| topic.queue(store, header.queue_id)).flatten().cloned().ok_or_else(|| {
        let remark = format!(
            "queueId[{}] is illegal, topic:[{}] topicConfig.readQueueNums:[{readable}] consumer:[{}]",
            header.queue_id, header.topic, caller.remote
        );
        Refusal::new(response::INVALID_PARAMETER, remark)
    })
}

fn find_filter(
    tables: &Tables,
    sessions: &Sessions,
    runtime: &Runtime,
    header: &PullHeader<'_>,
    config: &SubscriptionGroupConfig,
) -> Result<Arc<Subscription>> {
    if header.sys_flag & pull_flag::SUBSCRIPTION != 0 {
        let &PullHeader { topic, subscription, expression_type, sub_version, .. } = header;
        let parsed = Subscription::parse_typed(topic, subscription, expression_type, sub_version);
        let filter = parsed.map_err(|error| {
            tracing::warn!(topic, error, "a pull brought an expression that is no filter");
            let remark = "parse the consumer's subscription failed";
            Refusal::new(response::SUBSCRIPTION_PARSE_FAILED, remark)
        })?;
        return is_served(runtime, Arc::new(filter));
    }
    let missing = |what: &str| {
        let remark = format!("the consumer's {what} not exist{FAQ}");
        Refusal::new(response::SUBSCRIPTION_NOT_EXIST, remark)
    };
    let group = header.consumer_group;
    let model = sessions.clients.message_model(group).ok_or_else(|| missing("group info"))?;
    if model == MessageModel::Broadcasting && !config.consume_broadcast_enable {
        let remark = format!("the consumer group[{group}] can not consume by broadcast way");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if tables.groups.is_read_forbidden(group, header.topic) {
        let remark = format!("the consumer group[{group}] is forbidden for topic[{}]", header.topic);
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    let filter = sessions.clients.subscription(group, header.topic).ok_or_else(|| missing("subscription"))?;
    if filter.sub_version < header.sub_version {
        let remark = "the consumer's subscription not latest";
        return Err(Refusal::new(response::SUBSCRIPTION_NOT_LATEST, remark));
    }
    if filter.is_bad() {
        let remark = "The broker's consumer filter data is not exist!Your expression may be wrong!";
        return Err(Refusal::new(response::FILTER_DATA_NOT_EXIST, remark));
    }
    is_served(runtime, filter)
}

fn is_served(runtime: &Runtime, filter: Arc<Subscription>) -> Result<Arc<Subscription>> {
    if filter.is_tag() || runtime.config.enable_property_filter {
        return Ok(filter);
    }
    let kind = filter.expression_type();
    Err(Refusal::error(format!("The broker does not support consumer to filter message by {kind}")))
}
