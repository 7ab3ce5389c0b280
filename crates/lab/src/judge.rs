//! The verdict of a run: rules R0 to R12 as pure functions over [`crate::archive`], each in its own file.
//!
//! A rule takes recorded rows and returns a verdict with its evidence, in English and Chinese. No rule reads a file, a
//! clock or a random source; the bootstrap gets its seed as an argument.

pub mod backlog;
pub mod balance;
pub mod bottleneck;
pub mod ceiling;
pub mod conclusion;
pub mod effects;
pub mod factor;
pub mod failover;
pub mod figures;
pub mod guards;
mod judged;
pub mod numbers;
pub mod omission;
pub mod planned;
pub mod safety;
pub mod scale;
pub mod selftest;
pub mod soak;
pub mod stability;
pub mod stats;
#[cfg(test)]
pub(crate) mod testing;
mod text;
pub mod validity;
pub mod versus;

pub use judged::{Judged, judged};
pub use text::{Language, RecordedVerdict, Text};
pub(crate) use text::{Value, both};
