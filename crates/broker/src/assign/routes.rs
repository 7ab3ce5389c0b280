//! Which queues topics have on all brokers, as name servers say (`TopicRouteInfoManager`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use net::{ConnectionHandle, Workers};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use wire::body::topic::PERM_READ;
use wire::body::{MessageQueue, TopicRouteData};
use wire::codes::{request, response};
use wire::frame::{Encoding, FrameWriter};

use super::Question;
use crate::Refusal;
use crate::broker::Broker;
use crate::register::Silent;

/// Milliseconds for which the answer of a name server is used (`loadBalancePollNameServerInterval`).
const KEPT_MS: i64 = 30_000;
/// Most topics kept; at the bound all are forgotten.
const TOPICS_MAX: usize = 100_000;
/// Most requests that wait for a name server; a further one is refused as busy.
const WAITING_MAX: usize = 4096;
/// For this many milliseconds after no name server answered, requests are answered from what was known last. Asking all name
/// servers again would take seconds for each request and hold up those behind it.
const DOWN_MS: i64 = 10_000;
/// How long a name server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The queues of a topic; `None` when no name server knows it.
type Queues = Option<Arc<Vec<MessageQueue>>>;

struct Known {
    queues: Queues,
    asked_ms: i64,
    /// Generation of the broker's own topic table when the route was asked for; a later one may have changed this topic.
    generation: u64,
}

/// The routes of topics, and the requests that wait for one.
pub(crate) struct Routes {
    known: Mutex<HashMap<String, Known>>,
    questions: Sender<Question>,
    waiting: Mutex<Option<Receiver<Question>>>,
    /// When a request found no name server that answered, milliseconds; `i64::MIN` once one has answered since.
    down_ms: AtomicI64,
}

impl Default for Routes {
    fn default() -> Self {
        let (questions, waiting) = channel(WAITING_MAX);
        Self {
            known: Mutex::default(),
            questions,
            waiting: Mutex::new(Some(waiting)),
            down_ms: AtomicI64::new(i64::MIN),
        }
    }
}

impl Routes {
    /// The queues of a topic; `None` when a name server must be asked first. While no name server answers, these are the queues
    /// known last, and `Some(None)` for a topic that nobody asked about.
    pub(super) fn find(&self, broker: &Broker, topic: &str) -> Option<Queues> {
        let is_down = broker.now_ms().saturating_sub(self.down_ms.load(Ordering::Relaxed)) < DOWN_MS;
        let known = self.known();
        let Some(found) = known.get(topic) else { return is_down.then_some(None) };
        let is_new = broker.now_ms() - found.asked_ms < KEPT_MS
            && found.generation == broker.topics.generation()
            && found.queues.is_some();
        let is_new = is_new || is_down;
        is_new.then(|| found.queues.clone())
    }

    /// Queues a request to be answered after a name server was asked.
    pub(super) fn ask(&self, question: Question) -> Result<(), Refusal> {
        self.questions.try_send(question).map_err(|_| {
            let remark =
                "[OVERLOAD]system busy, start flow control for a while: too many clients ask for queues";
            Refusal::new(response::SYSTEM_BUSY, remark)
        })
    }

    /// Notes that no name server answered.
    pub(super) fn no_answer(&self, broker: &Broker) {
        self.down_ms.store(broker.now_ms(), Ordering::Relaxed);
    }

    pub(super) fn keep(&self, broker: &Broker, topic: &str, queues: Queues) {
        let mut known = self.known();
        if known.len() >= TOPICS_MAX {
            known.clear();
        }
        let generation = broker.topics.generation();
        known.insert(topic.to_owned(), Known { queues, asked_ms: broker.now_ms(), generation });
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers the waiting requests until the broker's tasks end.
pub(crate) async fn run(broker: Arc<Broker>, workers: Workers) {
    let waiting = broker.routes.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut waiting) = waiting else { return };
    let mut peers = HashMap::new();
    while let Some(question) = waiting.recv().await {
        let topic = &question.body.topic;
        let queues = match broker.routes.find(&broker, topic) {
            Some(queues) => queues,
            None => match fetch(&broker, &workers, &mut peers, topic).await {
                Ok(queues) => {
                    broker.routes.down_ms.store(i64::MIN, Ordering::Relaxed);
                    broker.routes.keep(&broker, topic, queues.clone());
                    queues
                }
                // No name server gave a route: what was known last counts, and without that the client keeps the queues it has.
                Err(NoRoute { is_answered }) => {
                    if !is_answered {
                        broker.routes.no_answer(&broker);
                    }
                    broker.routes.find(&broker, topic).flatten()
                }
            },
        };
        question.answer(&broker, queues.as_ref().map(|queues| queues.as_slice()));
    }
}

/// A topic's route could not be had.
struct NoRoute {
    /// At least one name server answered, but not with a route.
    is_answered: bool,
}

/// Asks the name servers one after the other for a topic's route.
async fn fetch(
    broker: &Broker,
    workers: &Workers,
    peers: &mut HashMap<String, Arc<ConnectionHandle>>,
    topic: &str,
) -> Result<Queues, NoRoute> {
    let mut is_answered = false;
    for name_server in broker.config.name_servers() {
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
        match peer.call(Encoding::Json, request::GET_ROUTEINFO_BY_TOPIC, ANSWER_TIMEOUT, write).await {
            Ok(reply) if reply.code == response::SUCCESS => {
                is_answered = true;
                match TopicRouteData::decode(&reply.body) {
                    Ok(route) => return Ok(Some(Arc::new(readable_queues(topic, &route)))),
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

/// The queues of a route that consumers may read (`MQClientInstance.topicRouteData2TopicSubscribeInfo`).
fn readable_queues(topic: &str, route: &TopicRouteData) -> Vec<MessageQueue> {
    let readable = route.queue_datas.iter().filter(|data| data.perm & PERM_READ != 0);
    readable
        .flat_map(|data| (0..data.read_queue_nums).map(|id| MessageQueue::new(topic, &*data.broker_name, id)))
        .collect()
}
