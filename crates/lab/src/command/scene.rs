//! Flags of the scenarios.

use super::fill::Fill;
use super::flags::{Bool, above_zero, address, name_servers, one_to};
use super::vary::Vary;
use crate::archive::{Roofline, run_directory};
use crate::generator::{Access, Consume, Payload, Send, Sizes};
use crate::judge::guards::Slo;
use crate::scenario::{bytes, mix};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Flags every scenario understands.
#[derive(Args, Debug, Clone)]
pub struct Scene {
    /// Name servers, separated by semicolons.
    #[arg(short = 'n', value_name = "HOST:PORT", default_value_t = super::flags::namesrv_default(),
        value_parser = name_servers)]
    pub namesrv: String,
    /// The cluster to load; needed where the name servers know several.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Access control, on or off: requests are signed with the keys, which the agents of --load-agents are told.
    #[arg(short = 'a', long = "aclEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub acl: Bool,
    /// Access key.
    #[arg(long = "ak", alias = "accessKey", default_value = "rocketmq2")]
    pub access_key: String,
    /// Secret key; runs do not keep it.
    #[arg(long = "sk", alias = "secretKey", default_value = "12345678")]
    pub secret_key: String,
    /// Directory of the run; one that holds an interrupted run of the same cells is gone on with.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What the target is called in reports; found out by itself when absent.
    #[arg(long)]
    pub name: Option<String>,
    /// First letters of the topics, which are created and end in their number of queues.
    #[arg(short = 't', value_name = "TOPIC", default_value = "lab_q")]
    pub topic: String,
    /// Topics that share the load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub topics: u32,
    /// Seconds of load before it counts; 5, or what the scale of a seed says.
    #[arg(long, value_name = "SECONDS")]
    pub warmup: Option<u32>,
    /// Seconds that count; 30, or what the scale of a seed says.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub duration: Option<u32>,
    /// Times each cell is run; 3. Soaks are run once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,
    /// Producers; they share the threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(1024))]
    pub producers: u32,
    /// Connections per broker and producer.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(1024))]
    pub connections: u32,
    /// Threads that drive the connections.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(256))]
    pub cores: u32,
    /// How messages are sent: in flight are --threads, or up to 10,000 when async; one-way needs --rate.
    #[arg(long, value_enum, default_value_t)]
    pub send: Send,
    /// How groups consume: as cheaply as possible, or by push consumers, in any order or that of the queues.
    #[arg(long, value_enum, default_value_t)]
    pub consume: Consume,
    /// Writes request headers as JSON instead of binary.
    #[arg(long)]
    pub json_headers: bool,
    /// Consumer groups that read along.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub groups: u32,
    /// Consumers of each group; they share its queues.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(1024))]
    pub consumers: u32,
    /// Listener threads of each consumer with --consume push or orderly; 20 when absent.
    #[arg(long, value_name = "N", value_parser = one_to(1024))]
    pub consumer_threads: Option<u32>,
    /// Messages per second whatever the answers do; latency counts from the intended time. Without, every thread
    /// waits for its answer.
    #[arg(long, value_name = "PER_SECOND", value_parser = above_zero)]
    pub rate: Option<f64>,
    /// Seconds within which the rate grows from nothing.
    #[arg(long, value_name = "SECONDS", requires = "rate", value_parser = above_zero)]
    pub ramp: Option<f64>,
    /// Bodies: `random`, `repeat:BYTES` (repeating, so that compression has something to do), or `file:PATH`.
    #[arg(long, value_name = "KIND", default_value = "random", value_parser = payload)]
    pub payload: Payload,
    /// Compression of bodies: `none`, `zlib`, `lz4` or `zstd`.
    #[arg(long, value_name = "KIND", default_value = "none")]
    pub compression: String,
    /// Messages per request.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub batch: u32,
    /// Different tags.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub tags: u32,
    /// Sets KEYS to the seconds since 1970.
    #[arg(long)]
    pub keys: bool,
    /// Bytes of further properties per message.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = size32)]
    pub property_size: u32,
    /// Delay level of the messages.
    #[arg(long, value_name = "LEVEL", default_value_t = 0)]
    pub delay: i32,
    /// Seed of payloads.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The broker's process on this machine; found by its port when absent.
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
    /// Agents (`vostok lab agent`) on other machines, usually the brokers', whose figures are kept too.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = address)]
    pub agents: Vec<String>,
    /// Agents started with --load that share the load with this machine, evenly and from the same moment.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = address)]
    pub load_agents: Vec<String>,
    /// Does not measure what this machine alone can do before the first cell.
    #[arg(long)]
    pub no_selftest: bool,
    /// Unified log of a Java broker's collector on this machine; asked of the JVM itself when absent.
    #[arg(long, value_name = "FILE")]
    pub gc_log: Option<PathBuf>,
    /// Most of a machine's processors that programs beside the lab and the servers may use before a cell is invalid; 10
    /// when absent. More where servers are not seen as such, as in containers on this machine.
    #[arg(long, value_name = "PERCENT", value_parser = above_zero)]
    pub others_max: Option<f64>,
    /// Ends the run when less than this is free on the disk of a broker on this machine.
    #[arg(long, value_name = "BYTES", default_value = "10g", value_parser = bytes)]
    pub free_min: u64,
    /// Settings that brokers have in a cell, by name: `--vary set:KEY=V,…`.
    #[arg(skip)]
    pub settings: BTreeMap<String, String>,
}

impl Scene {
    /// A scene with every flag at its default, to try values on.
    pub(super) fn probe() -> Self {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            scene: Scene,
        }
        <Line as clap::Parser>::parse_from(["probe"]).scene
    }

    /// Who signs requests, with -a true.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        let (access_key, secret_key) = (self.access_key.clone(), self.secret_key.clone());
        self.acl.0.then_some(Access { access_key, secret_key })
    }

    /// Seconds of load before it counts.
    #[must_use]
    pub fn warmup(&self) -> u32 {
        self.warmup.unwrap_or(5)
    }

    /// Seconds that count.
    #[must_use]
    pub fn duration(&self) -> u32 {
        self.duration.unwrap_or(30)
    }

    /// Times each cell is run.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.repeats.unwrap_or(3)
    }

    /// What bodies hold.
    #[must_use]
    pub fn payload(&self) -> Payload {
        self.payload.clone()
    }

    /// Its name in [`crate::archive::Factors`].
    #[must_use]
    pub fn payload_name(&self) -> String {
        match &self.payload {
            Payload::Random => "random".to_owned(),
            Payload::Repeat(period) => format!("repeat:{period}"),
            Payload::File(_) => "file".to_owned(),
        }
    }
}

fn size32(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| format!("{text} are too many bytes"))
}

fn payload(text: &str) -> Result<Payload, String> {
    match text.split_once(':') {
        None if text == "random" => Ok(Payload::Random),
        Some(("repeat", size)) => {
            let size = bytes(size)?;
            u32::try_from(size).map(Payload::Repeat).map_err(|_| format!("{size} bytes are too many"))
        }
        Some(("file", path)) => Ok(Payload::File(path.into())),
        _ => Err(format!("expected random, repeat:BYTES or file:PATH, found {text:?}")),
    }
}

/// `vostok lab matrix`.
#[derive(Args, Debug, Clone)]
pub struct MatrixFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub scene: Scene,
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
    /// `consumers`, `consumer-threads`, `topics`, `compression`. A setting that brokers take while they run is written
    /// `set:KEY=V1,V2`; each value is tried before the first cell, and what it was is put back at the end.
    #[arg(long, value_name = "NAME=V,…")]
    pub vary: Vec<Vary>,
    /// Leave out the rest of a ladder of --threads when its ceiling is found: more threads would give no more. They are
    /// run in the order given, and three repeats are needed to find one.
    #[arg(long)]
    pub prune: bool,
}

/// `vostok lab queues`.
#[derive(Args, Debug, Clone)]
pub struct QueuesFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub scene: Scene,
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

/// `vostok lab modes`.
#[derive(Args, Debug, Clone)]
pub struct ModesFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub scene: Scene,
    /// How brokers flush: async, sync or both.
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', default_value = "async,sync")]
    pub flush: Vec<String>,
    /// How brokers replicate: none, async, sync, quorum; empty for as they do. They are started that way, so each mode is
    /// a run of its own, with the same --rate; then lab compare.
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
}

/// `vostok lab backlog`.
#[derive(Args, Debug, Clone)]
pub struct BacklogFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub scene: Scene,
    /// Bytes of bodies that pile up, or how long they do: 200g, 18h, 30min.
    #[arg(long, value_name = "BYTES|TIME", default_value = "1g")]
    pub fill: Fill,
    /// Longest time in which so many bytes pile up; 600, or what they take at 20 MiB a second.
    #[arg(long, value_name = "SECONDS")]
    pub fill_seconds: Option<u32>,
    /// What follows; a backlog is always drained.
    #[arg(long, value_name = "drain", default_value = "drain", value_parser = ["drain"])]
    pub then: String,
    /// Longest time in which they are read; 600, or as long as they may pile up where that is longer.
    #[arg(long, value_name = "SECONDS")]
    pub drain_seconds: Option<u32>,
    /// Producers go on while they are read.
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

/// `vostok lab soak`.
#[derive(Args, Debug, Clone)]
pub struct SoakFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub scene: Scene,
    /// How long.
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

/// `vostok lab safe-tps`.
#[derive(Args, Debug, Clone)]
pub struct SafeTpsFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub scene: Scene,
    /// What must be kept beside the guards, e.g. `e2e.p99<50ms,errors=0`.
    #[arg(long, value_name = "LIMITS")]
    pub slo: Option<Slo>,
    /// Seconds of each of the repeats that confirm the rate.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub confirm: u32,
    /// Requests in flight of the closed loop that finds where to search.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub threads: u32,
    /// Body size.
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = mix)]
    pub size: Sizes,
    /// Queues per topic.
    #[arg(long = "topic-queues", value_name = "N", default_value_t = 8)]
    pub queues: u32,
}

/// How much of a report is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Below twenty-five minutes.
    Small,
    /// Some hours.
    Medium,
    /// As it was reported.
    Full,
}

/// `vostok lab seed`.
#[derive(Args, Debug, Clone)]
pub struct SeedFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub scene: Scene,
    /// Which report: 000, 001, 002, 003 or 004.
    pub report: String,
    /// How much of it.
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub scale: Scale,
}

/// `vostok lab clean`.
#[derive(Args, Debug, Clone)]
pub struct CleanFlags {
    /// Directory of a run, or a file in it such as run.json.
    #[arg(value_name = "RUN", value_parser = run_directory)]
    pub run: PathBuf,
    /// Name servers, separated by semicolons; those of the run when absent.
    #[arg(short = 'n', value_name = "HOST:PORT", value_parser = name_servers)]
    pub namesrv: Option<String>,
    /// Access control, on or off: requests are signed with the keys.
    #[arg(short = 'a', long = "aclEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub acl: Bool,
    /// Access key.
    #[arg(long = "ak", alias = "accessKey", default_value = "rocketmq2")]
    pub access_key: String,
    /// Secret key.
    #[arg(long = "sk", alias = "secretKey", default_value = "12345678")]
    pub secret_key: String,
}

impl CleanFlags {
    /// Who signs requests, with -a true.
    pub(crate) fn credentials(&self) -> Option<client::Credentials> {
        self.acl.0.then(|| client::Credentials::new(&self.access_key, &self.secret_key))
    }
}

/// `vostok lab selftest`.
#[derive(Args, Debug, Clone)]
pub struct SelftestFlags {
    /// Directory on the disk that matters.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Bytes written there, and removed.
    #[arg(long, value_name = "BYTES", default_value = "1g", value_parser = bytes)]
    pub size: u64,
    /// Time for each part.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub seconds: f64,
    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
}

/// `vostok lab agent`.
#[derive(Args, Debug, Clone)]
pub struct AgentFlags {
    /// Where to listen. Whoever connects sees this machine's figures and, with --load, can have it send messages.
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:9870", value_parser = address)]
    pub listen: String,
    /// What this machine is called in reports; its host name when absent.
    #[arg(long)]
    pub name: Option<String>,
    /// Also runs load for a lab that names this agent in --load-agents. For networks you trust.
    #[arg(long)]
    pub load: bool,
    /// The broker's process; found by its port when absent.
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
    /// Unified log of a Java broker's collector; asked of the JVM itself when absent.
    #[arg(long, value_name = "FILE")]
    pub gc_log: Option<PathBuf>,
    /// Measures first what this machine alone can do, on the disk of this directory, for some ten seconds: reports then say
    /// how far from that a broker here was, about its disk if its store is on the same. 256 MiB are written and given back.
    #[arg(long, value_name = "DIR")]
    pub selftest: Option<PathBuf>,
    /// What was measured then, and on which device.
    #[arg(skip)]
    pub roofline: Option<(String, Roofline)>,
}
