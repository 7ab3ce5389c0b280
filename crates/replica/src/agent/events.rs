//! Events and actions of an agent.

use std::collections::BTreeSet;

use super::{BrokerIdentity, IdentityError};
use crate::in_sync::{CommittedSet, SetEpoch};
use crate::roster::{ControllerResponse, Request};
use wire::ha::{BrokerId, Epoch};

/// Names a call to a controller. The agent chooses the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CallId(pub u64);

/// Event of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// The broker starts with the content of its identity file, or of the temporary identity file if there is no
    /// other.
    Start(Option<BrokerIdentity>),
    /// A controller named the leader. `None` if it did not respond or knows no leader.
    Leader(CallId, Option<String>),
    /// A controller answered; `None` when no answer came in time.
    Answered(CallId, Option<ControllerResponse>),
    /// The identity file is on disk.
    Saved,
    /// A notice of an election with this epoch arrived (request 1008). Any host that reaches the broker's port can
    /// send it. So the broker asks the controllers at once, and trusts only their response.
    Notified(Epoch),
    /// The machine of the master proposes an in-sync set that replaces the set with this epoch.
    ProposeSet(BTreeSet<BrokerId>, SetEpoch),
    /// Milliseconds for which the disk has delayed answers of the master, and the slaves that may become master without loss, the
    /// best first ([`Master::heirs`](crate::master::Master::heirs)).
    DiskStalled(u64, Vec<BrokerId>),
    /// The timer has fired.
    Timer,
}

/// Action for the shell of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAction {
    /// Ask the controller at this address for the leader (request 1005).
    AskLeader(CallId, String),
    /// Send a request to the leader at this address.
    Call(CallId, String, Request),
    /// Send a heartbeat with the log's epoch and ends to every controller (request 904, one-way).
    Heartbeat(BrokerId),
    /// Write the identity to its file, sync, and report [`AgentEvent::Saved`]. An identity with a check code belongs
    /// into the temporary file. An identity without a check code replaces both files.
    Save(BrokerIdentity),
    /// Become master. Steps in this order:
    /// - End the slave's machine and its connections.
    /// - Cut an incomplete record.
    /// - Begin the epoch ([`EpochList::begin`](crate::epochs::EpochList::begin)).
    /// - Wait until the queues have caught up with the log.
    /// - Make the master's machine with this set.
    ///
    /// A broker that was master of the same epoch before a lossless restart does not begin the epoch again, because
    /// its slaves would cut their bytes of it.
    Lead(Epoch, CommittedSet),
    /// Stay master with a new epoch.
    LeadOn(Epoch, CommittedSet),
    /// Become slave of this broker at this address: end the master's machine, make the slave's. Its HA address comes from the
    /// name server.
    Follow(Epoch, BrokerId, String),
    /// Stay slave of the same master, which has a new epoch.
    FollowOn(Epoch),
    /// Take messages and register at name servers from now on.
    Unfence,
    /// Tell the master's machine that this set is committed.
    SetCommitted(CommittedSet),
    /// Tell the master's machine that its proposal was refused.
    SetRefused,
    /// Inform the master's machine that the result of its proposal is unknown.
    SetUnknown,
    /// Log that the disk stalls, and the member of the in-sync set that is asked to become master. `None` if no other
    /// member has all messages reported as stored to senders.
    Resign(Option<BrokerId>),
    /// Log that the controllers do not know this broker: the controllers lost their disks, or an operator removed the broker.
    Unknown,
    /// Log that the controllers named this epoch, which is older than the log's. The controllers forgot this broker
    /// set, or are new, and need an import of the former controllers' table.
    StaleEpoch(Epoch),
    /// Stop the broker: it must not run with this store.
    Refuse(IdentityError),
    /// Send [`AgentEvent::Timer`] at this time.
    WakeAt(u64),
}
