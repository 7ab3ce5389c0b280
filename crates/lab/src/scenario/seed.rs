//! `vostok lab seed 000`: the cells of five earlier reports as ready-made runs, scaled to the machine.

use super::backlog;
use super::bench::Bench;
use super::cluster::Cluster;
use super::design::{CellLoad, Design, RunOptions};
use super::soak::soak;
use super::stage::Until;
use crate::Error;
use crate::archive::TargetKind;
use crate::generator::{Compression, Consume, Payload, Sizes, Workload};
use crate::judge::validity::SOAK_SECONDS_MIN;
use crate::output::say;
use crate::runtime;

/// Seconds in which the last messages of a soak must arrive.
const LAST_SECONDS: u32 = 60;

/// 1 KiB.
const K: u64 = 1 << 10;

/// Scale of a seed's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Less than twenty-five minutes.
    Small,
    /// Some hours.
    Medium,
    /// Length as in the original report.
    Full,
}

impl Scale {
    /// Seconds of the warm-up and of the measured stage.
    pub fn seconds(self) -> (u32, u32) {
        match self {
            Self::Small => (2, 8),
            Self::Medium => (10, 60),
            Self::Full => (30, 300),
        }
    }

    /// Bytes of a backlog, and the time limit of filling and draining in seconds.
    fn fill(self) -> (u64, u32) {
        match self {
            Self::Small => (512 << 20, 120),
            Self::Medium => (20 << 30, 3600),
            Self::Full => (200 << 30, 8 * 3600),
        }
    }

    /// Seconds of a soak. A shorter one than the small one has no valid figures.
    fn soak(self) -> u32 {
        match self {
            Self::Small => SOAK_SECONDS_MIN,
            Self::Medium => 3600,
            Self::Full => 8 * 3600,
        }
    }
}

/// Runs the cells of a report.
///
/// # Errors
/// [`Error::Flag`] when there is no such report, otherwise as for [`super::matrix`].
pub fn run(options: &RunOptions, report: &str, scale: Scale) -> Result<(), Error> {
    runtime::block_on(async {
        let mut cells = Seed::new(options, report, scale)?.cells;
        let cluster = Cluster::look(options).await?;
        keep_possible(&cluster, &mut cells);
        cluster.client.shutdown();
        Bench::open(options, Design::new(format!("seed {report}"), cells)).await?.run().await
    })
}

/// The cells of a report.
#[derive(Clone, Debug)]
pub struct Seed {
    options: RunOptions,
    scale: Scale,
    /// The cells, in the order in which they are run.
    pub cells: Vec<CellLoad>,
}

/// Bodies of report 003, all but `Plain` compressed with zlib.
#[derive(Clone, Copy)]
enum Bodies {
    Plain,
    Compressible,
    Incompressible,
}

impl Bodies {
    fn of(self, load: Workload) -> Workload {
        let payload = match self {
            Self::Plain => return load,
            Self::Compressible => Payload::Repeat(128),
            Self::Incompressible => Payload::Random,
        };
        Workload { compression: Compression::Zlib, payload, ..load }
    }
}

/// A row of report 003 with two producers of 64 threads and ten consumers in one group, in a flush mode.
struct Row {
    flush: &'static str,
    size: u64,
    queues: u32,
    bodies: Bodies,
}

impl Seed {
    /// Makes the cells of a report at a scale.
    ///
    /// # Errors
    /// [`Error::Flag`] when there is no such report.
    pub fn new(options: &RunOptions, report: &str, scale: Scale) -> Result<Self, Error> {
        let mut seed = Self { options: options.clone(), scale, cells: Vec::new() };
        let is_small = scale == Scale::Small;
        let soak = scale.soak();
        match report {
            "000" => seed.ladders(is_small),
            "001" => seed.throughput(is_small, soak),
            "002" => seed.raft(soak),
            "003" if is_small => seed.metaq_small(),
            "003" => seed.metaq(),
            // Report 001 had soaks of eight hours, report 004 of ten.
            "004" => seed.trend(is_small, if is_small { soak } else { soak / 4 * 5 }),
            other => {
                let why = format!("expected 000, 001, 002, 003 or 004, found {other}");
                return Err(Error::Flag { flag: "seed", why });
            }
        }
        Ok(seed)
    }

    /// A cell with another load than the options have.
    fn cell(&self, load: Workload, (threads, size, queues): (u32, u64, u32)) -> CellLoad {
        RunOptions { load, ..self.options.clone() }.cell(threads, &Sizes::one(size), queues)
    }

    /// Adds a cell, unless it is there already.
    fn add(&mut self, cell: CellLoad) {
        if !self.cells.iter().any(|known| known.factors == cell.factors) {
            self.cells.push(cell);
        }
    }

    /// The load of a consumer group, with these many producers and consumers.
    fn consumed(&self, producers: u32, consumers: u32) -> Workload {
        Workload { groups: 1, producers, consumers, ..self.options.load.clone() }
    }

    /// A soak of the load.
    fn soak(&self, load: Workload, threads: u32, (size, seconds): (u64, u32)) -> CellLoad {
        let cell = self.cell(load, (threads, size, 8));
        CellLoad { repeats: Some(1), ..soak(cell, seconds, LAST_SECONDS) }
    }

    /// Report 000: ladders of threads by size and number of queues.
    fn ladders(&mut self, is_small: bool) {
        let load = self.options.load.clone();
        let threads = [1, 10, 30, 60, 120, 200];
        let (sizes, queues): (&[u64], &[u32]) =
            if is_small { (&[1, 10], &[8]) } else { (&[1, 2, 5, 10, 1_024], &[1, 8, 16]) };
        let mut cells = Vec::new();
        for size in sizes {
            for queues in queues {
                cells.extend(threads.map(|threads| (threads, size * K, *queues)));
            }
        }
        if is_small {
            cells.extend([1, 10, 30].map(|threads| (threads, K * K, 8)));
            cells.extend([1, 16].map(|queues| (60, K, queues)));
        }
        cells.into_iter().for_each(|cell| self.add(self.cell(load.clone(), cell)));
    }

    /// Report 001: threads, sizes, flush modes, and hours of load. The consumer is a push consumer with one thread,
    /// except in cells with checked content, which need pull consumers.
    fn throughput(&mut self, is_small: bool, seconds: u32) {
        let pushed = |load| Workload { consume: Consume::Push, consumer_threads: Some(1), ..load };
        let one = pushed(Workload { groups: 1, ..self.options.load.clone() });
        let ladder: &[u32] = if is_small { &[1, 8, 32, 64] } else { &[1, 2, 4, 8, 16, 32, 64, 128] };
        ladder.iter().for_each(|threads| self.add(self.cell(one.clone(), (*threads, 2 * K, 8))));
        let sizes = [128, 512, 2 * K, 8 * K, 32 * K];
        sizes.iter().for_each(|size| self.add(self.cell(one.clone(), (32, *size, 8))));
        let pairs = self.consumed(2, 2);
        for flush in ["async", "sync"] {
            self.add(self.cell(pushed(pairs.clone()), (20, 2 * K, 8)).flushed(flush));
        }
        self.add(self.soak(pairs, 20, (2 * K, seconds)).flushed("async"));
    }

    /// Report 002: two producers with 80 threads, bodies of 500 bytes, two consumers in one group.
    fn raft(&mut self, seconds: u32) {
        let load = self.consumed(2, 2);
        [20, 40, 80, 160].iter().for_each(|threads| self.add(self.cell(load.clone(), (*threads, 500, 8))));
        self.add(self.soak(load, 160, (500, seconds)));
    }

    /// Report 003 on a small scale: one cell of each kind.
    fn metaq_small(&mut self) {
        for flush in ["async", "sync"] {
            let row = |size, bodies| Row { flush, size, queues: 128, bodies };
            [128, 2 * K, 32 * K]
                .iter()
                .for_each(|size| self.add(self.metaq_cell(&row(*size, Bodies::Plain))));
            let bodies = [Bodies::Compressible, Bodies::Incompressible];
            bodies.iter().for_each(|bodies| self.add(self.metaq_cell(&row(4 * K, *bodies))));
        }
        let row = |queues, bodies| Row { flush: "async", size: 4 * K, queues, bodies };
        let queues = [1024, 10_240];
        queues.iter().for_each(|queues| self.add(self.metaq_cell(&row(*queues, Bodies::Compressible))));
        let bodies = [Bodies::Compressible, Bodies::Plain];
        bodies.iter().for_each(|bodies| self.add(self.metaq_backlog(&row(128, *bodies))));
    }

    /// Report 003: the rows of its table that need only one disk. Rows with other numbers of producers and consumers
    /// come last in each flush mode.
    fn metaq(&mut self) {
        use Bodies::{Compressible, Incompressible, Plain};
        let small = [512, K, 2 * K, 4 * K, 6 * K];
        let large = [32 * K, 64 * K, 128 * K, 256 * K, 512 * K];
        let tiny = [128, 256];
        for (flush, packed, many) in [
            ("async", [&small[..], &large].concat(), [10_240, 50_000]),
            ("sync", [&tiny[..], &small].concat(), [5000, 10_240]),
        ] {
            let row = |size, bodies| Row { flush, size, queues: 1024, bodies };
            let mut rows: Vec<Row> = [128, 256, 2 * K, 4 * K].map(|size| row(size, Plain)).into();
            rows.extend(packed.into_iter().map(|size| row(size, Compressible)));
            rows.push(row(4 * K, Incompressible));
            rows.extend(many.map(|queues| Row { queues, ..row(4 * K, Compressible) }));
            rows.iter().for_each(|row| self.add(self.metaq_cell(row)));
            let backlogs = [(K, Compressible), (2 * K, Compressible), (4 * K, Compressible), (4 * K, Plain)];
            for (size, bodies) in backlogs {
                self.add(self.metaq_backlog(&row(size, bodies)));
            }
            for bodies in [Compressible, Plain] {
                let load = bodies.of(self.consumed(4, 4));
                self.add(self.cell(load, (256, 4 * K, 1024)).flushed(flush));
            }
        }
        self.add(self.cell(self.consumed(5, 2), (320, 4 * K, 1024)).flushed("async"));
    }

    fn metaq_cell(&self, row: &Row) -> CellLoad {
        let load = row.bodies.of(self.consumed(2, 10));
        self.cell(load, (128, row.size, row.queues)).flushed(row.flush)
    }

    fn metaq_backlog(&self, row: &Row) -> CellLoad {
        let (fill, longest) = self.scale.fill();
        let stages = backlog::stages(&self.options, Until::Sent(fill), (longest, longest));
        CellLoad { stages, repeats: Some(1), ..self.metaq_cell(row).with("fill", fill.to_string()) }
    }

    /// Report 004: up to 44 threads with bodies of 2 KiB, then hours at the top of the ladder; two consumers in one
    /// group.
    fn trend(&mut self, is_small: bool, seconds: u32) {
        let load = self.consumed(2, 2);
        let ladder: &[u32] =
            if is_small { &[2, 8, 16, 28, 44] } else { &[2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44] };
        ladder.iter().for_each(|threads| self.add(self.cell(load.clone(), (*threads, 2 * K, 8))));
        self.add(self.soak(load, 44, (2 * K, seconds)));
    }
}

/// Removes the flush modes that the brokers cannot change to while they run, and prints that.
fn keep_possible(cluster: &Cluster, cells: &mut Vec<CellLoad>) {
    if cluster.target.kind == TargetKind::Vostok {
        return;
    }
    let master = cluster.target.brokers.iter().find(|broker| broker.id == 0);
    let found = master.and_then(|master| master.settings.get("flushDiskType"));
    let mode = if found.is_some_and(|found| found == "SYNC_FLUSH") { "sync" } else { "async" };
    let before = cells.len();
    cells.retain(|cell| cell.factors.flush.is_empty() || cell.factors.flush == mode);
    if cells.len() < before {
        let left_out = before - cells.len();
        say!("{left_out} cells are left out: the broker flushes {mode} and cannot change while it runs");
    }
}
