//! RocketMQ producers, consumers and admin calls over remoting.
//!
//! - [`Client`]: name servers, routes, connections and heartbeats, shared by all parts of an application; admin calls,
//!   offsets, and single pull requests.
//! - [`Producer`]: sends messages, alone or in batches, with retries on other brokers; delayed and timed messages;
//!   request messages and replies to them.
//! - [`TransactionProducer`]: sends half messages, commits or rolls them back, and answers the transaction checks of
//!   brokers.
//! - [`PullConsumer`]: reads queues that the application chooses.
//! - [`PushConsumer`]: passes messages to a listener, concurrently or in the order of each queue; the members of a
//!   group share the queues.
//!
//! The programs in `examples/` show each of them; the project's tests run them against a real broker, and `bench/lite.py` runs `lite_load`.

mod admin;
pub mod calendar;
mod client;
mod clock;
mod compress;
mod config;
mod error;
mod groups;
mod heartbeat;
mod locks;
mod message;
mod offsets;
mod producer;
mod pull;
mod pull_consumer;
mod push;
mod query;
mod remote;
mod request;
mod route;
mod server_requests;
mod sign;
mod start;
mod subscription;
mod trace;
mod transaction;
mod users;

pub use admin::Replication;
pub use client::Client;
pub use clock::now_ms;
pub use compress::{Compression, compress, decompress, decompress_up_to};
pub use config::Config;
pub use error::Error;
pub use message::{Message, Properties, Received};
pub use net::Response;
pub use net::tls::{TlsSources, certificate_ends_ms};
pub use producer::{CompressConfig, Producer, ProducerConfig, SendOutcome, SendStatus};
pub use pull::{PullRequest, PullResult, PullStatus};
pub use pull_consumer::PullConsumer;
pub use push::{Allocation, ConsumeFrom, ConsumeStatus, MessageModel, PushConfig, PushConsumer};
pub use query::MessageQuery;
pub use route::Route;
pub use sign::{ACCESS_KEY, Credentials, SIGNATURE, SIGNATURE_BYTES, SignedRequest, signed_fields};
pub use subscription::Expression;
pub use trace::{SendTrace, TRACE_TOPIC, Tracer};
pub use transaction::{Decision, HalfMessage, TransactionProducer};
pub use users::AccessLists;
pub use wire::body::MessageQueue;
