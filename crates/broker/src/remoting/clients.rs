//! Requests by clients and about them: 34, 35, 41, 42, 46, 204, 328, 345 and 400 (`ClientManageProcessor`, `ConsumerManageProcessor`,
//! `AdminBrokerProcessor`, `QueryAssignmentProcessor`).

use std::collections::BTreeMap;

use serde_json::json;
use wire::body::{CheckClientBody, LockBatchBody, LockBatchResponseBody, QuerySubscription};

use super::answer::Answer;
use super::codec::{done, json, strict_json};
use super::incoming::Request;
use crate::clients::{self, Member, RequestContext};
use crate::{Result, assign, locks, names};

fn context<'a>(r: &Request<'a>) -> RequestContext<'a> {
    let broker = r.broker;
    RequestContext {
        clients: &broker.sessions.clients,
        groups: &broker.tables.groups,
        auto_create_groups: broker.runtime.config.auto_create_subscription_group,
        notify: broker.runtime.config.notify_consumer_ids_changed_enable,
    }
}

/// 34 `HEART_BEAT`, with and without subscriptions.
pub(super) fn heartbeat(r: &Request<'_>) -> Result<Answer> {
    let (broker, command) = (r.broker, r.command);
    let data = r.heartbeat.parse(command.body)?;
    let member = Member {
        client_id: data.client_id.clone(),
        language: command.language,
        version: command.version,
        link: super::link::link(r.peer),
        seen_ms: broker.runtime.now_ms(),
    };
    let is_sub_change = clients::heartbeat(&context(r), &member, data, |consumer, queues| {
        // A light group has no retry topic.
        let is_light = broker.runtime.config.store.multi_dispatch && names::is_light(&consumer.group_name);
        if is_light { None } else { broker.tables.retry_topic_missing(&consumer.group_name, queues) }
    })?;
    Ok(Answer::success().field("IS_SUPPORT_HEART_BEAT_V2", true).field("IS_SUB_CHANGE", is_sub_change))
}

/// 35 `UNREGISTER_CLIENT`.
pub(super) fn unregister(r: &Request<'_>) -> Result<Answer> {
    clients::unregister(&context(r), r.peer.id(), r.text("producerGroup"), r.text("consumerGroup"));
    Ok(Answer::success())
}

/// 41 `LOCK_BATCH_MQ`. Every queue is on this broker alone, so `onlyThisBroker` makes no difference.
pub(super) fn lock(r: &Request<'_>) -> Result<Answer> {
    let held = locks::lock(&r.broker.tables.locks, r.body()?, r.broker.runtime.now_ms())?;
    Ok(json(LockBatchResponseBody { lock_ok_mq_set: held }))
}

/// 42 `UNLOCK_BATCH_MQ`.
pub(super) fn unlock(r: &Request<'_>) -> Result<Answer> {
    let body: LockBatchBody = r.body()?;
    r.broker.tables.locks.unlock(&body.consumer_group, &body.client_id, &body.mq_set);
    Ok(Answer::success())
}

/// 46 `CHECK_CLIENT_CONFIG`: succeeds without a body.
pub(super) fn check(r: &Request<'_>) -> Result<Answer> {
    let body: CheckClientBody = r.body_if()?.unwrap_or_default();
    clients::check_client(&body.subscription_data, r.broker.runtime.config.enable_property_filter).map(done)
}

/// 328 `GET_ALL_PRODUCER_INFO`.
pub(super) fn all_producers(r: &Request<'_>) -> Result<Answer> {
    let row = |member: &Member| {
        let connection = member.connection();
        json!({
            "clientId": connection.client_id,
            "language": connection.language,
            "lastUpdateTimestamp": member.seen_ms,
            // With the slash that Java writes before an address.
            "remoteIP": format!("/{}", connection.client_addr),
            "version": connection.version,
        })
    };
    let rows = |members: Vec<Member>| members.iter().map(row).collect::<Vec<_>>();
    let groups = r.broker.sessions.clients.all_producers().into_iter();
    let data: BTreeMap<String, _> = groups.map(|(group, members)| (group, rows(members))).collect();
    Ok(strict_json(json!({ "data": data })))
}

/// 345 `QUERY_SUBSCRIPTION_BY_CONSUMER`: the subscription of a group to a topic; an empty body when the group is not online or
/// does not subscribe.
pub(super) fn subscription(r: &Request<'_>) -> Result<Answer> {
    let (group, topic) = (r.need("group")?, r.need("topic")?);
    let found = r.broker.sessions.clients.subscription(group, topic);
    Ok(json(QuerySubscription {
        group: group.to_owned(),
        subscription_data: found.map(|subscription| subscription.data().clone()),
        topic: topic.to_owned(),
    }))
}

/// 400 `QUERY_ASSIGNMENT`: answered at once if the queues of the topic are known, otherwise after a query of a name
/// server.
pub(super) fn assignment(r: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    if r.command.is_one_way() {
        return Ok(());
    }
    let reply = r.late_reply();
    let later = Box::new(move |found: &_| reply.success(None, &wire::json::to_vec(found)));
    let question = assign::Question { body: r.body()?, is_for_sends: false, later };
    if let Some(found) = assign::query(&r.broker.tables, &r.broker.sessions, &r.broker.runtime, question)? {
        json(found).write(r.command, out);
    }
    Ok(())
}
