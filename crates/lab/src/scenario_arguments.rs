//! Flags of the scenarios: the scenario arguments.

mod fill;
mod vary;

pub use fill::Fill;
pub use vary::Vary;

use crate::archive::{Roofline, run_directory};
use crate::arguments::{Bool, above_zero, address, name_servers, one_to};
use crate::generator::{Access, Consume, Payload, Send, Sizes};
use crate::judge::guards::Slo;
use crate::sizes::bytes;
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Flags that every scenario understands.
#[derive(Args, Debug, Clone)]
pub struct ScenarioArguments {
    /// Name servers, separated by semicolons.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT", default_value_t = crate::arguments::namesrv_default(),
        value_parser = name_servers)]
    pub namesrv: String,
    /// The cluster to load; needed where the name servers know several.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Access control, on or off: requests are signed with the keys, which the agents of --load-agents are told.
    #[arg(short = 'a', long = "aclEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub acl: Bool,
    /// Access key.
    #[arg(long = "ak", alias = "accessKey", default_value = "rocketmq2", hide_default_value = true)]
    pub access_key: String,
    /// Secret key; runs do not keep it.
    #[arg(long = "sk", alias = "secretKey", default_value = "12345678", hide_default_value = true)]
    pub secret_key: String,
    /// Directory of the run; if it holds an interrupted run of the same cells, that run is resumed.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Name of the target in reports; found automatically when absent.
    #[arg(long)]
    pub name: Option<String>,
    /// Prefix of the topics, which are created; their names end in their number of queues.
    #[arg(short = 't', value_name = "TOPIC", default_value = "lab_q")]
    pub topic: String,
    /// Number of topics that share the load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub topics: u32,
    /// Seconds of warm-up; 5, or what the scale of a seed says.
    #[arg(long, value_name = "SECONDS")]
    pub warmup: Option<u32>,
    /// Measured seconds; 30, or what the scale of a seed says.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub duration: Option<u32>,
    /// Number of repeats of each cell; 3. Soaks are run once.
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
    /// How messages are sent. In flight are --threads requests, or up to 10,000 with async; oneway needs --rate.
    #[arg(long, value_enum, default_value_t)]
    pub send: Send,
    /// How groups consume: pull at the least cost, or push consumers, concurrently or in the order of each queue.
    #[arg(long, value_enum, default_value_t)]
    pub consume: Consume,
    /// Writes request headers as JSON instead of binary.
    #[arg(long)]
    pub json_headers: bool,
    /// Number of consumer groups.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub groups: u32,
    /// Consumers of each group, among which its queues are divided.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(1024))]
    pub consumers: u32,
    /// Listener threads of each consumer with --consume push or orderly; 20 when absent.
    #[arg(long, value_name = "N", value_parser = one_to(1024))]
    pub consumer_threads: Option<u32>,
    /// Messages per second, whether answers come or not; latency is measured from the intended send time. Without it,
    /// every thread waits for its answer.
    #[arg(long, value_name = "PER_SECOND", value_parser = above_zero)]
    pub rate: Option<f64>,
    /// Seconds within which the rate grows from zero.
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
    /// Number of different tags.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub tags: u32,
    /// Sets KEYS to the seconds since 1970.
    #[arg(long)]
    pub keys: bool,
    /// Bytes of additional user properties per message.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = size32)]
    pub property_size: u32,
    /// Delay level of the messages.
    #[arg(long, value_name = "LEVEL", default_value_t = 0)]
    pub delay: i32,
    /// Seed of payloads.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Process id of the broker on this machine; found by its port when absent.
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
    /// Agents (`vostok lab agent`) on other machines, usually the brokers', whose figures are kept too.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = address)]
    pub agents: Vec<String>,
    /// Agents started with --load that share the load with this machine, evenly and from the same time on.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = address)]
    pub load_agents: Vec<String>,
    /// Does not measure the limits of this machine before the first cell.
    #[arg(long)]
    pub no_selftest: bool,
    /// Garbage collection log (JVM unified logging) of a Java broker on this machine; when absent, the JVM is asked to
    /// write one.
    #[arg(long, value_name = "FILE")]
    pub gc_log: Option<PathBuf>,
    /// Largest share in percent of a machine's processors that programs other than the lab and the servers may use
    /// before a cell is invalid; 10 when absent. Use more where servers are not recognised, as in containers on this
    /// machine.
    #[arg(long, value_name = "PERCENT", value_parser = above_zero)]
    pub others_max: Option<f64>,
    /// Ends the run when less than this is free on the disk of a broker on this machine.
    #[arg(long, value_name = "BYTES", default_value = "10g", value_parser = bytes)]
    pub free_min: u64,
    /// Broker settings in a cell, by name: `--vary set:KEY=V,…`.
    #[arg(skip)]
    pub settings: BTreeMap<String, String>,
}

impl ScenarioArguments {
    /// Scenario arguments with every flag at its default, to try values on.
    pub(super) fn probe() -> Self {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: ScenarioArguments,
        }
        <Line as clap::Parser>::parse_from(["probe"]).arguments
    }

    /// Keys to sign requests with; `None` without -a true.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        let (access_key, secret_key) = (self.access_key.clone(), self.secret_key.clone());
        self.acl.0.then_some(Access { access_key, secret_key })
    }

    /// Seconds of the warm-up.
    #[must_use]
    pub fn warmup(&self) -> u32 {
        self.warmup.unwrap_or(5)
    }

    /// Seconds of the measured part.
    #[must_use]
    pub fn duration(&self) -> u32 {
        self.duration.unwrap_or(30)
    }

    /// Number of repeats of each cell.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.repeats.unwrap_or(3)
    }

    /// Content of message bodies.
    #[must_use]
    pub fn payload(&self) -> Payload {
        self.payload.clone()
    }

    /// Name of the payload in [`crate::archive::Factors`].
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

/// Flags of `vostok lab matrix`.
#[derive(Args, Debug, Clone)]
pub struct MatrixFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub arguments: ScenarioArguments,
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

/// Flags of `vostok lab queues`.
#[derive(Args, Debug, Clone)]
pub struct QueuesFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub arguments: ScenarioArguments,
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

/// Flags of `vostok lab modes`.
#[derive(Args, Debug, Clone)]
pub struct ModesFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub arguments: ScenarioArguments,
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
}

/// Flags of `vostok lab backlog`.
#[derive(Args, Debug, Clone)]
pub struct BacklogFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub arguments: ScenarioArguments,
    /// Size of the backlog in bytes of bodies, or the time of filling: 200g, 18h, 30min.
    #[arg(long, value_name = "BYTES|TIME", default_value = "1g")]
    pub fill: Fill,
    /// Longest time in seconds for filling by bytes; 600, or what the bytes take at 20 MiB a second.
    #[arg(long, value_name = "SECONDS")]
    pub fill_seconds: Option<u32>,
    /// What follows the filling; a backlog is always drained.
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

/// Flags of `vostok lab soak`.
#[derive(Args, Debug, Clone)]
pub struct SoakFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub arguments: ScenarioArguments,
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

/// Flags of `vostok lab safe-tps`.
#[derive(Args, Debug, Clone)]
pub struct SafeTpsFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub arguments: ScenarioArguments,
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

/// Scale of a seed's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Less than twenty-five minutes.
    Small,
    /// Some hours.
    Medium,
    /// As long as in the original report.
    Full,
}

/// Flags of `vostok lab seed`.
#[derive(Args, Debug, Clone)]
pub struct SeedFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub arguments: ScenarioArguments,
    /// Which report: 000, 001, 002, 003 or 004.
    pub report: String,
    /// Scale of the report.
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub scale: Scale,
}

/// Flags of `vostok lab clean`.
#[derive(Args, Debug, Clone)]
pub struct CleanFlags {
    /// Directory of a run, or a file in it such as run.json.
    #[arg(value_name = "RUN", value_parser = run_directory)]
    pub run: PathBuf,
    /// Name servers, separated by semicolons; those of the run when absent.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT", value_parser = name_servers)]
    pub namesrv: Option<String>,
    /// Access control, on or off: requests are signed with the keys.
    #[arg(short = 'a', long = "aclEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub acl: Bool,
    /// Access key.
    #[arg(long = "ak", alias = "accessKey", default_value = "rocketmq2", hide_default_value = true)]
    pub access_key: String,
    /// Secret key.
    #[arg(long = "sk", alias = "secretKey", default_value = "12345678", hide_default_value = true)]
    pub secret_key: String,
}

impl CleanFlags {
    /// Keys to sign requests with; `None` without -a true.
    pub(crate) fn credentials(&self) -> Option<client::Credentials> {
        self.acl.0.then(|| client::Credentials::new(&self.access_key, &self.secret_key))
    }
}

/// Flags of `vostok lab selftest`.
#[derive(Args, Debug, Clone)]
pub struct SelftestFlags {
    /// Directory on the disk to measure.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Bytes that are written there and removed again.
    #[arg(long, value_name = "BYTES", default_value = "1g", value_parser = bytes)]
    pub size: u64,
    /// Seconds for each part.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub seconds: f64,
    /// Prints the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `vostok lab agent`.
#[derive(Args, Debug, Clone)]
pub struct AgentFlags {
    /// Address to listen on. Whoever connects sees this machine's figures and, with --load, can make it send messages.
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:9870", value_parser = address)]
    pub listen: String,
    /// Name of this machine in reports; its host name when absent.
    #[arg(long)]
    pub name: Option<String>,
    /// Also runs load for a lab that names this agent in --load-agents. Only for trusted networks.
    #[arg(long)]
    pub load: bool,
    /// Process id of the broker; found by its port when absent.
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
    /// Garbage collection log (JVM unified logging) of a Java broker; when absent, the JVM is asked to write one.
    #[arg(long, value_name = "FILE")]
    pub gc_log: Option<PathBuf>,
    /// Measures the limits of this machine first, on the disk of this directory, for about ten seconds. Reports then
    /// compare a broker here with these limits, those of the disk only if its store is on the same disk. 256 MiB are
    /// written and freed again.
    #[arg(long, value_name = "DIR")]
    pub selftest: Option<PathBuf>,
    /// Figures of that self-test, and the device on which it ran.
    #[arg(skip)]
    pub roofline: Option<(String, Roofline)>,
}

/// Parses one size, or several with weights: `1k`, `512:9/10k:1`.
///
/// # Errors
/// What was expected and what was found, for any other text.
pub fn mix(text: &str) -> Result<Sizes, String> {
    let one = |part: &str| match part.split_once(':') {
        None => Ok((bytes(part)?, 1)),
        Some((size, weight)) => {
            let weight = weight.parse().map_err(|_| format!("expected a weight like 9, found {weight:?}"))?;
            Ok((bytes(size)?, weight))
        }
    };
    text.split('/').map(one).collect::<Result<_, String>>().map(Sizes)
}
