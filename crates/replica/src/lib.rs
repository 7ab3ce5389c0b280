//! Agreement between the brokers of a group and between brokers and controllers, as pure state machines: no files, sockets,
//! clocks or threads. A machine gets the time and an event and appends actions: send this range of the log, append, truncate,
//! close because, wake me at. Bytes of messages never pass through here.
//!
//! - [`acks`]: number of replicas that a send waits for, and the waiting answers.
//! - [`agent`]: a broker's side of controller mode: id, registration, heartbeats, roles.
//! - [`close`]: why a connection ends, one line for the log.
//! - [`transfer`]: what a master sends next on one connection, and what may be configured about it.
//! - [`consensus`]: puts the changes of a group of controllers into one order.
//! - [`epochs`]: who was master when, and up to where two logs are the same.
//! - [`in_sync`]: the in-sync set on its master, and what is confirmed.
//! - [`master`]: a master of classic HA or auto-switch HA (controller mode), with all its slaves.
//! - [`roster`]: what a controller knows, its elections and answers.
//! - [`slave`]: a slave of either protocol.
//! - [`slave_log`]: what a slave knows of its log and says about it.
//! - [`timer`]: the one timer that a shell keeps for a machine.

pub mod acks;
pub mod agent;
pub mod close;
pub mod consensus;
pub mod epochs;
pub mod in_sync;
mod link;
pub mod master;
pub mod roster;
pub mod slave;
pub mod slave_log;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod timer;
pub mod transfer;
