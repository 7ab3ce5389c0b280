//! The broker: what RocketMQ does with messages, groups and offsets.

mod admin;
mod answer;
mod assign;
mod broker;
mod client_calls;
mod client_relay;
mod clients;
mod config;
mod disk_pool;
mod dispatcher;
mod durability;
mod groups;
mod light;
mod locks;
mod long_polling;
mod lookup;
mod metadata_writer;
mod names;
mod offsets;
mod persist;
mod pop;
mod position_writer;
mod progress;
mod pull;
mod refused;
mod register;
mod reply;
mod restore;
mod retention;
mod schedule;
mod send;
mod send_back;
mod sql;
mod start;
mod stats;
mod supervisor;
#[cfg(test)]
mod testing;
mod timer;
mod topics;
mod transaction;
mod users;
mod visible;

pub use answer::{Answer, FAQ, Refusal};
pub use config::{
    Config, ConfigError, Effect, Finding, LightQueues, PROPERTIES, Property, Transfer, page, settings_help,
};
pub use start::{RunningBroker, StartError};
pub use timer::Timers;
