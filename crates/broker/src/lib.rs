//! The broker: what RocketMQ does with messages, groups and offsets.

mod admin;
mod answer;
mod asks;
mod assign;
mod back;
mod broker;
mod changes;
mod clients;
mod cold;
mod config;
mod durability;
mod front;
mod groups;
mod held;
mod keep;
mod light;
mod locks;
mod lookup;
mod names;
mod offsets;
mod persist;
mod pop;
mod progress;
mod pull;
mod refused;
mod register;
mod relay;
mod reply;
mod restore;
mod retention;
mod schedule;
mod send;
mod sql;
mod start;
mod stats;
#[cfg(test)]
mod testing;
mod timer;
mod topics;
mod transaction;
mod users;
mod visible;
mod vital;

pub use answer::{Answer, FAQ, Refusal};
pub use config::{
    Config, ConfigError, Effect, Finding, LightQueues, PROPERTIES, Property, Transfer, page, settings_help,
};
pub use start::{RunningBroker, StartError};
pub use timer::Timers;
