//! Deterministic simulation of a group of brokers that replicate, with the controllers that elect their master: one thread,
//! virtual time, a network, disks and processes that fail, model clients, and checks of what Vostok promises. Not shipped.
//!
//! Everything below the shells is what production runs: the store without threads, on a disk that loses what was not synced,
//! and the machines of `replica` and `controller`. A run is decided by its seed and scenario; [`run`] gives the same trace for
//! the same two.
//!
//! - [`settings`]: scenarios, planted bugs, what a seed decides.
//! - [`world`]: the event queue, processes and the network's events; [`faults`]: what goes wrong, and when.
//! - [`broker`], [`controller`], [`clients`]: the nodes.
//! - [`history`], [`check`]: what must hold of answers and of stores.

pub mod broker;
pub mod check;
pub mod clients;
pub mod controller;
pub mod faults;
pub mod history;
pub mod message;
pub mod network;
pub mod random;
pub mod settings;
pub mod trace;
pub mod world;

pub use world::{Outcome, run};
