//! Shows the progress of a run: as a bar on a terminal, otherwise as lines.

use crate::archive::{Cell, LoadSecond, Phase};
use crate::judge::{numbers, stats};
use crate::output::{language, said, say};
use crate::sentences::phase_name;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Progress of a run, in seconds of load.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Seconds that were passed without running them. A counter that nothing is published through.
    skipped: Arc<AtomicU64>,
}

impl Progress {
    /// Starts the progress of a run of `seconds` seconds, `done` of which are finished already.
    pub fn new(seconds: u64, done: u64) -> Self {
        let bar = ProgressBar::new(seconds);
        let skipped = Arc::new(AtomicU64::new(done));
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {rest}  {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let passed = skipped.clone();
        let rest = move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let left = state.len().unwrap_or_default().saturating_sub(state.pos());
            let done = state.pos().saturating_sub(passed.load(Relaxed));
            // The bar is decoration: a terminal that takes no words gets none.
            let _ = rest(left, done, state.elapsed())
                .map(|left| write!(out, "{}", said(&format!("{} left", human(left)))));
        };
        bar.set_style(style.with_key("rest", rest));
        bar.set_position(done);
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar, skipped }
    }

    /// Adds `seconds` to the length of the run.
    pub fn more(&self, seconds: u64) {
        self.bar.inc_length(seconds);
    }

    /// Marks `seconds` as finished without running them.
    pub fn skip(&self, seconds: u64) {
        self.skipped.fetch_add(seconds, Relaxed);
        self.bar.inc(seconds);
    }

    /// Seconds that are finished or skipped.
    pub fn position(&self) -> u64 {
        self.bar.position()
    }

    /// Moves to a position that was planned. A stage that waits for something may end before its time.
    pub fn reach(&self, position: u64) {
        self.bar.set_position(self.bar.position().max(position));
    }

    /// Estimated time for the rest of the run: `4m`, `2h`. `None` when nothing is left, or nothing is done yet.
    pub fn left(&self) -> Option<String> {
        let left = self.bar.length().unwrap_or_default().saturating_sub(self.bar.position());
        let done = self.bar.position().saturating_sub(self.skipped.load(Relaxed));
        rest(left, done, self.bar.elapsed()).map(human)
    }

    /// Shows the current action.
    pub fn doing(&self, what: &str) {
        self.bar.set_message(said(what));
    }

    /// Counts one more finished second.
    pub fn second(&self) {
        self.bar.inc(1);
    }

    /// Prints a line that stays on the screen.
    pub fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            say!("{text}");
        } else {
            self.bar.println(said(text));
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Time for `left` planned seconds, when `done` planned seconds took `elapsed`; `None` without either.
fn rest(left: u64, done: u64, elapsed: Duration) -> Option<Duration> {
    (left > 0 && done > 0).then(|| elapsed.mul_f64(left as f64 / done as f64))
}

fn human(time: Duration) -> String {
    format!("{:#}", HumanDuration(time))
}

/// Joins the parts of a line, each translated on its own, because no row of a table fits all that may be between them.
pub(super) fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().map(|part| said(&part)).collect::<Vec<_>>().join(", ")
}

/// Describes the position in a run: `cell 3 of 24, repeat 1 of 3`.
pub(super) fn place((number, all): (u32, Option<usize>), (repeat, repeats): (u32, u32)) -> String {
    let cell = match all {
        Some(all) => format!("cell {number} of {all}"),
        None => format!("cell {number}"),
    };
    joined([Some(cell), (repeats > 1).then(|| format!("repeat {repeat} of {repeats}"))])
}

/// The line that is printed about a repeat.
pub(super) fn repeat_line(cell: &Cell, repeat: u32, seconds: &[LoadSecond]) -> String {
    let phases = cell.phases.iter().filter(|phase| phase.repeat == repeat && phase.name != "warmup");
    let phase = |phase: &Phase| {
        let rows: Vec<_> =
            seconds.iter().filter(|row| row.at_ms > phase.from_ms && row.at_ms <= phase.to_ms).collect();
        let mean = |of: fn(&LoadSecond) -> f64| {
            let rates: Vec<f64> = rows.iter().map(|row| of(row)).collect();
            numbers::count(stats::mean(&rates))
        };
        let p99 = rows.iter().map(|row| row.p99_us).max().unwrap_or_default();
        let failures: u64 = rows.iter().map(|row| row.failed + row.refused).sum();
        let is_consumed = rows.iter().any(|row| row.consumed > 0);
        let parts = [
            Some(format!("{}/s", mean(LoadSecond::sent_rate))),
            is_consumed.then(|| format!("consumed {}/s", mean(LoadSecond::consumed_rate))),
            Some(format!("worst second's p99 {:.2} ms", p99 as f64 / 1000.0)),
            (failures > 0).then(|| format!("{failures} failed")),
        ];
        format!("{}: {}", phase_name(&phase.name).get(language()), joined(parts))
    };
    let mut phases: Vec<_> = phases.map(phase).collect();
    if !cell.checked.is_empty() {
        let counts: Vec<_> = cell.checked.iter().map(|(name, count)| format!("{name} {count}")).collect();
        phases.push(counts.join(", "));
    }
    format!("{} {repeat}: {}", cell.name, phases.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_how_far_it_is() {
        assert_eq!(place((3, Some(24)), (1, 3)), "cell 3 of 24, repeat 1 of 3");
        assert_eq!(place((3, None), (1, 1)), "cell 3");
    }

    #[test]
    fn nothing_is_left_after_the_last_repeat() {
        // Two repeats of 400 s, whose last stage waits for consumers and ends early.
        let progress = Progress::new(800, 0);
        for planned in [400, 800] {
            (0..40).for_each(|_| progress.second());
            assert!(progress.left().is_some(), "during a repeat");
            progress.reach(planned);
        }
        assert_eq!(progress.left(), None);
        assert_eq!(rest(400, 400, Duration::from_secs(60)), Some(Duration::from_secs(60)));
        assert_eq!(rest(400, 0, Duration::from_secs(60)), None, "nobody knows yet");
    }
}
