//! Shows the progress of a run: as a bar on a terminal, otherwise as lines.

use crate::output::say;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::time::Duration;

/// Progress of a run, in seconds of load.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts the progress of a run of `seconds` seconds, `done` of which are finished already.
    #[must_use]
    pub fn new(seconds: u64, done: u64) -> Self {
        let bar = ProgressBar::new(seconds);
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {eta} left  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(done);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar }
    }

    /// Adds `seconds` to the length of the run.
    pub fn more(&self, seconds: u64) {
        self.bar.inc_length(seconds);
    }

    /// Marks `seconds` as finished without running them.
    pub fn skip(&self, seconds: u64) {
        self.bar.inc(seconds);
    }

    /// Estimated time for the rest of the run, from the speed so far: `4m`, `2h`. `None` when there is no estimate yet.
    #[must_use]
    pub fn left(&self) -> Option<String> {
        let left = self.bar.eta().as_secs();
        (left > 0).then(|| format!("{:#}", HumanDuration(Duration::from_secs(left))))
    }

    /// Shows what is being done.
    pub fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
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
            self.bar.println(text);
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
