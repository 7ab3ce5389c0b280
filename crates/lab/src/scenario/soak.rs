//! `vostok lab soak`: hours of load in which every message is checked.

use super::bench;
use super::design::{CellLoad, Design, RunOptions};
use super::stage::{Action, Stage, Until};
use crate::Error;
use crate::judge::validity::SOAK_SECONDS_MIN;
use crate::output::say;

/// Longest wait for the last messages, in seconds.
const LAST_SECONDS: u32 = 120;

/// Runs the soak of a cell, which lasts as long as its options say.
///
/// # Errors
/// Errors of [`super::matrix`].
pub fn run(options: &RunOptions, cell: CellLoad) -> Result<(), Error> {
    if options.duration < SOAK_SECONDS_MIN {
        say!("{}", too_short(options.duration));
    }
    bench::run(options, Design::new("soak", vec![soak(cell, options.duration, LAST_SECONDS)]))
}

/// Makes a cell a soak of so many seconds: the content of its messages is checked, and in a last stage every message
/// arrives.
pub(super) fn soak(cell: CellLoad, seconds: u32, last_seconds: u32) -> CellLoad {
    let mut cell = cell.with("soak", seconds.to_string());
    cell.load.checked = true;
    cell.stages.iter_mut().filter(|stage| stage.name == "steady").for_each(|stage| stage.seconds = seconds);
    let (action, until) = (Action::StopProducers, Until::Drained);
    cell.stages.push(Stage { name: "rest", seconds: last_seconds, action, until });
    cell
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_that_is_too_short_for_figures_is_told_so() {
        let said = too_short(120);
        assert!(said.contains("of 120 s") && said.contains("take 15 minutes (--hours 0.25)"), "{said}");
    }
}
