//! Queues of topics on all brokers, from name servers, and the requests that wait for a name server's response.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use wire::body::{MessageQueue, QueryAssignmentBody, QueryAssignmentResponseBody};
use wire::codes::response;

use crate::{Refusal, Result};

/// Milliseconds for which the answer of a name server is used (`loadBalancePollNameServerInterval`).
const KEPT_MS: i64 = 30_000;
/// Most topics kept; at the bound all are forgotten.
const TOPICS_MAX: usize = 100_000;
/// Most requests that wait for a name server. Further requests are refused as busy.
const WAITING_MAX: usize = 4096;
/// Milliseconds for which requests are answered from the last known routes after no name server responded. A query of
/// all name servers would take seconds for each request and delay later requests.
const DOWN_MS: i64 = 10_000;

/// A question for queues, which may wait for the answer of a name server.
pub(crate) struct Question {
    /// Topic, group and client of the question.
    pub body: QueryAssignmentBody,
    /// Whether the question is for the queues that producers write.
    pub is_for_sends: bool,
    /// Sends the answer.
    pub later: Box<dyn FnOnce(&QueryAssignmentResponseBody) + Send>,
}

/// The queues of a topic on all brokers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicQueues {
    /// Queues that consumers may read.
    pub readable: Vec<MessageQueue>,
    /// Queues that producers may write.
    pub writable: Vec<MessageQueue>,
}

impl Question {
    /// The queues that the question asks for.
    pub(crate) fn pick<'q>(&self, queues: &'q TopicQueues) -> &'q [MessageQueue] {
        if self.is_for_sends { &queues.writable } else { &queues.readable }
    }
}

/// The queues of a topic; `None` when no name server knows it.
pub(crate) type Queues = Option<Arc<TopicQueues>>;

struct CachedRoute {
    queues: Queues,
    asked_ms: i64,
    /// Generation of the broker's own topic table at the time of the query. A later generation may have changed this
    /// topic.
    generation: u64,
}

/// Routes of topics, and the requests that wait for a route.
pub(crate) struct Routes {
    known: Mutex<HashMap<String, CachedRoute>>,
    questions: Sender<Question>,
    waiting: Mutex<Option<Receiver<Question>>>,
    /// Time of the last request for which no name server responded, in milliseconds. `i64::MIN` after a response.
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
    /// Returns the queues of a topic, or `None` if a name server must be asked first. While no name server responds,
    /// these are the last known queues, or `Some(None)` for a topic without an earlier query. `generation` is that of
    /// the broker's own table of topics.
    pub(crate) fn find(&self, topic: &str, now_ms: i64, generation: u64) -> Option<Queues> {
        let is_down = now_ms.saturating_sub(self.down_ms.load(Ordering::Relaxed)) < DOWN_MS;
        let known = self.known.lock();
        let Some(found) = known.get(topic) else { return is_down.then_some(None) };
        let is_new =
            now_ms - found.asked_ms < KEPT_MS && found.generation == generation && found.queues.is_some();
        let is_new = is_new || is_down;
        is_new.then(|| found.queues.clone())
    }

    /// Queues a request that is answered after a query of a name server.
    pub(crate) fn ask(&self, question: Question) -> Result<()> {
        self.questions.try_send(question).map_err(|_| {
            let remark =
                "[OVERLOAD]system busy, start flow control for a while: too many clients ask for queues";
            Refusal::new(response::SYSTEM_BUSY, remark)
        })
    }

    /// Records that no name server responded.
    pub(crate) fn no_answer(&self, now_ms: i64) {
        self.down_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Keeps the queues of a topic that a name server answered at `now_ms`, when the broker's own table of topics had this
    /// generation.
    pub(crate) fn keep(&self, topic: &str, now_ms: i64, generation: u64, queues: Queues) {
        self.down_ms.store(i64::MIN, Ordering::Relaxed);
        let mut known = self.known.lock();
        if known.len() >= TOPICS_MAX {
            known.clear();
        }
        known.insert(topic.to_owned(), CachedRoute { queues, asked_ms: now_ms, generation });
    }

    /// Takes the receiver of waiting requests. Returns `None` if it was taken before.
    pub(crate) fn take_questions(&self) -> Option<Receiver<Question>> {
        self.waiting.lock().take()
    }
}
