//! Queues shared out by the broker: 400 `QUERY_ASSIGNMENT`, 401 `SET_MESSAGE_REQUEST_MODE` and 402 `GET_ALL_MESSAGE_REQUEST_MODE`
//! (`QueryAssignmentProcessor`).
//!
//! A client that does not rebalance by itself asks any broker that has the topic for its queues on all brokers. The name servers
//! know which broker has which queues; their answers are kept for a while ([`routes`]).

mod modes;
mod routes;
mod share;

use std::sync::Arc;

use net::ConnectionHandle;
use wire::body::{
    MessageModel, MessageQueue, QueryAssignmentBody, QueryAssignmentResponseBody, QueueAssignment,
    RequestMode,
};
use wire::codes::response;
use wire::frame::{Command, Encoding, Head};
use wire::json;

use crate::broker::Broker;
use crate::light::is_light;
use crate::pop::settings::Mode;
use crate::{Answer, Refusal, names};
pub(crate) use modes::Modes;
pub(crate) use routes::{Routes, run};

/// A `QUERY_ASSIGNMENT` that waits for the answer of a name server.
pub(crate) struct Question {
    peer: Arc<ConnectionHandle>,
    opaque: i32,
    encoding: Encoding,
    body: QueryAssignmentBody,
}

impl Question {
    /// Answers the request, given the queues of its topic on all brokers.
    fn answer(self, broker: &Broker, queues: Option<&[MessageQueue]>) {
        let body = json::to_vec(&assignments(broker, &self.body, queues));
        let head = Head::response(self.encoding, response::SUCCESS, self.opaque);
        // A client that is gone needs no answer.
        let _ = self.peer.push(|out| head.write(out, &body));
    }
}

/// 400 `QUERY_ASSIGNMENT`: answered at once when the queues of the topic are known, otherwise after asking a name server.
pub(crate) fn query(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    if command.is_one_way() {
        return Ok(());
    }
    let body: QueryAssignmentBody = json::from_slice(command.body)?;
    names::check_length("topic", &body.topic, names::DERIVED_TOPIC_LENGTH_MAX)?;
    let known = if is_light(&body.topic) {
        Some(vec![MessageQueue::new(&*body.topic, &*broker.config.broker_name, 0)])
    } else if broker.config.name_servers().is_empty() {
        own_queues(broker, &body.topic)
    } else {
        let question = || Question {
            peer: peer.clone(),
            opaque: command.opaque,
            encoding: command.encoding,
            body: body.clone(),
        };
        match broker.routes.find(broker, &body.topic) {
            Some(queues) => queues.as_deref().cloned(),
            None => return broker.routes.ask(question()),
        }
    };
    let answer = assignments(broker, &body, known.as_deref());
    Answer::success().body(json::to_vec(&answer)).write(command, out);
    Ok(())
}

/// 402 `GET_ALL_MESSAGE_REQUEST_MODE`: the modes of all groups, as slaves read them.
pub(crate) fn all_modes(broker: &Broker) -> Result<Answer, Refusal> {
    Ok(Answer::success().body(broker.modes.text()))
}

/// 401 `SET_MESSAGE_REQUEST_MODE`: the mode is on disk before the request is answered.
pub(crate) fn set_mode(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let mode: RequestMode = json::from_slice(command.body)?;
    if names::is_retry_topic(&mode.topic) {
        return Err(Refusal::new(response::NO_PERMISSION, "retry topic is not allowed to set mode"));
    }
    if broker.topic(&mode.topic).is_none() {
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, format!("topic[{}] not exist", mode.topic)));
    }
    if broker.group(&mode.consumer_group)?.is_none() {
        let remark = "subscription group does not exist";
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    if !Mode::WORDS.iter().any(|(word, _)| *word == mode.mode) {
        let remark = format!("mode is {:?}, expected PULL or POP", mode.mode);
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    broker.modes.set(mode)?;
    Ok(Answer::success())
}

/// The queues that this broker alone has of a topic.
fn own_queues(broker: &Broker, name: &str) -> Option<Vec<MessageQueue>> {
    let topic = broker.topics.find(name).filter(|topic| topic.is_readable())?;
    let queues = 0..topic.config.read_queue_nums;
    Some(queues.map(|queue_id| MessageQueue::new(name, &*broker.config.broker_name, queue_id)).collect())
}

/// Whether a group pulls or pops a topic, and its pop share count (`MessageRequestModeManager`, `BrokerConfig`).
fn mode_of(broker: &Broker, topic: &str, group: &str) -> (Mode, i32) {
    if let Some(set) = broker.modes.find(topic, group) {
        let mode = Mode::WORDS.iter().find(|(word, _)| *word == set.mode);
        return (mode.map_or(Mode::Pull, |(_, mode)| *mode), set.pop_share_queue_num);
    }
    // The default mode applies to no retry topic: those are always pulled.
    let settings = &broker.config.pop;
    let mode = if names::is_retry_topic(topic) { Mode::Pull } else { settings.default_mode };
    (mode, settings.default_share)
}

fn assignments(
    broker: &Broker,
    body: &QueryAssignmentBody,
    queues: Option<&[MessageQueue]>,
) -> QueryAssignmentResponseBody {
    let (mode, share) = mode_of(broker, &body.topic, &body.consumer_group);
    let mut queues = queues.map(<[_]>::to_vec);
    if body.message_model == MessageModel::Clustering && broker.config.pop.balances {
        let clients: Vec<String> = broker.clients.client_ids(&body.consumer_group);
        let strategy = body.strategy_name.as_deref().and_then(share::Strategy::parse);
        queues = queues.zip(strategy).and_then(|(queues, strategy)| {
            let asked = share::Asked { strategy, client: &body.client_id, clients: &clients, queues };
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
