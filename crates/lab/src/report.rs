//! What is counted while a tool runs, and how it is told.

mod latency;
pub mod line;
mod outcome;
mod snapshot;
mod tally;
#[cfg(test)]
mod tests;

pub use latency::Latency;
pub use outcome::Outcome;
pub use snapshot::{Rates, Snapshot, Window};
pub use tally::Tally;
