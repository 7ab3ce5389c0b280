//! The in-sync set in the view of its master: the replicas that must have a message, and the confirm offset of the log
//! (`AutoSwitchHAService`: `maybeExpandInSyncStateSet`, `maybeShrinkSyncStateSet`, `computeConfirmOffset`).
//!
//! The controller elects from its committed set. From a proposal until its result, the master does not know which set
//! is committed. So it needs the acknowledgements of *every* set that may be committed: the committed set and all
//! proposals that may still be committed. A Java master forgets a proposal when it makes the next proposal, and skips
//! members with an unknown acknowledgement. Both can lose acknowledged messages.
//!
//! With asynchronous flush, an acknowledged message may be in memory only. That is safe while several electable
//! brokers have the message. A master that is alone in its set is the only such broker. It proposes such a set only
//! when all bytes that a slave has are on its own disk. Until the controller decides, it confirms only bytes on its
//! disk.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wire::ha::BrokerId;
use wire::units::LogOffset;

/// Counts the changes of an in-sync set at the controller (`syncStateSetEpoch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct SetEpoch(pub u32);

/// Time in milliseconds for which a proposal without a response can still be committed. A request cannot be older
/// when it is decided, because the shell ends its connection if the response does not come.
pub(crate) const PROPOSAL_LIFE_MAX_MS: u64 = 30_000;

/// An in-sync set as the controller has committed it (`SyncStateSet`).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommittedSet {
    /// The members.
    pub members: BTreeSet<BrokerId>,
    /// The number of changes that led to it.
    pub epoch: SetEpoch,
}

/// Times after which a lagging member leaves the set, and after which a failed proposal is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InSyncConfig {
    /// Time for which a member may lag before it leaves, in milliseconds (`haMaxTimeSlaveNotCatchup`).
    pub not_caught_up_max_ms: u64,
    /// Pause after a proposal that did not succeed, in milliseconds (`checkSyncStateSetPeriod`).
    pub retry_interval_ms: u64,
}

/// RocketMQ's defaults.
impl Default for InSyncConfig {
    fn default() -> Self {
        Self { not_caught_up_max_ms: 15_000, retry_interval_ms: 5_000 }
    }
}

/// Report of a slave, with the state of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) offset: LogOffset,
    /// Time since which the slave has the master's whole log. `None` if it lags behind.
    pub(crate) caught_up_ms: Option<u64>,
}

/// State of the log for judging members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogState {
    /// End of the master's log.
    pub(crate) end: LogOffset,
    /// Start of the last epoch. A new member must have reached it.
    pub(crate) epoch_start: LogOffset,
}

#[derive(Clone, Debug)]
struct Member {
    /// Last acknowledgement. `None` before the first report on the present connection.
    ack: Option<LogOffset>,
    is_connected: bool,
    is_learner: bool,
    is_caught_up: bool,
    caught_up_ms: u64,
    /// Whether this member must leave the set before it can return, because its connection ended, it lost bytes, or a
    /// send waited too long for it.
    must_leave: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proposal {
    None,
    /// The controller got the proposal.
    Asked,
    /// The next proposal waits until this time.
    Paused(u64),
}

/// The flush that a master needs before it can be alone in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    NotNeeded,
    Needed,
    /// The shell got the flush request.
    Asked,
}

/// In-sync set of a broker set, on its master.
#[derive(Clone, Debug)]
pub(crate) struct InSync {
    own: BrokerId,
    config: InSyncConfig,
    committed: CommittedSet,
    /// Every member of every proposal that may still be committed.
    proposed: BTreeSet<BrokerId>,
    proposal: Proposal,
    /// Last time at which the result of a proposal in `proposed` was lost.
    unknown_since_ms: Option<u64>,
    /// The slaves that are connected, and members that may still connect.
    members: BTreeMap<BrokerId, Member>,
    confirm: LogOffset,
    /// Position up to which the log is known to be on this broker's disk.
    flushed: LogOffset,
    /// The most that a slave has acknowledged.
    acknowledged: LogOffset,
    flush: Flush,
    /// Whether a proposal that may still be committed leaves the master alone.
    proposes_alone: bool,
}

impl InSync {
    /// Makes the set of a broker that became master at `now_ms`. Confirmed bytes stay confirmed.
    pub(crate) fn new(
        now_ms: u64,
        own: BrokerId,
        config: InSyncConfig,
        committed: CommittedSet,
        confirm: LogOffset,
    ) -> Self {
        let mut in_sync = Self {
            own,
            config,
            committed: CommittedSet::default(),
            proposed: BTreeSet::new(),
            proposal: Proposal::None,
            unknown_since_ms: None,
            members: BTreeMap::new(),
            confirm,
            flushed: LogOffset::ZERO,
            acknowledged: LogOffset::ZERO,
            flush: Flush::NotNeeded,
            proposes_alone: false,
        };
        in_sync.adopt(now_ms, committed);
        in_sync
    }

    /// Adds a connected slave. Its log is unknown until it reports.
    pub(crate) fn connect(&mut self, now_ms: u64, broker: BrokerId, is_learner: bool) {
        let must_leave =
            self.members.get(&broker).is_some_and(|former| former.is_connected || former.must_leave);
        let member = Member { is_connected: true, is_learner, must_leave, ..Member::expected(now_ms) };
        self.members.insert(broker, member);
        self.forget_members_of_no_set();
    }

    /// A slave's connection has ended. A member leaves the set, but is needed until the controller has agreed.
    pub(crate) fn disconnect(&mut self, broker: BrokerId) {
        let Some(member) = self.members.get_mut(&broker) else { return };
        (member.is_connected, member.ack, member.must_leave) = (false, None, true);
        self.forget_members_of_no_set();
    }

    /// A connected slave has reported.
    pub(crate) fn acknowledge(&mut self, broker: BrokerId, ack: Ack) {
        let Some(member) = self.members.get_mut(&broker) else { return };
        member.must_leave |= ack.offset < member.ack.unwrap_or(self.confirm);
        member.ack = Some(ack.offset);
        self.acknowledged = self.acknowledged.max(ack.offset);
        member.is_caught_up = ack.caught_up_ms.is_some();
        member.caught_up_ms = member.caught_up_ms.max(ack.caught_up_ms.unwrap_or(0));
        self.forget_members_of_no_set();
    }

    /// Drops disconnected brokers that are in no set. A broker in no set need not leave a set.
    fn forget_members_of_no_set(&mut self) {
        let required = self.required();
        self.members.retain(|broker, member| {
            let is_required = required.contains(broker);
            member.must_leave &= is_required;
            member.is_connected || is_required
        });
    }

    /// Records that the log grew beyond `former_end`. Members that had everything were caught up until now.
    pub(crate) fn grow(&mut self, now_ms: u64, former_end: LogOffset) {
        for member in self.members.values_mut().filter(|member| member.ack == Some(former_end)) {
            member.caught_up_ms = now_ms;
        }
    }

    /// Records that a send waited too long for the log up to `end`. Members without those bytes have to leave.
    pub(crate) fn blame(&mut self, end: LogOffset) {
        let required = self.required();
        for (_, member) in self.members.iter_mut().filter(|(broker, _)| required.contains(broker)) {
            member.must_leave |= member.ack.is_none_or(|ack| ack < end);
        }
    }

    /// Takes a committed set, from a proposal or a poll. Ignores older sets. A lost proposal is dead if the set
    /// before it is still committed after a long time.
    pub(crate) fn commit(&mut self, now_ms: u64, committed: CommittedSet) {
        let is_dead = |since_ms| now_ms >= since_ms + PROPOSAL_LIFE_MAX_MS;
        let is_same = committed.epoch == self.committed.epoch && self.proposal != Proposal::Asked;
        let has_news = committed.epoch > self.committed.epoch;
        if has_news || is_same && self.unknown_since_ms.is_some_and(is_dead) {
            self.adopt(now_ms, committed);
        }
    }

    fn adopt(&mut self, now_ms: u64, committed: CommittedSet) {
        for broker in committed.members.iter().filter(|broker| **broker != self.own) {
            self.members.entry(*broker).or_insert_with(|| Member::expected(now_ms));
        }
        self.committed = committed;
        // A proposal names the set that it changes, so with a new one all former proposals are void.
        self.forget_proposed();
        self.proposal = Proposal::None;
        self.unknown_since_ms = None;
        self.forget_members_of_no_set();
    }

    fn forget_proposed(&mut self) {
        self.proposed.clear();
        self.proposes_alone = false;
    }

    /// The controller has refused the proposal and will not commit it.
    pub(crate) fn refuse(&mut self, now_ms: u64) {
        if self.proposal == Proposal::Asked {
            self.proposal = Proposal::Paused(now_ms + self.config.retry_interval_ms);
            if self.unknown_since_ms.is_none() {
                self.forget_proposed();
                self.forget_members_of_no_set();
            }
        }
    }

    /// Records that the result of the proposal is unknown.
    pub(crate) fn lose(&mut self, now_ms: u64) {
        if self.proposal == Proposal::Asked {
            self.proposal = Proposal::Paused(now_ms + self.config.retry_interval_ms);
            self.unknown_since_ms = Some(now_ms);
        }
    }

    /// Records that a requested flush ended or took too long. The log is on disk up to `end`.
    pub(crate) fn flushed(&mut self, end: LogOffset) {
        self.flushed = self.flushed.max(end);
        self.flush = Flush::NotNeeded;
    }

    /// Whether the shell must flush the log now. True once until [`InSync::flushed`].
    pub(crate) fn asks_flush(&mut self) -> bool {
        if self.proposes_alone && self.lacks_flush() {
            self.need_flush();
        }
        let is_needed = self.flush == Flush::Needed;
        if is_needed {
            self.flush = Flush::Asked;
        }
        is_needed
    }

    fn need_flush(&mut self) {
        if self.flush == Flush::NotNeeded {
            self.flush = Flush::Needed;
        }
    }

    /// Whether a slave has bytes that may be missing on this broker's disk. All bytes that needed a slave's
    /// acknowledgement are below them.
    fn lacks_flush(&self) -> bool {
        self.flushed < self.acknowledged
    }

    /// Returns the set to propose to the controller now, if it should change and no proposal is in flight. A set of
    /// the master alone waits for a flush, see [`InSync::asks_flush`].
    pub(crate) fn propose(&mut self, now_ms: u64, log: LogState) -> Option<BTreeSet<BrokerId>> {
        match self.proposal {
            Proposal::Asked => return None,
            Proposal::Paused(until_ms) if now_ms < until_ms => return None,
            Proposal::Paused(_) | Proposal::None => self.proposal = Proposal::None,
        }
        let wanted = self.wanted(now_ms, log);
        if wanted == self.committed.members || !self.committed.members.contains(&self.own) {
            return None;
        }
        let is_alone = wanted.len() == 1;
        if is_alone && self.lacks_flush() {
            self.need_flush();
            return None;
        }
        self.proposal = Proposal::Asked;
        self.proposes_alone |= is_alone;
        self.proposed.extend(wanted.iter().copied());
        for broker in wanted.difference(&self.committed.members) {
            // The member may have been in a lost proposal and gone since. Now it has everything.
            self.members.get_mut(broker).expect("whoever comes is connected").must_leave = false;
        }
        Some(wanted)
    }

    fn wanted(&self, now_ms: u64, log: LogState) -> BTreeSet<BrokerId> {
        let stays = |broker: &BrokerId| {
            *broker == self.own
                || self.members.get(broker).is_some_and(|it| !self.leaves(now_ms, it, log.end))
        };
        let mut wanted: BTreeSet<BrokerId> =
            self.committed.members.iter().copied().filter(|broker| stays(broker)).collect();
        if wanted.len() < self.committed.members.len() {
            // Alone, so that a newcomer whom the controllers refuse does not keep a broker in the set that is gone.
            return wanted;
        }
        let comes = |member: &Member| {
            let has_all = |ack: LogOffset| ack >= self.confirm && ack >= log.epoch_start;
            !member.is_learner && member.is_caught_up && member.ack.is_some_and(has_all)
        };
        let coming = self.members.iter().filter(|(broker, member)| **broker != self.own && comes(member));
        wanted.extend(coming.map(|(broker, _)| *broker).filter(|it| !self.committed.members.contains(it)));
        wanted
    }

    fn leaves(&self, now_ms: u64, member: &Member, end: LogOffset) -> bool {
        let is_behind = member.ack.is_none_or(|ack| ack < end);
        let is_late = now_ms > member.caught_up_ms + self.config.not_caught_up_max_ms;
        member.must_leave || member.is_learner || is_behind && is_late
    }

    /// Returns all brokers whose acknowledgement counts: members of each set that is committed or may be.
    fn required(&self) -> BTreeSet<BrokerId> {
        self.committed.members.union(&self.proposed).copied().collect()
    }

    pub(crate) fn committed(&self) -> &CommittedSet {
        &self.committed
    }

    /// Members of the proposals that may still be committed.
    pub(crate) fn proposed(&self) -> &BTreeSet<BrokerId> {
        &self.proposed
    }

    /// The size that `minInSyncReplicas` is compared with (`AutoSwitchHAService.inSyncReplicasNums`).
    pub(crate) fn size(&self) -> usize {
        self.committed.members.len().max(self.proposed.len())
    }

    /// Returns the position up to which the master's copy counts for bytes that need copies. The log ends at `end`.
    pub(crate) fn own_end(&self, end: LogOffset) -> LogOffset {
        if self.proposes_alone { end.min(self.flushed) } else { end }
    }

    /// Returns the position up to which every required member has the log, which ends at `end`. `None` if a member's
    /// position is unknown.
    pub(crate) fn reached(&self, end: LogOffset) -> Option<LogOffset> {
        self.lowest(self.own_end(end), &self.required())
    }

    /// Whether one of these brokers may be elected.
    pub(crate) fn may_elect(&self, brokers: &BTreeSet<BrokerId>) -> bool {
        !brokers.is_empty() && !self.required().is_disjoint(brokers)
    }

    /// Returns the lowest position that an electable member of `heirs` has acknowledged, at most `reached`. Heirs that
    /// are no longer in a committed or proposed set do not count. `None` if an heir has not reported.
    pub(crate) fn reached_by_heirs(
        &self,
        reached: LogOffset,
        heirs: &BTreeSet<BrokerId>,
    ) -> Option<LogOffset> {
        match heirs.is_empty() {
            true => Some(reached),
            false => self.lowest(reached, &(&self.required() & heirs)),
        }
    }

    fn lowest(&self, end: LogOffset, brokers: &BTreeSet<BrokerId>) -> Option<LogOffset> {
        let mut others = brokers.iter().filter(|broker| **broker != self.own);
        others.try_fold(end, |lowest, broker| Some(lowest.min(self.members.get(broker)?.ack?)))
    }

    /// Raises the confirm offset to `confirm`. Returns whether it rose.
    pub(crate) fn raise_confirm(&mut self, confirm: LogOffset) -> bool {
        let has_risen = confirm > self.confirm;
        self.confirm = self.confirm.max(confirm);
        has_risen
    }

    /// Returns the confirm offset: consumers see only the log before it.
    pub(crate) fn confirm(&self) -> LogOffset {
        self.confirm
    }

    /// Returns the time at which [`InSync::propose`] must run without an event.
    pub(crate) fn wake_at_ms(&self, end: LogOffset) -> Option<u64> {
        match self.proposal {
            Proposal::Asked => None,
            _ if !self.committed.members.contains(&self.own) => None,
            _ if self.flush == Flush::Asked => None,
            Proposal::Paused(until_ms) => Some(until_ms),
            Proposal::None => {
                let members = self.committed.members.iter().filter_map(|broker| self.members.get(broker));
                let behind = members.filter(|member| member.ack.is_none_or(|ack| ack < end));
                behind.map(|member| member.caught_up_ms + self.config.not_caught_up_max_ms + 1).min()
            }
        }
    }
}

impl Member {
    /// Makes a member that may still connect. Its time to connect equals the time to catch up.
    fn expected(now_ms: u64) -> Self {
        Self {
            ack: None,
            is_connected: false,
            is_learner: false,
            is_caught_up: false,
            caught_up_ms: now_ms,
            must_leave: false,
        }
    }
}

#[cfg(test)]
mod tests;
