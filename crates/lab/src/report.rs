//! What is counted while a tool runs, and how it is printed.

mod latency;
pub mod line;
mod outcome;
mod refusal;
mod snapshot;
mod tally;
#[cfg(test)]
mod tests;

pub use latency::Latency;
pub use outcome::Outcome;
pub use refusal::Refusal;
pub use snapshot::{Rates, Snapshot, Window};
pub use tally::Tally;
