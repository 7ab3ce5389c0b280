//! Requests by clients and about them: 34, 35, 38, 46, 203, 204, 328 and 345 (`ClientManageProcessor`, `ConsumerManageProcessor`,
//! `AdminBrokerProcessor`).

use std::collections::BTreeMap;
use std::sync::Arc;

use net::ConnectionHandle;
use wire::body::{
    CheckClientBody, ConsumerConnection, ConsumerData, HeartbeatData, ProducerConnection, QuerySubscription,
    SubscriptionGroupConfig, TopicConfig,
};
use wire::codes::response;
use wire::frame::Command;
use wire::json;

use super::subscription::{check, is_tag};
use super::{Beat, Clients, GROUPS_PER_CLIENT_MAX, Member, notify};
use crate::groups::{GroupChange, Groups};
use crate::metadata_writer::Change;
use crate::topics::TopicChange;
use crate::{Answer, Refusal, names};

/// The tables and settings that requests of clients are served with.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub clients: &'a Clients,
    pub groups: &'a Groups,
    /// `autoCreateSubscriptionGroup`.
    pub auto_create_groups: bool,
    /// `notifyConsumerIdsChangedEnable` of the broker.
    pub notify: bool,
    /// The wall clock, milliseconds since 1970.
    pub now_ms: i64,
}

/// 34 `HEART_BEAT`, with and without subscriptions. `retry_topic_missing` gets each consumer group and the number of queues of
/// its retry topic, and returns the configuration of that topic when it has to be created.
pub(crate) fn heartbeat(
    context: &RequestContext<'_>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    retry_topic_missing: impl FnMut(&ConsumerData, i32) -> Option<TopicConfig>,
) -> Result<Answer, Refusal> {
    let data: HeartbeatData = json::from_slice(command.body)?;
    check_room(context.clients, peer.id(), &data)?;
    make_missing(context, &data, retry_topic_missing)?;
    let member = Member {
        client_id: data.client_id,
        language: command.language,
        version: command.version,
        peer: peer.clone(),
        seen_ms: context.now_ms,
    };
    let fingerprint = data.heartbeat_fingerprint;
    let beat = Beat { fingerprint, without_subscriptions: fingerprint != 0 && data.without_sub };
    let mut is_sub_change = fingerprint == 0;
    let mut changes = Vec::new();
    for consumer in &data.consumer_data_set {
        if context.groups.find(&consumer.group_name).is_none() {
            // Java passes over a group that does not exist; the group's pulls are refused with a reason.
            tracing::debug!(group = consumer.group_name, "a heartbeat names a group that may not be created");
            is_sub_change = true;
            continue;
        }
        let (change, differs) = context.clients.join_consumer(consumer, member.clone(), beat);
        is_sub_change |= differs;
        changes.extend(change);
    }
    for producer in &data.producer_data_set {
        context.clients.join_producer(&producer.group_name, member.clone());
    }
    context.announce(&changes);
    Ok(Answer::success().field("IS_SUPPORT_HEART_BEAT_V2", true).field("IS_SUB_CHANGE", is_sub_change))
}

/// Has the heartbeat wait until its new groups and their retry topics are on disk, all stored with one write.
fn make_missing(
    context: &RequestContext<'_>,
    data: &HeartbeatData,
    mut retry_topic_missing: impl FnMut(&ConsumerData, i32) -> Option<TopicConfig>,
) -> Result<(), Refusal> {
    let mut change = Change::default();
    for consumer in &data.consumer_data_set {
        let name = &consumer.group_name;
        let queues = match context.groups.find(name) {
            Some(group) => group.retry_queue_nums,
            None if context.groups.may_create(name, context.auto_create_groups) => {
                change.groups.push(GroupChange::Ensure(name.clone()));
                SubscriptionGroupConfig::default().retry_queue_nums
            }
            None => continue,
        };
        change.topics.extend(retry_topic_missing(consumer, queues).map(TopicChange::Ensure));
    }
    if change == Change::default() { Ok(()) } else { Err(Refusal::after(change)) }
}

/// 35 `UNREGISTER_CLIENT`.
pub(crate) fn unregister(
    context: &RequestContext<'_>,
    peer: &ConnectionHandle,
    command: &Command<'_>,
) -> Result<Answer, Refusal> {
    if let Some(group) = command.fields.text("producerGroup") {
        context.clients.leave_producer(group, peer.id());
    }
    if let Some(group) = command.fields.text("consumerGroup") {
        context.announce(context.clients.leave_consumer(group, peer.id()).as_slice());
    }
    Ok(Answer::success())
}

/// 38 `GET_CONSUMER_LIST_BY_GROUP`.
pub(crate) fn consumer_list(clients: &Clients, command: &Command<'_>) -> Result<Answer, Refusal> {
    let group = command.fields.need("consumerGroup")?;
    let list = clients.client_list(group);
    let list = list.ok_or_else(|| Refusal::error(format!("no consumer for this group, {group}")))?;
    Ok(Answer::success().body(list.to_vec()))
}

/// 46 `CHECK_CLIENT_CONFIG`: consumers do not start unless the answer is success (`ClientManageProcessor.checkClientConfig`).
pub(crate) fn check_client(command: &Command<'_>, filters_properties: bool) -> Result<Answer, Refusal> {
    let body: CheckClientBody = json::from_slice(command.body)?;
    let data = &body.subscription_data;
    if !is_tag(&data.expression_type) && !filters_properties {
        let kind = &data.expression_type;
        let remark = format!("The broker does not support consumer to filter message by {kind}");
        return Err(Refusal::error(remark));
    }
    check(&data.expression_type, &data.sub_string)
        .map_err(|remark| Refusal::new(response::SUBSCRIPTION_PARSE_FAILED, remark))?;
    Ok(Answer::success())
}

/// 203 `GET_CONSUMER_CONNECTION_LIST`.
pub(crate) fn consumer_connections(clients: &Clients, command: &Command<'_>) -> Result<Answer, Refusal> {
    let group = command.fields.need("consumerGroup")?;
    let view = clients.consumers(group).ok_or_else(|| {
        let remark = format!("the consumer group[{group}] not online");
        Refusal::new(response::CONSUMER_NOT_ONLINE, remark)
    })?;
    let subscription = |subscription: &Arc<super::Subscription>| {
        let data = subscription.data().clone();
        (data.topic.clone(), data)
    };
    let body = ConsumerConnection {
        connection_set: view.members.iter().map(Member::connection).collect(),
        consume_from_where: Some(view.consume_from_where),
        consume_type: Some(view.consume_type),
        message_model: Some(view.message_model),
        subscription_table: view.subscriptions.iter().map(subscription).collect(),
    };
    Ok(Answer::success().body(json::to_vec(&body)))
}

/// 204 `GET_PRODUCER_CONNECTION_LIST`.
pub(crate) fn producer_connections(clients: &Clients, command: &Command<'_>) -> Result<Answer, Refusal> {
    let group = command.fields.need("producerGroup")?;
    let members = clients
        .producers(group)
        .ok_or_else(|| Refusal::error(format!("the producer group[{group}] not exist")))?;
    let body = ProducerConnection { connection_set: members.iter().map(Member::connection).collect() };
    Ok(Answer::success().body(json::to_vec(&body)))
}

/// 328 `GET_ALL_PRODUCER_INFO`.
pub(crate) fn all_producers(clients: &Clients) -> Result<Answer, Refusal> {
    let row = |member: &Member| {
        let connection = member.connection();
        serde_json::json!({
            "clientId": connection.client_id,
            "language": connection.language,
            "lastUpdateTimestamp": member.seen_ms,
            // With the slash that Java writes before an address.
            "remoteIP": format!("/{}", connection.client_addr),
            "version": connection.version,
        })
    };
    let rows = |members: Vec<Member>| members.iter().map(row).collect::<Vec<_>>();
    let data: BTreeMap<String, _> =
        clients.all_producers().into_iter().map(|(group, members)| (group, rows(members))).collect();
    Ok(Answer::success().body(serde_json::json!({ "data": data }).to_string().into_bytes()))
}

/// 345 `QUERY_SUBSCRIPTION_BY_CONSUMER`: the subscription of a group to a topic; an empty body when the group is not online or
/// does not subscribe.
pub(crate) fn subscription(clients: &Clients, command: &Command<'_>) -> Result<Answer, Refusal> {
    let (group, topic) = (command.fields.need("group")?, command.fields.need("topic")?);
    let found = clients.subscription(group, topic);
    let body = QuerySubscription {
        group: group.to_owned(),
        subscription_data: found.map(|subscription| subscription.data().clone()),
        topic: topic.to_owned(),
    };
    Ok(Answer::success().body(json::to_vec(&body)))
}

impl RequestContext<'_> {
    fn announce(&self, changes: &[super::Change]) {
        if self.notify {
            notify(self.groups, changes);
        }
    }
}

fn check_room(clients: &Clients, peer_id: u64, data: &HeartbeatData) -> Result<(), Refusal> {
    let consumers = data.consumer_data_set.iter().map(|consumer| consumer.group_name.as_str());
    let producers = data.producer_data_set.iter().map(|producer| producer.group_name.as_str());
    names::check_length("client id", &data.client_id, names::CLIENT_ID_BYTES_MAX)?;
    for group in consumers.clone().chain(producers.clone()) {
        names::check_length("group name", group, names::DERIVED_TOPIC_LENGTH_MAX)?;
    }
    if clients.has_room(peer_id, consumers, producers) {
        return Ok(());
    }
    let named = data.consumer_data_set.len() + data.producer_data_set.len();
    Err(Refusal::error(format!(
        "the heartbeat of {:?} names {named} groups; one connection may be in {GROUPS_PER_CLIENT_MAX}",
        data.client_id
    )))
}
