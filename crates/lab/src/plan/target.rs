//! The target of a plan.

use crate::archive::run_directory;
use crate::judge::Language;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

/// Request for a plan: the target, the rate, and the directory of the files.
#[derive(Args, Debug, Clone)]
pub struct PlanOptions {
    /// Target of the plan.
    #[command(flatten)]
    pub target: Target,
    /// Directory of the run whose safe rate is planned with.
    #[arg(long, value_name = "RUN", value_parser = run_directory)]
    pub run: Option<PathBuf>,
    /// Safe rate of one master, instead of a run's.
    #[arg(long, value_name = "RATE")]
    pub safe_tps: Option<Rate>,
    /// Directory of the files, which are written only with this flag. The directory plan in that of a run adds the plan to
    /// the run's report.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Language of the text, and in which the page opens.
    #[arg(skip)]
    pub lang: Language,
}

/// The target of a plan.
#[derive(Args, Debug, Clone)]
pub struct Target {
    /// Most messages per second, e.g. 50k/s.
    #[arg(long, value_name = "RATE")]
    pub peak: Rate,
    /// Bytes of a message's body, e.g. 500 or 2k.
    #[arg(long, value_name = "BYTES")]
    pub size: Size,
    /// Consumer groups that read everything.
    #[arg(long, default_value_t = 1)]
    pub groups: u32,
    /// Time for which messages are kept, e.g. 72h or 3d.
    #[arg(long, value_name = "TIME", default_value = "72h")]
    pub retain: Hours,
    /// Machines that may fail at once.
    #[arg(long, default_value_t = 1)]
    pub survive: u32,
    /// Share by which the peak grows before the plan is made anew.
    #[arg(long, default_value_t = 0.0)]
    pub growth: f64,
    /// Mean rate over the time that messages are kept [default: the peak].
    #[arg(long, value_name = "RATE")]
    pub mean: Option<Rate>,
    /// Speed of one master's network, megabits per second each direction.
    #[arg(long, value_name = "MEGABITS", default_value_t = 10_000.0)]
    pub nic: f64,
}

/// A rate in messages per second: `50k/s`, `1200`, `2.5m/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

/// A number of bytes: `500`, `2k`, `1m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size(pub f64);

/// A time in hours: `72h`, `3d`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hours(pub f64);

fn scaled(text: &str, units: &[(&str, f64)], expected: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}`: expected {expected}");
    let lower = text.to_ascii_lowercase();
    let unit_at = lower.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(unit_at);
    let scale = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    if number > 0.0 && number.is_finite() { Ok(number * scale) } else { Err(wrong()) }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("", 1.0), ("k", 1e3), ("m", 1e6)];
        scaled(text.trim_end_matches("/s"), &units, "messages per second, such as 50k/s").map(Self)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("", 1.0), ("b", 1.0), ("k", 1_024.0), ("m", 1_048_576.0)];
        scaled(text, &units, "bytes, such as 500 or 2k").map(Self)
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, &[("h", 1.0), ("d", 24.0)], "a time, such as 72h or 3d").map(Self)
    }
}
