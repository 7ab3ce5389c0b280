//! Scenarios: runs of many cells, each repeated, recorded second by second, and resumable.
//!
//! [`Bench`] holds the cluster, its machines and the archive; [`record`] performs one repeat as a list of stages. A
//! scenario only makes a [`Design`]: its cells, each with its load and the stages of a repeat.

mod backlog;
mod bench;
mod cleanup;
mod cluster;
mod design;
mod failover;
mod fault;
mod files;
mod idle;
mod local;
mod machines;
mod matrix;
mod modes;
mod offsets;
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
mod stage;
#[cfg(test)]
mod tests;

pub use backlog::{Backlog, Fill, run as backlog};
pub use cleanup::run as clean;
pub(crate) use cluster::is_secret;
pub use design::{CellLoad, RunOptions};
pub use failover::{Failover, run as failover};
pub use fault::Fault;
pub use local::LocalOptions;
pub use matrix::{Matrix, run as matrix};
pub(crate) use modes::REPLICATIONS;
pub use modes::{Modes, run as modes};
pub use safe_tps::{Search, run as safe_tps};
#[cfg(test)]
pub(crate) use seed::cells as seed_cells;
pub use seed::{Scale, run as seed};
pub(crate) use settings::disk_type;
pub use soak::run as soak;
#[cfg(test)]
pub(crate) use stage::{Action, Until};
