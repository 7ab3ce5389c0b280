//! Flags of the tools that stand in for RocketMQ's benchmark scripts, and the runs that they ask for. Letters, long
//! names, meanings and defaults are those of the scripts of RocketMQ 5; long names without a letter are Vostok's own.

use super::values::{
    AccessFlags, Bool, ReachFlags, above_zero, bytes, name_servers, namesrv_default, one_to, period, size,
};
use crate::Error;
use crate::generator::{Compression, Consume, DECISIONS_BYTES, Decisions, Payload, Send, Sizes, Workload};
use crate::runtime::epoch_ms;
use crate::script::{LineFormat, Script, ScriptRun, Subscription};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum as _};
use client::Expression;
use std::path::PathBuf;
use std::time::Duration;

/// Largest batch body in bytes: what brokers accept by default (`maxMessageSize`).
const BODY_BYTES_MAX: usize = 4 << 20;

/// Makes the parser of -ct, the type of compression. The type has no value for uncompressed bodies,
/// because -c decides whether bodies are compressed.
fn compression() -> impl TypedValueParser<Value = Compression> {
    let known = PossibleValuesParser::new(["ZLIB", "LZ4", "ZSTD"]);
    known.try_map(|text| Compression::from_str(&text, true))
}

/// Flags that every load tool understands.
#[derive(Args, Debug, Clone)]
pub struct RunFlags {
    /// Name servers, separated by semicolons.
    #[arg(short = 'n', long = "namesrv", alias = "namesrvAddr", value_name = "HOST:PORT", default_value_t = namesrv_default(),
        value_parser = name_servers)]
    pub namesrv: String,
    /// Flags of how servers are reached.
    #[command(flatten)]
    pub reach: ReachFlags,
    /// Topic.
    #[arg(short = 't', long, default_value = wire::names::BENCHMARK_TOPIC)]
    pub topic: String,
    /// Creates the topic with this many queues when it does not exist.
    #[arg(long, value_name = "N")]
    pub queues: Option<u32>,
    /// Spreads the load over this many topics, named after the topic with a number; consumers take the topic alone.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(65_536))]
    pub topics: u32,
    /// Ends after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Leaves the first seconds out of the result.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub warmup: f64,
    /// Writes the result to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Shape of the periodic lines.
    #[arg(long, value_name = "4x|5x", value_enum, default_value = "5x")]
    pub format: LineFormat,
    /// Milliseconds between two lines.
    #[arg(long = "ri", alias = "reportInterval", value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub report_interval: u64,
    /// Message trace, on or off: producer and consumer write one.
    #[arg(short = 'm', long = "msgTraceEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub trace: Bool,
    /// Flags of access control.
    #[command(flatten)]
    pub access: AccessFlags,
}

impl RunFlags {
    /// The load of a run before its messages are described: a topic as it is found, and bodies without marks.
    fn load(&self, group: &str) -> Workload {
        Workload {
            namesrv: self.namesrv.clone(),
            grpc: self.reach.grpc.clone(),
            tls: self.reach.tls,
            access: self.access.access(),
            topic: self.topic.clone(),
            as_found: true,
            topics: self.topics,
            queues: self.queues.unwrap_or(0),
            producer_group: group.to_owned(),
            trace: self.trace.0,
            marked: false,
            seed: 0,
            ..Workload::default()
        }
    }

    fn run(&self, script: Script, load: Workload, opening: String) -> ScriptRun {
        let seconds =
            |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX / 4);
        let warmup = seconds(self.warmup);
        ScriptRun {
            script,
            opening,
            load,
            warmup,
            limit: self.duration.map(|duration| seconds(duration) + warmup),
            report_interval: Duration::from_millis(self.report_interval),
            format: self.format,
            json: self.json.clone(),
        }
    }

    /// Refuses `-m true` for tools that write no traces.
    fn refuse_trace(&self) -> Result<(), Error> {
        if !self.trace.0 {
            return Ok(());
        }
        let why = "message traces are written by lab producer and lab consumer alone".to_owned();
        Err(Error::Flag { flag: "-m true", why })
    }
}

/// Flags of requests and connections.
#[derive(Args, Debug, Clone)]
pub struct SendingFlags {
    /// Requests in flight.
    #[arg(short = 'w', long = "threadCount", value_name = "N", default_value_t = 64, value_parser = one_to(65_536))]
    pub threads: u32,
    /// Body size, bytes.
    #[arg(short = 's', long = "messageSize", value_name = "BYTES", default_value = "128", value_parser = bytes)]
    pub message_size: u64,
    /// Bodies repeat themselves after this many bytes, so that compression has something to do.
    #[arg(long, value_name = "BYTES", value_parser = period)]
    pub repeat: Option<u32>,
    /// Sets KEYS to the seconds since 1970.
    #[arg(short = 'k', long = "keyEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub keys: Bool,
    /// Sets TAGS to one of this many tags.
    #[arg(short = 'l', long = "tagCount", value_name = "N", default_value_t = 0)]
    pub tags: u32,
    /// Compresses bodies.
    #[arg(short = 'c', long = "compressEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub compress: Bool,
    /// Compression of bodies.
    #[arg(long = "ct", alias = "compressType", value_parser = compression(), ignore_case = true, default_value = "ZLIB")]
    pub compress_type: Compression,
    /// Compression level.
    #[arg(long = "cl", alias = "compressLevel", default_value_t = 5)]
    pub compress_level: u32,
    /// Smallest body that is compressed, bytes.
    #[arg(long = "ch", alias = "compressOverHowMuch", value_name = "BYTES", default_value = "4096", value_parser = bytes)]
    pub compress_over: u64,
    /// Bytes of additional user properties per message.
    #[arg(short = 'p', long = "propertySize", value_name = "BYTES", default_value = "0", value_parser = size)]
    pub property_size: u32,
    /// Connections per broker.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(1024))]
    pub connections: u32,
    /// Threads that drive the connections.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_to(256))]
    pub cores: u32,
    /// Writes request headers as JSON instead of binary.
    #[arg(long)]
    pub json_headers: bool,
    /// Sends this many messages per second, whether answers come or not; latency is measured from the intended send
    /// time.
    #[arg(long, value_name = "PER_SECOND", value_parser = above_zero)]
    pub rate: Option<f64>,
}

impl SendingFlags {
    /// The load with these requests and connections.
    fn load(&self, load: Workload) -> Workload {
        Workload {
            threads: self.threads,
            sizes: Sizes::one(self.message_size),
            payload: self.repeat.map_or(Payload::Random, Payload::Repeat),
            keys: self.keys.0,
            tags: self.tags,
            compression: if self.compress.0 { self.compress_type } else { Compression::None },
            compress_level: self.compress_level,
            compress_min: self.compress_over,
            property_size: self.property_size,
            connections: self.connections,
            cores: self.cores,
            json_headers: self.json_headers,
            rate: self.rate,
            ..load
        }
    }

    /// Line about messages that producer.sh and batchproducer.sh print alike.
    fn opening(&self, run: &RunFlags) -> String {
        format!(
            "keyEnable: {}, propertySize: {}, tagCount: {}, traceEnable: {}, aclEnable: {}",
            self.keys, self.property_size, self.tags, run.trace, run.access.acl
        )
    }

    /// The lines about compression, which producer.sh and batchproducer.sh print alike.
    fn opening_compression(&self, report_interval: u64) -> String {
        let line = format!(" compressEnable: {}, reportInterval: {report_interval}", self.compress);
        if !self.compress.0 {
            return line;
        }
        let kind = format!("{:?}", self.compress_type).to_uppercase();
        format!("{line}\ncompressType: {kind} compressLevel: {}", self.compress_level)
    }
}

/// Flags of `vostok lab producer` (producer.sh).
#[derive(Args, Debug, Clone)]
pub struct ProducerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: RunFlags,
    /// Flags of every sending tool.
    #[command(flatten)]
    pub sending: SendingFlags,
    /// Ends after this many messages; 0 means no end.
    #[arg(short = 'q', long = "messageQuantity", value_name = "N", default_value_t = 0)]
    pub quantity: u64,
    /// Sends delayed messages.
    #[arg(short = 'd', long = "delayEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub delay: Bool,
    /// Delay level of delayed messages.
    #[arg(short = 'e', long = "delayLevel", value_name = "LEVEL", default_value_t = 1)]
    pub delay_level: i32,
    /// Asynchronous sending: up to 10,000 requests in flight whatever -w says.
    #[arg(short = 'y', long = "asyncEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub asynchronous: Bool,
    /// One-way sends, which are not answered: counts what was handed to the connections. Needs --rate.
    #[arg(long, requires = "rate")]
    pub oneway: bool,
}

impl ProducerFlags {
    /// The run that the flags ask for.
    pub fn script_run(&self) -> ScriptRun {
        let load = self.sending.load(self.run.load("benchmark_producer"));
        let (send, threads) = match (self.oneway, self.asynchronous.0) {
            (true, _) => (Send::OneWay, load.threads),
            // Whatever -w says, as many requests are in flight as an asynchronous load has.
            (false, true) => (Send::Async, 1),
            (false, false) => (Send::Sync, load.threads),
        };
        let delay_level = if self.delay.0 { self.delay_level } else { 0 };
        let quantity = (self.quantity > 0).then_some(self.quantity);
        let load = Workload { send, threads, delay_level, quantity, ..load };
        self.run.run(Script::Producer, load, self.opening())
    }

    /// The lines that producer.sh prints first.
    fn opening(&self) -> String {
        let Self { run, sending, quantity, delay, delay_level, asynchronous, .. } = self;
        let threads = if asynchronous.0 { 1 } else { sending.threads };
        format!(
            "topic: {}, threadCount: {threads}, messageSize: {}, {}, messageQuantity: {quantity}, \
             delayEnable: {delay}, delayLevel: {delay_level}, asyncEnable: {asynchronous}\n{}",
            run.topic,
            sending.message_size,
            sending.opening(run),
            sending.opening_compression(run.report_interval)
        )
    }
}

/// Flags of `vostok lab batchproducer` (batchproducer.sh).
#[derive(Args, Debug, Clone)]
pub struct BatchProducerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: RunFlags,
    /// Flags of every sending tool.
    #[command(flatten)]
    pub sending: SendingFlags,
    /// Messages per request.
    #[arg(short = 'b', long = "batchSize", value_name = "N", default_value_t = 16, value_parser = one_to(65_536))]
    pub batch: u32,
}

impl BatchProducerFlags {
    /// The run that the flags ask for.
    ///
    /// # Errors
    /// [`Error::Flag`] for traces, and for a batch that is larger than brokers accept.
    pub fn script_run(&self) -> Result<ScriptRun, Error> {
        self.run.refuse_trace()?;
        let load = self.sending.load(self.run.load("benchmark_batch_producer"));
        let load = Workload { batch: self.batch, ..load };
        let bytes = load.messages()?[0].batch_bytes();
        if bytes > BODY_BYTES_MAX {
            let why =
                format!("a batch of {} is {bytes} bytes long, the limit is {BODY_BYTES_MAX}", self.batch);
            return Err(Error::Flag { flag: "-b", why });
        }
        Ok(self.run.run(Script::BatchProducer, load, self.opening()))
    }

    /// The lines that batchproducer.sh prints first.
    fn opening(&self) -> String {
        let Self { run, sending, batch } = self;
        format!(
            "topic: {}, threadCount: {}, messageSize: {}, batchSize: {batch}, {}\n{}",
            run.topic,
            sending.threads,
            sending.message_size,
            sending.opening(run),
            sending.opening_compression(run.report_interval)
        )
    }
}

/// Flags of `vostok lab tproducer` (tproducer.sh).
#[derive(Args, Debug, Clone)]
pub struct TransactionProducerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: RunFlags,
    /// Half messages in flight.
    #[arg(short = 'w', long = "threadCount", value_name = "N", default_value_t = 32, value_parser = one_to(65_536))]
    pub threads: u32,
    /// Body size, bytes.
    #[arg(short = 's', long = "messageSize", value_name = "BYTES", default_value = "2048", value_parser = bytes)]
    pub message_size: u64,
    /// Share of sends answered with rollback, 0 to 1.
    #[arg(long = "sr", value_name = "SHARE", default_value_t = 0.0)]
    pub send_rollback: f64,
    /// Share of sends answered with unknown.
    #[arg(long = "su", value_name = "SHARE", default_value_t = 0.0)]
    pub send_unknown: f64,
    /// Share of transaction checks answered with rollback.
    #[arg(long = "cr", value_name = "SHARE", default_value_t = 0.0)]
    pub check_rollback: f64,
    /// Share of transaction checks answered with unknown.
    #[arg(long = "cu", value_name = "SHARE", default_value_t = 0.0)]
    pub check_unknown: f64,
    /// Checks of messages with another batch id are answered with rollback; the current milliseconds if absent.
    #[arg(short = 'b', value_name = "ID")]
    pub batch: Option<u64>,
    /// Pause in milliseconds between two sends of each of the -w threads.
    #[arg(short = 'i', value_name = "MS", default_value_t = 0)]
    pub interval_ms: u64,
    /// Writes request headers as JSON instead of binary.
    #[arg(long)]
    pub json_headers: bool,
}

impl TransactionProducerFlags {
    /// The run that the flags ask for.
    ///
    /// # Errors
    /// [`Error::Flag`] for traces, and for messages without room for the decisions about them.
    pub fn script_run(&self) -> Result<ScriptRun, Error> {
        self.run.refuse_trace()?;
        if self.message_size < DECISIONS_BYTES as u64 {
            let why =
                format!("messages of {} bytes, at least {DECISIONS_BYTES} are needed", self.message_size);
            return Err(Error::Flag { flag: "-s", why });
        }
        let decisions = Decisions {
            batch: self.batch,
            send_shares: (self.send_rollback, self.send_unknown),
            check_shares: (self.check_rollback, self.check_unknown),
        };
        // tproducer.sh pauses after each send of a thread.
        let rate = (self.interval_ms > 0).then(|| f64::from(self.threads) * 1000.0 / self.interval_ms as f64);
        let load = Workload {
            send: Send::Transaction,
            threads: self.threads,
            sizes: Sizes::one(self.message_size),
            json_headers: self.json_headers,
            decisions: Some(decisions),
            rate,
            ..self.run.load("benchmark_transaction_producer")
        };
        Ok(self.run.run(Script::TransactionProducer, load, String::new()))
    }
}

/// Flags of `vostok lab consumer` (consumer.sh).
#[derive(Args, Debug, Clone)]
pub struct ConsumerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: RunFlags,
    /// Listener threads.
    #[arg(short = 'w', long = "threadCount", value_name = "N", default_value_t = 20, value_parser = one_to(1024))]
    pub threads: u32,
    /// Consumer group.
    #[arg(short = 'g', long, value_name = "GROUP", default_value = "benchmark_consumer")]
    pub group: String,
    /// Appends a number to the group.
    #[arg(short = 'p', value_name = "BOOL", default_value_t = Bool(false))]
    pub suffix: Bool,
    /// Type of the filter: TAG or SQL92.
    #[arg(short = 'f', long = "filterType", value_name = "TYPE")]
    pub filter_type: Option<String>,
    /// File with the filter expression.
    #[arg(short = 'e', long = "expression", value_name = "FILE")]
    pub expression_file: Option<PathBuf>,
    /// Share of messages for which the listener asks for redelivery, 0 to 1.
    #[arg(short = 'r', value_name = "SHARE", default_value_t = 0.0)]
    pub fail_rate: f64,
    /// Orderly consumption: the messages of each queue one after the other.
    #[arg(long)]
    pub orderly: bool,
    /// Clients divide the queues among themselves, which is the only mode supported here.
    #[arg(short = 'c', value_name = "BOOL", default_value_t = Bool(true), value_parser = by_clients)]
    pub client_rebalance: Bool,
}

impl ConsumerFlags {
    /// The run that the flags ask for.
    ///
    /// # Errors
    /// [`Error::Flag`] for a filter that is not understood, or whose file cannot be read, and for -r over gRPC.
    pub fn script_run(&self) -> Result<ScriptRun, Error> {
        let (group, expression) = (self.group(epoch_ms()), self.expression()?);
        let is_grpc = self.run.reach.grpc.is_some();
        if is_grpc && self.fail_rate > 0.0 {
            let why = "over gRPC every message is acknowledged; leave -r or --grpc out".to_owned();
            return Err(Error::Flag { flag: "-r", why });
        }
        let load = Workload {
            // Consumers take the topic alone.
            topics: 1,
            groups: 1,
            consume: match self.orderly {
                true => Consume::Orderly,
                false if is_grpc => Consume::Pull,
                false => Consume::Push,
            },
            consumer_threads: Some(self.threads),
            ..self.run.load("")
        };
        let opening = self.opening(&group, expression.as_ref());
        let subscription = Subscription { group, expression, fail_rate: self.fail_rate };
        Ok(self.run.run(Script::Consumer(subscription), load, opening))
    }

    /// The line that consumer.sh prints first.
    fn opening(&self, group: &str, expression: Option<&Expression>) -> String {
        let Self { run, threads, suffix, filter_type, .. } = self;
        format!(
            "topic: {}, threadCount {threads}, group: {group}, suffix: {suffix}, filterType: {}, expression: {}, \
             msgTraceEnable: {}, aclEnable: {}, reportInterval: {}",
            run.topic,
            filter_type.as_deref().unwrap_or("null"),
            expression.map_or("null", Expression::text),
            run.trace,
            run.access.acl,
            run.report_interval
        )
    }

    fn group(&self, now_ms: u64) -> String {
        if self.suffix.0 { format!("{}_{}", self.group, now_ms % 100) } else { self.group.clone() }
    }

    /// The filter expression from the file; `None` without a filter.
    fn expression(&self) -> Result<Option<Expression>, Error> {
        let refused = |flag, why| Error::Flag { flag, why };
        let kind = match (self.filter_type.as_deref(), &self.expression_file) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(refused("-e", "needs -f TAG or -f SQL92 beside it".to_owned())),
            (Some("TAG"), _) => Expression::Tags,
            (Some("SQL92"), _) => Expression::Sql,
            (Some(other), _) => {
                return Err(refused("-f", format!("expected TAG or SQL92, found {other:?}")));
            }
        };
        let Some(path) = &self.expression_file else {
            let why = "needs -e with the path of a file that holds the expression";
            return Err(refused("-f", why.to_owned()));
        };
        let text = std::fs::read_to_string(path).map_err(|source| {
            refused("-e", format!("expected a file that holds the expression, found {path:?}: {source}"))
        })?;
        Ok(Some(kind(text.trim().to_owned())))
    }
}

/// Parses `true` only, because the Rust push consumer cannot ask brokers for an assignment of queues.
fn by_clients(text: &str) -> Result<Bool, String> {
    match text.parse() {
        Ok(Bool(true)) => Ok(Bool(true)),
        _ => Err("expected true: queues are shared out by the clients, not by the broker".to_owned()),
    }
}

#[cfg(test)]
mod tests;
