//! Lite topics of a client. A broker that started again, and a new master, do not know them, and clients repeat them
//! every 30 seconds. So this server repeats them when the client receives over a new connection to a broker.

use std::collections::HashMap;

use parking_lot::Mutex;
use wire::body::{LiteSubscription, LiteSubscriptionAction};

/// Lite topics of a client.
#[derive(Default)]
pub struct Subscribed {
    state: Mutex<State>,
    /// Lock for sending lite topics of the client to brokers. A repeated list is complete, so that it would undo a change
    /// that reaches a broker before it.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// All lite topics of the client; `None` until the client has sent them in one request.
    all: Option<LiteSubscription>,
    /// Id of the connection over which a broker got the lite topics, by the name of the broker.
    sent: HashMap<String, u64>,
}

impl Subscribed {
    /// Waits until no broker is getting lite topics of the client. The caller applies and sends a change, or repeats the
    /// lite topics, while it holds the guard.
    pub async fn begin(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.sending.lock().await
    }

    /// Applies a change that the client sent.
    pub fn apply(&self, change: &LiteSubscription) {
        let mut state = self.state.lock();
        let names = &change.lite_topic_set;
        match (change.action, &mut state.all) {
            (LiteSubscriptionAction::CompleteAdd, all) => *all = Some(change.clone()),
            (LiteSubscriptionAction::PartialAdd, Some(all)) => {
                all.lite_topic_set.extend(names.iter().cloned())
            }
            (LiteSubscriptionAction::PartialRemove, Some(all)) => {
                all.lite_topic_set.retain(|name| !names.contains(name))
            }
            (LiteSubscriptionAction::CompleteRemove, _) => *state = State::default(),
            (_, None) => {}
        }
    }

    /// Removes a lite topic that the client lost to another client.
    pub fn lost(&self, lite_topic: &str) {
        if let Some(all) = &mut self.state.lock().all {
            all.lite_topic_set.remove(lite_topic);
        }
    }

    /// Whether there are lite topics to repeat.
    pub fn has_lite_topics(&self) -> bool {
        self.state.lock().all.as_ref().is_some_and(|all| !all.lite_topic_set.is_empty())
    }

    /// Whether a broker got the lite topics over a connection.
    pub fn is_sent(&self, broker: &str, connection: u64) -> bool {
        self.state.lock().sent.get(broker) == Some(&connection)
    }

    /// Returns the lite topics that a broker must get over a connection, unless it got them already.
    pub fn due(&self, broker: &str, connection: u64) -> Option<LiteSubscription> {
        let state = self.state.lock();
        let is_sent = state.sent.get(broker) == Some(&connection);
        if is_sent { None } else { state.all.clone() }
    }

    /// Records that a broker got the lite topics over a connection.
    pub fn note_sent(&self, broker: &str, connection: u64) {
        self.state.lock().sent.insert(broker.to_owned(), connection);
    }
}
