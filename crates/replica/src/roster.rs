//! State of a controller: the brokers of each broker set, their master and their in-sync set (`ReplicasInfoManager`,
//! `DefaultBrokerHeartbeatManager`, `DefaultElectPolicy`, `ControllerManager`).
//!
//! Three parts, from the bottom:
//! - [`Roster`]: the replicated table. It changes only by [`Change`]s in the order of consensus, so that all
//!   controllers have equal tables.
//! - [`Lives`]: brokers with recent heartbeats. Each controller has its own, and none of it is replicated.
//! - [`Leader`]: answers requests from both, proposes changes, and starts elections when a master is gone.
//!
//! The table is safer than Java's in one point. A stop may cost a member the end of its log. When such a member
//! registers again, it leaves the in-sync set if another electable member remains ([`Registration::may_have_lost`]).
//! If heartbeats from before its loss got it elected meanwhile, it gives way to the former members ([`FormerSet`]).

mod decide;
mod leader;
mod live;
mod policy;
mod table;

pub use decide::{
    AlterSet, Clean, Content, ControllerResponse, Decision, Election, Mastership, Registration, ReplicaStatus,
};
pub use leader::{Leader, LeaderAction, LeaderConfig, LeaderEvent, ProposalId, Request, RequestId};
pub use live::{ConnectionId, Heartbeat, Lives};
pub use table::{Broker, BrokerSet, Change, FormerSet, Roster, UnreadableTable};

#[cfg(test)]
mod tests;
