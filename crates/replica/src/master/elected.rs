//! Epochs and in-sync set of an elected master: `AutoSwitchHAService` and `AutoSwitchHAConnection`.

use super::{MasterAction, MasterEvent, Peer};
use crate::epochs::EpochList;
use crate::in_sync::{Ack, CommittedSet, InSync, InSyncConfig, LogState};
use crate::transfer::LogRange;
use std::collections::BTreeSet;
use wire::ha::classic::Header;
use wire::ha::switch::{EPOCH_ENTRIES_MAX, Handshake, HandshakeResponse, TransferHeader};
use wire::ha::{BrokerId, EpochStart, FrameHead};
use wire::units::LogOffset;

/// State of a broker that becomes master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterStart {
    /// Id of this broker at the controller.
    pub own: BrokerId,
    /// The in-sync set that the controller committed with the election.
    pub committed: CommittedSet,
    /// The epochs of the log; the master's own epoch has begun ([`EpochList::begin`]).
    pub epochs: EpochList,
    /// Readable range of the log.
    pub log: LogRange,
    /// Confirm offset of the log.
    pub confirm: LogOffset,
}

/// State of an election: epochs of the log, and the in-sync set.
#[derive(Clone, Debug)]
pub struct ElectionState {
    pub(super) own: BrokerId,
    epochs: EpochList,
    pub(super) in_sync: InSync,
    /// End of the log that may be reported as stored to senders.
    pub(super) answered: LogOffset,
    /// Members that the controllers may elect at the request of this master.
    pub(super) heirs: BTreeSet<BrokerId>,
}

impl ElectionState {
    pub(super) fn new(now_ms: u64, config: InSyncConfig, start: MasterStart) -> Self {
        assert!(start.confirm <= start.log.end, "what is confirmed is in the log");
        assert!(start.epochs.last().is_some(), "a master has begun its epoch");
        Self {
            own: start.own,
            epochs: start.epochs,
            in_sync: InSync::new(now_ms, start.own, config, start.committed, start.confirm),
            // The former masters may have acknowledged everything in the log.
            answered: start.log.end,
            heirs: BTreeSet::new(),
        }
    }

    /// The in-sync set as the controller has committed it.
    pub fn committed(&self) -> &CommittedSet {
        self.in_sync.committed()
    }

    /// Members of the in-sync sets that are proposed and may still be committed.
    pub fn proposed(&self) -> &BTreeSet<BrokerId> {
        self.in_sync.proposed()
    }

    /// The epochs of the log.
    pub fn epochs(&self) -> &EpochList {
        &self.epochs
    }

    pub(super) fn has_member(&self, broker: Option<BrokerId>) -> bool {
        broker.is_some_and(|broker| self.committed().members.contains(&broker))
    }

    /// Takes a decision of the controllers, or the end of a flush. The log ends at `end`.
    pub(super) fn decide(
        &mut self,
        now_ms: u64,
        event: MasterEvent,
        end: LogOffset,
        out: &mut Vec<MasterAction>,
    ) {
        match event {
            MasterEvent::Flushed(flushed) => self.in_sync.flushed(flushed),
            MasterEvent::SetCommitted(committed) => self.in_sync.commit(now_ms, committed),
            MasterEvent::SetRefused => self.in_sync.refuse(now_ms),
            MasterEvent::SetUnknown => self.in_sync.lose(now_ms),
            MasterEvent::Elected(epoch) => {
                self.epochs.begin(epoch, end).expect("the controller's epochs grow");
                out.push(MasterAction::SaveEpochs(self.epochs.clone()));
            }
            event => unreachable!("{event:?} is an event of every master"),
        }
    }

    /// Returns the reply to the handshake of a new slave.
    pub(super) fn greet(&mut self, now_ms: u64, handshake: Handshake, end: LogOffset) -> HandshakeResponse {
        self.in_sync.connect(now_ms, handshake.broker_id, handshake.is_learner);
        let entries = self.epochs.entries();
        let epochs = entries[entries.len().saturating_sub(EPOCH_ENTRIES_MAX)..].to_vec();
        HandshakeResponse { end, epochs }
    }

    /// Takes a slave's report about a log that ends at `end`.
    pub(super) fn acknowledge(&mut self, now_ms: u64, peer: &Peer, reported: LogOffset, end: LogOffset) {
        let Some(broker) = peer.broker() else { return };
        let caught_up_ms = match reported {
            reported if reported == end => Some(now_ms),
            reported if reported >= peer.last_end => Some(peer.last_sent_ms),
            _ => None,
        };
        self.in_sync.acknowledge(broker, Ack { offset: reported, caught_up_ms });
    }

    /// Takes another range of the log.
    pub(super) fn grow(&mut self, now_ms: u64, former: LogRange, log: LogRange, out: &mut Vec<MasterAction>) {
        assert!(log.end >= former.end, "the log of a master only grows");
        if log.end > former.end {
            self.in_sync.grow(now_ms, former.end);
        }
        let entries = self.epochs.entries().len();
        if log.minimum > former.minimum {
            self.epochs.drop_below(log.minimum);
        }
        if self.epochs.entries().len() < entries {
            out.push(MasterAction::SaveEpochs(self.epochs.clone()));
        }
    }

    /// Returns the end of the epoch at `wanted` in a log that ends at `end`, or `None` without an epoch.
    pub(super) fn epoch_end(&self, wanted: LogOffset, end: LogOffset) -> Option<LogOffset> {
        self.epochs.at(wanted)?;
        Some(self.epochs.end_at(wanted).unwrap_or(end).min(end))
    }

    /// Adds epoch and confirm offset to a head.
    pub(super) fn head(&self, Header { offset, body_bytes }: Header) -> FrameHead {
        let epoch: EpochStart = self.epochs.at(offset).expect("only pieces of an epoch are sent");
        FrameHead::Switch(TransferHeader { offset, body_bytes, epoch, confirm: self.in_sync.confirm() })
    }

    /// Raises the confirm offset in a log that ends at `end`.
    pub(super) fn confirm_to(&mut self, end: LogOffset, is_all_ack: bool, out: &mut Vec<MasterAction>) {
        let reached = if is_all_ack { self.in_sync.reached(end) } else { Some(end) };
        if reached.is_some_and(|reached| self.in_sync.raise_confirm(reached)) {
            out.push(MasterAction::Confirm(self.in_sync.confirm()));
        }
    }

    /// Proposes changes of the in-sync set.
    pub(super) fn propose(&mut self, now_ms: u64, end: LogOffset, out: &mut Vec<MasterAction>) {
        let epoch_start = self.epochs.last().map_or(LogOffset::ZERO, |last| last.start);
        if let Some(wanted) = self.in_sync.propose(now_ms, LogState { end, epoch_start }) {
            out.push(MasterAction::ProposeSet(wanted, self.in_sync.committed().epoch));
        }
        if self.in_sync.asks_flush() {
            out.push(MasterAction::Flush);
        }
    }
}
