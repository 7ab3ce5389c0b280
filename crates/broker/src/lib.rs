//! The broker: what RocketMQ does with messages, groups and offsets.

mod answer;
mod clients;
mod groups;
mod names;
mod persist;

pub use answer::{Answer, FAQ, Refusal};
