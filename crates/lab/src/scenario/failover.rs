//! `vostok lab failover`: how long clients are without service when the master of a broker set fails, and what is lost.
//!
//! Each repeat of the only cell is a round with four stages:
//! - `steady`: producers send at a fixed rate in an open loop, and consumers read.
//! - `fault`: the fault meets the master.
//! - `heal`: the fault ends and the cluster becomes whole again.
//! - `rest`: every message arrives.
//!
//! Clients ask name servers for the master as RocketMQ's clients do.

use super::bench::Bench;
use super::design::{Design, FAILOVER, RunOptions};
use super::fault::{Fault, Injector};
use super::local::{LocalCluster, LocalOptions};
use super::stage::{Action, Stage, Until};
use crate::Error;
use crate::generator::Sizes;
use crate::runtime;

/// Longest wait for a cluster to be whole again, in seconds.
const HEAL_SECONDS: u32 = 120;

/// Longest wait for the last messages, in seconds.
const LAST_SECONDS: u32 = 60;

/// A fault, and the load under which it happens.
#[derive(Clone, Debug)]
pub struct Failover {
    /// Fault of the master.
    pub fault: Fault,
    /// A cluster of the lab's own; `None` for the one that the name servers know.
    pub local: Option<LocalOptions>,
    /// Seconds from the fault to its end.
    pub down: u32,
    /// Requests in flight that the open loop has places for.
    pub threads: u32,
    /// Sizes of bodies.
    pub size: Sizes,
    /// Queues per topic.
    pub queues: u32,
}

/// Runs the scenario.
///
/// # Errors
/// [`Error::Broken`] when a cluster of the lab's own does not start, or a fault cannot be made; otherwise as for
/// [`super::matrix`].
pub fn run(options: &RunOptions, failover: &Failover) -> Result<(), Error> {
    let mut options = options.clone();
    let local = failover.local.as_ref();
    let local = local.map(|local| LocalCluster::of_run(&mut options, FAILOVER, local)).transpose()?;
    let design = failover.design(&options);
    let injector = Injector::new(failover.fault.clone(), local);
    runtime::block_on(async { Bench::open(&options, design).await?.with_fault(injector).run().await })
}

impl Failover {
    fn design(&self, options: &RunOptions) -> Design {
        let mut cell = options.cell(self.threads, &self.size, self.queues).with("fault", self.fault.name());
        (cell.load.checked, cell.load.follows) = (true, true);
        cell.stages.extend([
            Stage { action: Action::Inject, ..Stage::new("fault", self.down) },
            Stage { action: Action::Heal, until: Until::Whole, ..Stage::new("heal", HEAL_SECONDS) },
            Stage {
                action: Action::StopProducers,
                until: Until::Drained,
                ..Stage::new("rest", LAST_SECONDS)
            },
        ]);
        let mut held = vec![("--send-timeout", options.load.send_timeout_ms.to_string())];
        if let Some(local) = &self.local {
            held.push(("--local", local.kind.clone()));
        }
        if let Fault::Commands { inject, heal } = &self.fault {
            held.extend([("--inject", inject.clone()), ("--heal", heal.clone())]);
        }
        Design { held, ..Design::new(FAILOVER, vec![cell]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_the_fault_between_load_and_healing() {
        let mut options = RunOptions::fixture();
        options.load.rate = Some(500.0);
        let failover = Failover {
            fault: Fault::LeaderKill,
            local: None,
            down: 7,
            threads: 64,
            size: Sizes::one(512),
            queues: 8,
        };
        let design = failover.design(&options);
        let [cell] = &design.cells[..] else { panic!("one cell: {design:?}") };
        let stages: Vec<_> = cell.stages.iter().map(|stage| (stage.name, stage.seconds)).collect();
        let expected = [
            ("start", 0),
            ("warmup", 5),
            ("steady", 30),
            ("fault", 7),
            ("heal", HEAL_SECONDS),
            ("rest", LAST_SECONDS),
        ];
        assert_eq!(stages, expected);
        assert_eq!(cell.factors.more["fault"], "leader-kill");
        assert!(cell.load.checked && cell.load.follows);
    }
}
