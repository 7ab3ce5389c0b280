//! The gRPC side for RocketMQ 5.x clients (`apache.rocketmq.v2`), in the process of a broker or before the brokers of a cluster.

mod activity;
mod body;
mod brokers;
mod calls;
mod checks;
mod cluster;
mod config;
mod convert;
mod dispatch;
mod failure;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod heartbeats;
mod memory;
mod needs;
mod receipt;
mod reflection;
mod registry;
mod renewal;
mod renewer;
mod server;
mod settings;
mod subscribed;
mod topic;
mod transaction_id;

pub use brokers::Brokers;
pub use cluster::Cluster;
pub use config::{Config, ConfigError};
pub use server::{RunningProxy, StartError};
