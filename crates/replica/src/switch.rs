//! Auto-switch HA, the replication of controller mode: before the log flows, master and slave compare their epochs, and the
//! slave cuts what the master does not have. The master keeps the in-sync set and says up to where the log is confirmed.
//!
//! [`Master`] serves all slaves of an elected broker, [`Slave`] follows one master. A broker makes a new machine with each
//! change of its role.

mod master;
mod slave;

pub use master::{Master, MasterAction, MasterConfig, MasterEvent, MasterStart, PeerStatus};
pub use slave::{Slave, SlaveAction, SlaveEvent, SlaveStart};

#[cfg(test)]
mod tests;
