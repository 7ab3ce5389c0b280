//! Classic HA: a slave connects to the master of its group, reports the end of its log, and gets everything behind
//! it. The operator chooses the master. Classic HA does not detect that two logs differ before their ends.
//!
//! [`Master`] serves all slaves of a broker, [`Slave`] follows one master.

mod master;
mod slave;

pub use master::{HostId, Master, MasterAction, MasterConfig, MasterEvent, PeerStatus};
pub use slave::{Slave, SlaveAction, SlaveEvent};

#[cfg(test)]
mod tests;
