//! The description of a load: producers and consumers.

use super::access::Access;
use super::choices::{Compression, Consume, Payload, Send, Sizes, Start};
use super::decisions::Decisions;
use super::places::Wanted;
use crate::Error;
use crate::load::{Message, Pace, Spread, body};
use client::{Config, Credentials};
use net::tls::{Security, TlsMode, TlsSettings};
use serde::{Deserialize, Serialize};
use wire::frame::Encoding;
use wire::record::sys_flag;

/// The default `sendMsgTimeout` of `DefaultMQProducer`, milliseconds.
pub(crate) const SEND_TIMEOUT_MS: u64 = 3_000;

/// Most bytes of additional user properties. With the properties that every message has, they stay below the limit of
/// 32,767.
const PROPERTIES_BYTES_MAX: u32 = 32_000;

/// The complete description of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Name servers, separated by semicolons.
    pub namesrv: String,
    /// Address of a gRPC server that is loaded instead of the brokers' own ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<String>,
    /// Whether connections are encrypted with TLS. Any certificate is trusted.
    pub tls: bool,
    /// Keys to sign requests with; `None` for unsigned requests.
    pub access: Option<Access>,
    /// Name of the cluster, when the name servers know several; empty for the only one.
    pub cluster: String,
    /// Name of the topic, which is created when it does not exist.
    pub topic: String,
    /// Whether the topic is used on the brokers that have it, whatever the cluster. Otherwise it is created on every
    /// master of the cluster that lacks it.
    pub as_found: bool,
    /// Number of topics. Several topics are named `topic` plus a number.
    pub topics: u32,
    /// Queues per topic and broker; 0 leaves the creation of a missing topic to the brokers.
    pub queues: u32,
    /// Producer group of the messages.
    pub producer_group: String,
    /// Requests in flight over all connections together.
    pub threads: u32,
    /// Number of producers.
    pub producers: u32,
    /// Connections per broker and producer.
    pub connections: u32,
    /// Number of threads that drive the connections.
    pub cores: u32,
    /// Messages per second of an open loop; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Rate at the beginning in messages per second, and the seconds within which it changes to `rate`.
    pub ramp: Option<(f64, f64)>,
    /// Sizes of bodies.
    pub sizes: Sizes,
    /// Content of bodies.
    pub payload: Payload,
    /// Compression of bodies.
    pub compression: Compression,
    /// Compression level, as `CompressionType` has it.
    pub compress_level: u32,
    /// Smallest body that is compressed, bytes.
    pub compress_min: u64,
    /// Number of different tags.
    pub tags: u32,
    /// Whether messages have KEYS.
    pub keys: bool,
    /// Bytes of additional user properties.
    pub property_size: u32,
    /// Mode of sending.
    pub send: Send,
    /// Whether request headers are written as JSON instead of binary.
    pub json_headers: bool,
    /// Milliseconds after which a request without an answer is given up. It is not sent again, and whether its message is
    /// stored counts as unknown.
    pub send_timeout_ms: u64,
    /// Messages per request; 0 sends single messages, and so does 1 unless `as_found` is set.
    pub batch: u32,
    /// Requests after which the load ends, whatever their results; `None` for no end.
    pub quantity: Option<u64>,
    /// Decisions about half messages; `None` to commit all of them.
    pub decisions: Option<Decisions>,
    /// Whether producers and push consumers write message traces.
    pub trace: bool,
    /// Delay level of messages, 0 for none.
    pub delay_level: i32,
    /// Number of consumer groups.
    pub groups: u32,
    /// Consumers per group, among which the queues are divided.
    pub consumers: u32,
    /// Listener threads of each push consumer; `None` for the default of RocketMQ's Java client.
    pub consumer_threads: Option<u32>,
    /// Kind of consumer.
    pub consume: Consume,
    /// First position of consumers.
    pub start: Start,
    /// Whether to check that every message arrives once, unchanged and in order.
    pub checked: bool,
    /// Whether clients follow the master of each broker set: they ask name servers where it is, and note how long they
    /// got no acknowledgement.
    pub follows: bool,
    /// Whether bodies begin with a mark of the lab, where they have room for it.
    pub marked: bool,
    /// Number that distinguishes the messages of this run from others.
    pub run: u32,
    /// Seed of the payload.
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            namesrv: String::new(),
            grpc: None,
            tls: false,
            access: None,
            cluster: String::new(),
            topic: wire::names::BENCHMARK_TOPIC.to_owned(),
            as_found: false,
            topics: 1,
            queues: 8,
            producer_group: "lab_producer".to_owned(),
            threads: 1,
            producers: 1,
            connections: 1,
            cores: 1,
            rate: None,
            ramp: None,
            sizes: Sizes(vec![(1024, 1)]),
            payload: Payload::Random,
            compression: Compression::None,
            compress_level: 5,
            compress_min: 0,
            tags: 0,
            keys: false,
            property_size: 0,
            send: Send::Sync,
            json_headers: false,
            send_timeout_ms: SEND_TIMEOUT_MS,
            batch: 0,
            quantity: None,
            decisions: None,
            trace: false,
            delay_level: 0,
            groups: 0,
            consumers: 1,
            consumer_threads: None,
            consume: Consume::Pull,
            start: Start::Last,
            checked: false,
            follows: false,
            marked: true,
            run: 0,
            seed: 1,
        }
    }
}

impl Workload {
    pub(crate) fn wanted(&self) -> Wanted {
        let queues = Some(self.queues).filter(|queues| *queues > 0);
        let cluster = (!self.as_found).then(|| self.cluster.clone());
        Wanted { topic: self.topic.clone(), topics: self.topics.max(1), queues, cluster }
    }

    /// The credentials with which requests are signed.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        self.access.as_ref().map(Access::credentials)
    }

    /// The configuration of a client of the cluster.
    pub(crate) fn client(&self) -> Config {
        let (credentials, security) = (self.credentials(), self.security());
        Config { credentials, security, ..Config::new(&self.namesrv) }
    }

    /// Whether the connections of the load are encrypted.
    pub(crate) fn security(&self) -> Security {
        let client_enabled = Some(self.tls);
        let settings = TlsSettings { mode: TlsMode::Disabled, client_enabled, ..TlsSettings::default() };
        Security::new(&settings).expect("no file is named, and no cipher left out")
    }

    /// Names of the topics.
    pub(crate) fn topics(&self) -> impl Iterator<Item = String> {
        let name =
            |number| if self.topics > 1 { format!("{}_{number}", self.topic) } else { self.topic.clone() };
        (0..self.topics.max(1)).map(name)
    }

    /// Name of consumer group number `number`. Push consumers and those over gRPC use a group of the run's own, because
    /// brokers remember the offsets of other groups.
    pub(crate) fn group(&self, number: u32) -> String {
        let Self { topic, run, .. } = self;
        match self.consume {
            Consume::Pull if self.grpc.is_none() => format!("lab_{topic}_{number}"),
            Consume::Pull | Consume::Push | Consume::Orderly => format!("lab_{topic}_{number}_{run}"),
        }
    }

    /// Distribution of the requests in flight over connections to all brokers.
    pub(crate) fn spread(&self, brokers: usize) -> Spread {
        Spread::new(brokers, self.connections * self.producers, self.in_flight(), self.rate.is_some())
    }

    /// Refuses a workload that cannot work.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |why: String| Err(Error::Flag { flag: "workload", why });
        if self.sizes.0.is_empty() || self.sizes.0.iter().any(|(_, weight)| *weight == 0) {
            return refused("sizes need a weight of at least 1 each".to_owned());
        }
        if self.in_flight() == 0 {
            return refused("0 requests in flight: expected at least 1".to_owned());
        }
        if self.batch > 1 && self.sizes.0.len() > 1 {
            return refused("batches have messages of one size".to_owned());
        }
        if self.checked && !self.is_marked() {
            let least = super::mix::MARK_BYTES;
            return refused(format!(
                "content can be checked in single messages of {least} bytes or more without compression"
            ));
        }
        let is_rate = |number: f64| number.is_finite() && number > 0.0;
        if self.rate.is_some_and(|rate| !is_rate(rate)) {
            return refused(format!("a rate of {}: expected one above 0", self.rate.unwrap_or_default()));
        }
        if self.ramp.is_some_and(|(first, seconds)| !(first == 0.0 || is_rate(first)) || !is_rate(seconds)) {
            return refused(format!("a ramp of {:?}: expected a rate and seconds above 0", self.ramp));
        }
        if self.property_size > PROPERTIES_BYTES_MAX {
            let found = self.property_size;
            return refused(format!("{found} bytes of properties: expected at most {PROPERTIES_BYTES_MAX}"));
        }
        if self.send == Send::OneWay && (self.rate.is_none() || self.checked) {
            return refused(
                "what is sent one way needs a rate, and cannot be checked: nobody says what is stored"
                    .to_owned(),
            );
        }
        if self.send == Send::Transaction && self.batch > 1 {
            return refused("batches cannot be sent in transactions".to_owned());
        }
        if self.follows && (self.rate.is_none() || self.consume != Consume::Pull) {
            return refused("clients that follow the master need a rate and pull".to_owned());
        }
        if self.checked && self.consume != Consume::Pull {
            return refused("content is checked where it is pulled; push consumers only count".to_owned());
        }
        let is_reading =
            self.consumers > 1 || self.consumer_threads.is_some() || self.consume != Consume::Pull;
        if is_reading && self.groups == 0 {
            return refused(
                "--consume, --consumers and --consumer-threads need --groups 1 or more: nobody consumes"
                    .to_owned(),
            );
        }
        if self.consumers > self.queues.max(1) {
            let (consumers, queues) = (self.consumers, self.queues);
            return refused(format!(
                "{consumers} consumers in a group: expected at most one for each of the {queues} queues of a topic"
            ));
        }
        if self.consumer_threads.is_some() && self.consume == Consume::Pull && self.grpc.is_none() {
            return refused(
                "--consumer-threads needs --consume push or orderly: who pulls has no listener".to_owned(),
            );
        }
        self.check_grpc()?;
        if self.threads > 65_536 * self.connections * self.producers {
            return refused(format!(
                "{} requests in flight are more than 65536 per connection",
                self.threads
            ));
        }
        Ok(())
    }

    /// Refuses kinds of sending and consuming that do not exist over gRPC.
    fn check_grpc(&self) -> Result<(), Error> {
        let unserved = [
            (self.send != Send::Sync, "other sends than synchronous ones (-y, --oneway, --send)"),
            (self.batch > 0, "batches (--batch)"),
            (self.json_headers, "JSON headers (--json-headers)"),
            (self.compression != Compression::None, "compression (-c, --compression)"),
            (self.delay_level != 0, "delayed messages (-d, --delay)"),
            (self.trace, "message traces (-m)"),
            (self.consume != Consume::Pull, "push consumers of remoting (--orderly, --consume)"),
            (self.checked, "checks of what arrives, as in a soak"),
            (self.follows, "clients that follow the master, as in a failover"),
        ];
        match unserved.iter().find(|(is_asked, _)| *is_asked) {
            Some((_, what)) if self.grpc.is_some() => {
                let why = format!("{what} cannot be had over gRPC: leave one of the two flags out");
                Err(Error::Flag { flag: "--grpc", why })
            }
            _ => Ok(()),
        }
    }

    /// Applies [`Self::check`] to the share of each of `machines` machines.
    pub(crate) fn check_over(&self, machines: u32) -> Result<(), Error> {
        self.check()?;
        let refused = |why: String| Err(Error::Flag { flag: "--load-agents", why });
        if machines > 1 && self.checked {
            return refused(
                "content is checked where it was sent; with --load-agents it cannot be".to_owned(),
            );
        }
        if self.in_flight() < machines {
            return refused(format!(
                "{} requests in flight over {machines} machines: expected at least one for each, or its share of the \
                 rate is lost",
                self.in_flight()
            ));
        }
        Ok(())
    }

    /// The share of machine number `number` of `parts` machines, counted from 0: of the requests in flight and of the
    /// rate.
    pub(crate) fn share(&self, number: u32, parts: u32) -> Self {
        let threads = self.threads / parts + u32::from(number < self.threads % parts);
        let part = |rate: f64| rate / f64::from(parts);
        let ramp = self.ramp.map(|(first, seconds)| (part(first), seconds));
        Self { threads, rate: self.rate.map(part), ramp, ..self.clone() }
    }

    /// The share of an agent. An agent only sends; the lab itself runs all consumers.
    pub(crate) fn share_to_send(&self, number: u32, parts: u32) -> Self {
        let Self { groups, consumers, consumer_threads, consume, .. } = Self::default();
        Self { groups, consumers, consumer_threads, consume, ..self.share(number, parts) }
    }

    /// Requests in flight over all connections together.
    pub(crate) fn in_flight(&self) -> u32 {
        if self.send == Send::Async {
            self.threads.max(crate::load::ASYNCHRONOUS_IN_FLIGHT)
        } else {
            self.threads
        }
    }

    /// Most bytes that may wait for the socket of a connection. Requests in flight bound them, except for one-way
    /// sends.
    pub(crate) fn unsent_bytes_max(&self) -> usize {
        if self.send == Send::OneWay { crate::load::ONE_WAY_BYTES_MAX } else { usize::MAX }
    }

    /// Encoding of request headers.
    pub(crate) fn encoding(&self) -> Encoding {
        if self.json_headers { Encoding::Json } else { Encoding::Binary }
    }

    /// The schedule of one of `connections` connections; `None` for a closed loop.
    pub(crate) fn pace(&self, connections: u32) -> Option<Pace> {
        let requests = f64::from(connections) * f64::from(self.batch.max(1));
        let rate = self.rate? / requests;
        Some(match self.ramp {
            Some((first, seconds)) => Pace::ramp(first / requests, rate, seconds),
            None => Pace::new(rate),
        })
    }

    /// Whether requests are batches. A batch of one message is sent as a single message, except to a topic as it is
    /// found: `batchproducer.sh -b 1` sends batches.
    fn is_batch(&self) -> bool {
        self.batch > 1 || (self.batch == 1 && self.as_found)
    }

    /// Whether bodies have room for a [`super::mix::Mark`] that consumers can read.
    pub(crate) fn is_marked(&self) -> bool {
        let fits = self.sizes.0.iter().all(|(size, _)| *size >= super::mix::MARK_BYTES as u64);
        self.marked && fits && !self.is_batch() && self.compression == Compression::None
    }

    /// A message of every size, without the parts that differ between connections.
    pub(crate) fn messages(&self) -> Result<Vec<Message>, Error> {
        self.sizes.0.iter().map(|(size, _)| self.message(*size)).collect()
    }

    fn message(&self, size: u64) -> Result<Message, Error> {
        let plain = self.plain(usize::try_from(size).unwrap_or(usize::MAX))?;
        let kind = match self.compression {
            Compression::None => None,
            Compression::Zlib => Some(sys_flag::Compression::Zlib),
            Compression::Lz4 => Some(sys_flag::Compression::Lz4),
            Compression::Zstd => Some(sys_flag::Compression::Zstd),
        };
        // Batches are never compressed, as by RocketMQ's Java producer.
        let (body, sys_flag) = match kind.filter(|_| !self.is_batch() && size >= self.compress_min) {
            Some(kind) => {
                let packed = client::compress(kind, self.compress_level, &plain);
                (packed.map_err(Error::system("compress the body"))?, sys_flag::compressed_with(kind))
            }
            None => (plain, 0),
        };
        let half = if self.send == Send::Transaction { sys_flag::TRANSACTION_PREPARED } else { 0 };
        Ok(Message {
            group: self.producer_group.clone(),
            topic: self.topic.clone(),
            body,
            sys_flag: sys_flag | half,
            keys: self.keys,
            tags: self.tags,
            property_size: self.property_size as usize,
            delay_level: self.delay_level,
            key_prefix: [0; 10],
            batch: if self.is_batch() { self.batch } else { 0 },
            is_half: self.send == Send::Transaction,
            is_one_way: self.send == Send::OneWay,
            credentials: self.credentials(),
        })
    }

    fn plain(&self, size: usize) -> Result<Vec<u8>, Error> {
        let seed = self.seed ^ 0x5bd1_e995_9e37_79b9;
        Ok(match &self.payload {
            Payload::Random => body(size, seed),
            Payload::Repeat(period) => {
                body((*period).max(1) as usize, seed).into_iter().cycle().take(size).collect()
            }
            Payload::File(path) => {
                let bytes = std::fs::read(path);
                let filled = bytes.and_then(|bytes| {
                    if bytes.is_empty() { Err(std::io::Error::other("the file is empty")) } else { Ok(bytes) }
                });
                let bytes = filled.map_err(|source| Error::File { path: path.clone(), source })?;
                bytes.into_iter().cycle().take(size).collect()
            }
        })
    }
}
