//! How far a run is: a bar on a terminal, lines elsewhere.

use crate::output::say;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::time::Duration;

/// Progress of a run, in seconds of load.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A run of so many seconds, some of which are done already.
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

    /// The run has become longer by so many seconds.
    pub fn more(&self, seconds: u64) {
        self.bar.inc_length(seconds);
    }

    /// So many seconds need not be run.
    pub fn skip(&self, seconds: u64) {
        self.bar.inc(seconds);
    }

    /// How long the rest takes, by what was done so far: `4m`, `2h`. Nothing while nobody knows.
    #[must_use]
    pub fn left(&self) -> Option<String> {
        let left = self.bar.eta().as_secs();
        (left > 0).then(|| format!("{:#}", HumanDuration(Duration::from_secs(left))))
    }

    /// What is being done.
    pub fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// One more second is over.
    pub fn second(&self) {
        self.bar.inc(1);
    }

    /// A line that stays.
    pub fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            say!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Ends the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
