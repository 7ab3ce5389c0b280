//! Flags of the tools. Their letters, long names, meanings and defaults are those of the benchmark scripts of RocketMQ
//! 5; long names without a letter are Vostok's own.

use crate::sizes::bytes;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// A boolean that is given as a value and read as Java does: `true` in any case, anything else is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bool(pub bool);

impl std::str::FromStr for Bool {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.trim().eq_ignore_ascii_case("true")))
    }
}

impl std::fmt::Display for Bool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

/// Compression of bodies (`CompressionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Compression {
    Zlib,
    Lz4,
    Zstd,
}

/// Format of the periodic lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// RocketMQ 4: values separated by blanks.
    #[value(name = "4x")]
    V4,
    /// RocketMQ 5: values separated by bars.
    #[value(name = "5x")]
    V5,
}

/// Flags that every load tool understands.
#[derive(Args, Debug, Clone)]
pub struct Run {
    /// Name servers, separated by semicolons.
    #[arg(short = 'n', long = "namesrv", alias = "namesrvAddr", value_name = "HOST:PORT", default_value_t = namesrv_default(),
        value_parser = name_servers)]
    pub namesrv: String,
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
    #[arg(long, value_name = "4x|5x", value_enum, default_value_t = LineFormat::V5)]
    pub format: LineFormat,
    /// Milliseconds between two lines.
    #[arg(long = "ri", alias = "reportInterval", value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub report_interval: u64,
    /// Message trace, on or off: producer and consumer write one.
    #[arg(short = 'm', long = "msgTraceEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub trace: Bool,
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

impl Run {
    /// Time from the start at which the run ends; `None` without --duration.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.duration.map(|seconds| seconds_to_duration(seconds) + self.warm())
    }

    /// Keys to sign requests with; `None` without -a true.
    #[must_use]
    pub fn credentials(&self) -> Option<client::Credentials> {
        self.acl.0.then(|| client::Credentials::new(&self.access_key, &self.secret_key))
    }

    /// Length of the warm-up.
    #[must_use]
    pub fn warm(&self) -> Duration {
        seconds_to_duration(self.warmup)
    }
}

fn seconds_to_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX / 4)
}

/// Parser for a number from 1 to `most`.
pub fn one_to(most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|number: &u32| (1..=most).contains(number));
        number.ok_or_else(|| format!("expected a number of 1 to {most}"))
    }
}

/// Parses `HOST:PORT`.
pub fn address(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    let is_address = parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if is_address { Ok(text.to_owned()) } else { Err("expected HOST:PORT".to_owned()) }
}

/// Parses addresses of name servers, separated as [`client::Config::new`] takes them.
pub fn name_servers(text: &str) -> Result<String, String> {
    let mut servers = text.split([';', ',']).map(str::trim).filter(|server| !server.is_empty()).peekable();
    servers.peek().ok_or("expected HOST:PORT")?;
    servers.try_for_each(|server| address(server).map(drop))?;
    Ok(text.to_owned())
}

/// Parses a number of bytes: `512`, `1k`, `4m`.
pub fn size(text: &str) -> Result<usize, String> {
    usize::try_from(bytes(text)?).map_err(|_| format!("{text} are too many bytes"))
}

/// Parses a number of bytes of at least 1, after which a payload repeats.
fn period(text: &str) -> Result<u32, String> {
    let size = u32::try_from(bytes(text)?).map_err(|_| format!("{text} are too many bytes"))?;
    if size == 0 { Err("expected at least one byte".to_owned()) } else { Ok(size) }
}

/// Parses `true` only, because the Rust push consumer cannot ask brokers for an assignment of queues.
fn by_clients(text: &str) -> Result<Bool, String> {
    match text.parse() {
        Ok(Bool(true)) => Ok(Bool(true)),
        _ => Err("expected true: queues are shared out by the clients, not by the broker".to_owned()),
    }
}

/// Parses a number above zero.
pub fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("expected a number above 0, found {text:?}"))
}

pub fn namesrv_default() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".to_owned())
}

/// Flags of requests and connections.
#[derive(Args, Debug, Clone)]
pub struct Sending {
    /// Requests in flight.
    #[arg(short = 'w', long = "threadCount", value_name = "N", default_value_t = 64, value_parser = one_to(65_536))]
    pub threads: u32,
    /// Body size, bytes.
    #[arg(short = 's', long = "messageSize", value_name = "BYTES", default_value = "128", value_parser = size)]
    pub message_size: usize,
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
    /// How bodies are compressed.
    #[arg(long = "ct", alias = "compressType", value_enum, ignore_case = true, default_value_t = Compression::Zlib)]
    pub compress_type: Compression,
    /// Compression level.
    #[arg(long = "cl", alias = "compressLevel", default_value_t = 5)]
    pub compress_level: u32,
    /// Smallest body that is compressed, bytes.
    #[arg(long = "ch", alias = "compressOverHowMuch", value_name = "BYTES", default_value = "4096", value_parser = size)]
    pub compress_over: usize,
    /// Bytes of additional user properties per message.
    #[arg(short = 'p', long = "propertySize", value_name = "BYTES", default_value = "0", value_parser = size)]
    pub property_size: usize,
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

/// Flags of `vostok lab producer` (producer.sh).
#[derive(Args, Debug, Clone)]
pub struct ProducerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: Run,
    /// Flags of every sending tool.
    #[command(flatten)]
    pub sending: Sending,
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

/// Flags of `vostok lab batchproducer` (batchproducer.sh).
#[derive(Args, Debug, Clone)]
pub struct BatchProducerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: Run,
    /// Flags of every sending tool.
    #[command(flatten)]
    pub sending: Sending,
    /// Messages per request.
    #[arg(short = 'b', long = "batchSize", value_name = "N", default_value_t = 16, value_parser = one_to(65_536))]
    pub batch: u32,
}

/// Flags of `vostok lab tproducer` (tproducer.sh).
#[derive(Args, Debug, Clone)]
pub struct TransactionProducerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: Run,
    /// Half messages in flight.
    #[arg(short = 'w', long = "threadCount", value_name = "N", default_value_t = 32, value_parser = one_to(65_536))]
    pub threads: u32,
    /// Body size, bytes.
    #[arg(short = 's', long = "messageSize", value_name = "BYTES", default_value = "2048", value_parser = size)]
    pub message_size: usize,
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

/// Flags of `vostok lab consumer` (consumer.sh).
#[derive(Args, Debug, Clone)]
pub struct ConsumerFlags {
    /// Flags of every load tool.
    #[command(flatten)]
    pub run: Run,
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

/// Flags of `vostok lab echo`.
#[derive(Args, Debug, Clone)]
pub struct EchoFlags {
    /// Port to listen on, for name server and broker requests alike.
    #[arg(long, default_value_t = 9876)]
    pub port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: std::net::IpAddr,
    /// Logging echo: appends requests to files in this directory before answering.
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,
    /// Number of queues that every topic is reported to have.
    #[arg(long, default_value_t = 8)]
    pub queues: u32,
}
