//! Proposal that adds slaves to the in-sync set, which waits until these slaves have the tables. The controllers may
//! elect a member as soon as they have committed the set. So the member must have the topics, groups and offsets of
//! earlier responses.
//!
//! | step | answers about tables wait for the newcomer | goes on when the newcomer has the tables of |
//! |---|---|---|
//! | it has caught up with the log | no | that moment, so that a large table that is still on its way holds up no answer |
//! | it is counted | yes | the moment from which it is counted |
//! | the set is proposed | yes | |
//!
//! A RocketMQ slave never requests tables in this way, and is proposed without them after a while.

use std::collections::BTreeSet;
use std::time::Duration;

use replica::in_sync::SetEpoch;
use replica::master::Master;
use tokio::sync::watch;
use wire::ha::BrokerId;

use crate::clock::within;
use crate::parts::{GroupParts, Replication, Runtime, Tables};
use crate::state::{Copies, TableVersions};
use crate::table_changes::versions;

/// Longest duration of each step. Longer than the silence by which a RocketMQ slave is recognised.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause after which a proposal is checked again without a report of a slave.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A proposal that waits.
pub(super) struct Admission {
    /// The proposed members, and the number of the set that they replace.
    pub proposal: (BTreeSet<BrokerId>, SetEpoch),
    newcomers: BTreeSet<BrokerId>,
    /// Newcomers for which responses do not wait yet.
    pub uncounted: BTreeSet<BrokerId>,
    is_counted: bool,
    /// Versions that the newcomers must have.
    wanted: TableVersions,
    until: Duration,
}

/// Decision about a waiting proposal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    /// Responses must wait for the newcomers from now on.
    Count,
    Propose,
    /// The proposal is refused, because the newcomers are gone or did not take the tables in time.
    /// The machine of the master may propose the set again.
    Drop,
    /// The proposal is outdated, because another set was committed meanwhile. The machine of the
    /// master does not expect a result.
    Forget,
}

impl Admission {
    /// A proposal with these newcomers. `proposed` are the members of former proposals that may still be committed.
    pub(super) fn new(
        parts: &GroupParts,
        proposal: (BTreeSet<BrokerId>, SetEpoch),
        newcomers: BTreeSet<BrokerId>,
        proposed: &BTreeSet<BrokerId>,
    ) -> Self {
        let now = parts.runtime.clock.steady();
        parts.replication.table_copies.expect(&newcomers, now);
        let uncounted = newcomers.difference(proposed).copied().collect();
        let wanted = versions(&parts.tables);
        Self { proposal, newcomers, uncounted, is_counted: false, wanted, until: now + PATIENCE }
    }

    /// Returns the next step of the proposal: to wait, to count the newcomers, to propose the set, or to give up.
    pub(super) fn look(&self, replication: &Replication, runtime: &Runtime, machine: &Master) -> Verdict {
        let now = runtime.clock.steady();
        let is_of_this_set = |epoch| epoch == self.proposal.1;
        if !machine.election().is_some_and(|it| is_of_this_set(it.committed().epoch)) {
            return Verdict::Forget;
        }
        if !self.newcomers.iter().all(|newcomer| machine.peer_of(*newcomer).is_some()) {
            return Verdict::Drop;
        }
        match replication.table_copies.cover(&self.newcomers, &self.wanted, now) {
            true if self.is_counted => Verdict::Propose,
            true => Verdict::Count,
            false if now >= self.until => Verdict::Drop,
            false => Verdict::Wait,
        }
    }

    /// Counts the newcomers from now on: answers about tables wait for them. Before they are proposed they must have every table
    /// change that was answered until this call. The caller has published that they are counted.
    pub(super) fn counted(&mut self, tables: &Tables, runtime: &Runtime) {
        self.is_counted = true;
        self.wanted = versions(tables);
        self.until = runtime.clock.steady() + PATIENCE;
    }
}

/// Waits until a slave reports its versions, at most for [`LOOK_AGAIN`]. Waits for ever if no proposal waits (`is_awaited` is
/// false).
pub(super) async fn news(copies: &mut watch::Receiver<Copies>, is_awaited: bool) {
    if !is_awaited {
        return std::future::pending().await;
    }
    let _ = within(LOOK_AGAIN, copies.changed()).await;
}
