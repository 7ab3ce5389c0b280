//! The gRPC side of the broker for RocketMQ 5.x clients (`apache.rocketmq.v2`), in the broker's process.

mod activity;
mod body;
mod calls;
mod checks;
mod codec;
mod config;
mod convert;
mod dispatch;
mod failure;
mod memory;
mod message_group;
mod messages;
mod needs;
mod receipt;
mod reflection;
mod registry;
mod renewal;
mod renewer;
mod server;
mod settings;
mod transaction_id;

pub use config::{Config, ConfigError};
pub use server::{RunningProxy, StartError};
