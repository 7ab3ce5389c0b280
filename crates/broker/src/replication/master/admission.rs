//! A proposal that adds slaves to the in-sync set, which waits until these have the tables. The controllers may elect a member as soon
//! as they have committed the set, and what answers said of topics, groups and offsets must be known there.
//!
//! | step | answers about tables wait for the newcomer | goes on when the newcomer has the tables of |
//! |---|---|---|
//! | it has caught up with the log | no | that moment, so that a large table that is still on its way holds up no answer |
//! | it is counted | yes | the moment from which it is counted |
//! | the set is proposed | yes | |
//!
//! A slave of RocketMQ never asks for tables in this way, and is proposed without them after a while.

use std::collections::BTreeSet;
use std::time::Duration;

use replica::in_sync::SetEpoch;
use tokio::sync::watch;
use wire::ha::BrokerId;

use super::machine::Machine;
use crate::broker::Broker;
use crate::clock::within;
use crate::state::{Copies, TableVersions};
use crate::table_changes::versions;

/// How long each step may take. Longer than a slave of RocketMQ is silent before it is known as such.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause after which a proposal is looked at again when no slave says what it has.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A proposal that waits.
pub(super) struct Admission {
    /// The proposed members, and the number of the set that they replace.
    pub proposal: (BTreeSet<BrokerId>, SetEpoch),
    newcomers: BTreeSet<BrokerId>,
    /// The newcomers for whom answers do not wait yet.
    pub uncounted: BTreeSet<BrokerId>,
    is_counted: bool,
    /// What the newcomers must have.
    wanted: TableVersions,
    until: Duration,
}

/// What becomes of the proposal now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    /// Answers have to wait for the newcomers from now on.
    Count,
    Propose,
    /// The newcomers are gone, or did not take the tables in time.
    Drop,
    /// Another set was committed meanwhile.
    Forget,
}

impl Admission {
    /// A proposal with these newcomers. `proposed` are the members of former proposals that may still be committed.
    pub(super) fn new(
        broker: &Broker,
        proposal: (BTreeSet<BrokerId>, SetEpoch),
        newcomers: BTreeSet<BrokerId>,
        proposed: &BTreeSet<BrokerId>,
    ) -> Self {
        let now = broker.clock.steady();
        broker.table_copies.expect(&newcomers, now);
        let uncounted = newcomers.difference(proposed).copied().collect();
        let wanted = versions(broker);
        Self { proposal, newcomers, uncounted, is_counted: false, wanted, until: now + PATIENCE }
    }

    /// Whether the proposal goes on.
    pub(super) fn look(&self, broker: &Broker, machine: &Machine) -> Verdict {
        let now = broker.clock.steady();
        let is_of_this_set = |epoch| epoch == self.proposal.1;
        if !machine.in_sync().is_some_and(|(committed, _)| is_of_this_set(committed.epoch)) {
            return Verdict::Forget;
        }
        if !self.newcomers.iter().all(|newcomer| machine.peer_of(*newcomer).is_some()) {
            return Verdict::Drop;
        }
        match broker.table_copies.cover(&self.newcomers, &self.wanted, now) {
            true if self.is_counted => Verdict::Propose,
            true => Verdict::Count,
            false if now >= self.until => Verdict::Drop,
            false => Verdict::Wait,
        }
    }

    /// Counts the newcomers from now on: answers about tables wait for them. Before they are proposed they must have every table
    /// change that was answered until this call. The caller has published that they are counted.
    pub(super) fn counted(&mut self, broker: &Broker) {
        self.is_counted = true;
        self.wanted = versions(broker);
        self.until = broker.clock.steady() + PATIENCE;
    }
}

/// Waits until a slave has said what it has, or for a moment; for ever when no proposal waits.
pub(super) async fn news(copies: &mut watch::Receiver<Copies>, is_awaited: bool) {
    if !is_awaited {
        return std::future::pending().await;
    }
    let _ = within(LOOK_AGAIN, copies.changed()).await;
}
