//! Queues of topics on all brokers, from name servers (`TopicRouteInfoManager`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use net::{ConnectionHandle, Workers};
use wire::body::topic::{PERM_READ, PERM_WRITE};
use wire::body::{MessageQueue, QueueData, TopicRouteData};
use wire::codes::{request, response};
use wire::frame::FrameWriter;

use crate::parts::{Runtime, Sessions, Tables};
use crate::register::Silent;
use crate::state::{Queues, TopicQueues};

/// Timeout of a name server's response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the cached queues of a topic if they are not too old. `None` if a name server must be asked first.
pub(super) fn find(tables: &Tables, runtime: &Runtime, topic: &str) -> Option<Queues> {
    tables.routes.find(topic, runtime.now_ms(), tables.topics.generation())
}

/// Answers the waiting requests until the broker's tasks end.
pub(crate) async fn run(tables: &Tables, sessions: &Sessions, runtime: &Runtime, workers: Workers) {
    let Some(mut waiting) = tables.routes.take_questions() else { return };
    let mut peers = HashMap::new();
    while let Some(question) = waiting.recv().await {
        let topic = &question.body.topic;
        let queues = match find(tables, runtime, topic) {
            Some(queues) => queues,
            None => match fetch(sessions, runtime, &workers, &mut peers, topic).await {
                Ok(queues) => {
                    tables.routes.keep(topic, runtime.now_ms(), tables.topics.generation(), queues.clone());
                    queues
                }
                // No name server gave a route: what was known last counts, and without that the client keeps the queues it has.
                Err(NoRoute { is_answered }) => {
                    if !is_answered {
                        tables.routes.no_answer(runtime.now_ms());
                    }
                    find(tables, runtime, topic).flatten()
                }
            },
        };
        super::answer(tables, sessions, runtime, question, queues.as_deref());
    }
}

/// A topic's route could not be had.
struct NoRoute {
    /// Whether a name server responded, but without a route.
    is_answered: bool,
}

/// Asks the name servers one after the other for a topic's route.
async fn fetch(
    sessions: &Sessions,
    runtime: &Runtime,
    workers: &Workers,
    peers: &mut HashMap<String, Arc<ConnectionHandle>>,
    topic: &str,
) -> Result<Queues, NoRoute> {
    let mut is_answered = false;
    for name_server in runtime.config.name_servers() {
        let peer = match peers.get(&name_server).filter(|peer| !peer.is_closed()) {
            Some(peer) => peer.clone(),
            None => match workers.dial_name(&name_server, Arc::new(Silent)).await {
                Ok(peer) => peers.entry(name_server.clone()).insert_entry(peer).get().clone(),
                Err(error) => {
                    tracing::warn!(%name_server, %error, "the name server cannot be asked for the queues of a topic");
                    continue;
                }
            },
        };
        let write = |writer: FrameWriter<'_>| writer.text("topic", topic).finish(b"");
        match sessions.call(&peer, request::GET_ROUTEINFO_BY_TOPIC, ANSWER_TIMEOUT, write).await {
            Ok(reply) if reply.code == response::SUCCESS => {
                is_answered = true;
                match TopicRouteData::decode(&reply.body) {
                    Ok(route) => return Ok(Some(Arc::new(queues_of(topic, &route)))),
                    Err(error) => tracing::warn!(%name_server, topic, %error, "a route cannot be read"),
                }
            }
            Ok(reply) if reply.code == response::TOPIC_NOT_EXIST => return Ok(None),
            Ok(reply) => {
                is_answered = true;
                tracing::warn!(%name_server, topic, code = reply.code, "a route is refused");
            }
            Err(error) => tracing::warn!(%name_server, topic, %error, "a route does not come"),
        }
    }
    Err(NoRoute { is_answered })
}

/// The queues of a route (`MQClientInstance.topicRouteData2TopicSubscribeInfo`, `topicRouteData2TopicPublishInfo`). Producers
/// write only queues of brokers that have a master.
pub(super) fn queues_of(topic: &str, route: &TopicRouteData) -> TopicQueues {
    let queues = |data: &QueueData, count| {
        let broker = data.broker_name.clone();
        (0..count).map(move |id| MessageQueue::new(topic, &*broker, id))
    };
    let has_master = |data: &&QueueData| {
        let mut brokers = route.broker_datas.iter();
        brokers.any(|broker| broker.broker_name == data.broker_name && broker.broker_addrs.contains_key(&0))
    };
    let readable = route.queue_datas.iter().filter(|data| data.perm & PERM_READ != 0);
    let writable = route.queue_datas.iter().filter(|data| data.perm & PERM_WRITE != 0).filter(has_master);
    TopicQueues {
        readable: readable.flat_map(|data| queues(data, data.read_queue_nums)).collect(),
        writable: writable.flat_map(|data| queues(data, data.write_queue_nums)).collect(),
    }
}
