//! Requests of clients, and queries about clients (`ClientManageProcessor`, `ConsumerManageProcessor`,
//! `AdminBrokerProcessor`).

use std::sync::Arc;

use wire::body::{
    ConsumerConnection, ConsumerData, HeartbeatData, ProducerConnection, SubscriptionData,
    SubscriptionGroupConfig, TopicConfig,
};
use wire::codes::response;

use super::subscription::{check, is_tag};
use super::{Beat, Clients, GROUPS_PER_CLIENT_MAX, Member, notify};
use crate::change::Change;
use crate::change::GroupChange;
use crate::change::TopicChange;
use crate::groups::Groups;
use crate::{Refusal, Result, names};

/// The tables and settings that requests of clients are served with.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub clients: &'a Clients,
    pub groups: &'a Groups,
    /// `autoCreateSubscriptionGroup`.
    pub auto_create_groups: bool,
    /// `notifyConsumerIdsChangedEnable` of the broker.
    pub notify: bool,
}

/// Records the groups and subscriptions of a client's heartbeat. Returns `IS_SUB_CHANGE`: whether the client has to
/// send its subscriptions in its next heartbeat. `retry_topic_missing` gets each consumer group and the number of
/// queues of its retry topic. It returns the configuration of a missing retry topic.
pub(crate) fn heartbeat(
    context: &RequestContext<'_>,
    member: &Member,
    data: &HeartbeatData,
    retry_topic_missing: impl FnMut(&ConsumerData, i32) -> Option<TopicConfig>,
) -> Result<bool> {
    check_room(context.clients, member, data)?;
    make_missing(context, data, retry_topic_missing)?;
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
    Ok(is_sub_change)
}

/// Makes the heartbeat wait until its new groups and their retry topics are on disk, all stored with one write.
fn make_missing(
    context: &RequestContext<'_>,
    data: &HeartbeatData,
    mut retry_topic_missing: impl FnMut(&ConsumerData, i32) -> Option<TopicConfig>,
) -> Result<()> {
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

/// Removes a connection from these groups.
pub(crate) fn unregister(
    context: &RequestContext<'_>,
    peer_id: u64,
    producer_group: Option<&str>,
    consumer_group: Option<&str>,
) {
    if let Some(group) = producer_group {
        context.clients.leave_producer(group, peer_id);
    }
    if let Some(group) = consumer_group {
        context.announce(context.clients.leave_consumer(group, peer_id).as_slice());
    }
}

/// The client ids of a consumer group, as the encoded body of `GET_CONSUMER_LIST_BY_GROUP`: members of large groups ask so often
/// that the body is kept.
pub(crate) fn consumer_list(clients: &Clients, group: &str) -> Result<Arc<[u8]>> {
    let list = clients.client_list(group);
    list.ok_or_else(|| Refusal::error(format!("no consumer for this group, {group}")))
}

/// Checks the filter of a subscription: its type must be supported, and its expression must be valid. Consumers do not start if it
/// is refused (`ClientManageProcessor.checkClientConfig`).
pub(crate) fn check_client(data: &SubscriptionData, filters_properties: bool) -> Result<()> {
    if !is_tag(&data.expression_type) && !filters_properties {
        let kind = &data.expression_type;
        let remark = format!("The broker does not support consumer to filter message by {kind}");
        return Err(Refusal::error(remark));
    }
    check(&data.expression_type, &data.sub_string)
        .map_err(|remark| Refusal::new(response::SUBSCRIPTION_PARSE_FAILED, remark))
}

/// Returns the connected members of a consumer group and its subscriptions.
pub(crate) fn consumer_connections(clients: &Clients, group: &str) -> Result<ConsumerConnection> {
    let view = clients.consumers(group).ok_or_else(|| {
        let remark = format!("the consumer group[{group}] not online");
        Refusal::new(response::CONSUMER_NOT_ONLINE, remark)
    })?;
    let subscription = |subscription: &Arc<super::Subscription>| {
        let data = subscription.data().clone();
        (data.topic.clone(), data)
    };
    Ok(ConsumerConnection {
        connection_set: view.members.iter().map(Member::connection).collect(),
        consume_from_where: Some(view.consume_from_where),
        consume_type: Some(view.consume_type),
        message_model: Some(view.message_model),
        subscription_table: view.subscriptions.iter().map(subscription).collect(),
    })
}

/// The connected members of a producer group.
pub(crate) fn producer_connections(clients: &Clients, group: &str) -> Result<ProducerConnection> {
    let members = clients
        .producers(group)
        .ok_or_else(|| Refusal::error(format!("the producer group[{group}] not exist")))?;
    Ok(ProducerConnection { connection_set: members.iter().map(Member::connection).collect() })
}

impl RequestContext<'_> {
    fn announce(&self, changes: &[super::Change]) {
        if self.notify {
            notify(self.groups, changes);
        }
    }
}

fn check_room(clients: &Clients, member: &Member, data: &HeartbeatData) -> Result<()> {
    let consumers = data.consumer_data_set.iter().map(|consumer| consumer.group_name.as_str());
    let producers = data.producer_data_set.iter().map(|producer| producer.group_name.as_str());
    names::check_length("client id", &member.client_id, names::CLIENT_ID_BYTES_MAX)?;
    for group in consumers.clone().chain(producers.clone()) {
        names::check_length("group name", group, names::DERIVED_TOPIC_LENGTH_MAX)?;
    }
    if clients.has_room(member.link.id(), consumers, producers) {
        return Ok(());
    }
    let named = data.consumer_data_set.len() + data.producer_data_set.len();
    Err(Refusal::error(format!(
        "the heartbeat of {:?} names {named} groups; one connection may be in {GROUPS_PER_CLIENT_MAX}",
        member.client_id
    )))
}
