//! What was run: the target, the machines, the cells.

use super::Slo;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The setting that says how a broker flushes.
pub const FLUSH: &str = "flushDiskType";

/// First letters of the names in [`Factors::more`] that are settings of the brokers.
pub const SETTING: &str = "set:";

/// `run.json`.
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
    /// Threads that drive the load; 0 where it is not known.
    pub lab_threads: u32,
    /// Cores a quota lets the lab use, where it is less than its threads; absent where several machines share the load.
    pub lab_cores_allowed: Option<f64>,
    /// Milliseconds since 1970.
    pub started_ms: u64,
    /// Absent while the run goes on or was interrupted.
    pub ended_ms: Option<u64>,
    /// Seed of payloads and of the order of cells.
    pub seed: u64,
    /// What was loaded.
    pub target: Target,
    /// The lab's own machine first.
    pub hosts: Vec<HostFile>,
    /// Bound of the difference between the clocks of producers and consumers, microseconds.
    pub clock_skew_us: u64,
    /// Every cell that belongs to the run, in the order of running.
    pub cells: Vec<Factors>,
    /// Numbers of cells that are left out: the ladder they belong to had reached its ceiling below them.
    pub left_out: Vec<u32>,
    /// Times each cell is run.
    pub repeats: u32,
    /// What holds for every cell, by flag: a run goes on only with the same. Empty where an older lab began the run.
    pub held: BTreeMap<String, String>,
    /// Most of a machine's processors that other programs may use, as a share; absent for the default.
    pub others_max: Option<f64>,
    /// What the run made on the cluster and has not removed yet.
    pub made: Made,
    /// What a search was told to keep; whoever judges the run keeps it as well, unless told otherwise.
    pub slo: Slo,
}

/// What a run made on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Made {
    /// Topics that were not there before.
    pub topics: BTreeSet<String>,
    /// Consumer groups: while they are there, brokers keep messages for them.
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
    /// Which server answers.
    pub kind: TargetKind,
    /// As the server says it.
    pub version: String,
    /// Masters and slaves.
    pub brokers: Vec<BrokerFile>,
}

/// The server's make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Apache RocketMQ.
    #[default]
    Rocketmq,
    /// Vostok.
    Vostok,
}

/// One broker of the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerFile {
    /// `brokerName`.
    pub name: String,
    /// 0 is the master.
    pub id: u64,
    /// Where it answers.
    pub address: String,
    /// Name of the host in [`RunFile::hosts`], when an agent runs there.
    pub host: Option<String>,
    /// All its settings, as it says them (request 26).
    pub settings: BTreeMap<String, String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFile {
    /// Name of its series.
    pub name: String,
    /// Model name of the processor.
    pub cpu_model: String,
    /// Cores the system shows.
    pub cores: u32,
    /// Cores the processes may use, where a quota (cgroup) says less.
    pub cores_allowed: Option<f64>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Device under the store, e.g. `vda`.
    pub disk: String,
    /// Its file system.
    pub filesystem: String,
    /// Whether it spins.
    pub disk_rotational: Option<bool>,
    /// Whether the system tells how long everything waited for the disk (`/proc/pressure/io`); older runs do not say.
    pub tells_pressure: Option<bool>,
    /// Negotiated speed of each interface whose bytes count, megabits per second; absent where the system does not say.
    pub nics: BTreeMap<String, Option<u64>>,
    /// What the machine alone can do, when the self-test has run.
    pub roofline: Option<Roofline>,
    /// Figures of the self-test that the run itself was above: they are left out of [`HostFile::roofline`] when a run is judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beaten: Vec<Beaten>,
}

/// A figure of a self-test that its own run was above: something else used the machine while it was tested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beaten {
    /// Which.
    pub limit: Limit,
    /// Bytes per second of the self-test.
    pub tested: f64,
    /// Bytes per second of the run.
    pub reached: f64,
}

/// A limit that a self-test looks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Bytes that the disk writes.
    #[default]
    DiskWrite,
    /// Bytes that the disk reads.
    DiskRead,
    /// Bytes over loopback.
    Loopback,
}

/// Limits of a machine, measured by `vostok lab selftest`; 0 is what was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Roofline {
    /// Sequential write, bytes per second.
    pub disk_write_bytes: f64,
    /// Sequential read of what is not cached, bytes per second.
    pub disk_read_bytes: f64,
    /// Flushes of 4 KiB into written-ahead space, per second.
    pub disk_flushes: f64,
    /// Mean time of one such write on the idle disk, milliseconds.
    pub disk_write_await_ms: f64,
    /// Writes of 4 KiB anywhere that it finishes per second, several under way.
    pub disk_random_writes: f64,
    /// Bytes per second over loopback.
    pub net_bytes: f64,
    /// Round trips per second of one request at a time.
    pub net_round_trips: f64,
    /// 1 KiB messages per second that one core of the lab drives against the echo server.
    pub lab_messages: f64,
    /// Bytes per second one core checks with CRC32.
    pub cpu_crc_bytes: f64,
}

/// What makes one cell differ from another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Factors {
    /// Requests in flight (closed loop).
    pub threads: u32,
    /// Producer processes or clients.
    pub producers: u32,
    /// Connections per broker and producer.
    pub connections: u32,
    /// Body, bytes; the mean where sizes are distributed.
    pub size: u64,
    /// Queues per topic.
    pub queues: u32,
    /// Topics.
    pub topics: u32,
    /// Consumer groups that read along.
    pub groups: u32,
    /// Messages per second (open loop); absent in a closed loop.
    pub rate: Option<f64>,
    /// `async` or `sync`; empty when as the broker had it when the run began.
    pub flush: String,
    /// `none`, `async`, `sync`, `quorum`; empty when as the cluster has it.
    pub replication: String,
    /// `none`, `lz4`, `zlib`, `zstd`.
    pub compression: String,
    /// `random`, `repeat`, `file`.
    pub payload: String,
    /// Anything else; names that begin with [`SETTING`] are settings that the brokers had in the cell.
    pub more: BTreeMap<String, String>,
}

/// `cell.json`, written when all repeats of the cell are finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// Place in the run, from 1.
    pub number: u32,
    /// Name of its directory.
    pub name: String,
    /// What it was.
    pub factors: Factors,
    /// Repeats with data.
    pub repeats: u32,
    /// Parts of each repeat that are judged alone: `warmup`, `steady`, `before`, `during`, `drain`, `after`.
    pub phases: Vec<Phase>,
    /// Messages acknowledged, received, missing, doubled, changed and out of order, where content was checked.
    pub checked: BTreeMap<String, u64>,
    /// Its only repeat was ended early: what there is of it is shown, and a run that goes on makes it again.
    pub interrupted: bool,
}

/// A part of a repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// Which repeat, from 1.
    pub repeat: u32,
    /// What it is called.
    pub name: String,
    /// Milliseconds since 1970, included.
    pub from_ms: u64,
    /// Milliseconds since 1970, excluded.
    pub to_ms: u64,
    /// Whether what it waited for came before its time was over; absent where it waited for nothing or was ended early.
    pub met: Option<bool>,
}

/// Whether a device is one of a virtual machine (virtio, Xen): what they say of spinning is a default of their driver.
#[must_use]
pub(crate) fn is_virtual(device: &str) -> bool {
    ["vd", "xvd"].iter().any(|prefix| device.starts_with(prefix))
}

impl HostFile {
    /// Whether the disk spins; absent where nobody knows.
    #[must_use]
    pub fn disk_spins(&self) -> Option<bool> {
        // Older labs believed what a virtual disk says.
        self.disk_rotational.filter(|spins| !*spins || !is_virtual(&self.disk))
    }
}

impl RunFile {
    /// A setting of the brokers in a cell: as the cell had it set, else as the first broker said.
    #[must_use]
    pub fn setting<'a>(&'a self, cell: &'a Factors, key: &str) -> Option<&'a str> {
        let set = cell.settings().find(|(name, _)| *name == key).map(|(_, value)| value);
        set.or_else(|| self.target.brokers.first()?.settings.get(key).map(String::as_str))
    }
}

impl RunFile {
    /// How the brokers flushed in a cell, as cells say it: `async` or `sync`; empty where nobody knows.
    #[must_use]
    pub fn flush<'a>(&'a self, cell: &'a Factors) -> &'a str {
        match self.setting(cell, FLUSH) {
            _ if !cell.flush.is_empty() => &cell.flush,
            Some("SYNC_FLUSH") => "sync",
            Some("ASYNC_FLUSH") => "async",
            other => other.unwrap_or_default(),
        }
    }

    /// How they replicated, as cells say it: `none`, `async`, `sync` or `quorum`; empty where nobody knows.
    #[must_use]
    pub fn replication<'a>(&'a self, cell: &'a Factors) -> &'a str {
        if cell.replication.is_empty() {
            self.target.replication().unwrap_or_default()
        } else {
            &cell.replication
        }
    }
}

impl Target {
    /// How the cluster replicates, by the role of its first master.
    #[must_use]
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
    /// Whether anything is judged by it: what comes before is only there to get going.
    #[must_use]
    pub fn counts(&self) -> bool {
        !["start", "warmup"].contains(&self.name.as_str())
    }
}

impl Cell {
    /// The cell as a run goes on with it: without what was ended early.
    #[must_use]
    pub fn to_go_on(self) -> Self {
        if !self.interrupted {
            return self;
        }
        let Self { number, name, factors, .. } = self;
        Self { number, name, factors, ..Self::default() }
    }
}

impl Factors {
    /// Settings that the brokers had in the cell, with their values.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.more.iter().filter_map(|(name, value)| Some((name.strip_prefix(SETTING)?, value.as_str())))
    }

    /// Name of the directory of cell `number`: its place and what differs, e.g. `001-w60-s1024-q8-sync`.
    #[must_use]
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
        // What is usual says nothing.
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
