//! Queue assignment by the broker (`QueryAssignmentProcessor`).
//!
//! A client that does not rebalance itself asks any broker of the topic for its queues on all brokers. The name
//! servers know the queues of each broker. Their responses are cached for a while ([`routes`]).

mod routes;
mod share;

use wire::body::{
    MessageModel, MessageQueue, QueryAssignmentBody, QueryAssignmentResponseBody, QueueAssignment,
    RequestMode,
};
use wire::codes::response;

use crate::config::Mode;
use crate::parts::{Runtime, Sessions, Tables};
pub(crate) use crate::state::Question;
use crate::state::TopicQueues;
use crate::{Refusal, Result, names, topics};
pub(crate) use routes::run;

/// Answers a question, given the queues of its topic on all brokers.
fn answer(
    tables: &Tables,
    sessions: &Sessions,
    runtime: &Runtime,
    question: Question,
    queues: Option<&TopicQueues>,
) {
    let queues = queues.map(|queues| question.pick(queues));
    (question.later)(&assignments(tables, sessions, runtime, &question.body, queues));
}

/// Returns the queues that a client must consume, or all queues that producers write. `None` if a name server has to be asked
/// first, and then `later` of the question gets the queues.
pub(crate) fn query(
    tables: &Tables,
    sessions: &Sessions,
    runtime: &Runtime,
    question: Question,
) -> Result<Option<QueryAssignmentResponseBody>> {
    let body = &question.body;
    names::check_length("topic", &body.topic, names::DERIVED_TOPIC_LENGTH_MAX)?;
    let known = if names::is_light(&body.topic) {
        Some(vec![MessageQueue::new(&*body.topic, &*runtime.config.broker_name, 0)])
    } else if runtime.config.name_servers().is_empty() {
        own_queues(tables, runtime, &body.topic).map(|queues| question.pick(&queues).to_vec())
    } else {
        match routes::find(tables, runtime, &body.topic) {
            Some(queues) => queues.map(|queues| question.pick(&queues).to_vec()),
            None => {
                tables.routes.ask(question)?;
                return Ok(None);
            }
        }
    };
    Ok(Some(assignments(tables, sessions, runtime, body, known.as_deref())))
}

/// Sets whether a group pulls or pops a topic. The mode is on disk before this function returns.
pub(crate) fn set_mode(tables: &Tables, runtime: &Runtime, mode: RequestMode) -> Result<()> {
    if names::is_retry_topic(&mode.topic) {
        return Err(Refusal::new(response::NO_PERMISSION, "retry topic is not allowed to set mode"));
    }
    if tables.topic(&mode.topic).is_none() {
        return Err(topics::not_exist(&mode.topic));
    }
    if tables.group(&runtime.config, &mode.consumer_group)?.is_none() {
        let remark = "subscription group does not exist";
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    if !Mode::WORDS.iter().any(|(word, _)| *word == mode.mode) {
        let remark = format!("mode is {:?}, expected PULL or POP", mode.mode);
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    Ok(tables.modes.set(mode)?)
}

/// The queues that this broker alone has of a topic.
fn own_queues(tables: &Tables, runtime: &Runtime, name: &str) -> Option<TopicQueues> {
    let topic = tables.topics.find(name).filter(|topic| topic.is_readable())?;
    let queues =
        |count| (0..count).map(|id| MessageQueue::new(name, &*runtime.config.broker_name, id)).collect();
    let (readable, writable) = (topic.config.read_queue_nums, topic.config.write_queue_nums);
    Some(TopicQueues { readable: queues(readable), writable: queues(writable) })
}

/// Whether a group pulls or pops a topic, and its pop share count (`MessageRequestModeManager`, `BrokerConfig`).
fn mode_of(tables: &Tables, runtime: &Runtime, topic: &str, group: &str) -> (Mode, i32) {
    if let Some(set) = tables.modes.find(topic, group) {
        let mode = Mode::WORDS.iter().find(|(word, _)| *word == set.mode);
        return (mode.map_or(Mode::Pull, |(_, mode)| *mode), set.pop_share_queue_num);
    }
    // The default mode applies to no retry topic: those are always pulled.
    let settings = &runtime.config.pop;
    let mode = if names::is_retry_topic(topic) { Mode::Pull } else { settings.default_mode };
    (mode, settings.default_share)
}

fn assignments(
    tables: &Tables,
    sessions: &Sessions,
    runtime: &Runtime,
    body: &QueryAssignmentBody,
    queues: Option<&[MessageQueue]>,
) -> QueryAssignmentResponseBody {
    let (mode, share) = mode_of(tables, runtime, &body.topic, &body.consumer_group);
    let mut queues = queues.map(<[_]>::to_vec);
    if body.message_model == MessageModel::Clustering && runtime.config.pop.balances {
        let clients: Vec<String> = sessions.clients.client_ids(&body.consumer_group);
        let strategy = body.strategy_name.as_deref().and_then(share::Strategy::parse);
        queues = queues.zip(strategy).and_then(|(queues, strategy)| {
            let asked = share::ShareRequest { strategy, client: &body.client_id, clients: &clients, queues };
            match mode {
                Mode::Pull => asked.pull(),
                Mode::Pop => asked.pop(share),
            }
        });
    }
    let assigned = queues.map(|mut queues| {
        queues.sort_unstable();
        queues.dedup();
        let one = |message_queue| QueueAssignment { message_queue, mode: mode.word().to_owned() };
        queues.into_iter().map(one).collect()
    });
    QueryAssignmentResponseBody { message_queue_assignments: assigned }
}

#[cfg(test)]
mod tests;
