//! `vostok lab modes`: what flush and replication modes cost.
//!
//! Vostok changes its flush mode while it runs. RocketMQ chooses its flush threads at the start (constructor of
//! `CommitLog`). Against RocketMQ the run therefore ends where another mode is due, and is resumed with the same
//! `--out` after the brokers were restarted in that mode. Or each mode is a run of its own, and the runs are compared.
//!
//! The replication mode depends on how each broker is started and on which brokers there are, and another cluster needs
//! another run. Of the modes in `--repl` only the cluster's own is run; the next run gets the same `--rate`, and
//! `vostok lab compare` shows the difference.

use super::bench::Bench;
use super::cluster::Cluster;
use super::design::{CellLoad, Design, RunOptions};
use super::local::{LocalCluster, LocalOptions};
use super::safe_tps::mean_rate;
use super::settings::{possible, replication};
use crate::Error;
use crate::archive::{Factors, Purpose};
use crate::generator::Sizes;
use crate::judge::factor::Factor;
use crate::runtime;

/// Replication modes; the empty one stands for the mode of the cluster.
pub(crate) const REPLICATIONS: [&str; 5] = ["", "none", "async", "sync", "quorum"];

/// Share of the slowest mode's rate at which all modes are compared.
const SHARE: f64 = 0.7;

/// Requests in flight that an open loop has places for, so that a pause of the server does not stop it.
const ROOM: u32 = 10_000;

/// The modes to compare, and the loads under which they are compared.
#[derive(Clone, Debug)]
pub struct Modes {
    /// Flush modes: `async` and `sync`.
    pub flush: Vec<String>,
    /// Replication modes, of which the cluster's own is run.
    pub replication: Vec<String>,
    /// Requests in flight.
    pub threads: Vec<u32>,
    /// Sizes of bodies.
    pub sizes: Vec<Sizes>,
    /// Queues per topic.
    pub queues: u32,
    /// A cluster of the lab's own, in the replication mode; `None` for the one that the name servers know.
    pub local: Option<LocalOptions>,
}

/// Runs the scenario.
///
/// # Errors
/// [`Error::Flag`] when there is no such mode, [`Error::Broken`] when the cluster cannot be brought into a mode,
/// otherwise as for [`super::matrix`].
pub fn run(options: &RunOptions, modes: &Modes) -> Result<(), Error> {
    let mut options = options.clone();
    let local = modes.local.as_ref();
    // The cluster runs until the run is over.
    let _local = local.map(|local| LocalCluster::of_run(&mut options, "modes", local)).transpose()?;
    runtime::block_on(async {
        let cluster = Cluster::look(&options).await?;
        let replication = possible(&modes.replication, replication(&cluster))?;
        cluster.client.shutdown();
        let cells = Modes { replication: vec![replication], ..modes.clone() }.cells(&options);
        let mut bench = Bench::open(&options, Design::new("modes", cells.clone())).await?;
        let ran = measure(&mut bench, &cells, options.load.rate.is_some()).await;
        bench.close(ran).await
    })
}

impl Modes {
    /// All cells. Modes change slowest, because RocketMQ must be restarted for each of them.
    fn cells(&self, options: &RunOptions) -> Vec<CellLoad> {
        let mut cells = Vec::new();
        let modes =
            self.replication.iter().flat_map(|repl| self.flush.iter().map(move |flush| (flush, repl)));
        for (flush, replication) in modes {
            for threads in &self.threads {
                for size in &self.sizes {
                    let mut cell = options.cell(*threads, size, self.queues);
                    cell.factors.flush.clone_from(flush);
                    cell.factors.replication.clone_from(replication);
                    cells.push(cell);
                }
            }
        }
        cells
    }
}

/// Runs every mode in closed loops, then every mode at the same rate, because in a closed loop the faster mode is the
/// more loaded one. With a rate given, all modes are run at the same rate already.
async fn measure(bench: &mut Bench, cells: &[CellLoad], is_paced: bool) -> Result<(), Error> {
    if !bench.cells().await? || is_paced {
        return Ok(());
    }
    let mut closed = Vec::new();
    for cell in cells {
        let Some(found) = bench.add(cell).await? else { return Ok(()) };
        closed.push((cell.clone(), mean_rate(&found)));
    }
    for cell in at_one_rate(&closed) {
        if bench.add(&cell).await?.is_none() {
            break;
        }
    }
    Ok(())
}

/// A cell for each mode and size with the most threads, where all modes of a size have a rate that the slowest one can
/// keep. The modes come in reverse order, because the brokers are still in the last mode.
fn at_one_rate(closed: &[(CellLoad, f64)]) -> Vec<CellLoad> {
    let mut best: Vec<(CellLoad, f64)> = Vec::new();
    for (cell, rate) in closed {
        let load = Factor::Threads.without(&cell.factors);
        match best.iter_mut().find(|(known, _)| Factor::Threads.without(&known.factors) == load) {
            Some((known, most)) => {
                known.factors.threads = known.factors.threads.max(cell.factors.threads);
                *most = most.max(*rate);
            }
            None => best.push((cell.clone(), *rate)),
        }
    }
    let size = |cell: &Factors| Factor::Flush.without(&Factor::Replication.without(cell));
    let open = best.iter().rev().filter_map(|(cell, _)| {
        let of_size = |(other, _): &&(CellLoad, f64)| size(&other.factors) == size(&cell.factors);
        let beside = best.iter().filter(of_size).map(|(_, rate)| *rate);
        let rate = (beside.clone().fold(f64::INFINITY, f64::min) * SHARE).round();
        (beside.count() > 1 && rate >= 1.0).then(|| {
            let mut cell = cell.clone().meant_for(Purpose::EqualRate);
            cell.factors.rate = Some(rate);
            (cell.load.rate, cell.load.threads) = (Some(rate), cell.factors.threads.max(ROOM));
            cell
        })
    });
    open.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::conclusion::Conclusion;
    use crate::judge::guards::Limits;
    use crate::judge::testing;

    /// The cells of a comparison of both flush modes.
    fn cells(threads: &[u32], sizes: &[u64]) -> Vec<CellLoad> {
        let modes = Modes {
            flush: ["async", "sync"].map(str::to_owned).into(),
            replication: vec![String::new()],
            threads: threads.to_vec(),
            sizes: sizes.iter().map(|size| Sizes::one(*size)).collect(),
            queues: 8,
            local: None,
        };
        modes.cells(&RunOptions::fixture())
    }

    #[test]
    fn modes_are_compared_at_a_rate_that_the_slowest_keeps() {
        // Each mode with 8 threads and then 64, each with small and then large messages.
        let (quick, slow) = ([20_000.0, 9_000.0, 30_000.0, 8_000.0], [5_000.0, 4_000.0, 10_000.0, 4_000.0]);
        let closed: Vec<_> =
            cells(&[8, 64], &[1_024, 4_096]).into_iter().zip([quick, slow].concat()).collect();
        let open = at_one_rate(&closed);
        let found = open.iter().map(|cell| &cell.factors);
        let found = found.map(|cell| (cell.size, cell.flush.as_str(), cell.threads, cell.rate));
        let expected = [
            (4_096, "sync", 64, Some(2_800.0)),
            (1_024, "sync", 64, Some(7_000.0)),
            (4_096, "async", 64, Some(2_800.0)),
            (1_024, "async", 64, Some(7_000.0)),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(
            open.iter().all(|cell| cell.factors.purpose() == Some(Purpose::EqualRate)),
            "no rates to rely on"
        );
        let all: Vec<&str> = closed
            .iter()
            .map(|(cell, _)| cell)
            .chain(&open)
            .map(|cell| cell.factors.flush.as_str())
            .collect();
        let changes = all.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 2, "Java is started again for each: {all:?}");
        assert_eq!((open[0].load.threads, closed[0].0.load.threads), (ROOM, 8));
        // A single mode has nothing to be compared with.
        assert_eq!(at_one_rate(&closed[..1]), []);
    }

    #[test]
    fn the_rate_and_the_latency_of_a_mode_are_one_effect() {
        let rate = |cell: &CellLoad| if cell.factors.flush == "sync" { 5_000.0 } else { 20_000.0 };
        let closed: Vec<_> =
            cells(&[8, 64], &[1_024]).into_iter().map(|cell| (cell.clone(), rate(&cell))).collect();
        let open =
            at_one_rate(&closed).into_iter().filter_map(|cell| Some((cell.clone(), cell.factors.rate?)));
        let all: Vec<_> =
            closed.iter().cloned().chain(open).map(|(cell, rate)| (cell.factors, rate)).collect();
        let mut record = testing::record(&all);
        let sync = record.cells.iter_mut().filter(|cell| cell.cell.factors.flush == "sync");
        for second in sync.flat_map(|cell| &mut cell.repeats).flat_map(|repeat| &mut repeat.load) {
            second.p99_us *= 3;
        }
        let found = Conclusion::new(&record, &Limits::default());
        let of_flush: Vec<_> = found.effects.iter().filter(|effect| effect.factor == Factor::Flush).collect();
        let [effect] = of_flush[..] else { panic!("one line for the mode: {of_flush:?}") };
        assert_eq!((effect.from.as_str(), effect.to.as_str(), effect.pairs), ("async", "sync", 3));
        assert!((effect.tps.mean - 0.25).abs() < 0.01, "{:?}", effect.tps);
        assert!(effect.equal_rate && (effect.p99.mean - 3.0).abs() < 0.1, "{:?}", effect.p99);
    }
}
