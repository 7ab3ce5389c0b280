//! Facts about the machine: kernel settings, mounts, limits of processes, control groups. The crate only reads.
//!
//! - [`Facts`]: all facts in one value. Unavailable facts are absent, never guessed.
//! - [`is_own_address`]: whether an address belongs to this machine.

mod address;
mod facts;
mod mounts;
mod processes;
mod text;

pub use address::is_own_address;
pub use facts::{Facts, Source};
pub use mounts::Mount;
pub use processes::BrokerProcess;
