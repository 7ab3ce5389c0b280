//! Design of a scenario: options of the run, and its cells with their loads.

use super::stage::Stage;
use crate::archive::{Factors, Purpose, SETTING};
use crate::generator::{Consume, Payload, Send, Sizes, Workload, choice_name};
use crate::judge::numbers;
use crate::runtime::epoch_ms;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of a run of any scenario.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The load that all cells share. The name of its topic is the prefix of the topics of the cells.
    pub load: Workload,
    /// The command as it was typed, without secrets.
    pub command_line: Vec<String>,
    /// Directory of the run; named after the scenario and the time when absent.
    pub out: Option<PathBuf>,
    /// Name of the target in reports; found automatically when absent.
    pub name: Option<String>,
    /// Seconds of warm-up.
    pub warmup: u32,
    /// Measured seconds.
    pub duration: u32,
    /// Number of repeats of each cell.
    pub repeats: u32,
    /// Process id of the broker on this machine; found by its port when absent.
    pub pid: Option<i32>,
    /// Process ids of all servers, beginning with a master, when they are on this machine and cannot be found by its ports.
    pub servers: Vec<i32>,
    /// Addresses of the agents on other machines, whose figures are kept too.
    pub agents: Vec<String>,
    /// Addresses of the agents that share the load with this machine.
    pub load_agents: Vec<String>,
    /// Whether to measure the limits of this machine before the first cell.
    pub selftest: bool,
    /// Garbage collection log of a Java broker on this machine; when absent, the JVM is asked to write one.
    pub gc_log: Option<PathBuf>,
    /// Largest share of a machine's processors that other programs may use; `None` for the default.
    pub others_max: Option<f64>,
    /// Free bytes on the disk of a broker on this machine, below which the run ends.
    pub free_bytes_min: u64,
}

/// A cell of a run: its factors, its load, and the stages of each repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct CellLoad {
    /// Factors that distinguish the cell.
    pub factors: Factors,
    /// The load of every repeat.
    pub load: Workload,
    /// The stages of every repeat.
    pub stages: Vec<Stage>,
    /// Number of repeats; `None` for the run's own number.
    pub repeats: Option<u32>,
}

/// The cells with which a run begins, and the flags that hold for all of them.
#[derive(Clone, Debug)]
pub struct Design {
    /// Name of the scenario.
    pub scenario: String,
    /// The cells, in the order in which they are run.
    pub cells: Vec<CellLoad>,
    /// Whether to skip the steps of a ladder of threads above its ceiling.
    pub prune: bool,
    /// Flags of this scenario alone that hold for every cell, with their values.
    pub held: Vec<(&'static str, String)>,
}

impl Design {
    /// A scenario whose cells are all run, and that holds nothing of its own.
    pub fn new(scenario: impl Into<String>, cells: Vec<CellLoad>) -> Self {
        Self { scenario: scenario.into(), cells, prune: false, held: Vec::new() }
    }
}

/// Name of the scenario in which masters fail.
pub(super) const FAILOVER: &str = "failover";

/// The directory of a run that was given none.
pub(super) fn run_directory(scenario: &str) -> PathBuf {
    let began: String = numbers::iso(epoch_ms()).chars().filter(|letter| !"-:Z".contains(*letter)).collect();
    format!("lab-{}-{began}", scenario.replace(' ', "-")).into()
}

impl RunOptions {
    /// An ordinary cell: a warm-up and a measured stage.
    pub fn cell(&self, threads: u32, sizes: &Sizes, queues: u32) -> CellLoad {
        let load = Workload { threads, sizes: sizes.clone(), queues, ..self.load.clone() };
        CellLoad::new(load, Stage::plain(self.warmup, self.duration))
    }
}

impl CellLoad {
    /// A cell of a load, whose topic is a prefix to which the number of queues is added.
    pub fn new(load: Workload, stages: Vec<Stage>) -> Self {
        let load = Workload { topic: format!("{}{}", load.topic, load.queues), ..load };
        Self { factors: factors(&load), load, stages, repeats: None }
    }

    /// The cell with another factor that is no part of its load.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.factors.more.insert(name.to_owned(), value.into());
        self
    }

    /// The cell with broker settings that are set before it is run.
    pub fn with_settings(mut self, settings: &BTreeMap<String, String>) -> Self {
        let named = settings.iter().map(|(key, value)| (format!("{SETTING}{key}"), value.clone()));
        self.factors.more.extend(named);
        self
    }

    /// The cell with this purpose.
    pub fn meant_for(mut self, purpose: Purpose) -> Self {
        self.factors = self.factors.meant_for(purpose);
        self
    }

    /// The cell in a flush mode: `async` or `sync`.
    pub fn flushed(mut self, mode: &str) -> Self {
        mode.clone_into(&mut self.factors.flush);
        self
    }

    /// Seconds of all repeats, where a run has `repeats` of a cell.
    pub fn seconds(&self, repeats: u32) -> u64 {
        let once: u64 = self.stages.iter().map(|stage| u64::from(stage.seconds)).sum();
        once * u64::from(self.repeats.unwrap_or(repeats))
    }
}

/// Factors that distinguish a load from others. Values that are usual are left out, except values with a field of their
/// own.
fn factors(load: &Workload) -> Factors {
    let mut more = BTreeMap::new();
    if load.sizes.0.len() > 1 {
        let words: Vec<_> = load.sizes.0.iter().map(|(size, weight)| format!("{size}:{weight}")).collect();
        more.insert("sizes", words.join("/"));
    }
    let numbers = [
        ("batch", load.batch),
        ("tags", load.tags),
        ("property-size", load.property_size),
        ("delay", load.delay_level.unsigned_abs()),
        ("consumers", if load.consumers > 1 { load.consumers } else { 0 }),
        ("consumer-threads", load.consumer_threads.unwrap_or(0)),
    ];
    more.extend(
        numbers
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .map(|(name, number)| (name, number.to_string())),
    );
    let words = [
        ("send", choice_name(&load.send), load.send != Send::default()),
        ("consume", choice_name(&load.consume), load.consume != Consume::default()),
        ("keys", "true".to_owned(), load.keys),
        ("headers", "json".to_owned(), load.json_headers),
        ("protocol", "grpc".to_owned(), load.grpc.is_some()),
        ("tls", "true".to_owned(), load.tls),
    ];
    more.extend(words.into_iter().filter(|word| word.2).map(|(name, word, _)| (name, word)));
    Factors {
        threads: load.threads,
        producers: load.producers,
        connections: load.connections,
        size: load.sizes.mean(),
        queues: load.queues,
        topics: load.topics,
        groups: load.groups,
        rate: load.rate,
        compression: choice_name(&load.compression),
        payload: match &load.payload {
            Payload::Random => "random".to_owned(),
            Payload::Repeat(period) => format!("repeat:{period}"),
            Payload::File(_) => "file".to_owned(),
        },
        more: more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..Factors::default()
    }
}

#[cfg(test)]
impl RunOptions {
    /// Options of a run with every flag at its default.
    pub(crate) fn fixture() -> Self {
        Self {
            load: Workload { topic: "lab_q".to_owned(), ..Workload::default() },
            command_line: Vec::new(),
            out: None,
            name: None,
            warmup: 5,
            duration: 30,
            repeats: 3,
            pid: None,
            servers: Vec::new(),
            agents: Vec::new(),
            load_agents: Vec::new(),
            selftest: true,
            gc_log: None,
            others_max: None,
            free_bytes_min: 10 << 30,
        }
    }
}
