//! `vostok lab backlog`: what a backlog costs producers, and how fast consumers catch up.
//!
//! Producers and consumers run together (`before`), then consumers stop while producers fill the brokers (`during`),
//! then consumers come back while producers go on, until no message waits (`drain`), and for a while longer (`after`).
//! With `--keep-producing false` producers pause during the drain, which shows how fast consumers can be.

use super::bench;
use super::design::{CellLoad, Design, RunOptions};
use super::stage::{Action, Stage, Until};
use crate::Error;
use crate::generator::Sizes;

/// Shortest time limit of filling by size and of draining, in seconds, unless given by flags.
const PHASE_SECONDS: u32 = 600;

/// Bytes per second that filling reaches at least; the time limit follows from it unless given by a flag.
const FILL_BYTES_MIN: u64 = 20 << 20;

/// Size of a backlog: bytes of bodies, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Fill until this many bytes of bodies were sent.
    Bytes(u64),
    /// Fill for this many seconds.
    Seconds(u32),
}

/// A backlog, how it is drained, and the loads under which that is done.
#[derive(Clone, Debug)]
pub struct Backlog {
    /// Size of the backlog.
    pub fill: Fill,
    /// Longest time in seconds for filling by bytes; `None` for the time that the bytes take at 20 MiB a second.
    pub fill_seconds: Option<u32>,
    /// Longest time in seconds for the drain; `None` for the time limit of filling, if that is longer than ten minutes.
    pub drain_seconds: Option<u32>,
    /// Whether producers go on during the drain.
    pub keep_producing: bool,
    /// Requests in flight.
    pub threads: u32,
    /// Sizes of bodies.
    pub sizes: Vec<Sizes>,
    /// Queues per topic.
    pub queues: u32,
}

/// Runs the scenario.
///
/// # Errors
/// Errors of [`super::matrix`].
pub fn run(options: &RunOptions, backlog: &Backlog) -> Result<(), Error> {
    bench::run(options, Design::new("backlog", backlog.cells(options)))
}

impl Backlog {
    /// The cells, one for each size. Every cell has a consumer group.
    pub fn cells(&self, options: &RunOptions) -> Vec<CellLoad> {
        let mut options = options.clone();
        options.load.groups = options.load.groups.max(1);
        let (fill, filling, name) = match self.fill {
            Fill::Bytes(bytes) => {
                let seconds = self.fill_seconds.unwrap_or_else(|| filling(bytes));
                (Until::Sent(bytes), seconds, bytes.to_string())
            }
            Fill::Seconds(seconds) => (Until::Time, seconds, format!("{seconds}s")),
        };
        let draining = self.drain_seconds.unwrap_or(filling.max(PHASE_SECONDS));
        let cell = |size| {
            let cell = options.cell(self.threads, size, self.queues).with("fill", name.clone());
            let mut stages = stages(&options, fill, (filling, draining));
            if self.keep_producing {
                return CellLoad { stages, ..cell };
            }
            let action = |name, action| Stage { action, ..Stage::new(name, 0) };
            stages.insert(5, action("restart", Action::StartProducers));
            stages.insert(4, action("rest", Action::StopProducers));
            CellLoad { stages, ..cell.with("drain", "alone") }
        };
        self.sizes.iter().map(cell).collect()
    }
}

/// Time limit in seconds for filling with this many bytes.
fn filling(bytes: u64) -> u32 {
    u32::try_from(bytes / FILL_BYTES_MIN).unwrap_or(u32::MAX).max(PHASE_SECONDS)
}

/// The stages of a repeat of a backlog cell.
pub(super) fn stages(options: &RunOptions, fill: Until, (filling, draining): (u32, u32)) -> Vec<Stage> {
    let stage = |name, seconds, action, until| Stage { name, seconds, action, until };
    vec![
        stage("start", 0, Action::StartReaders, Until::Time),
        stage("warmup", options.warmup.max(1), Action::StartProducers, Until::Time),
        Stage::new("before", options.duration),
        stage("during", filling, Action::StopReaders, fill),
        stage("drain", draining, Action::StartReaders, Until::Drained),
        Stage::new("after", options.duration),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_may_take_long_to_pile_up() {
        assert_eq!([filling(1 << 30), filling(200 << 30), filling(u64::MAX)], [600, 10_240, u32::MAX]);
    }
}
