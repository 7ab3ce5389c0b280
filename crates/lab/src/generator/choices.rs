//! The choices of a workload: modes of sending and consuming, and the content of messages.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Mode of sending (`CommunicationMode`, and transactions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Send {
    /// Synchronous sends: every request in flight waits for its answer.
    #[default]
    Sync,
    /// Asynchronous sends as by `producer.sh -y true`: up to 10,000 requests in flight.
    Async,
    /// One-way sends, which are not answered and need a rate.
    OneWay,
    /// Transactions: half messages that are then committed.
    Transaction,
}

/// Compression of bodies (`CompressionType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Compression {
    #[default]
    None,
    Zlib,
    Lz4,
    Zstd,
}

/// Mode of consuming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Consume {
    /// Pull requests with the least possible cost: one waits at every queue, and messages are only counted.
    #[default]
    Pull,
    /// Push consumer of the Rust client that consumes messages concurrently.
    Push,
    /// Push consumer of the Rust client that consumes each queue in order.
    Orderly,
}

/// First position of consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At the end of every queue.
    #[default]
    Last,
    /// At the smallest offset of every queue.
    First,
    /// At the group's committed offset, otherwise at the smallest offset of the queue.
    Group,
}

/// Content of message bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// Random letters and digits.
    #[default]
    Random,
    /// Random letters and digits that repeat after this many bytes.
    Repeat(u32),
    /// The bytes of a file, repeated.
    File(PathBuf),
}

/// Sizes of bodies in bytes, with their weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes(pub Vec<(u64, u32)>);

/// The name of a choice, as flags and factors have it.
pub fn choice_name(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl Sizes {
    /// A single size.
    pub fn one(bytes: u64) -> Self {
        Self(vec![(bytes, 1)])
    }

    /// The mean size in bytes.
    pub fn mean(&self) -> u64 {
        let weights: u64 = self.0.iter().map(|(_, weight)| u64::from(*weight)).sum();
        self.0.iter().map(|(size, weight)| size * u64::from(*weight)).sum::<u64>() / weights.max(1)
    }

    /// Index of the size of request number `sequence`. The same number always has the same size, and over many requests
    /// the shares of the sizes follow the weights.
    pub fn pick(&self, sequence: u64) -> usize {
        if self.0.len() == 1 {
            return 0;
        }
        let weights: u64 = self.0.iter().map(|(_, weight)| u64::from(*weight)).sum();
        // Fibonacci hashing spreads consecutive numbers over the whole range.
        let mut rest = (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % weights.max(1);
        for (index, (_, weight)) in self.0.iter().enumerate() {
            match rest.checked_sub(u64::from(*weight)) {
                None => return index,
                Some(left) => rest = left,
            }
        }
        0
    }
}
