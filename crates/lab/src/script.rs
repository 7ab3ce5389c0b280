//! The tools that stand in for RocketMQ's benchmark scripts: runs of one cell on the lab's [`crate::generator`], which
//! are printed line by line as the scripts do it, and leave no archive.

mod consumer;
mod deliveries;
pub mod line;
mod outcome;
mod rates;
mod sends;
#[cfg(test)]
mod tests;

pub use consumer::Subscription;
pub use line::LineFormat;
pub use outcome::Outcome;

use crate::Error;
use crate::generator::Workload;
use crate::output::{self, is_closed};
use crate::runtime;
use std::path::PathBuf;
use std::time::Duration;

/// Time between two samples of the counts, as in RocketMQ's scripts.
const SAMPLE: Duration = Duration::from_secs(1);

/// A run of a script: its load, its duration, and its output.
#[derive(Clone, Debug)]
pub struct ScriptRun {
    /// The script, which decides about the lines.
    pub script: Script,
    /// Text that the script prints first about its flags; empty for tproducer.sh.
    pub opening: String,
    /// The load of the only cell.
    pub load: Workload,
    /// Length of the warm-up, which is left out of the result.
    pub warmup: Duration,
    /// Time from the start at which the run ends; `None` to run until the quantity is sent or a signal comes.
    pub limit: Option<Duration>,
    /// Time between two lines.
    pub report_interval: Duration,
    /// Format of the periodic lines.
    pub format: LineFormat,
    /// File for the result as JSON.
    pub json: Option<PathBuf>,
}

/// The benchmark scripts of RocketMQ.
#[derive(Clone, Debug)]
pub enum Script {
    /// `producer.sh`.
    Producer,
    /// `batchproducer.sh`.
    BatchProducer,
    /// `tproducer.sh`.
    TransactionProducer,
    /// `consumer.sh`, with its subscription.
    Consumer(Subscription),
}

/// Runs a script until its quantity, its duration or a signal ends it.
///
/// # Errors
/// [`Error::Flag`] for a load that cannot be served, [`Error::Cluster`] when the cluster cannot be reached at the start,
/// [`Error::File`] when the result cannot be written, [`Error::Broken`] when requests were sent but none was
/// acknowledged.
pub fn run(run: &ScriptRun) -> Result<(), Error> {
    if !run.opening.is_empty() {
        output::raw(&run.opening);
    }
    runtime::block_on(async {
        match &run.script {
            Script::Consumer(subscription) => consumer::consume(run, subscription).await,
            _ => sends::send(run).await,
        }
    })
}

/// The counts of a run while it is observed.
trait Counts {
    /// Ends the warm-up: nothing before counts in the result.
    fn measure_from_now(&mut self);

    /// Takes a sample of the counts.
    fn sample(&mut self);

    /// The periodic line; `None` while there are too few samples.
    fn line(&mut self) -> Option<String>;
}

/// Takes samples and prints lines until the time limit, and ends the warm-up in between.
async fn observe(run: &ScriptRun, counts: &mut impl Counts) {
    let mut samples = tokio::time::interval(SAMPLE);
    let interval = run.report_interval;
    let mut reports = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
    let warm = tokio::time::sleep(run.warmup);
    let limit = tokio::time::sleep(run.limit.unwrap_or(Duration::MAX / 4));
    tokio::pin!(warm, limit);
    let mut warming = !run.warmup.is_zero();
    loop {
        tokio::select! {
            biased;
            () = &mut warm, if warming => {
                warming = false;
                counts.measure_from_now();
            }
            () = &mut limit => return,
            _ = samples.tick() => counts.sample(),
            _ = reports.tick() => {
                if let Some(line) = counts.line() {
                    output::raw(&line);
                }
                if is_closed() {
                    return;
                }
            }
        }
    }
}
