//! The name server: knows all brokers, and the queues of all topics on them.
//!
//! - [`Config`]: its configuration, with the table of property names in `namesrv.conf`.
//! - [`SharedRoutes`]: the route tables ([`Routes`]), changed by plain synchronous functions with the time as argument.
//! - [`KvStore`]: the key-value settings, the only data on disk.
//! - [`RequestHandler`]: the request handler, which serves one request from the tables.
//! - [`NameServer`]: the server around all of these.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod config;
mod files;
mod gate;
mod kv;
mod request_handler;
mod routes;
#[expect(clippy::disallowed_methods, reason = "the shell of the name server: its clock and its tasks")]
mod server;
#[expect(clippy::disallowed_methods, reason = "a shell: its thread and its clock")]
mod writer;

pub use config::Config;
pub use kv::{KvChange, KvError, KvStore};
pub use request_handler::RequestHandler;
pub use routes::{
    Bounds, BrokerView, ClusterView, Content, Departure, Excess, LiveBroker, Master, MemberView,
    MinBrokerNotice, QueueView, RegisterResult, Registration, RouteOptions, RouteView, Routes, SharedRoutes,
    SystemTopics, TopicQueues, Units,
};
pub use server::{NameServer, StartError};
