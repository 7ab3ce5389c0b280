//! Needs of a remoting request: the permissions of its caller. In Auth 2.0 they follow from the route table
//! (`DefaultAuthorizationContextBuilder`, and the annotations `@RocketMQAction` and `@RocketMQResource` of the
//! request headers). In ACL 1.0 they follow from `PlainAccessResource.parse`.

use auth::{Action, Actions, AuthError, Permission, Resource, ResourceType};
use wire::body::{
    BatchAckBody, LiteSubscriptions, LockBatchBody, QueryAssignmentBody, SubscriptionGroupConfig,
};
use wire::codes::request;
use wire::frame::Command;
use wire::json::{self, JsonError};
use wire::names::RETRY_PREFIX;

use super::incoming::ParsedHeartbeat;
use super::{groups, topics};

/// Parameters for the needs of a request body: the parsed heartbeat of the request, the actions of
/// which the caller must be permitted one, and whether the broker is strict.
#[derive(Clone, Copy)]
pub(super) struct BodyContext<'a> {
    heartbeat: &'a ParsedHeartbeat,
    actions: Actions,
    /// Whether a retry topic needs a permission for its group (`authorizationStrict`). RocketMQ checks no retry topics here.
    is_strict: bool,
}

/// Reads the needs of the resources in a body.
type OfBody = fn(&[u8], BodyContext<'_>) -> Result<Vec<Permission<'static>>, JsonError>;

/// The resources a request is about.
#[derive(Clone, Copy)]
pub(super) enum NeededResources {
    /// The cluster as a whole.
    Cluster,
    /// The resources that these header fields name. An empty or missing field names none. The retry topic of a group counts as the group.
    Fields(&'static [(&'static str, ResourceType)]),
    /// The topic of a send; for the retry topic of a group, its consumption.
    Send,
    /// Group of `consumerGroup`, and topic of `topic` unless it is a retry topic.
    Consumption,
    /// The resources of these kinds that the body names.
    Body(OfBody, &'static [ResourceType]),
}

/// Permissions of an authorized caller: one of the actions on each of the resources.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    pub actions: Actions,
    pub resources: NeededResources,
    /// Whether only `authorizationStrict` demands these permissions, because RocketMQ demands none here.
    pub only_if_strict: bool,
}

impl Needs {
    /// Needs of sends.
    pub const SEND: Self = Self::new(&[Action::Pub], NeededResources::Send);

    const fn new(actions: &[Action], resources: NeededResources) -> Self {
        Self { actions: Actions::of(actions), resources, only_if_strict: false }
    }

    pub const fn fields(actions: &[Action], fields: &'static [(&'static str, ResourceType)]) -> Self {
        Self::new(actions, NeededResources::Fields(fields))
    }

    pub const fn consumption(actions: &[Action]) -> Self {
        Self::new(actions, NeededResources::Consumption)
    }

    pub const fn body(actions: &[Action], kinds: &'static [ResourceType], read: OfBody) -> Self {
        Self::new(actions, NeededResources::Body(read, kinds))
    }

    /// Makes the need of an action on the cluster.
    pub const fn cluster(action: Action) -> Self {
        Self::new(&[action], NeededResources::Cluster)
    }

    pub const fn only_if_strict(self) -> Self {
        Self { only_if_strict: true, ..self }
    }

    /// Returns the needs of a request. RocketMQ asks for nothing when a request has no header field at all.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] for a body that cannot be read.
    pub fn of_request<'a>(
        &self,
        command: &Command<'a>,
        heartbeat: &ParsedHeartbeat,
        cluster: &'a str,
        is_strict: bool,
    ) -> Result<Vec<Permission<'a>>, AuthError> {
        if !is_strict && (self.only_if_strict || command.fields.is_empty()) {
            return Ok(Vec::new());
        }
        let (fields, actions) = (&command.fields, self.actions);
        let field = |name: &str| fields.text(name).filter(|text| !text.trim().is_empty());
        let need = |resource| Permission::new(resource, actions);
        Ok(match self.resources {
            NeededResources::Cluster => vec![need(Resource::cluster(cluster))],
            NeededResources::Fields(named) => {
                let one = |(name, kind): &(&str, ResourceType)| {
                    let separator = if *name == "topicList" { ';' } else { ',' };
                    let is_list = matches!(*name, "topicList" | "filterGroups");
                    let text = field(name).unwrap_or_default();
                    let words = text.split(move |letter| is_list && letter == separator);
                    let words = words.filter(|word| !word.trim().is_empty());
                    let kind = *kind;
                    words.map(move |word| need(resource(kind, word)))
                };
                named.iter().flat_map(one).collect()
            }
            NeededResources::Send => {
                let is_long = matches!(
                    command.code,
                    request::SEND_MESSAGE | request::SEND_REPLY_MESSAGE | request::RECALL_MESSAGE
                );
                field(if is_long { "topic" } else { "b" }).map(send_to).into_iter().collect()
            }
            NeededResources::Consumption => {
                let group = field("consumerGroup").map(Resource::group);
                let topic = field("topic").filter(|topic| is_strict || !topic.starts_with(RETRY_PREFIX));
                topic.map(Resource::topic).into_iter().chain(group).map(need).collect()
            }
            NeededResources::Body(read, _) => {
                read(command.body, BodyContext { heartbeat, actions, is_strict }).map_err(unreadable)?
            }
        })
    }

    /// Returns the needs of a request that names this topic and this group wherever it can, in its header or its body.
    pub fn of_named<'a>(&self, named: Named<'a>, is_strict: bool) -> Vec<Permission<'a>> {
        if !is_strict && self.only_if_strict {
            return Vec::new();
        }
        let is_about = |kind| match self.resources {
            NeededResources::Cluster | NeededResources::Send => false,
            NeededResources::Consumption => true,
            NeededResources::Fields(fields) => fields.iter().any(|(_, found)| *found == kind),
            NeededResources::Body(_, kinds) => kinds.contains(&kind),
        };
        let is_whole = is_strict || matches!(self.resources, NeededResources::Fields(_));
        let topic = named
            .topic
            .filter(|topic| is_about(ResourceType::Topic) && (is_whole || !topic.starts_with(RETRY_PREFIX)));
        let group = named.group.filter(|_| is_about(ResourceType::Group));
        let need = |resource| Permission::new(resource, self.actions);
        match self.resources {
            NeededResources::Cluster => vec![need(Resource::cluster(named.cluster))],
            NeededResources::Send => named.topic.map(send_to).into_iter().collect(),
            _ => topic.map(Resource::topic).into_iter().chain(group.map(Resource::group)).map(need).collect(),
        }
    }
}

/// Demand of ACL 1.0 on the sender of a request (`PlainAccessResource.parse`).
#[derive(Clone, Copy)]
pub(super) enum Plain {
    /// The signature of any account.
    Signature,
    /// The signature of an administrator: the codes of `Permission.ADMIN_CODE`, their forms for many topics or groups,
    /// and requests about rules, users and acls, which 4.9.8 does not have.
    Administrator,
    /// A send to the topic of the first field. A send to a retry topic needs the group of the second field, whatever
    /// the topic says.
    Send(&'static str, &'static str),
    /// The action on each resource that these header fields name.
    Fields(&'static [(&'static str, ResourceType, Action)]),
    /// Subscriptions of the groups of a heartbeat and of their topics.
    Heartbeat,
}

impl Plain {
    /// Returns the permissions that the sender of a request needs. Empty for a demand of another kind.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] for a body that cannot be read.
    pub fn of_request<'a>(
        self,
        command: &Command<'a>,
        parsed: &ParsedHeartbeat,
    ) -> Result<Vec<Permission<'a>>, AuthError> {
        let text = |name: &str| command.fields.text(name).unwrap_or_default();
        let need = |name, kind, action| {
            let resource = resource(kind, text(name));
            Permission::new(resource, Actions::of(&[action]))
        };
        Ok(match self {
            Self::Signature | Self::Administrator => Vec::new(),
            Self::Send(topic, producer) if text(topic).starts_with(RETRY_PREFIX) => {
                vec![need(producer, ResourceType::Group, Action::Sub)]
            }
            Self::Send(topic, _) => vec![need(topic, ResourceType::Topic, Action::Pub)],
            Self::Fields(fields) => {
                fields.iter().map(|(name, kind, action)| need(name, *kind, *action)).collect()
            }
            Self::Heartbeat => {
                let actions = Actions::of(&[Action::Sub]);
                let context = BodyContext { heartbeat: parsed, actions, is_strict: false };
                heartbeat(command.body, context).map_err(unreadable)?
            }
        })
    }
}

/// Returns the need of a send to a topic.
fn send_to(topic: &str) -> Permission<'_> {
    let action = if topic.starts_with(RETRY_PREFIX) { Action::Sub } else { Action::Pub };
    Permission::new(Resource::topic(topic), Actions::of(&[action]))
}

fn resource(kind: ResourceType, name: &str) -> Resource<'_> {
    if kind == ResourceType::Group { Resource::group(name) } else { Resource::topic(name) }
}

/// Needs of a request whose code is not in the route table: permission to change the cluster, in strict mode.
pub(super) static UNKNOWN: Needs = Needs::cluster(Action::Update).only_if_strict();

/// Names in a hypothetical request, for explaining decisions.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The topic of the request.
    pub topic: Option<&'a str>,
    /// The consumer group of the request.
    pub group: Option<&'a str>,
    /// `brokerClusterName` of the broker.
    pub cluster: &'a str,
}

fn unreadable(_: JsonError) -> AuthError {
    AuthError::Invalid("parse authorization context error.")
}

fn owned<'a>(
    resources: impl IntoIterator<Item = Resource<'a>>,
    context: BodyContext<'_>,
) -> Result<Vec<Permission<'static>>, JsonError> {
    Ok(resources
        .into_iter()
        .map(|resource| Permission::new(resource.into_owned(), context.actions))
        .collect())
}

/// Returns a group and its topics. The retry topic counts as the group itself.
fn consumption<'a>(
    group: &'a str,
    topics: impl Iterator<Item = &'a str>,
    context: BodyContext<'a>,
) -> impl Iterator<Item = Resource<'a>> {
    let topics = topics.filter(move |topic| context.is_strict || !topic.starts_with(RETRY_PREFIX));
    std::iter::once(Resource::group(group)).chain(topics.map(Resource::topic))
}

/// Returns the needs of a heartbeat: the groups of its consumers and their topics. Producers need no permission.
pub(super) fn heartbeat(
    body: &[u8],
    context: BodyContext<'_>,
) -> Result<Vec<Permission<'static>>, JsonError> {
    let body = context.heartbeat.parse(body)?;
    let one = |consumer: &wire::body::ConsumerData| {
        let topics = consumer.subscription_data_set.iter().map(|it| it.topic.as_str());
        owned(consumption(&consumer.group_name, topics, context), context)
    };
    body.consumer_data_set.iter().map(one).collect::<Result<Vec<_>, _>>().map(|all| all.concat())
}

/// The group that locks or unlocks queues, and their topics.
pub(super) fn locks(body: &[u8], context: BodyContext<'_>) -> Result<Vec<Permission<'static>>, JsonError> {
    let body: LockBatchBody = json::from_request(body)?;
    let mut topics: Vec<_> = body.mq_set.iter().map(|queue| queue.topic.as_str()).collect();
    topics.sort_unstable();
    topics.dedup();
    owned(consumption(&body.consumer_group, topics.into_iter(), context), context)
}

/// Returns the needs of changes of lite topics: their groups and parent topics.
pub(super) fn lite(body: &[u8], context: BodyContext<'_>) -> Result<Vec<Permission<'static>>, JsonError> {
    let body: LiteSubscriptions = json::from_request(body)?;
    let mut needs = Vec::new();
    for change in &body.subscription_set {
        needs.extend(owned(
            consumption(&change.group, std::iter::once(change.topic.as_str()), context),
            context,
        )?);
    }
    Ok(needs)
}

/// Returns the needs of an assignment: the group and the topic of the queues.
pub(super) fn assignment(
    body: &[u8],
    context: BodyContext<'_>,
) -> Result<Vec<Permission<'static>>, JsonError> {
    let body: QueryAssignmentBody = json::from_request(body)?;
    owned(consumption(&body.consumer_group, std::iter::once(body.topic.as_str()), context), context)
}

/// The groups and topics of a batch of acknowledgements.
pub(super) fn acks(body: &[u8], context: BodyContext<'_>) -> Result<Vec<Permission<'static>>, JsonError> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let body: BatchAckBody = json::from_request(body)?;
    let mut acked: Vec<_> =
        body.acks.iter().map(|ack| (ack.consumer_group.as_str(), ack.topic.as_str())).collect();
    acked.sort_unstable();
    acked.dedup();
    owned(
        acked.into_iter().flat_map(|(group, topic)| consumption(group, std::iter::once(topic), context)),
        context,
    )
}

/// The topics of a list.
pub(super) fn topics(body: &[u8], context: BodyContext<'_>) -> Result<Vec<Permission<'static>>, JsonError> {
    let body: topics::Topics = json::from_request(body)?;
    owned(body.topic_config_list.iter().map(|topic| Resource::topic(&topic.topic_name)), context)
}

/// Returns the need of a group. A request without a body changes nothing and needs no permission.
pub(super) fn group(body: &[u8], context: BodyContext<'_>) -> Result<Vec<Permission<'static>>, JsonError> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let body: SubscriptionGroupConfig = json::from_request(body)?;
    owned([Resource::group(body.group_name.as_deref().unwrap_or_default())], context)
}

/// The groups of a list.
pub(super) fn groups(body: &[u8], context: BodyContext<'_>) -> Result<Vec<Permission<'static>>, JsonError> {
    let body: groups::Groups = json::from_request(body)?;
    let name = |group: &SubscriptionGroupConfig| group.group_name.clone().unwrap_or_default();
    let names: Vec<_> = body.group_config_list.iter().map(name).collect();
    owned(names.iter().map(|name| Resource::group(name)), context)
}
