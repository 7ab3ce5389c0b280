//! Auto-switch HA, the replication of controller mode. Before the log flows, master and slave compare their epochs,
//! and the slave cuts the bytes that the master does not have. The master keeps the in-sync set and sends the confirm
//! offset.
//!
//! [`Master`] serves all slaves of an elected broker, [`Slave`] follows a master. A broker makes a new machine with
//! each change of its role.

mod master;
mod slave;

pub use master::{Master, MasterAction, MasterConfig, MasterEvent, MasterStart, PeerStatus};
pub use slave::{Slave, SlaveAction, SlaveEvent, SlaveStart};

#[cfg(test)]
mod tests;
