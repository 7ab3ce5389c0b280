//! Deterministic simulation of a group of replicating brokers, with the controllers that elect their master.
//! A simulation has one thread, virtual time, a network, disks and processes that fail, model clients, and checks of
//! Vostok's promises. P1, P2 and so on are the checks that `ARCHITECTURE.md` of this crate lists. Not shipped.
//!
//! Everything below the shells is production code: the store without threads, on a disk that loses unsynced data, and
//! the machines of `replica` and `controller`. Seed and scenario determine a run. [`run`] returns the same trace for
//! the same two.
//!
//! - [`settings`]: scenarios, planted bugs, and the choices of a seed.
//! - [`world`]: the event queue, processes and the network's events. [`faults`]: the faults and their times.
//! - [`broker`], [`controller`], [`clients`]: the nodes.
//! - [`history`], [`check`]: the checks of responses and of stores.

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
