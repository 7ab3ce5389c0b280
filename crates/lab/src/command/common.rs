//! Flags that every scenario understands.

use super::argv::without_secrets;
use super::values::{
    AccessFlags, ReachFlags, above_zero, address, bytes, name_servers, namesrv_default, one_to, payload, size,
};
use crate::generator::{Compression, Consume, Payload, Send, Workload};
use crate::scenario::RunOptions;
use clap::Args;
use std::path::PathBuf;

/// Flags that every scenario understands.
#[derive(Args, Debug, Clone)]
pub struct ScenarioFlags {
    /// Name servers, separated by semicolons.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT", default_value_t = namesrv_default(),
        value_parser = name_servers)]
    pub namesrv: String,
    /// Flags of how servers are reached.
    #[command(flatten)]
    pub reach: ReachFlags,
    /// The cluster to load; needed where the name servers know several.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Flags of access control.
    #[command(flatten)]
    pub access: AccessFlags,
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
    /// Mode of sending. In flight are --threads requests, or up to 10,000 with async; oneway needs --rate.
    #[arg(long, value_enum, default_value = "sync")]
    pub send: Send,
    /// Mode of consuming: pull at the least cost, or push consumers, concurrently or in the order of each queue.
    #[arg(long, value_enum, default_value = "pull")]
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
    #[arg(long, value_name = "KIND", value_enum, default_value = "none")]
    pub compression: Compression,
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
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = size)]
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
    /// Agents started with --load that share the load with this machine, evenly and from the same time on. They are
    /// told the keys of -a.
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
}

impl ScenarioFlags {
    /// The options of a run. `seconds` are those of the warm-up and of the measured stage where the flags name none.
    pub fn options(&self, (warmup, duration): (u32, u32)) -> RunOptions {
        RunOptions {
            load: self.load(),
            command_line: without_secrets(std::env::args()),
            out: self.out.clone(),
            name: self.name.clone(),
            warmup: self.warmup.unwrap_or(warmup),
            duration: self.duration.unwrap_or(duration),
            repeats: self.repeats.unwrap_or(3),
            pid: self.pid,
            servers: Vec::new(),
            agents: self.agents.clone(),
            load_agents: self.load_agents.clone(),
            selftest: !self.no_selftest,
            gc_log: self.gc_log.clone(),
            others_max: self.others_max.map(|percent| percent / 100.0),
            free_bytes_min: self.free_min,
        }
    }

    /// The load that all cells share.
    fn load(&self) -> Workload {
        Workload {
            namesrv: self.namesrv.clone(),
            grpc: self.reach.grpc.clone(),
            tls: self.reach.tls,
            access: self.access.access(),
            cluster: self.cluster.clone().unwrap_or_default(),
            topic: self.topic.clone(),
            topics: self.topics,
            producers: self.producers,
            connections: self.connections,
            cores: self.cores,
            rate: self.rate,
            ramp: self.ramp.map(|seconds| (0.0, seconds)),
            payload: self.payload.clone(),
            compression: self.compression,
            tags: self.tags,
            keys: self.keys,
            property_size: self.property_size,
            send: self.send,
            json_headers: self.json_headers,
            batch: self.batch,
            delay_level: self.delay.saturating_abs(),
            groups: self.groups,
            consumers: self.consumers,
            consumer_threads: self.consumer_threads,
            consume: self.consume,
            seed: self.seed,
            ..Workload::default()
        }
    }
}
