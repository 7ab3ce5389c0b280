//! `vostok lab soak`: hours of load in which every message is checked.

use super::bench::{Bench, Plan};
use super::record::{Action, Stage, Until};
use crate::Error;
use crate::archive::Factors;
use crate::generator::Workload;
use crate::judge::validity::SOAK_SECONDS_MIN;
use crate::output::say;
use crate::scenario_arguments::{ScenarioArguments, SoakFlags};
use crate::session;

/// Longest wait for the last messages, in seconds.
const LAST_SECONDS: u32 = 120;

/// Runs the scenario.
///
/// # Errors
/// As for [`super::matrix`].
pub fn run(flags: &SoakFlags) -> Result<(), Error> {
    let refused = |flag, why: &str| Err(Error::Flag { flag, why: why.to_owned() });
    match (flags.arguments.duration, flags.arguments.repeats) {
        (Some(_), _) => return refused("--duration", "a soak lasts as long as --hours says"),
        (_, Some(2..)) => return refused("--repeats", "a soak is run once"),
        _ => {}
    }
    session::block_on(async {
        let seconds = (flags.hours * 3600.0).max(1.0) as u32;
        if seconds < SOAK_SECONDS_MIN {
            say!("{}", too_short(seconds));
        }
        let groups = flags.arguments.groups.max(1);
        let arguments = ScenarioArguments {
            groups,
            duration: Some(seconds),
            repeats: Some(1),
            ..flags.arguments.clone()
        };
        let mut cell = arguments.factors(flags.threads, &flags.size, flags.queues);
        cell.more.insert("soak".to_owned(), seconds.to_string());
        let plan = Soak { arguments };
        let mut bench = Bench::open(&plan.arguments, "soak", vec![cell], &plan).await?;
        bench.run(&plan).await
    })
}

/// The warning at the beginning of a soak that is too short for valid figures.
fn too_short(seconds: u32) -> String {
    let least = SOAK_SECONDS_MIN / 60;
    format!(
        "a soak of {seconds} s tells whether messages are lost; its rate and latency will be invalid, which take {least} minutes \
         (--hours {})",
        f64::from(SOAK_SECONDS_MIN) / 3600.0
    )
}

/// The plan of a soak: load with checked content, and a last stage in which every message arrives.
#[derive(Clone, Debug)]
pub(super) struct Soak {
    pub arguments: ScenarioArguments,
}

impl Plan for Soak {
    fn workload(&self, cell: &Factors) -> Workload {
        Workload { checked: true, ..self.arguments.workload(cell) }
    }

    fn stages(&self, _cell: &Factors) -> Vec<Stage> {
        let mut stages = Stage::plain(self.arguments.warmup(), self.arguments.duration());
        stages.push(Stage {
            name: "rest",
            seconds: LAST_SECONDS,
            action: Action::StopProducers,
            until: Until::Drained,
        });
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_that_is_too_short_for_figures_is_told_so() {
        let said = too_short(120);
        assert!(said.contains("of 120 s") && said.contains("take 15 minutes (--hours 0.25)"), "{said}");
    }
}
