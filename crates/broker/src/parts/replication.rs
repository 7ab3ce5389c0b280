//! The group of brokers with the same log: the role of this broker, the other brokers, and the durability that they give.

mod visible;

use std::sync::Arc;

use store::Store;

use crate::durability::Durability;
use crate::replicas::Replicas;
use crate::role::Role;
use crate::state::{Acting, RegistrationAcks, TableCopies};

/// Role of a broker in its group, replicas, and durability.
pub(crate) struct Replication {
    pub(crate) store: Arc<Store>,
    /// Master or slave.
    pub(crate) role: Role,
    /// Other brokers of the group.
    pub(crate) replicas: Replicas,
    /// Whether this slave acts for its master.
    pub(crate) acting: Acting,
    /// Versions of this master's tables at its slaves.
    pub(crate) table_copies: TableCopies,
    /// Durability policy: the meaning of "stored".
    pub(crate) durability: Arc<Durability>,
    pub(crate) registration_acks: RegistrationAcks,
}
