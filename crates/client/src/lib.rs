//! RocketMQ producers, consumers and admin calls over remoting.
//!
//! - [`Client`]: name servers, routes, connections and heartbeats, shared by everything of one application; admin
//!   calls, offsets, and pulling once from a queue.
//! - [`Producer`]: sending, alone or in batches, with retries on other brokers.
//! - [`PullConsumer`]: reading queues of one's choice.
//! - [`PushConsumer`]: messages come to a listener; queues are shared by the members of the group.

mod admin;
pub mod calendar;
mod client;
mod clock;
mod compress;
mod error;
mod heartbeat;
mod message;
mod offsets;
mod producer;
mod pull;
mod pull_consumer;
mod push;
mod remote;
mod route;
mod subscription;

pub use client::{Client, Config};
pub use compress::{Compression, compress, decompress};
pub use error::Error;
pub use message::{Message, Received};
pub use producer::{Compress, Producer, ProducerConfig, SendOutcome, SendStatus};
pub use pull::{PullRequest, PullStatus, Pulled};
pub use pull_consumer::PullConsumer;
pub use push::{From, MessageModel, PushConfig, PushConsumer, Verdict};
pub use route::Route;
pub use wire::body::MessageQueue;
