//! The reasons of R0.

use crate::judge::Text;
use crate::judge::versus::Side;
use serde::{Deserialize, Deserializer};

/// Why the figures of a cell may not be shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The cell is a probe of a search, which is run once.
    Probe,
    /// There are too few repeats.
    TooFew {
        /// Number of repeats.
        count: usize,
        /// Whether the cell is a backlog, whose phases are reported nevertheless.
        is_backlog: bool,
    },
    /// The run ended before anything counted.
    EndedEarly,
    /// No message was acknowledged.
    Silence {
        /// Answers to the last requests, if any is known.
        answer: Option<String>,
    },
    /// Number of repeats in which no message was acknowledged.
    SilentRepeats(usize),
    /// A broker was started again during a repeat.
    BrokerRestarted {
        /// Name of the broker.
        broker: String,
        /// Number of the repeat.
        repeat: u32,
    },
    /// A broker did not answer during a repeat.
    BrokerAway {
        /// Name of the broker.
        broker: String,
        /// Number of the repeat.
        repeat: u32,
    },
    /// Number of seconds that the series lacks.
    MissingSeconds(u64),
    /// A machine was not observed all the time.
    Unobserved {
        /// Name of the machine.
        machine: String,
        /// Number of seconds without figures.
        seconds: usize,
    },
    /// Rate times latency, divided by the requests in flight, is outside [`super::LITTLE`].
    Little(f64),
    /// The rate changes by this share per minute.
    Unsteady(f64),
    /// The load generator used this share of its processors.
    GeneratorBusy(f64),
    /// The load generator sent so many microseconds late (99th percentile).
    GeneratorLate(f64),
    /// Other programs used the processors of a machine.
    OtherPrograms {
        /// Name of the machine.
        machine: String,
        /// Share of its processors.
        share: f64,
        /// Largest accepted share.
        limit: f64,
        /// Number of the repeat; `None` for a look without load.
        repeat: Option<u32>,
    },
    /// The reason holds for a phase of a backlog, by its name.
    InPhase(String, Box<Reason>),
    /// The reason holds for one of two compared runs.
    InRun(Side, Box<Reason>),
    /// A reason that was read from a file, where it is a sentence.
    Read(Text),
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(Self::Read)
    }
}
