//! The name server: which brokers there are and which queues of which topics they have.
//!
//! - [`Config`]: its settings, and [`PROPERTIES`], the table of their names in `namesrv.conf`.
//! - [`Routes`]: the tables, as plain synchronous functions of the time.
//! - [`KvStore`]: the key-value settings, the only thing that is kept on disk.
//! - [`Desk`]: answers one request from the tables.
//! - [`NameServer`]: the listening shell around all of it.

mod config;
mod desk;
mod kv;
mod routes;
mod server;

pub use config::{Config, ConfigError, Effect, PROPERTIES, Property, Warning};
pub use desk::Desk;
pub use kv::{KvError, KvStore};
pub use routes::{
    BrokerView, ClusterView, Content, Departure, Lens, Live, Master, MemberView, MinBrokerNotice, QueueView,
    Registered, Registration, RouteView, Routes, SystemTopics, TopicQueues, Units,
};
pub use server::{NameServer, StartError};
