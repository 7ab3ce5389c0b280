//! The description of a run: the target, the machines and the cells.

use super::Slo;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The broker setting that says whether an acknowledgement waits for the flush.
pub const FLUSH: &str = "flushDiskType";

/// Placeholder for a secret key in [`RunFile::command_line`], because runs do not keep it.
pub const SECRET: &str = "SECRET";

/// Prefix of the names in [`Factors::more`] that are broker settings.
pub const SETTING: &str = "set:";

/// The content of `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFile {
    /// Name of the run's directory.
    pub id: String,
    /// `matrix`, `safe-tps`, `modes`, `queues`, `backlog`, `soak`, `seed 000`, …
    pub scenario: String,
    /// The command as it was typed, for the report's "reproduce" line.
    pub command_line: Vec<String>,
    /// Version of the lab.
    pub lab_version: String,
    /// Number of threads that drive the load; 0 when unknown.
    pub lab_threads: u32,
    /// Number of cores that a CPU quota allows the lab, when that is less than its threads; `None` when several
    /// machines share the load.
    pub lab_cores_allowed: Option<f64>,
    /// Start of the run, milliseconds since 1970.
    pub started_ms: u64,
    /// End of the run, milliseconds since 1970; `None` while the run goes on or was interrupted.
    pub ended_ms: Option<u64>,
    /// Seed of payloads and of the order of cells.
    pub seed: u64,
    /// The cluster under load.
    pub target: Target,
    /// The machines of the run, the lab's own first.
    pub hosts: Vec<HostFile>,
    /// Upper bound of the difference between the clocks of producers and consumers, microseconds.
    pub clock_skew_us: u64,
    /// The factors of every cell of the run, in the order in which cells are run.
    pub cells: Vec<Factors>,
    /// Numbers of the cells that are skipped because their ladder reached its ceiling at a lower load.
    pub left_out: Vec<u32>,
    /// Number of times that each cell is run.
    pub repeats: u32,
    /// The flags that hold for every cell, with their values. A run can be resumed only with the same ones. Empty in
    /// runs of earlier versions of the lab.
    pub held: BTreeMap<String, String>,
    /// Largest share of a machine's processors that other programs may use; `None` for the default.
    pub others_max: Option<f64>,
    /// Topics and groups that the run created on the cluster and has not removed yet.
    pub made: Made,
    /// The limits that a search was told to keep. Judging the run applies them as well, unless other limits are given.
    pub slo: Slo,
}

/// Topics and groups that a run created on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Made {
    /// Topics that the run created.
    pub topics: BTreeSet<String>,
    /// Consumer groups that the run created. While they exist, brokers keep messages for them.
    pub groups: BTreeSet<String>,
}

/// The cluster under load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// Name in comparisons, e.g. `rocketmq-5.5.0`.
    pub name: String,
    /// Name servers, separated by semicolons.
    pub namesrv: String,
    /// Kind of server under load.
    pub kind: TargetKind,
    /// Version as the server reports it.
    pub version: String,
    /// Brokers of the target, masters and slaves.
    pub brokers: Vec<BrokerFile>,
}

/// Kind of server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Apache RocketMQ.
    #[default]
    Rocketmq,
    /// Vostok.
    Vostok,
}

/// Broker of the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerFile {
    /// `brokerName` of the broker.
    pub name: String,
    /// `brokerId`: 0 is the master.
    pub id: u64,
    /// Address at which the broker answers.
    pub address: String,
    /// Name of the host in [`RunFile::hosts`], when an agent runs there.
    pub host: Option<String>,
    /// All settings of the broker as it reports them (request code 26, `GET_BROKER_CONFIG`).
    pub settings: BTreeMap<String, String>,
}

/// A machine of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFile {
    /// Name of the machine and of its series.
    pub name: String,
    /// Model name of the processor.
    pub cpu_model: String,
    /// Number of cores that the system shows.
    pub cores: u32,
    /// Number of cores that the processes may use; `None` when no CPU quota (cgroup) limits them.
    pub cores_allowed: Option<f64>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Block device that holds the store, e.g. `vda`.
    pub disk: String,
    /// File system of that device.
    pub filesystem: String,
    /// Whether the device is a spinning disk; `None` when unknown.
    pub disk_rotational: Option<bool>,
    /// Whether the system reports I/O pressure (`/proc/pressure/io`); `None` in runs of earlier versions of the lab.
    pub tells_pressure: Option<bool>,
    /// Negotiated speed in megabits per second of each interface whose bytes are counted; `None` when the system does
    /// not report it.
    pub nics: BTreeMap<String, Option<u64>>,
    /// Limits of the machine as its self-test measured them; `None` when no self-test was run.
    pub roofline: Option<Roofline>,
    /// Figures of the self-test that the run itself exceeded. They are left out of [`HostFile::roofline`] when the run
    /// is judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beaten: Vec<Beaten>,
}

/// A figure of a self-test that the run exceeded, because something else used the machine during the self-test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beaten {
    /// The limit in question.
    pub limit: Limit,
    /// Bytes per second that the self-test measured.
    pub tested: f64,
    /// Bytes per second that the run reached.
    pub reached: f64,
}

/// A limit that a self-test measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Bytes per second written to the disk.
    #[default]
    DiskWrite,
    /// Bytes per second read from the disk.
    DiskRead,
    /// Bytes per second over loopback.
    Loopback,
}

/// Limits of a machine, measured by `vostok lab selftest`; 0 means not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Roofline {
    /// Sequential write, bytes per second.
    pub disk_write_bytes: f64,
    /// Sequential read of uncached data, bytes per second.
    pub disk_read_bytes: f64,
    /// Flushes of 4 KiB writes into preallocated space, per second.
    pub disk_flushes: f64,
    /// Mean time of a 4 KiB write to the idle disk, milliseconds.
    pub disk_write_await_ms: f64,
    /// Random writes of 4 KiB per second, with several in flight.
    pub disk_random_writes: f64,
    /// Bytes per second over loopback.
    pub net_bytes: f64,
    /// Round trips per second over loopback, with one request at a time.
    pub net_round_trips: f64,
    /// 1 KiB messages per second that one core of the lab sends to the echo server.
    pub lab_messages: f64,
    /// Bytes per second for which one core computes CRC32.
    pub cpu_crc_bytes: f64,
}

/// Factors that distinguish a cell from the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Factors {
    /// Requests in flight (closed loop).
    pub threads: u32,
    /// Number of producers, each with its own connections.
    pub producers: u32,
    /// Connections per broker and producer.
    pub connections: u32,
    /// Bytes of a message body; the mean when sizes are distributed.
    pub size: u64,
    /// Queues per topic and broker.
    pub queues: u32,
    /// Number of topics.
    pub topics: u32,
    /// Number of consumer groups.
    pub groups: u32,
    /// Messages per second (open loop); absent in a closed loop.
    pub rate: Option<f64>,
    /// `async` or `sync`; empty for the setting that the broker had when the run began.
    pub flush: String,
    /// `none`, `async`, `sync` or `quorum`; empty for the setting of the cluster.
    pub replication: String,
    /// Compression: `none`, `lz4`, `zlib` or `zstd`.
    pub compression: String,
    /// Content of bodies: `random`, `repeat` or `file`.
    pub payload: String,
    /// Any other factors. Names that begin with [`SETTING`] are settings that the brokers had in the cell.
    pub more: BTreeMap<String, String>,
}

/// The content of `cell.json`, written when all repeats of the cell are finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// Number of the cell in the run, from 1.
    pub number: u32,
    /// Name of the cell's directory.
    pub name: String,
    /// Factors of the cell.
    pub factors: Factors,
    /// Number of repeats that have data.
    pub repeats: u32,
    /// Phases of the repeats, which are judged separately: `warmup`, `steady`, `before`, `during`, `drain`, `after`.
    pub phases: Vec<Phase>,
    /// Counts of messages that were acknowledged, received, missing, duplicated, changed and out of order, when content
    /// was checked.
    pub checked: BTreeMap<String, u64>,
    /// Whether the cell's only repeat was ended early. Reports show it, and a resumed run repeats it.
    pub interrupted: bool,
}

/// A phase of a repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Name of the phase.
    pub name: String,
    /// Begin of the phase, milliseconds since 1970, included.
    pub from_ms: u64,
    /// End of the phase, milliseconds since 1970, excluded.
    pub to_ms: u64,
    /// Whether the condition that the phase waited for was met before its time limit; `None` when it waited for nothing
    /// or was ended early.
    pub met: Option<bool>,
}

/// Whether a device belongs to a virtual machine (virtio, Xen). Such a device reports a default of its driver as
/// `rotational`.
pub(crate) fn is_virtual(device: &str) -> bool {
    ["vd", "xvd"].iter().any(|prefix| device.starts_with(prefix))
}

impl HostFile {
    /// Whether the disk is a spinning one; `None` when unknown.
    pub fn disk_spins(&self) -> Option<bool> {
        // Earlier versions of the lab recorded what a virtual disk reports.
        self.disk_rotational.filter(|spins| !*spins || !is_virtual(&self.disk))
    }
}

impl RunFile {
    /// A broker setting in a cell: the value that was set for the cell, otherwise the value that the first broker
    /// reported.
    pub fn setting<'a>(&'a self, cell: &'a Factors, key: &str) -> Option<&'a str> {
        let set = cell.settings().find(|(name, _)| *name == key).map(|(_, value)| value);
        set.or_else(|| self.target.brokers.first()?.settings.get(key).map(String::as_str))
    }
}

impl RunFile {
    /// Flush mode of the brokers in a cell: `async` or `sync`; empty when unknown.
    pub fn flush<'a>(&'a self, cell: &'a Factors) -> &'a str {
        match self.setting(cell, FLUSH) {
            _ if !cell.flush.is_empty() => &cell.flush,
            Some("SYNC_FLUSH") => "sync",
            Some("ASYNC_FLUSH") => "async",
            other => other.unwrap_or_default(),
        }
    }

    /// Replication mode in a cell: `none`, `async`, `sync` or `quorum`; empty when unknown.
    pub fn replication<'a>(&'a self, cell: &'a Factors) -> &'a str {
        if cell.replication.is_empty() {
            self.target.replication().unwrap_or_default()
        } else {
            &cell.replication
        }
    }
}

impl Target {
    /// Replication mode of the cluster, by the role of its first master.
    pub fn replication(&self) -> Option<&'static str> {
        let master = self.brokers.iter().find(|broker| broker.id == 0)?;
        let has_slaves = self.brokers.iter().any(|broker| broker.name == master.name && broker.id > 0);
        let is = |key: &str, value: &str| master.settings.get(key).is_some_and(|found| found == value);
        Some(match () {
            () if !has_slaves => "none",
            () if is("enableControllerMode", "true") || is("enableDLegerCommitLog", "true") => "quorum",
            () if is("brokerRole", "SYNC_MASTER") => "sync",
            () => "async",
        })
    }
}

impl Phase {
    /// Whether the phase is judged; the warm-up is not.
    pub fn counts(&self) -> bool {
        !["start", "warmup"].contains(&self.name.as_str())
    }
}

impl Cell {
    /// The cell from which a run is resumed: without a repeat that was ended early.
    pub fn to_go_on(self) -> Self {
        if !self.interrupted {
            return self;
        }
        let Self { number, name, factors, .. } = self;
        Self { number, name, factors, ..Self::default() }
    }
}

impl Factors {
    /// Broker settings of the cell, with their values.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.more.iter().filter_map(|(name, value)| Some((name.strip_prefix(SETTING)?, value.as_str())))
    }

    /// Name of the directory of cell `number`: the number and the factors that differ, e.g. `001-w60-s1024-q8-sync`.
    pub fn name(&self, number: u32) -> String {
        let mut name = format!("{number:03}-w{}-s{}-q{}", self.threads, self.size, self.queues);
        if let Some(rate) = self.rate {
            name += &format!("-r{rate:.0}");
        }
        for (letter, count, usual) in [
            ('p', self.producers, 1),
            ('c', self.connections, 1),
            ('t', self.topics, 1),
            ('g', self.groups, 0),
        ] {
            if count > usual {
                name += &format!("-{letter}{count}");
            }
        }
        // Default values are left out of the name.
        let unusual = [(&self.compression, "none"), (&self.payload, "random")];
        let unusual = unusual.into_iter().filter(|(word, usual)| word != usual).map(|(word, _)| word);
        let words = [&self.flush, &self.replication].into_iter().chain(unusual).chain(self.more.values());
        for word in words.filter(|word| !word.is_empty()) {
            name.push('-');
            name.extend(word.chars().filter(|letter| letter.is_ascii_alphanumeric()));
        }
        name
    }
}
