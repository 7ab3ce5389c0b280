//! What a consumer says about itself.

use crate::operation::Typed;
use crate::request::{Request, body};
use crate::{Arguments, Error, Session, stats};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use wire::body::ConsumerRunningInfo;
use wire::codes::request;
use wire::names::RETRY_PREFIX;

/// A member of a group, as it sees itself.
#[derive(Serialize)]
pub(super) struct Running {
    properties: BTreeMap<String, String>,
    subscriptions: Vec<Subscription>,
    /// State of each queue; times in ms, as the client has them.
    queues: Vec<Map<String, Value>>,
    rates: Vec<Map<String, Value>>,
    /// Thread dump; empty when none was asked for or the client makes none.
    stacks: String,
}

#[derive(Serialize)]
struct Subscription {
    topic: String,
    expression: String,
}

impl Typed for Running {
    fn mqadmin(&self, _: &Arguments) -> String {
        let properties = self.properties.iter().map(|(name, value)| format!("{name:<40}: {value}\n"));
        properties.chain([self.stacks.clone()]).collect()
    }
}

/// The fields of a state with what it is the state of before them.
fn row(subject: Vec<(&str, Value)>, state: Value) -> Map<String, Value> {
    let fields = if let Value::Object(fields) = state { fields } else { Map::new() };
    subject.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(fields).collect()
}

pub(super) async fn running(session: &Session, arguments: &Arguments) -> Result<Running, Error> {
    let (group, client) = (arguments.need("group")?, arguments.need("client")?);
    let brokers = session.brokers_of(&format!("{RETRY_PREFIX}{group}")).await?;
    let missing = || Error::NotFound(format!("no broker has the retry topic of the group {group}"));
    let (_, broker) = brokers.into_iter().next().ok_or_else(missing)?;
    // The broker would wait for an answer of somebody who is not there.
    let members = stats::consumer_connection(session, group, Some(&broker)).await?.connection_set;
    if !members.iter().any(|member| member.client_id == client) {
        return Err(Error::NotFound(format!("{client} is no connected member of {group}")));
    }
    let ask = Request::new(request::GET_CONSUMER_RUNNING_INFO)
        .with("consumerGroup", group)
        .with("clientId", client)
        .with("jstackEnable", arguments.is_on("stacks"));
    let found: ConsumerRunningInfo = body(&broker, &session.look(&broker, &ask).await?)?;
    let queues = found.mq_table.into_iter().chain(found.mq_pop_table).map(|(queue, state)| {
        let place = [("topic", queue.topic.into()), ("broker", queue.broker_name.into())];
        row(place.into_iter().chain([("queue", queue.queue_id.into())]).collect(), state)
    });
    let subscriptions = found.subscription_set.into_iter();
    Ok(Running {
        properties: found.properties,
        subscriptions: subscriptions
            .map(|it| Subscription { topic: it.topic, expression: it.sub_string })
            .collect(),
        queues: queues.collect(),
        rates: found
            .status_table
            .into_iter()
            .map(|(topic, state)| row(vec![("topic", topic.into())], state))
            .collect(),
        stacks: found.jstack.unwrap_or_default(),
    })
}
