//! `vostok lab backlog`: what a backlog costs producers, and how fast consumers catch up.
//!
//! Producers and consumers run together (`before`), then consumers stop while producers fill the brokers (`during`),
//! then consumers come back while producers go on, until no message waits (`drain`), and for a while longer (`after`).
//! With `--keep-producing false` producers pause during the drain, which shows how fast consumers can be.

use super::bench::{Bench, Plan};
use super::record::{Action, Stage, Until};
use crate::Error;
use crate::archive::Factors;
use crate::generator::{Consume, Workload};
use crate::scenario_arguments::{BacklogFlags, Fill, ScenarioArguments};
use crate::session;

/// Shortest time limit of filling by size and of draining, in seconds, unless given by flags.
const PHASE_SECONDS: u32 = 600;

/// Bytes per second that filling reaches at least; the time limit follows from it unless given by a flag.
const FILL_BYTES_MIN: u64 = 20 << 20;

/// Runs the scenario.
///
/// # Errors
/// As for [`super::matrix`].
pub fn run(flags: &BacklogFlags) -> Result<(), Error> {
    if flags.arguments.consume != Consume::Pull {
        let why = "push consumers do not say how far behind they are; a backlog is read with --consume pull"
            .to_owned();
        return Err(Error::Flag { flag: "--consume", why });
    }
    if matches!(flags.fill, Fill::Seconds(_)) && flags.fill_seconds.is_some() {
        let why = "--fill is a time already, it ends when that is over".to_owned();
        return Err(Error::Flag { flag: "--fill-seconds", why });
    }
    session::block_on(async {
        let plan = Backlog::new(flags);
        let cells = plan.cells(flags);
        let mut bench = Bench::open(&plan.arguments, "backlog", cells, &plan).await?;
        bench.run(&plan).await
    })
}

#[derive(Clone, Debug)]
pub(super) struct Backlog {
    pub arguments: ScenarioArguments,
    /// The condition that ends filling.
    fill: Until,
    /// Time limits of filling and of draining, in seconds.
    seconds: (u32, u32),
    /// Whether producers pause during the drain.
    pub rests: bool,
}

impl Backlog {
    pub fn new(flags: &BacklogFlags) -> Self {
        let (fill, filling) = match flags.fill {
            Fill::Bytes(bytes) => (Until::Sent(bytes), flags.fill_seconds.unwrap_or_else(|| filling(bytes))),
            Fill::Seconds(seconds) => (Until::Time, seconds),
        };
        let draining = flags.drain_seconds.unwrap_or(filling.max(PHASE_SECONDS));
        Self {
            arguments: ScenarioArguments { groups: flags.arguments.groups.max(1), ..flags.arguments.clone() },
            fill,
            seconds: (filling, draining),
            rests: !flags.keep_producing,
        }
    }

    pub fn cells(&self, flags: &BacklogFlags) -> Vec<Factors> {
        let cell = |size| {
            let mut cell = self.arguments.factors(flags.threads, size, flags.queues);
            let fill = match flags.fill {
                Fill::Bytes(bytes) => bytes.to_string(),
                Fill::Seconds(seconds) => format!("{seconds}s"),
            };
            cell.more.insert("fill".to_owned(), fill);
            if self.rests {
                cell.more.insert("drain".to_owned(), "alone".to_owned());
            }
            cell
        };
        flags.sizes.iter().map(cell).collect()
    }
}

/// Time limit in seconds for filling with this many bytes.
fn filling(bytes: u64) -> u32 {
    u32::try_from(bytes / FILL_BYTES_MIN).unwrap_or(u32::MAX).max(PHASE_SECONDS)
}

impl Plan for Backlog {
    fn workload(&self, cell: &Factors) -> Workload {
        self.arguments.workload(cell)
    }

    fn stages(&self, _cell: &Factors) -> Vec<Stage> {
        let mut stages = stages(&self.arguments, self.fill, self.seconds);
        if self.rests {
            let action = |name, action| Stage { action, ..Stage::new(name, 0) };
            stages.insert(5, action("restart", Action::StartProducers));
            stages.insert(4, action("rest", Action::StopProducers));
        }
        stages
    }
}

/// The stages of a repeat of a backlog cell.
pub(super) fn stages(
    arguments: &ScenarioArguments,
    fill: Until,
    (filling, draining): (u32, u32),
) -> Vec<Stage> {
    let stage = |name, seconds, action, until| Stage { name, seconds, action, until };
    vec![
        stage("start", 0, Action::StartReaders, Until::Time),
        stage("warmup", arguments.warmup().max(1), Action::StartProducers, Until::Time),
        Stage::new("before", arguments.duration()),
        stage("during", filling, Action::StopReaders, fill),
        stage("drain", draining, Action::StartReaders, Until::Drained),
        Stage::new("after", arguments.duration()),
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
