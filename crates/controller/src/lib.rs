//! The controller: elects the masters of broker sets and keeps their in-sync sets, in a group of controllers that agree by
//! consensus (`ControllerManager`, `DLedgerController`).
//!
//! - [`Config`]: its configuration, with the table of property names in `controller.conf`.
//! - [`Machine`]: table, elections and consensus as one pure state machine.
//! - [`Journal`]: what has to survive a crash, on a disk.
//! - [`Controller`]: the server around all of these.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod answers;
mod config;
mod group;
mod journal;
#[expect(
    clippy::disallowed_methods,
    reason = "the connections to peers and notices to brokers: deadlines and tasks"
)]
mod links;
mod machine;
mod requests;
#[expect(clippy::disallowed_methods, reason = "the shell of the controller: its clock and its thread")]
mod server;
mod service;

pub use config::Config;
pub use group::{Group, GroupError};
pub use journal::{Journal, JournalError};
pub use machine::{Action, Event, Machine, MachineError};
pub use server::{Controller, StartError};
