//! `vostok lab seed 000`: the cells of five earlier reports as ready-made runs, scaled to the machine.

use super::backlog;
use super::bench::{Bench, Plan};
use super::cluster::Cluster;
use super::modes::set_flush;
use super::record::{Action, Stage, Until};
use crate::Error;
use crate::archive::{Factors, TargetKind};
use crate::generator::{Payload, Workload};
use crate::judge::validity::SOAK_SECONDS_MIN;
use crate::output::say;
use crate::scenario_arguments::mix;
use crate::scenario_arguments::{Scale, ScenarioArguments, SeedFlags};
use crate::session;
use crate::sizes::bytes;

/// Bodies of report 003: random, compressible ones with zlib, and incompressible ones with zlib.
const PLAIN: &[(&str, &str)] = &[];
const PACKED: &[(&str, &str)] = &[("compression", "zlib"), ("payload", "repeat:128")];
const RANDOM: &[(&str, &str)] = &[("compression", "zlib"), ("payload", "random")];

/// Runs the cells of a report.
///
/// # Errors
/// [`Error::Flag`] when there is no such report, otherwise as for [`super::matrix`].
pub fn run(flags: &SeedFlags) -> Result<(), Error> {
    session::block_on(async {
        let mut plan = Seed::new(flags)?;
        let cluster = Cluster::look(&plan.arguments).await?;
        plan.keep_possible(&cluster);
        cluster.client.shutdown();
        let scenario = format!("seed {}", flags.report);
        let mut bench = Bench::open(&plan.arguments, &scenario, plan.cells.clone(), &plan).await?;
        bench.run(&plan).await
    })
}

/// The cells of a report.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    pub arguments: ScenarioArguments,
    pub cells: Vec<Factors>,
    /// Bytes of a backlog, and the time limits of filling and draining in seconds.
    fill: (u64, u32, u32),
}

/// Lengths for a scale.
struct Sizes {
    /// Seconds of the warm-up and of the measured stage.
    seconds: (u32, u32),
    /// Size of a backlog, and the time limit of filling and draining in seconds.
    fill: (&'static str, u32),
    /// Seconds of a soak. A shorter one has no valid figures.
    soak: u32,
}

fn sizes_of(scale: Scale) -> Sizes {
    match scale {
        Scale::Small => Sizes { seconds: (2, 8), fill: ("512m", 120), soak: SOAK_SECONDS_MIN },
        Scale::Medium => Sizes { seconds: (10, 60), fill: ("20g", 3600), soak: 3600 },
        Scale::Full => Sizes { seconds: (30, 300), fill: ("200g", 8 * 3600), soak: 8 * 3600 },
    }
}

impl Seed {
    /// Makes the cells of a report at a scale.
    ///
    /// # Errors
    /// [`Error::Flag`] when there is no such report.
    pub fn new(flags: &SeedFlags) -> Result<Self, Error> {
        let Sizes { seconds: (warmup, duration), fill: (fill, longest), soak } = sizes_of(flags.scale);
        let given = &flags.arguments;
        let warmup = given.warmup.or(Some(warmup));
        let arguments =
            ScenarioArguments { warmup, duration: given.duration.or(Some(duration)), ..given.clone() };
        let fill = (bytes(fill).expect("a constant"), longest, longest);
        let mut seed = Self { arguments, cells: Vec::new(), fill };
        let is_small = flags.scale == Scale::Small;
        match flags.report.as_str() {
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

    fn add(&mut self, threads: u32, size: &str, queues: u32, more: &[(&str, &str)]) {
        let mut cell = self.arguments.factors(threads, &mix(size).expect("a constant"), queues);
        for (name, value) in more {
            let value = (*value).to_owned();
            match *name {
                "flush" => cell.flush = value,
                "compression" => cell.compression = value,
                "payload" => cell.payload = value,
                "groups" => cell.groups = value.parse().expect("a constant"),
                "producers" => cell.producers = value.parse().expect("a constant"),
                _ => {
                    cell.more.insert((*name).to_owned(), value);
                }
            }
        }
        if !self.cells.contains(&cell) {
            self.cells.push(cell);
        }
    }

    /// Report 000: ladders of threads by size and number of queues.
    fn ladders(&mut self, is_small: bool) {
        let threads = [1, 10, 30, 60, 120, 200];
        let (sizes, queues): (&[&str], &[u32]) =
            if is_small { (&["1k", "10k"], &[8]) } else { (&["1k", "2k", "5k", "10k", "1m"], &[1, 8, 16]) };
        for size in sizes {
            for queues in queues {
                threads.iter().for_each(|threads| self.add(*threads, size, *queues, &[]));
            }
        }
        if is_small {
            [1, 10, 30].iter().for_each(|threads| self.add(*threads, "1m", 8, &[]));
            [1, 16].iter().for_each(|queues| self.add(60, "1k", *queues, &[]));
        }
    }

    /// Report 001: threads, sizes, flush modes, and hours of load. The consumer is a push consumer with one thread,
    /// except in cells with checked content, which need pull consumers.
    fn throughput(&mut self, is_small: bool, soak: u32) {
        let pushed = [("groups", "1"), ("consume", "push"), ("consumer-threads", "1")];
        let ladder: &[u32] = if is_small { &[1, 8, 32, 64] } else { &[1, 2, 4, 8, 16, 32, 64, 128] };
        ladder.iter().for_each(|threads| self.add(*threads, "2k", 8, &pushed));
        ["128", "512", "2k", "8k", "32k"].iter().for_each(|size| self.add(32, size, 8, &pushed));
        let pairs = [("producers", "2"), ("consumers", "2")];
        for flush in ["async", "sync"] {
            self.add(20, "2k", 8, &[&pushed[..], &pairs, &[("flush", flush)]].concat());
        }
        let seconds = soak.to_string();
        let soak = [("groups", "1"), ("flush", "async"), ("soak", seconds.as_str())];
        self.add(20, "2k", 8, &[&soak[..], &pairs].concat());
    }

    /// Report 002: two producers with 80 threads, bodies of 500 bytes, two consumers in one group.
    fn raft(&mut self, soak: u32) {
        let common = [("groups", "1"), ("producers", "2"), ("consumers", "2")];
        [20, 40, 80, 160].iter().for_each(|threads| self.add(*threads, "500", 8, &common));
        let seconds = soak.to_string();
        self.add(160, "500", 8, &[&common[..], &[("soak", seconds.as_str())]].concat());
    }

    /// Report 003 on a small scale: one cell of each kind.
    fn metaq_small(&mut self) {
        for flush in ["async", "sync"] {
            ["128", "2k", "32k"].iter().for_each(|size| self.metaq_row(flush, size, 128, PLAIN));
            self.metaq_row(flush, "4k", 128, PACKED);
            self.metaq_row(flush, "4k", 128, RANDOM);
        }
        [1024, 10_240].iter().for_each(|queues| self.metaq_row("async", "4k", *queues, PACKED));
        let fill = self.fill.0.to_string();
        for packed in [PACKED, PLAIN] {
            self.metaq_row("async", "4k", 128, &[packed, &[("fill", &fill)]].concat());
        }
    }

    /// Report 003: the rows of its table that need only one disk. Rows with other numbers of producers and consumers
    /// come last in each flush mode.
    fn metaq(&mut self) {
        let plain = ["128", "256", "2k", "4k"];
        let small = ["512", "1k", "2k", "4k", "6k"];
        let large = ["32k", "64k", "128k", "256k", "512k"];
        let tiny = ["128", "256"];
        let fill = self.fill.0.to_string();
        for (flush, packed, many) in [
            ("async", [&small[..], &large].concat(), [10_240, 50_000]),
            ("sync", [&tiny[..], &small].concat(), [5000, 10_240]),
        ] {
            plain.iter().for_each(|size| self.metaq_row(flush, size, 1024, PLAIN));
            packed.iter().for_each(|size| self.metaq_row(flush, size, 1024, PACKED));
            self.metaq_row(flush, "4k", 1024, RANDOM);
            many.iter().for_each(|queues| self.metaq_row(flush, "4k", *queues, PACKED));
            for (size, packed) in [("1k", PACKED), ("2k", PACKED), ("4k", PACKED), ("4k", PLAIN)] {
                self.metaq_row(flush, size, 1024, &[packed, &[("fill", &fill)]].concat());
            }
            for packed in [PACKED, PLAIN] {
                let crew = [("groups", "1"), ("producers", "4"), ("consumers", "4"), ("flush", flush)];
                self.add(256, "4k", 1024, &[&crew[..], packed].concat());
            }
        }
        let crew = [("groups", "1"), ("producers", "5"), ("consumers", "2"), ("flush", "async")];
        self.add(320, "4k", 1024, &crew);
    }

    /// Adds a row with two producers of 64 threads and ten consumers in one group.
    fn metaq_row(&mut self, flush: &str, size: &str, queues: u32, more: &[(&str, &str)]) {
        let common = [("groups", "1"), ("producers", "2"), ("consumers", "10"), ("flush", flush)];
        self.add(128, size, queues, &[&common[..], more].concat());
    }

    /// Report 004: up to 44 threads with bodies of 2 KiB, then hours at the top of the ladder; two consumers in one
    /// group.
    fn trend(&mut self, is_small: bool, soak: u32) {
        let common = [("groups", "1"), ("producers", "2"), ("consumers", "2")];
        let ladder: &[u32] =
            if is_small { &[2, 8, 16, 28, 44] } else { &[2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44] };
        ladder.iter().for_each(|threads| self.add(*threads, "2k", 8, &common));
        let seconds = soak.to_string();
        self.add(44, "2k", 8, &[&common[..], &[("soak", seconds.as_str())]].concat());
    }

    /// Removes the flush modes that the brokers cannot change to while they run, and prints that.
    fn keep_possible(&mut self, cluster: &Cluster) {
        if cluster.target.kind == TargetKind::Vostok {
            return;
        }
        let master = cluster.target.brokers.iter().find(|broker| broker.id == 0);
        let found = master.and_then(|master| master.settings.get("flushDiskType"));
        let mode = if found.is_some_and(|found| found == "SYNC_FLUSH") { "sync" } else { "async" };
        let before = self.cells.len();
        self.cells.retain(|cell| cell.flush.is_empty() || cell.flush == mode);
        if self.cells.len() < before {
            say!(
                "{} cells are left out: the broker flushes {mode} and cannot change while it runs",
                before - self.cells.len()
            );
        }
    }
}

impl Plan for Seed {
    fn workload(&self, cell: &Factors) -> Workload {
        let workload = self.arguments.workload(cell);
        let payload = match cell.payload.strip_prefix("repeat:").and_then(|period| period.parse().ok()) {
            Some(period) => Payload::Repeat(period),
            None => workload.payload.clone(),
        };
        let checked = cell.more.contains_key("soak");
        Workload { payload, checked, ..workload }
    }

    fn stages(&self, cell: &Factors) -> Vec<Stage> {
        if cell.more.contains_key("fill") {
            let (fill, filling, draining) = self.fill;
            return backlog::stages(&self.arguments, Until::Sent(fill), (filling, draining));
        }
        let soak = cell.more.get("soak").and_then(|seconds| seconds.parse().ok());
        let mut stages = Stage::plain(self.arguments.warmup(), soak.unwrap_or(self.arguments.duration()));
        if soak.is_some() {
            let until = Until::Drained;
            stages.push(Stage { name: "rest", seconds: 60, action: Action::StopProducers, until });
        }
        stages
    }

    fn repeats(&self, cell: &Factors) -> Option<u32> {
        (cell.more.contains_key("soak") || cell.more.contains_key("fill")).then_some(1)
    }

    async fn prepare(&self, cluster: &Cluster, cell: &Factors) -> Result<(), Error> {
        set_flush(cluster, &cell.flush).await
    }
}
