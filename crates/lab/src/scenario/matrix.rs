//! `vostok lab matrix` and `vostok lab queues`: every combination of threads, sizes and queues.

use super::bench;
use super::design::{CellLoad, Design, RunOptions};
use crate::Error;
use crate::generator::{Sizes, Workload};
use std::collections::BTreeMap;

/// The combinations of a matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// The loads that differ in more than the three lists that follow, each with the broker settings for it.
    pub loads: Vec<(Workload, BTreeMap<String, String>)>,
    /// Requests in flight.
    pub threads: Vec<u32>,
    /// Sizes of bodies.
    pub sizes: Vec<Sizes>,
    /// Queues per topic.
    pub queues: Vec<u32>,
    /// Whether to skip the steps of a ladder of threads above its ceiling.
    pub prune: bool,
}

impl Matrix {
    /// The combinations: loads change slowest, then sizes, and threads fastest, so that a ladder of threads runs without
    /// interruption.
    pub fn cells(&self, options: &RunOptions) -> Vec<CellLoad> {
        let mut cells = Vec::new();
        for (load, settings) in &self.loads {
            let options = RunOptions { load: load.clone(), ..options.clone() };
            for size in &self.sizes {
                for queues in &self.queues {
                    let cell = |threads: &u32| options.cell(*threads, size, *queues).with_settings(settings);
                    cells.extend(self.threads.iter().map(cell));
                }
            }
        }
        cells
    }
}

/// Runs the matrix.
///
/// # Errors
/// [`Error::Flag`] for a load that cannot be served, [`Error::Cluster`] when the cluster does not answer at the start,
/// [`Error::File`] when files cannot be written, [`Error::Signal`] when a signal ended the run.
pub fn run(options: &RunOptions, matrix: &Matrix) -> Result<(), Error> {
    let design = Design {
        prune: matrix.prune,
        held: vec![("--prune", if matrix.prune { "yes".to_owned() } else { String::new() })],
        ..Design::new(matrix.scenario, matrix.cells(options))
    };
    bench::run(options, design)
}
