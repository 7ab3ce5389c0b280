//! Scenarios: runs of many cells, each repeated, recorded second by second, and resumable.
//!
//! [`Bench`] holds the cluster, its machines and the archive; [`record`] performs one repeat as a list of stages. A
//! scenario only says which cells there are and which stages a repeat has.

mod backlog;
mod bench;
mod cleanup;
mod cluster;
mod files;
mod idle;
mod machines;
mod matrix;
mod modes;
mod presence;
mod probes;
mod progress;
mod prune;
mod record;
mod resume;
mod safe_tps;
mod seed;
mod settings;
mod soak;
#[cfg(test)]
mod tests;

pub use backlog::run as backlog;
pub use bench::{Bench, Plan};
pub use cleanup::run as clean;
pub use cluster::Cluster;
pub use matrix::{cells, queues, run as matrix};
pub use modes::run as modes;
pub use record::{Action, Stage, Until};
pub use safe_tps::run as safe_tps;
pub use seed::run as seed;
pub use soak::run as soak;
