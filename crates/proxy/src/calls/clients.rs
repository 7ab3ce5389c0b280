//! Clients that stay and clients that go: Heartbeat and NotifyClientTermination (`ClientActivity`).

use std::sync::Arc;

use broker::api::Member;
use grpc::messages::{
    ClientType, Code, FilterType, HeartbeatRequest, HeartbeatResponse, NotifyClientTerminationRequest,
    NotifyClientTerminationResponse, PubSub, ReceiveMessageRequest, Settings, Status, Subscription,
    SubscriptionEntry, name,
};
use wire::body::{ConsumeFromWhere, ConsumeType, MessageModel};
use wire::body::{ConsumerData, HeartbeatData, ProducerData, SubscriptionData};
use wire::codes::VERSION;
use wire::hash::java_hash;

use super::{Call, group_missing, lite};
use crate::checks;
use crate::failure::{Failure, Result};
use crate::registry::{Client, ClientSettings};
use crate::settings;

/// A client and the settings that it sent.
pub type KnownClient = (Arc<Client>, Arc<ClientSettings>);

fn unrecognized() -> Failure {
    Failure::new(Code::UnrecognizedClientType, "cannot find client settings for this client")
}

/// Returns the client of a call and its settings.
///
/// # Errors
/// `UNRECOGNIZED_CLIENT_TYPE` for a client that sent no settings, `UNAUTHORIZED` for the client of another user.
pub fn known(call: &Call) -> Result<KnownClient> {
    let client = call.proxy.registry.find(&call.client_id).ok_or_else(unrecognized)?;
    client.check_user(&call.caller.user)?;
    let stated = client.stated().ok_or_else(unrecognized)?;
    Ok((client, stated))
}

/// The client of a call that did not send its settings here. Behind a load balancer, another server may have the settings.
pub(super) fn entered(call: &Call) -> Result<Arc<Client>> {
    let client = call.proxy.registry.enter(&call.client_id, &call.caller)?;
    client.note_activity(call.proxy.brokers.now_ms());
    Ok(client)
}

/// The client of a receive that did not send its settings here, with the settings that the receive and its group imply.
///
/// # Errors
/// `UNRECOGNIZED_CLIENT_TYPE` when there is no such group, `UNAUTHORIZED` for the client of another user.
pub async fn implied(call: &Call, request: &ReceiveMessageRequest) -> Result<KnownClient> {
    checks::group(name(&request.group)).map_err(|_| unrecognized())?;
    let group = call.proxy.brokers.group(name(&request.group)).await?.ok_or_else(unrecognized)?;
    let kind = match (lite::bound_topic(&group), request.auto_renew) {
        (None, true) => ClientType::PushConsumer,
        (None, false) => ClientType::SimpleConsumer,
        (Some(_), true) => ClientType::LitePushConsumer,
        (Some(_), false) => ClientType::LiteSimpleConsumer,
    };
    let subscription = Subscription { group: request.group.clone(), ..Default::default() };
    let implied = Settings {
        client_type: Some(kind.into()),
        pub_sub: Some(PubSub::Subscription(subscription)),
        ..Default::default()
    };
    let implied = settings::of_consumer(&call.proxy.config, implied, &group);
    Ok((entered(call)?, Arc::new(ClientSettings { settings: implied, at_ms: 0 })))
}

/// Heartbeat.
pub async fn heartbeat(call: Call, request: HeartbeatRequest) -> Result<HeartbeatResponse> {
    let done = HeartbeatResponse { status: Some(Status::ok()) };
    let (client, stated) = match known(&call) {
        Err(failure) if failure.code == Code::UnrecognizedClientType => {
            let heard = call.proxy.brokers.record_remote_heartbeat(name(&request.group), &call.client_id);
            return if heard.await { entered(&call).map(|_| done) } else { Err(failure) };
        }
        known => known?,
    };
    if let Some(PubSub::Subscription(_)) = &stated.settings.pub_sub {
        checks::group(name(&request.group))?;
    }
    register(&call, &client, &stated).await?;
    Ok(done)
}

/// NotifyClientTermination.
pub async fn terminate(
    call: Call,
    request: NotifyClientTerminationRequest,
) -> Result<NotifyClientTerminationResponse> {
    let done = NotifyClientTerminationResponse { status: Some(Status::ok()) };
    let (client, stated) = match known(&call) {
        Err(failure) if failure.code == Code::UnrecognizedClientType => {
            let client = entered(&call)?;
            let was_known = call.proxy.brokers.remove_remote_consumer(name(&request.group), &client);
            call.proxy.registry.remove(&client);
            call.proxy.renewals.given_back.notify_one();
            return if was_known { Ok(done) } else { Err(failure) };
        }
        known => known?,
    };
    if let Some(PubSub::Subscription(subscription)) = &stated.settings.pub_sub {
        let (expected, found) = (name(&subscription.group), name(&request.group));
        checks::group(found)?;
        if found != expected {
            let text = format!("expected the group {expected} of the client's settings, found {found}");
            return Err(Failure::new(Code::IllegalConsumerGroup, text));
        }
    }
    call.proxy.brokers.closed(&client);
    call.proxy.registry.remove(&client);
    // The client's messages are given back at once.
    call.proxy.renewals.given_back.notify_one();
    // Last, because it waits for brokers.
    lite::unsubscribe(&call.proxy.brokers, &client).await;
    Ok(done)
}

/// Registers a client with the broker by its settings.
///
/// # Errors
/// The refusal of the broker. `ILLEGAL_CONSUMER_GROUP` for a group that does not exist and may not be created. The
/// errors of [`lite::check_member`].
pub async fn register(call: &Call, client: &Arc<Client>, stated: &ClientSettings) -> Result<()> {
    let brokers = &call.proxy.brokers;
    let now_ms = brokers.now_ms();
    client.note_activity(now_ms);
    let data = heartbeat_data(&client.id, stated)?;
    for consumer in &data.consumer_data_set {
        lite::check_member(call, consumer).await?;
    }
    let member = Member {
        client_id: client.id.clone(),
        language: call.language,
        version: VERSION,
        link: client.clone(),
        seen_ms: now_ms,
    };
    brokers.heartbeat((&member, stated), &data).await?;
    for consumer in &data.consumer_data_set {
        let group = &consumer.group_name;
        if brokers.group(group).await?.is_none() {
            return Err(group_missing(group));
        }
    }
    Ok(())
}

fn heartbeat_data(client_id: &str, stated: &ClientSettings) -> Result<HeartbeatData> {
    let mut data = HeartbeatData { client_id: client_id.to_owned(), ..Default::default() };
    match &stated.settings.pub_sub {
        Some(PubSub::Publishing(publishing)) => {
            // The producer group of a topic has the topic's name.
            let groups =
                publishing.topics.iter().map(|topic| ProducerData { group_name: topic.name.clone() });
            data.producer_data_set = groups.collect();
        }
        Some(PubSub::Subscription(subscription)) => {
            data.consumer_data_set = vec![consumer(&stated.settings, subscription, stated.at_ms)?];
        }
        None => {}
    }
    Ok(data)
}

fn consumer(settings: &Settings, subscription: &Subscription, version: i64) -> Result<ConsumerData> {
    let kind = settings.client_type.and_then(|kind| ClientType::try_from(kind).ok());
    let (consume_type, message_model) = match kind {
        Some(ClientType::SimpleConsumer) => (ConsumeType::ConsumeActively, MessageModel::Clustering),
        Some(ClientType::PushConsumer) => (ConsumeType::ConsumePassively, MessageModel::Clustering),
        Some(ClientType::LitePushConsumer) => (ConsumeType::ConsumePassively, MessageModel::LiteSelective),
        Some(ClientType::LiteSimpleConsumer) => (ConsumeType::ConsumeActively, MessageModel::LiteSelective),
        kind => {
            let text = format!("{:?} is not served", kind.unwrap_or(ClientType::Unspecified));
            return Err(Failure::new(Code::UnrecognizedClientType, text));
        }
    };
    Ok(ConsumerData {
        consume_from_where: ConsumeFromWhere::ConsumeFromLastOffset,
        consume_type,
        group_name: name(&subscription.group).to_owned(),
        message_model,
        subscription_data_set: subscription.subscriptions.iter().map(|it| data(it, version)).collect(),
        unit_mode: false,
    })
}

fn data(entry: &SubscriptionEntry, version: i64) -> SubscriptionData {
    let filter = entry.expression.clone().unwrap_or_default();
    let is_sql = filter.r#type == FilterType::Sql as i32;
    let expression = if filter.expression.is_empty() { "*".to_owned() } else { filter.expression };
    let tags = expression.split("||").map(str::trim).filter(|tag| !tag.is_empty() && *tag != "*" && !is_sql);
    let tags: std::collections::BTreeSet<String> = tags.map(str::to_owned).collect();
    SubscriptionData {
        topic: name(&entry.topic).to_owned(),
        expression_type: if is_sql { "SQL92" } else { "TAG" }.to_owned(),
        code_set: tags.iter().map(|tag| java_hash(tag)).collect(),
        tags_set: tags,
        sub_string: expression,
        sub_version: version,
        ..SubscriptionData::default()
    }
}
