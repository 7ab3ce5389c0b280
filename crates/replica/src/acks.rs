//! Number of replicas that must have a message before its sender gets a response, and the responses that wait for
//! replicas (`CommitLog.handleDiskFlushAndHA`, `GroupTransferService`).
//!
//! A Java master checks waiting sends one after the other, so a slow send delays all later sends. Here sends do not
//! wait for each other. An acknowledgement answers all covered sends at once, and each send has its own deadline.

use std::collections::{BTreeMap, BTreeSet};
use wire::codes::response;
use wire::units::LogOffset;

/// Authority that decides which broker of a group is the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The operator, by `brokerRole`.
    Classic,
    /// The operator, and a slave takes over secondary duties (`enableSlaveActingMaster`).
    ActingMaster,
    /// The controller (`enableControllerMode`).
    Controller,
}

/// Configured conditions for the response to a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckConfig {
    /// Authority that decides about the master.
    pub mode: Mode,
    /// Copies that a message needs, the master's included (`inSyncReplicas`). With zero and one, sends do not wait.
    pub in_sync_replicas: u32,
    /// Fewest copies with which sends are taken (`minInSyncReplicas`).
    pub min_in_sync_replicas: u32,
    /// Whether fewer copies suffice when fewer replicas are in sync (`enableAutoInSyncReplicas`).
    pub is_auto: bool,
    /// Whether every member of the in-sync set must have a message (`allAckInSyncStateSet`).
    pub is_all_ack: bool,
    /// Longest wait of a send for replicas, in milliseconds (`slaveTimeout`).
    pub slave_timeout_ms: u64,
    /// Bytes by which a slave may be behind and still count as in sync (`haMaxGapNotInSync`; 4.x: `haSlaveFallbehindMax`).
    pub max_gap_bytes: u64,
}

/// RocketMQ's defaults.
impl Default for AckConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Classic,
            in_sync_replicas: 1,
            min_in_sync_replicas: 1,
            is_auto: false,
            is_all_ack: false,
            slave_timeout_ms: 3_000,
            max_gap_bytes: 256 * 1024 * 1024,
        }
    }
}

/// Numbers of replicas that a group has now, the master included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Replicas that the name servers know. `totalReplicas` before the first answer of a name server.
    pub alive: u32,
    /// Replicas in sync, as [`Master::in_sync`](crate::master::Master::in_sync) counts them.
    pub in_sync: u32,
}

/// Replicas that must have a message before its sender gets a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AckRequirement {
    /// The master alone.
    Master,
    /// A number of replicas, the master included. At least two.
    Acks(u32),
    /// Every member of the in-sync set.
    All,
}

/// Result of a send with regard to durability and replicas (`PutMessageStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AckStatus {
    /// The message is on all required replicas.
    Ok,
    /// The message is stored, but was not on disk in time.
    FlushDiskTimeout,
    /// The message is stored, but not enough replicas acknowledged it in time.
    FlushSlaveTimeout,
    /// The message is not stored, because too few replicas are in sync.
    InSyncReplicasNotEnough,
    /// The message is not stored, because this broker is a slave.
    ServiceNotAvailable,
}

impl AckStatus {
    /// The response code of an answer with this status (`SendMessageProcessor.handlePutMessageResult`).
    pub const fn code(self) -> i32 {
        match self {
            Self::Ok => response::SUCCESS,
            Self::FlushDiskTimeout => response::FLUSH_DISK_TIMEOUT,
            Self::FlushSlaveTimeout => response::FLUSH_SLAVE_TIMEOUT,
            Self::InSyncReplicasNotEnough => response::SYSTEM_ERROR,
            Self::ServiceNotAvailable => response::SERVICE_NOT_AVAILABLE,
        }
    }

    /// Returns the remark of a response with this status. The broker itself writes the remark of
    /// [`AckStatus::ServiceNotAvailable`], which contains the disk usage.
    pub const fn remark(self) -> Option<&'static str> {
        match self {
            Self::InSyncReplicasNotEnough => Some("in-sync replicas not enough"),
            _ => None,
        }
    }

    /// Combines the result `self` of the flush with the result `replicas` of the replicas. A failure of the replicas
    /// takes precedence.
    #[must_use]
    pub const fn with_replicas(self, replicas: Self) -> Self {
        match replicas {
            Self::Ok => self,
            failed => failed,
        }
    }
}

impl AckConfig {
    /// Returns the replicas that the next message needs. Applies to a SYNC_MASTER and a sender that waits for storage
    /// (`WAIT` is not `false`). Messages of other masters and other senders need [`AckRequirement::Master`]
    /// (`CommitLog.needHandleHA`).
    ///
    /// # Errors
    /// [`AckStatus::InSyncReplicasNotEnough`] when fewer replicas are in sync than the configuration demands. The
    /// message must not be stored then.
    pub fn need(&self, replicas: Replicas) -> Result<AckRequirement, AckStatus> {
        let not_enough = Err(AckStatus::InSyncReplicasNotEnough);
        let need = match self.mode {
            Mode::Controller if replicas.in_sync < self.min_in_sync_replicas => return not_enough,
            Mode::Controller if self.is_all_ack => return Ok(AckRequirement::All),
            Mode::Classic | Mode::Controller => self.in_sync_replicas,
            Mode::ActingMaster => {
                let in_sync = replicas.in_sync.min(replicas.alive);
                let need = if self.is_auto {
                    self.in_sync_replicas.min(in_sync).max(self.min_in_sync_replicas)
                } else {
                    self.in_sync_replicas
                };
                if need > in_sync {
                    return not_enough;
                }
                need
            }
        };
        Ok(if need <= 1 { AckRequirement::Master } else { AckRequirement::Acks(need) })
    }
}

/// Id of a waiting response. The shell chooses the numbers and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// An answer that must wait for replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingResponse {
    /// Id of the answer.
    pub ticket: Ticket,
    /// End of the message's record: replicas need everything below.
    pub end: LogOffset,
    /// Replicas that must have the message.
    pub need: AckRequirement,
}

/// Waiting responses. Their number is bounded by the unanswered requests of the broker's connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingResponses {
    /// Responses by end of record, with their deadlines, for each need.
    by_need: BTreeMap<AckRequirement, BTreeMap<(LogOffset, Ticket), u64>>,
    /// All answers by deadline. Invariant: the same answers as in `by_need`.
    deadlines: BTreeSet<(u64, AckRequirement, LogOffset, Ticket)>,
}

impl PendingResponses {
    /// Adds an answer that is given up at `deadline_ms`.
    pub(crate) fn add(&mut self, wait: PendingResponse, deadline_ms: u64) {
        let PendingResponse { ticket, end, need } = wait;
        let former = self.by_need.entry(need).or_default().insert((end, ticket), deadline_ms);
        assert!(former.is_none(), "{ticket:?} waits twice");
        self.deadlines.insert((deadline_ms, need, end, ticket));
    }

    /// Removes the responses whose need is met. `reached` returns the log position up to which a need is met, or
    /// `None`.
    pub(crate) fn take_reached(
        &mut self,
        reached: impl Fn(AckRequirement) -> Option<LogOffset>,
        mut answer: impl FnMut(Ticket),
    ) {
        for (need, waits) in &mut self.by_need {
            let Some(reached) = reached(*need) else { continue };
            while let Some(first) = waits.first_entry().filter(|first| first.key().0 <= reached) {
                let ((end, ticket), deadline_ms) = first.remove_entry();
                self.deadlines.remove(&(deadline_ms, *need, end, ticket));
                answer(ticket);
            }
        }
        self.by_need.retain(|_, waits| !waits.is_empty());
    }

    /// Removes the responses whose deadline has come, and passes each with the end of its record.
    pub(crate) fn take_late(&mut self, now_ms: u64, mut answer: impl FnMut(Ticket, LogOffset)) {
        while let Some((_, need, end, ticket)) =
            self.deadlines.first().copied().filter(|first| first.0 <= now_ms)
        {
            self.deadlines.pop_first();
            let waits = self.by_need.get_mut(&need).expect("the same answers are in both");
            waits.remove(&(end, ticket));
            if waits.is_empty() {
                self.by_need.remove(&need);
            }
            answer(ticket, end);
        }
    }

    /// The earliest deadline.
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|first| first.0)
    }
}

/// Returns the position up to which the log is on `need` replicas, the master included. `acks` are the
/// acknowledgements of the other replicas. `None` if there are too few replicas.
pub(crate) fn reached_by(need: u32, acks: impl Iterator<Item = LogOffset>) -> Option<LogOffset> {
    let mut acks: Vec<LogOffset> = acks.collect();
    acks.sort_unstable_by(|a, b| b.cmp(a));
    let last = usize::try_from(need).expect("32 bits fit").checked_sub(2)?;
    acks.get(last).copied()
}

#[cfg(test)]
mod tests;
