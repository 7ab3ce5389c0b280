//! The calls of `MessagingService`, each a function from a request to a response or a failure.

mod acks;
mod clients;
mod delivery;
mod lite;
mod position;
mod receive;
mod routes;
mod send;
pub mod telemetry;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use broker::api::{Caller, Sends};
use grpc::messages::Code;
use http::uri::Authority;
use tokio::sync::watch;
use wire::codes::Language;

pub use acks::{ack, change_invisible, dead_letter};
pub use clients::{heartbeat, terminate};
pub use delivery::Delivery;
pub use lite::sync_lite;
pub use receive::receive;
pub use routes::{query_assignment, query_route};
pub use send::{recall, send};
pub use transactions::end_transaction;

use crate::brokers::Brokers;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::memory::Memory;
use crate::needs::Guarded;
use crate::registry::Registry;
use crate::renewal::Renewals;

/// State that all calls share.
pub struct Proxy {
    pub brokers: Brokers,
    pub config: Config,
    /// Port for clients.
    pub port: u16,
    pub registry: Arc<Registry>,
    pub renewals: Renewals,
    pub memory: Arc<Memory>,
    /// Rate of additions of lite topics.
    lite_additions: lite::Additions,
    /// Counts sends and receives, for brokers that take turns.
    pub turn: AtomicUsize,
    /// Signal of the server's stop.
    pub stop: watch::Sender<bool>,
}

impl Proxy {
    pub fn new(brokers: Brokers, config: Config, port: u16) -> Arc<Self> {
        let registry = Registry::new(config.clients_max, config.ask_s);
        let (renewals, memory) = (Renewals::new(&config), Memory::new(config.held_bytes_max));
        Arc::new(Self {
            brokers,
            config,
            port,
            registry,
            renewals,
            memory,
            lite_additions: lite::Additions::default(),
            turn: AtomicUsize::new(0),
            stop: watch::Sender::new(false),
        })
    }

    /// Waits until the server stops.
    pub async fn stopping(&self) {
        // The sender lives as long as this future.
        let _ = self.stop.subscribe().wait_for(|stops| *stops).await;
    }
}

/// Caller of a call, from the metadata of the call.
pub struct Call {
    pub proxy: Arc<Proxy>,
    pub client_id: String,
    pub language: Option<Language>,
    /// Version of the client, in the client's form.
    pub version: String,
    pub caller: Caller,
    /// Remaining time of the call in milliseconds. `None` without a deadline.
    pub left_ms: Option<i64>,
    /// Send queue of the thread that serves the call. `None` in cluster mode.
    pub sends: Option<Arc<Sends>>,
    /// Host and port that the client dialled.
    pub authority: Option<Authority>,
}

impl Call {
    /// Checks that the user may make the call of a message.
    ///
    /// # Errors
    /// `UNAUTHORIZED` with RocketMQ's text.
    pub fn authorize<M: Guarded>(&self, message: &M) -> Result<()> {
        let Caller { remote, user, .. } = &self.caller;
        self.proxy.brokers.authorize((user, M::NAME), *remote, || message.needs())
    }

    /// Checks the requirements of every call.
    ///
    /// # Errors
    /// `CLIENT_ID_REQUIRED` without a client id.
    pub fn check(&self) -> Result<()> {
        if self.client_id.trim().is_empty() {
            return Err(Failure::new(Code::ClientIdRequired, "client id cannot be empty"));
        }
        Ok(())
    }

    /// Whether the client is older than 5.0.3, which knows fewer codes. Versions compare as texts, as in Java.
    fn is_old(&self) -> bool {
        self.version.as_str() < "5.0.3"
    }
}

/// A group that does not exist and may not be created.
fn group_missing(group: &str) -> Failure {
    Failure::new(Code::IllegalConsumerGroup, format!("group not found: {group}"))
}

fn topic_missing(topic: &str) -> Failure {
    let text = format!("CODE: 17  DESC: No topic route info in name server for the topic: {topic}");
    Failure::new(Code::TopicNotFound, text)
}

#[cfg(test)]
mod tests;
