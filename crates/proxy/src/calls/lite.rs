//! Lite topics: SyncLiteSubscription, and the lite topics of consumers (`ClientActivity`, `ClientProcessor`,
//! `GrpcClientSettingsManager`). Brokers store them. This server passes changes on to the brokers.

use std::sync::{Arc, Mutex, PoisonError};

use broker::api::ClientLink;
use grpc::messages::{
    Code, LiteSubscriptionAction as Action, OffsetOption, OffsetType, PubSub, Status,
    SyncLiteSubscriptionRequest, SyncLiteSubscriptionResponse, name,
};
use wire::body::{
    ConsumerData, LiteOffset, LiteOffsetType, LiteSubscription, LiteSubscriptionAction, MessageModel,
    SubscriptionGroupConfig,
};

use super::{Call, clients, group_missing, topic_missing};
use crate::brokers::Brokers;
use crate::checks;
use crate::failure::Failure;
use crate::registry::Client;
use crate::settings::{is_lite, lite_quota};

/// Text for clients of lite topics on a server without lite topics.
const NOT_SERVED: &str = "lite topics are not served by this server";

/// Lite topics of a request above the quota of its client that are still let through.
const QUOTA_BUFFER: usize = 300;

/// Additions of lite topics in the current second.
#[derive(Default)]
pub struct Additions(Mutex<(i64, u32)>);

impl Additions {
    /// Counts an addition. Returns whether there were at most `count_max` additions in this second.
    fn count(&self, now_ms: i64, count_max: u32) -> bool {
        let mut additions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if additions.0 != now_ms / 1000 {
            *additions = (now_ms / 1000, 0);
        }
        additions.1 = additions.1.saturating_add(1);
        additions.1 <= count_max
    }
}

/// SyncLiteSubscription: changes the lite topics that a client consumes, at every broker of their topic.
pub async fn sync_lite(
    call: Call,
    request: SyncLiteSubscriptionRequest,
) -> Result<SyncLiteSubscriptionResponse, Failure> {
    let brokers = &call.proxy.brokers;
    let (topic, group) = (name(&request.topic), name(&request.group));
    checks::topic(topic)?;
    checks::group(group)?;
    let unknown =
        |_| Failure::new(Code::BadRequest, format!("unknown LiteSubscriptionAction {}", request.action));
    let action = Action::try_from(request.action).map_err(unknown)?;
    let is_addition = action == Action::PartialAdd;
    if is_addition {
        request.lite_topic_set.iter().try_for_each(|topic| checks::lite_topic(topic))?;
    }
    let client = clients::entered(&call)?;
    let link: Arc<dyn ClientLink> = client.clone();
    let known = brokers.topic(topic).await?.ok_or_else(|| topic_missing(topic))?;
    if !brokers.serves_lite(Some(&known)).await {
        return Err(not_served(Code::Unsupported));
    }
    let subscription = LiteSubscription {
        action: match action {
            Action::PartialAdd => LiteSubscriptionAction::PartialAdd,
            Action::PartialRemove => LiteSubscriptionAction::PartialRemove,
            Action::CompleteAdd => LiteSubscriptionAction::CompleteAdd,
            Action::CompleteRemove => LiteSubscriptionAction::CompleteRemove,
        },
        client_id: call.client_id.clone(),
        group: group.to_owned(),
        lite_topic_set: request.lite_topic_set.iter().cloned().collect(),
        offset_option: request.offset_option.filter(|_| is_addition).map(offset).transpose()?,
        topic: topic.to_owned(),
        version: request.version(),
    };
    let config = brokers.group(group).await?.ok_or_else(|| group_missing(group))?;
    check_bound((&config, group), topic)?;
    let quota = lite_quota(&config);
    if subscription.lite_topic_set.len() > usize::try_from(quota).unwrap_or(0) + QUOTA_BUFFER {
        let text = format!("lite subscription quota exceeded: {quota}");
        return Err(Failure::new(Code::LiteSubscriptionQuotaExceeded, text));
    }
    let additions_max = call.proxy.config.lite_additions_max;
    if is_addition && !call.proxy.lite_additions.count(brokers.now_ms(), additions_max) {
        let (client_id, what) = (&call.client_id, "Too many syncLiteSubscription requests");
        let text = format!("{what}, topic={topic}, group={group}, clientId={client_id}");
        return Err(Failure::new(Code::TooManyRequests, text));
    }
    // An addition that is refused is not in the client's own list. Other changes hold even if a broker is not reachable.
    let change = subscription.clone();
    let _sending = client.subscribed.begin().await;
    if !is_addition {
        client.subscribed.apply(&change);
    }
    brokers.subscribe_lite(&link, &known, subscription).await?;
    if is_addition {
        client.subscribed.apply(&change);
    }
    Ok(SyncLiteSubscriptionResponse { status: Some(Status::ok()) })
}

fn not_served(code: Code) -> Failure {
    Failure::new(code, NOT_SERVED)
}

/// Converts the start position in an added topic.
fn offset(option: OffsetOption) -> Result<LiteOffset, Failure> {
    let missing =
        || Failure::new(Code::BadRequest, "expected an offset type in the offset option, found none");
    let (r#type, value) = match option.offset_type.ok_or_else(missing)? {
        OffsetType::Policy(policy) => (LiteOffsetType::Policy, i64::from(policy)),
        OffsetType::Offset(offset) => (LiteOffsetType::Offset, offset),
        OffsetType::TailN(count) => (LiteOffsetType::TailN, count),
        OffsetType::Timestamp(ms) => (LiteOffsetType::Timestamp, ms),
    };
    Ok(LiteOffset { r#type, value })
}

/// Returns the topic whose lite topics a group consumes, or `None` for a group of another kind.
pub fn bound_topic(group: &SubscriptionGroupConfig) -> Option<&str> {
    group.attributes.get("lite.bind.topic").map(String::as_str).filter(|topic| !topic.is_empty())
}

/// Checks that a group consumes the lite topics of this topic.
fn check_bound((config, group): (&SubscriptionGroupConfig, &str), topic: &str) -> Result<(), Failure> {
    let bound = bound_topic(config);
    if bound == Some(topic) {
        return Ok(());
    }
    let expected = bound.unwrap_or("null");
    let text = format!("lite group {group} is expected to bind topic {expected}, but actual is {topic}");
    Err(Failure::new(Code::IllegalTopic, text))
}

/// Checks that lite consumers are members of lite groups only, and other consumers of other groups.
///
/// # Errors
/// `UNRECOGNIZED_CLIENT_TYPE` for a lite consumer on a server without lite topics. `ILLEGAL_CONSUMER_GROUP` for a
/// group of the other kind, and `ILLEGAL_TOPIC` for another topic than the group's.
pub async fn check_member(call: &Call, consumer: &ConsumerData) -> Result<(), Failure> {
    let (is_lite, brokers) = (consumer.message_model == MessageModel::LiteSelective, &call.proxy.brokers);
    let topic = consumer.subscription_data_set.first().map(|it| it.topic.as_str());
    if is_lite {
        let known = match topic {
            Some(topic) => brokers.topic(topic).await?,
            None => None,
        };
        if !brokers.serves_lite(known.as_deref()).await {
            return Err(not_served(Code::UnrecognizedClientType));
        }
    }
    let group = &consumer.group_name;
    let config = match brokers.group(group).await? {
        Some(config) => config,
        // The heartbeat creates the group.
        None if matches!(brokers, Brokers::Local(_)) && !is_lite => return Ok(()),
        None => return Err(group_missing(group)),
    };
    let text = match (bound_topic(&config), is_lite) {
        (None, true) => format!("regular group cannot use LITE mode: {group}"),
        (Some(_), false) => format!("lite group must use LITE mode: {group}"),
        (Some(_), true) => return topic.map_or(Ok(()), |topic| check_bound((&config, group), topic)),
        (None, false) => return Ok(()),
    };
    Err(Failure::new(Code::IllegalConsumerGroup, text))
}

/// Checks that a client may receive further messages of lite topics.
///
/// # Errors
/// `FORBIDDEN` when the client has too many unacknowledged messages.
pub fn check_unacked(call: &Call, client: &Client) -> Result<(), Failure> {
    let count = call.proxy.renewals.unacked(client);
    if count <= call.proxy.config.lite_unacked_max {
        return Ok(());
    }
    let text = format!("The client [{}] has too many unacked messages. Unacked count: {count}", client.id);
    Err(Failure::new(Code::Forbidden, text))
}

/// Takes away all lite topics of a client that is gone. A broker does the same itself three minutes after it heard of the client.
pub async fn unsubscribe(brokers: &Brokers, client: &Arc<Client>) {
    let Some(stated) = client.stated() else { return };
    let Some(PubSub::Subscription(subscription)) = &stated.settings.pub_sub else { return };
    if !is_lite(&stated.settings) {
        return;
    }
    let topic = subscription.subscriptions.first().map(|entry| name(&entry.topic)).unwrap_or_default();
    let Ok(Some(known)) = brokers.topic(topic).await else { return };
    let subscription = LiteSubscription {
        action: LiteSubscriptionAction::CompleteRemove,
        client_id: client.id.clone(),
        group: name(&subscription.group).to_owned(),
        topic: topic.to_owned(),
        ..LiteSubscription::default()
    };
    let _sending = client.subscribed.begin().await;
    client.subscribed.apply(&subscription);
    let link: Arc<dyn ClientLink> = client.clone();
    if let Err(failure) = brokers.subscribe_lite(&link, &known, subscription).await {
        tracing::warn!(
            topic,
            client = client.id,
            ?failure,
            "lite topics of a client that is gone keep it for a while"
        );
    }
}

#[cfg(test)]
mod tests;
