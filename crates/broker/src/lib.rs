//! The broker: RocketMQ's operations on messages, groups and offsets.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod acting;
mod admin;
pub mod api;
mod assign;
mod attributes;
mod broker;
mod caller;
mod change;
mod change_log;
mod client_calls;
mod client_link;
mod client_relay;
mod clients;
mod clock;
mod config;
mod disk_pool;
mod durability;
mod engine;
mod gate;
mod groups;
mod housekeeping;
mod lite;
mod locks;
mod long_polling;
mod lookup;
mod master_services;
mod message_access;
mod metadata_writer;
mod metrics;
mod names;
mod offset_reset;
mod offsets;
mod ordered_table;
mod pages;
mod parts;
mod persist;
mod pop;
mod position_writer;
mod progress;
mod pull;
mod reachable;
mod refusal;
mod refusal_counts;
mod register;
mod remoting;
mod replicas;
#[expect(clippy::disallowed_methods, reason = "the shell of replication: its sockets, pauses and threads")]
mod replication;
mod reply;
mod reply_sink;
mod restore;
mod retention;
mod role;
mod rpc_latency;
mod save;
mod schedule;
mod send;
mod send_back;
mod shell;
mod slow;
mod sql;
mod start;
mod state;
mod stats;
mod supervisor;
mod system_topics;
mod table_changes;
#[cfg(test)]
mod testing;
mod timer;
mod topics;
mod transaction;
mod unconsumed;

pub use config::{
    ActingMaster, Config, ConfigError, ControllerMode, Effect, Exporter, Finding, LightQueues, Metrics,
    Replication, Role, Setting, Source, Timers, Transfer, Treatment, lint, page, setting, settings,
    settings_help,
};
pub(crate) use refusal::Result;
pub use refusal::{FAQ, Refusal};
pub use remoting::{Named, needs_of_code};
pub use start::{RunningBroker, StartError};
