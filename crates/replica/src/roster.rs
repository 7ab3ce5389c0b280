//! What a controller knows: which brokers a broker set has, who is its master, and its in-sync set (`ReplicasInfoManager`,
//! `DefaultBrokerHeartbeatManager`, `DefaultElectPolicy`, `ControllerManager`).
//!
//! Three parts, from the bottom:
//! - [`Roster`]: the replicated table. It changes only by [`Change`]s, which consensus has put into one order, so that all
//!   controllers have the same table.
//! - [`Lives`]: who has sent heartbeats lately. Each controller has its own; nothing of it is replicated.
//! - [`Leader`]: answers requests from both, proposes changes, and starts elections when a master is gone.
//!
//! The table is safer than Java's in one point: a member that registers again after a stop that may have cost it the end of
//! its log leaves the in-sync set, as long as another member is left to be elected ([`Registration::may_have_lost`]). A member
//! that was elected meanwhile, by heartbeats from before its loss, gives way to the members from before ([`FormerSet`]).

mod decide;
mod leader;
mod live;
mod policy;
mod table;

pub use decide::{
    AlterSet, Answer, Clean, Content, Decision, Election, Mastership, Registration, ReplicaStatus,
};
pub use leader::{Leader, LeaderAction, LeaderConfig, LeaderEvent, ProposalId, Request, RequestId};
pub use live::{ConnectionId, Heartbeat, Lives};
pub use table::{Broker, BrokerSet, Change, FormerSet, Roster, UnreadableTable};

#[cfg(test)]
mod tests;
