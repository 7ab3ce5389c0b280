//! Permissions that calls need (`DefaultAuthorizationContextBuilder.build` for gRPC messages).

use auth::{Action, Actions, AuthError, Permission, Resource as Named};
use grpc::messages::*;

type Result<T> = std::result::Result<T, AuthError>;

const PUB: Actions = Actions::of(&[Action::Pub]);
const SUB: Actions = Actions::of(&[Action::Sub]);
const NO_TOPIC: AuthError = AuthError::Invalid("topic is null.");
const ROUTE: Actions = Actions::of(&[Action::Pub, Action::Sub]);

/// Permissions that a call needs, or the error of determining them.
pub type Needs<'a> = Result<Vec<Permission<'a>>>;

/// A message that begins a call.
pub trait Guarded {
    /// Full name of the message, as white lists write it.
    const NAME: &'static str;

    /// Returns the permissions that the call needs.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] when the message lacks a required name.
    fn needs(&self) -> Needs<'_>;
}

fn topic(resource: &Option<Resource>, actions: Actions) -> Result<Permission<'_>> {
    match name(resource) {
        blank if blank.trim().is_empty() => Err(NO_TOPIC),
        // A retry topic counts as its group, to which every consumer of the group may send.
        topic => {
            let resource = Named::topic(topic);
            let is_group = resource.kind == auth::ResourceType::Group && actions == PUB;
            Ok(Permission::new(resource, if is_group { SUB } else { actions }))
        }
    }
}

fn group(resource: &Option<Resource>) -> Result<Permission<'_>> {
    match name(resource) {
        blank if blank.trim().is_empty() => Err(AuthError::Invalid("group is null.")),
        group => Ok(Permission::new(Named::group(group), SUB)),
    }
}

macro_rules! guarded {
    ($($message:ident = $name:literal: |$request:ident| $needs:expr;)*) => {
        $(impl Guarded for $message {
            const NAME: &'static str = concat!("apache.rocketmq.v2.", $name);

            fn needs(&self) -> Needs<'_> {
                let $request = self;
                Ok($needs)
            }
        })*
    };
}

guarded! {
    QueryRouteRequest = "QueryRouteRequest": |it| vec![topic(&it.topic, ROUTE)?];
    SendMessageRequest = "SendMessageRequest": |it| {
        vec![topic(&it.messages.first().ok_or(AuthError::Invalid("message is null."))?.topic, PUB)?]
    };
    RecallMessageRequest = "RecallMessageRequest": |it| vec![topic(&it.topic, PUB)?];
    EndTransactionRequest = "EndTransactionRequest": |it| vec![topic(&it.topic, PUB)?];
    HeartbeatRequest = "HeartbeatRequest": |it| match it.client_type() {
        ClientType::Unspecified | ClientType::Producer => Vec::new(),
        _ => vec![group(&it.group)?],
    };
    ReceiveMessageRequest = "ReceiveMessageRequest": |it| {
        let queue = it.message_queue.as_ref().ok_or(AuthError::Invalid("messageQueue is null."))?;
        vec![group(&it.group)?, topic(&queue.topic, SUB)?]
    };
    SyncLiteSubscriptionRequest = "SyncLiteSubscriptionRequest": |it| vec![group(&it.group)?, topic(&it.topic, SUB)?];
    AckMessageRequest = "AckMessageRequest": |it| vec![group(&it.group)?, topic(&it.topic, SUB)?];
    ForwardMessageToDeadLetterQueueRequest = "ForwardMessageToDeadLetterQueueRequest":
        |it| vec![group(&it.group)?, topic(&it.topic, SUB)?];
    QueryAssignmentRequest = "QueryAssignmentRequest": |it| vec![group(&it.group)?, topic(&it.topic, SUB)?];
    NotifyClientTerminationRequest = "NotifyClientTerminationRequest": |it| {
        if name(&it.group).trim().is_empty() { Vec::new() } else { vec![group(&it.group)?] }
    };
    ChangeInvisibleDurationRequest = "ChangeInvisibleDurationRequest": |it| vec![group(&it.group)?];
    TelemetryCommand = "TelemetryCommand": |it| match &it.command {
        Some(Command::Settings(settings)) => stated(settings)?,
        _ => Vec::new(),
    };
}

/// Returns the permissions for the settings of a client.
fn stated(settings: &Settings) -> Needs<'_> {
    match &settings.pub_sub {
        Some(PubSub::Publishing(publishing)) => {
            let one = |named: &Resource| (!named.name.trim().is_empty()).then_some(()).ok_or(NO_TOPIC);
            publishing.topics.iter().try_for_each(one)?;
            Ok(publishing
                .topics
                .iter()
                .map(|named| Permission::new(Named::topic(&named.name), PUB))
                .collect())
        }
        Some(PubSub::Subscription(subscription)) => {
            let topics = subscription.subscriptions.iter().map(|entry| topic(&entry.topic, SUB));
            std::iter::once(group(&subscription.group)).chain(topics).collect()
        }
        None => Err(AuthError::Invalid("settings command doesn't have publishing or subscription.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &impl Guarded, expected: &str) {
        let texts = message
            .needs()
            .map(|needs| needs.iter().map(Permission::to_string).collect::<Vec<_>>().join("; "));
        assert_eq!(texts.unwrap_or_else(|error| error.to_string()), expected);
    }

    #[test]
    fn calls_need_what_rocketmq_asks_for_and_name_what_is_missing() {
        let (t, g) = (Some(Resource::named("t")), Some(Resource::named("g")));
        check(&QueryRouteRequest { topic: t.clone(), endpoints: None }, "Topic:t Pub,Sub");
        check(&QueryRouteRequest::default(), "topic is null.");
        check(&SendMessageRequest::default(), "message is null.");
        let message = |name: &str| Message { topic: Some(Resource::named(name)), ..Default::default() };
        check(&SendMessageRequest { messages: vec![message("t")] }, "Topic:t Pub");
        check(&SendMessageRequest { messages: vec![message("%RETRY%g")] }, "Group:g Sub");
        check(&ReceiveMessageRequest { group: g.clone(), ..Default::default() }, "messageQueue is null.");
        let queue = Some(MessageQueue { topic: t.clone(), ..Default::default() });
        let receive = ReceiveMessageRequest { group: g.clone(), message_queue: queue, ..Default::default() };
        check(&receive, "Group:g Sub; Topic:t Sub");
        check(&AckMessageRequest { topic: t.clone(), ..Default::default() }, "group is null.");
        check(&NotifyClientTerminationRequest::default(), "");
        let heartbeat = |kind: ClientType| HeartbeatRequest { group: g.clone(), client_type: kind as i32 };
        check(&heartbeat(ClientType::PushConsumer), "Group:g Sub");
        check(&heartbeat(ClientType::Producer), "");
        let settings = |pub_sub| TelemetryCommand {
            status: None,
            command: Some(Command::Settings(Settings { pub_sub, ..Default::default() })),
        };
        let topics = vec![Resource::named("a"), Resource::named("b")];
        let publishing = Publishing { topics, ..Default::default() };
        check(&settings(Some(PubSub::Publishing(publishing))), "Topic:a Pub; Topic:b Pub");
        let subscriptions = vec![SubscriptionEntry { topic: t, ..Default::default() }];
        let subscription = Subscription { group: g.clone(), subscriptions, ..Default::default() };
        check(&settings(Some(PubSub::Subscription(subscription))), "Group:g Sub; Topic:t Sub");
        check(&settings(None), "settings command doesn't have publishing or subscription.");
    }
}
