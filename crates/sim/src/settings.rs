//! Settings of a run: the mode of the group, its promises, the faults, and the planted bug.

use crate::random::Random;
use store::FlushMode;

/// Names a node of a run: brokers first, then the controllers and the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// Number of brokers; they are the nodes below this number.
pub const BROKERS: usize = 3;
/// Number of controllers, which are one group.
pub const CONTROLLERS: usize = 3;
/// All producers and readers.
pub const CLIENTS: NodeId = NodeId(BROKERS + CONTROLLERS);
/// Number of nodes.
pub const NODES: usize = BROKERS + CONTROLLERS + 1;

impl NodeId {
    /// The node's name, which is also its address.
    pub fn name(self) -> &'static str {
        ["a", "b", "c", "n0", "n1", "n2", "clients"][self.0]
    }

    /// The broker at this address.
    pub fn of_broker(address: &str) -> Option<Self> {
        Self::brokers().find(|node| node.name() == address)
    }

    /// The controller at this address.
    pub fn of_controller(address: &str) -> Option<Self> {
        Self::controllers().find(|node| node.name() == address)
    }

    /// Whether this is a controller.
    pub fn is_controller(self) -> bool {
        (BROKERS..BROKERS + CONTROLLERS).contains(&self.0)
    }

    /// All brokers.
    pub fn brokers() -> impl Iterator<Item = Self> {
        (0..BROKERS).map(NodeId)
    }

    /// All controllers.
    pub fn controllers() -> impl Iterator<Item = Self> {
        (BROKERS..BROKERS + CONTROLLERS).map(NodeId)
    }
}

/// Mode of the group: the authority that decides about the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Broker `a` is always the master. A send waits for `in_sync_replicas` copies.
    Classic {
        /// `inSyncReplicas`; one means an asynchronous master.
        in_sync_replicas: u32,
    },
    /// A group of controllers elects. `allAckInSyncStateSet` is true, except in
    /// [`Faults::Resignations`].
    Controller,
}

/// A fault that is planted into the simulation's shells, to see that the checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A send is answered without waiting for replicas.
    AckBeforeReplica,
    /// A send is answered without waiting for the disk.
    AckBeforeFlush,
    /// A master takes its proposed smaller in-sync set for committed.
    EarlyShrink,
    /// Controllers do not compare epochs when a master replaces the in-sync set.
    StaleEpoch,
    /// A master reports its log's end as confirmed.
    ConfirmAhead,
    /// Controllers elect brokers outside the in-sync set.
    UncleanElection,
    /// A controller sends and responds before its journal has the vote.
    UnsavedVote,
    /// A broker that lost the end of its log does not report it.
    LossyRestart,
    /// A broker does not report the last epoch of its log when it registers with the controllers.
    UntoldEpoch,
    /// A broker does not report the end of its log when it registers with the controllers.
    UntoldEnd,
    /// A slave's cut log stays on the disk.
    CutNotWiped,
    /// A report beyond the sent bytes counts.
    FalseReport,
    /// Each connection of a slave counts as a replica.
    CountedTwice,
    /// Readers get unconfirmed messages.
    ReadAboveConfirm,
    /// A master with sync flush sends bytes that are not on its disk.
    SendUnflushed,
    /// A master whose disk stalls keeps its role.
    KeepSlowDisk,
    /// A master that has named its successor acknowledges messages that the successor lacks.
    OvertakenHeir,
    /// A master names the member with the longest log as its successor, although that log lacks acknowledged messages.
    LaggingHeir,
    /// A send whose flush was pending when its master named a successor is answered without the successor.
    OvertakingFlush,
}

/// A planted bug with the search for it.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Name on the command line.
    pub name: &'static str,
    /// The bug.
    pub bug: Bug,
    /// Scenario that must find the bug.
    pub scenario: &'static str,
    /// Seed from which the search starts: a little below a seed that found the bug, so that the search for a rare bug is short.
    /// A change of the product moves the seeds that find a bug, and the search takes longer.
    pub first_seed: u64,
}

const fn planted(name: &'static str, bug: Bug, scenario: &'static str, first_seed: u64) -> Planted {
    Planted { name, bug, scenario, first_seed }
}

/// All planted bugs.
pub const BUGS: [Planted; 19] = [
    planted("ack-before-replica", Bug::AckBeforeReplica, "classic-sync-async", 0),
    planted("ack-before-flush", Bug::AckBeforeFlush, "classic-async-sync", 0),
    planted("early-shrink", Bug::EarlyShrink, "controller-async", 20),
    planted("stale-epoch", Bug::StaleEpoch, "controller-async", 515),
    planted("confirm-ahead", Bug::ConfirmAhead, "controller-async", 0),
    planted("unclean-election", Bug::UncleanElection, "controller-async", 0),
    planted("unsaved-vote", Bug::UnsavedVote, "controllers", 0),
    planted("lossy-restart", Bug::LossyRestart, "controller-async", 0),
    planted("untold-epoch", Bug::UntoldEpoch, "controller-async", 0),
    planted("untold-end", Bug::UntoldEnd, "old-copies", 0),
    planted("cut-not-wiped", Bug::CutNotWiped, "cut-off", 285),
    planted("false-report", Bug::FalseReport, "controller-async", 50),
    planted("counted-twice", Bug::CountedTwice, "classic-all-async", 0),
    planted("read-above-confirm", Bug::ReadAboveConfirm, "controller-async", 0),
    planted("send-unflushed", Bug::SendUnflushed, "controller-sync", 0),
    planted("keep-slow-disk", Bug::KeepSlowDisk, "slow-disks", 0),
    planted("overtaken-heir", Bug::OvertakenHeir, "resignations", 50),
    planted("lagging-heir", Bug::LaggingHeir, "resignations", 150),
    planted("overtaking-flush", Bug::OvertakingFlush, "resignations", 0),
];

/// A run, before its seed has decided about the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Mode of the group.
    pub mode: Mode,
    /// When brokers flush.
    pub flush: FlushMode,
    /// Which faults come.
    pub faults: Faults,
}

/// Kinds of faults in a run: all kinds, or those of a fault that RocketMQ had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// All kinds.
    All,
    /// Answers of the controllers are lost while the in-sync set grows, and masters end (apache/rocketmq 5663).
    LostAnswers,
    /// A broker, or two together, are cut off from controllers and group while clients reach them (7017, 6662).
    CutOff,
    /// Controllers end, run no code or are cut off, one or two of three at a time, while brokers end.
    Controllers,
    /// Processes end and come back at once, with sends in flight (7689).
    Restarts,
    /// A member loses power and the end of its log, comes back at once, and the master ends (KIP-966).
    LossyRestarts,
    /// Strangers connect to the HA port and report any offset (1155, 3015).
    Strangers,
    /// The disk of one broker at a time needs many seconds for a flush.
    SlowDisks,
    /// All processes end at once, and the operator starts a member on an older copy of its store.
    OldCopies,
    /// Flushes end about when their master gives up its role, and links are slow. One or two copies of a message suffice
    /// (`allAckInSyncStateSet=false`). No broker ends, because such a group may lose messages then.
    Resignations,
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 17] = {
    const fn classic(name: &'static str, in_sync_replicas: u32, flush: FlushMode) -> Scenario {
        Scenario { name, mode: Mode::Classic { in_sync_replicas }, flush, faults: Faults::All }
    }
    const fn elected(name: &'static str, flush: FlushMode, faults: Faults) -> Scenario {
        Scenario { name, mode: Mode::Controller, flush, faults }
    }
    let strangers = classic("strangers-classic", 2, FlushMode::Async);
    [
        classic("classic-async-async", 1, FlushMode::Async),
        classic("classic-async-sync", 1, FlushMode::Sync),
        classic("classic-sync-async", 2, FlushMode::Async),
        classic("classic-sync-sync", 2, FlushMode::Sync),
        classic("classic-all-async", 3, FlushMode::Async),
        elected("controller-async", FlushMode::Async, Faults::All),
        elected("controller-sync", FlushMode::Sync, Faults::All),
        elected("controllers", FlushMode::Async, Faults::Controllers),
        elected("lost-answers", FlushMode::Async, Faults::LostAnswers),
        elected("cut-off", FlushMode::Async, Faults::CutOff),
        elected("restarts", FlushMode::Async, Faults::Restarts),
        elected("lossy-restarts", FlushMode::Async, Faults::LossyRestarts),
        elected("strangers", FlushMode::Async, Faults::Strangers),
        elected("slow-disks", FlushMode::Sync, Faults::SlowDisks),
        elected("old-copies", FlushMode::Sync, Faults::OldCopies),
        elected("resignations", FlushMode::Sync, Faults::Resignations),
        Scenario { faults: Faults::Strangers, ..strangers },
    ]
};

impl Scenario {
    /// The scenario with this name.
    pub fn named(name: &str) -> Option<Self> {
        SCENARIOS.into_iter().find(|scenario| scenario.name == name)
    }
}

/// Choices of a seed before the run begins.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Mode of the group.
    pub mode: Mode,
    /// When brokers flush.
    pub flush: FlushMode,
    /// Which faults come.
    pub faults: Faults,
    /// The planted bug.
    pub bug: Option<Bug>,
    /// Size of a commit log file in bytes.
    pub segment_bytes: u64,
    /// Largest body of a frame between brokers in bytes.
    pub batch_bytes: u32,
    /// Time without a heartbeat in milliseconds after which controllers count a broker as gone.
    pub heartbeat_timeout_ms: u64,
    /// Range of body sizes in bytes: smallest size, and end of the range, which is excluded. Each
    /// message has a random size of the range.
    pub body_bytes: (u64, u64),
    /// Smallest in-sync set with which an elected master takes messages (`minInSyncReplicas`). Without
    /// `allAckInSyncStateSet` also the copies that a message needs (`inSyncReplicas`).
    pub min_in_sync_replicas: u32,
}

impl Settings {
    /// The settings of a scenario's run.
    #[must_use]
    pub fn new(scenario: Scenario, bug: Option<Bug>, random: &mut Random) -> Self {
        let body_bytes = if random.once_in(2) { (40, 41) } else { (10, random.pick(&[100, 600])) };
        let heartbeat_timeouts_ms = match scenario.faults {
            // A master is replaced only at its own request.
            Faults::Resignations => [10_000; 3],
            _ => [2_500, 2_500, 10_000],
        };
        Self {
            mode: scenario.mode,
            flush: scenario.flush,
            faults: scenario.faults,
            bug,
            segment_bytes: random.pick(&[4_096, 16_384, 65_536]),
            batch_bytes: u32::try_from(random.pick(&[64, 500, 4_000])).expect("small"),
            heartbeat_timeout_ms: random.pick(&heartbeat_timeouts_ms),
            body_bytes,
            // The copy of the generator leaves the other choices of a seed unchanged.
            min_in_sync_replicas: if random.clone().number() & 32 == 0 { 1 } else { 2 },
        }
    }

    /// Whether this bug is planted.
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether brokers answer when a message is on disk.
    pub fn is_sync_flush(&self) -> bool {
        self.flush == FlushMode::Sync
    }

    /// Whether every member of the in-sync set must have a message (`allAckInSyncStateSet`). Otherwise
    /// [`Self::min_in_sync_replicas`] copies suffice, and readers may see messages that an election drops.
    pub fn is_all_ack(&self) -> bool {
        self.faults != Faults::Resignations
    }

    /// Number of copies that a message needs before its answer. 1 without a wait for replicas, and with
    /// `allAckInSyncStateSet`, because the in-sync set may shrink during the wait.
    pub fn copies(&self) -> u32 {
        match self.mode {
            Mode::Classic { in_sync_replicas } => in_sync_replicas,
            Mode::Controller if self.is_all_ack() => 1,
            Mode::Controller => self.min_in_sync_replicas,
        }
    }
}
