//! The broker: what RocketMQ does with messages, groups and offsets.

mod answer;

pub use answer::{Answer, FAQ, Refusal};
