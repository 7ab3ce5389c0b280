//! Flags of the scenarios, and the runs that they ask for.

use super::common::ScenarioFlags;
use super::fill::fill;
use super::values::mix;
use super::vary::Vary;
use crate::Error;
use crate::archive::Slo;
use crate::generator::{Consume, Send, Sizes};
use crate::scenario::{
    self, Backlog, CellLoad, Fill, LocalOptions, Matrix, Modes, REPLICATIONS, RunOptions, Scale, Search,
    disk_type,
};
use clap::Args;
use std::collections::BTreeMap;

/// Seconds of the warm-up and of the measured stage, unless flags say otherwise.
const SECONDS: (u32, u32) = (5, 30);

fn refused<T>(flag: &'static str, why: &str) -> Result<T, Error> {
    Err(Error::Flag { flag, why: why.to_owned() })
}

/// Flags of `vostok lab matrix`.
#[derive(Args, Debug, Clone)]
pub struct MatrixFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Requests in flight, a list.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,10,30,60")]
    pub threads: Vec<u32>,
    /// Body sizes, a list like 1k,5k,1m; a mixture is written 512:9/10k:1.
    #[arg(long = "size", value_name = "BYTES,…", value_delimiter = ',', default_value = "1k", value_parser = mix)]
    pub sizes: Vec<Sizes>,
    /// Queues per topic, a list.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "8")]
    pub queues: Vec<u32>,
    /// Another flag that differs between cells, e.g. `send=sync,async`, `groups=0,1,3`, `consume=pull,push,orderly`,
    /// `headers=binary,json`; also `batch`, `tags`, `keys`, `property-size`, `delay`, `producers`, `connections`,
    /// `consumers`, `consumer-threads`, `topics`, `compression`. A setting that brokers accept while they run is
    /// written `set:KEY=V1,V2`; each value is tried before the first cell, and the original value is restored at the
    /// end.
    #[arg(long, value_name = "NAME=V,…")]
    pub vary: Vec<Vary>,
    /// Skips the rest of a ladder of --threads when its ceiling is found, since more threads would give no more.
    /// Threads are run in the given order, and finding a ceiling needs three repeats.
    #[arg(long)]
    pub prune: bool,
}

impl MatrixFlags {
    /// Runs the matrix.
    pub fn run(&self) -> Result<(), Error> {
        let options = self.common.options(SECONDS);
        scenario::matrix(&options, &self.matrix(&options))
    }

    /// The combinations, with every value of the flags that differ.
    pub fn matrix(&self, options: &RunOptions) -> Matrix {
        let mut loads = vec![(options.load.clone(), BTreeMap::new())];
        for vary in &self.vary {
            loads = loads.iter().flat_map(|load| vary.over(load)).collect();
        }
        Matrix {
            scenario: "matrix",
            loads,
            threads: self.threads.clone(),
            sizes: self.sizes.clone(),
            queues: self.queues.clone(),
            prune: self.prune,
        }
    }
}

/// Flags of `vostok lab queues`.
#[derive(Args, Debug, Clone)]
pub struct QueuesFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Queues per topic, a list.
    #[arg(value_name = "N,…", value_delimiter = ',', default_value = "8,1024,10240")]
    pub queues: Vec<u32>,
    /// Requests in flight.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub threads: u32,
    /// Body sizes, a list.
    #[arg(long = "size", value_name = "BYTES,…", value_delimiter = ',', default_value = "4k", value_parser = mix)]
    pub sizes: Vec<Sizes>,
}

impl QueuesFlags {
    /// Runs the matrix over numbers of queues.
    pub fn run(&self) -> Result<(), Error> {
        let options = self.common.options(SECONDS);
        let matrix = Matrix {
            scenario: "queues",
            loads: vec![(options.load.clone(), BTreeMap::new())],
            threads: vec![self.threads],
            sizes: self.sizes.clone(),
            queues: self.queues.clone(),
            prune: false,
        };
        scenario::matrix(&options, &matrix)
    }
}

/// Flags of `vostok lab modes`.
#[derive(Args, Debug, Clone)]
pub struct ModesFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Flush modes: async, sync or both.
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', default_value = "async,sync")]
    pub flush: Vec<String>,
    /// Replication modes: none, async, sync, quorum; empty for the cluster's own. Brokers are started in a mode, so
    /// each mode needs its own run with the same --rate, and then lab compare.
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', default_value = "")]
    pub repl: Vec<String>,
    /// Requests in flight, a list.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "20")]
    pub threads: Vec<u32>,
    /// Body sizes, a list.
    #[arg(long = "size", value_name = "BYTES,…", value_delimiter = ',', default_value = "2k", value_parser = mix)]
    pub sizes: Vec<Sizes>,
    /// Queues per topic.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub queues: u32,
    /// Starts two masters with a slave each of this program on this machine for the run, in the one mode of --repl: async
    /// or sync.
    #[arg(long, value_name = "KIND", value_parser = ["2m2s"], conflicts_with_all = ["namesrv", "cluster"])]
    pub local: Option<String>,
}

impl ModesFlags {
    /// Compares the modes, if there are such modes.
    pub fn run(&self) -> Result<(), Error> {
        self.flush.iter().try_for_each(|word| disk_type(word).map(drop))?;
        if let Some(other) = self.repl.iter().find(|word| !REPLICATIONS.contains(&word.as_str())) {
            return refused("--repl", &format!("expected none, async, sync or quorum, found {other}"));
        }
        let modes = Modes {
            flush: self.flush.clone(),
            replication: self.repl.clone(),
            threads: self.threads.clone(),
            sizes: self.sizes.clone(),
            queues: self.queues,
            local: self.local()?,
        };
        scenario::modes(&self.common.options(SECONDS), &modes)
    }

    /// The cluster of the lab's own, with masters in the replication mode.
    fn local(&self) -> Result<Option<LocalOptions>, Error> {
        let Some(kind) = self.local.clone() else { return Ok(None) };
        let role = match self.repl.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] | ["" | "async"] => "ASYNC_MASTER",
            ["sync"] => "SYNC_MASTER",
            _ => return refused("--repl", "expected async or sync with --local, each in a run of its own"),
        };
        let settings = [("brokerRole".to_owned(), role.to_owned())].into();
        Ok(Some(LocalOptions { kind, config: None, settings, links: false }))
    }
}

/// Flags of `vostok lab backlog`.
#[derive(Args, Debug, Clone)]
pub struct BacklogFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Size of the backlog in bytes of bodies, or the time of filling: 200g, 18h, 30min.
    #[arg(long, value_name = "BYTES|TIME", default_value = "1g", value_parser = fill)]
    pub fill: Fill,
    /// Longest time in seconds for filling by bytes; 600, or what the bytes take at 20 MiB a second.
    #[arg(long, value_name = "SECONDS")]
    pub fill_seconds: Option<u32>,
    /// Phase after the filling; a backlog is always drained.
    #[arg(long, value_name = "drain", default_value = "drain", value_parser = ["drain"])]
    pub then: String,
    /// Longest time in seconds for the drain; 600, or the time limit of filling where that is longer.
    #[arg(long, value_name = "SECONDS")]
    pub drain_seconds: Option<u32>,
    /// Whether producers go on during the drain.
    #[arg(long, value_name = "BOOL", default_value = "true", default_missing_value = "true", num_args = 0..=1,
        action = clap::ArgAction::Set)]
    pub keep_producing: bool,
    /// Requests in flight.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub threads: u32,
    /// Body sizes, a list.
    #[arg(long = "size", value_name = "BYTES,…", value_delimiter = ',', default_value = "4k", value_parser = mix)]
    pub sizes: Vec<Sizes>,
    /// Queues per topic.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub queues: u32,
}

impl BacklogFlags {
    /// Builds up the backlog and drains it.
    pub fn run(&self) -> Result<(), Error> {
        if self.common.consume != Consume::Pull {
            let why =
                "push consumers do not say how far behind they are; a backlog is read with --consume pull";
            return refused("--consume", why);
        }
        if self.common.reach.grpc.is_some() {
            return refused(
                "--grpc",
                "receives do not say how far behind they are; a backlog is read without it",
            );
        }
        if matches!(self.fill, Fill::Seconds(_)) && self.fill_seconds.is_some() {
            return refused("--fill-seconds", "--fill is a time already, it ends when that is over");
        }
        scenario::backlog(&self.common.options(SECONDS), &self.backlog())
    }

    /// The backlog that the flags describe.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            fill: self.fill,
            fill_seconds: self.fill_seconds,
            drain_seconds: self.drain_seconds,
            keep_producing: self.keep_producing,
            threads: self.threads,
            sizes: self.sizes.clone(),
            queues: self.queues,
        }
    }
}

/// Flags of `vostok lab soak`.
#[derive(Args, Debug, Clone)]
pub struct SoakFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Hours of load.
    #[arg(long, value_name = "HOURS", default_value_t = 8.0)]
    pub hours: f64,
    /// Requests in flight.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub threads: u32,
    /// Body size.
    #[arg(long, value_name = "BYTES", default_value = "2k", value_parser = mix)]
    pub size: Sizes,
    /// Queues per topic.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub queues: u32,
}

impl SoakFlags {
    /// Runs the soak.
    pub fn run(&self) -> Result<(), Error> {
        match (self.common.duration, self.common.repeats) {
            (Some(_), _) => return refused("--duration", "a soak lasts as long as --hours says"),
            (_, Some(2..)) => return refused("--repeats", "a soak is run once"),
            _ => {}
        }
        let seconds = (self.hours * 3600.0).max(1.0) as u32;
        let mut options = RunOptions { repeats: 1, ..self.common.options((SECONDS.0, seconds)) };
        options.load.groups = options.load.groups.max(1);
        let cell: CellLoad = options.cell(self.threads, &self.size, self.queues);
        scenario::soak(&options, cell)
    }
}

/// Flags of `vostok lab safe-tps`.
#[derive(Args, Debug, Clone)]
pub struct SafeTpsFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Limits to keep in addition to the guards, e.g. `e2e.p99<50ms,errors=0`.
    #[arg(long, value_name = "LIMITS")]
    pub slo: Option<Slo>,
    /// Seconds of each of the repeats that confirm the rate.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub confirm: u32,
    /// Requests in flight of the first closed loop of the ladder.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub threads: u32,
    /// Body size.
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = mix)]
    pub size: Sizes,
    /// Queues per topic.
    #[arg(long = "topic-queues", value_name = "N", default_value_t = 8)]
    pub queues: u32,
}

impl SafeTpsFlags {
    /// Runs the search.
    pub fn run(&self) -> Result<(), Error> {
        match (self.common.rate, self.common.send) {
            (Some(_), _) => {
                return refused("--rate", "the rate is what is searched; lab matrix runs a given one");
            }
            (_, Send::OneWay) => {
                let why = "nobody answers what is sent one way, so no rate can be called safe; \
                           lab matrix --send oneway --rate R sends it";
                return refused("--send", why);
            }
            _ => {}
        }
        scenario::safe_tps(&self.common.options(SECONDS), &self.search())
    }

    /// The search that the flags describe.
    pub fn search(&self) -> Search {
        let (threads, size, queues) = (self.threads, self.size.clone(), self.queues);
        Search { slo: self.slo.clone(), confirm: self.confirm, threads, size, queues }
    }
}

/// Flags of `vostok lab seed`.
#[derive(Args, Debug, Clone)]
pub struct SeedFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Which report: 000, 001, 002, 003 or 004.
    pub report: String,
    /// Scale of the report.
    #[arg(long, value_enum, default_value = "small")]
    pub scale: Scale,
}

impl SeedFlags {
    /// Runs the cells of the report.
    pub fn run(&self) -> Result<(), Error> {
        scenario::seed(&self.options(), &self.report, self.scale)
    }

    /// The options of the run, with the durations of the scale.
    pub fn options(&self) -> RunOptions {
        self.common.options(self.scale.seconds())
    }
}

#[cfg(test)]
mod tests;
