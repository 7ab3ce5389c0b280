//! Stages of a repeat, each with the action that begins it and the condition that ends it.

/// A stage of a repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name of the phase that the stage records.
    pub name: &'static str,
    /// Longest duration in seconds.
    pub seconds: u32,
    /// Action at the beginning of the stage.
    pub action: Action,
    /// Condition that ends the stage before its time limit.
    pub until: Until,
}

/// Condition that ends a stage before its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// No condition.
    Time,
    /// The groups have consumed everything.
    Drained,
    /// This many bytes of bodies were sent in the stage.
    Sent(u64),
    /// The cluster has as many brokers as when the run began, with a master in every set and slaves that follow.
    Whole,
}

impl Until {
    /// Whether the stage has ended early: `sent_bytes` of bodies were sent in it, and `is_drained` says whether the groups have
    /// consumed everything.
    pub fn is_met(self, sent_bytes: u64, is_drained: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Time | Self::Whole => false,
            Self::Drained => is_drained(),
            Self::Sent(bytes) => sent_bytes >= bytes,
        }
    }
}

/// Action at the beginning of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No action.
    None,
    /// Start the consumers.
    StartReaders,
    /// Stop the consumers; when started again they go on where they stopped.
    StopReaders,
    /// Start the producers.
    StartProducers,
    /// Stop the producers.
    StopProducers,
    /// Inject the fault of the run.
    Inject,
    /// End the fault of the run.
    Heal,
}

impl Stage {
    /// A stage without an action.
    pub fn new(name: &'static str, seconds: u32) -> Self {
        Self { name, seconds, action: Action::None, until: Until::Time }
    }

    /// The stages of an ordinary repeat: start of consumers and producers, warm-up, and the measured part.
    pub fn plain(warmup: u32, steady: u32) -> Vec<Self> {
        vec![
            Self { action: Action::StartReaders, ..Self::new("start", 0) },
            Self { action: Action::StartProducers, ..Self::new("warmup", warmup) },
            Self::new("steady", steady),
        ]
    }
}
