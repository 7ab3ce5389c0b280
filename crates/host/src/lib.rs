//! What the machine says about itself: kernel settings, mounts, limits of processes, control groups. It only reads.
//!
//! - [`Facts`]: everything in one value; what the machine does not say is absent, never guessed.
//! - [`is_own_address`]: whether an address is one of this machine.

mod address;
mod facts;
mod mounts;
mod processes;
mod text;

pub use address::is_own_address;
pub use facts::{Facts, Source};
pub use mounts::Mount;
pub use processes::BrokerProcess;
