//! The description of a load: what is sent and what is consumed.

use super::access::Access;
use crate::Error;
use crate::load::{Message, Pace, Spread, body};
use crate::session::Wanted;
use clap::ValueEnum;
use client::{Config, Credentials};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wire::frame::Encoding;
use wire::record::sys_flag;

/// Producer group of all load generators.
pub(crate) const PRODUCER_GROUP: &str = "lab_producer";

/// Most bytes of additional user properties. With the properties that every message has, they stay below the limit of
/// 32,767.
const PROPERTIES_BYTES_MAX: u32 = 32_000;

/// The complete description of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Name servers, separated by semicolons.
    pub namesrv: String,
    /// Keys to sign requests with; `None` for unsigned requests.
    pub access: Option<Access>,
    /// Name of the cluster, when the name servers know several; empty for the only one.
    pub cluster: String,
    /// Name of the topic, which is created when it does not exist.
    pub topic: String,
    /// Number of topics. Several topics are named `topic` plus a number.
    pub topics: u32,
    /// Queues per topic and broker.
    pub queues: u32,
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
    /// Compression of bodies: `none`, `zlib`, `lz4` or `zstd`.
    pub compression: String,
    /// Number of different tags.
    pub tags: u32,
    /// Whether messages have KEYS.
    pub keys: bool,
    /// Bytes of additional user properties.
    pub property_size: u32,
    /// How messages are sent.
    pub send: Send,
    /// Whether request headers are written as JSON instead of binary.
    pub json_headers: bool,
    /// Messages per request; 0 or 1 sends single messages.
    pub batch: u32,
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
    /// Where consumers begin.
    pub start: Start,
    /// Whether to check that every message arrives once, unchanged and in order.
    pub checked: bool,
    /// Number that distinguishes the messages of this run from others.
    pub run: u32,
    /// Seed of the payload.
    pub seed: u64,
}

/// How messages are sent (`CommunicationMode`, and transactions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Send {
    /// Synchronous sends: every request in flight waits for its answer.
    #[default]
    Sync,
    /// Asynchronous sends as by `producer.sh -y true`: up to 10,000 requests in flight.
    Async,
    /// One-way sends, which are not answered and need a rate.
    #[value(name = "oneway")]
    OneWay,
    /// Transactions: half messages that are then committed.
    Transaction,
}

/// How messages are consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Consume {
    /// Pull requests with the least possible cost: one waits at every queue, and messages are only counted.
    #[default]
    Pull,
    /// Push consumer of the Rust client that consumes messages concurrently.
    Push,
    /// Push consumer of the Rust client that consumes each queue in order.
    Orderly,
}

/// Where consumers begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At the end of every queue.
    #[default]
    Last,
    /// At the smallest offset of every queue.
    First,
    /// At the group's committed offset, otherwise at the smallest offset of the queue.
    Group,
}

/// Content of message bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// Random letters and digits.
    #[default]
    Random,
    /// Random letters and digits that repeat after this many bytes.
    Repeat(u32),
    /// The bytes of a file, repeated.
    File(PathBuf),
}

/// Sizes of bodies in bytes, with their weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes(pub Vec<(u64, u32)>);

impl Default for Workload {
    fn default() -> Self {
        Self {
            namesrv: String::new(),
            access: None,
            cluster: String::new(),
            topic: wire::names::BENCHMARK_TOPIC.to_owned(),
            topics: 1,
            queues: 8,
            threads: 1,
            producers: 1,
            connections: 1,
            cores: 1,
            rate: None,
            ramp: None,
            sizes: Sizes(vec![(1024, 1)]),
            payload: Payload::Random,
            compression: "none".to_owned(),
            tags: 0,
            keys: false,
            property_size: 0,
            send: Send::Sync,
            json_headers: false,
            batch: 0,
            delay_level: 0,
            groups: 0,
            consumers: 1,
            consumer_threads: None,
            consume: Consume::Pull,
            start: Start::Last,
            checked: false,
            run: 0,
            seed: 1,
        }
    }
}

impl Sizes {
    /// A single size.
    #[must_use]
    pub fn one(bytes: u64) -> Self {
        Self(vec![(bytes, 1)])
    }

    /// The mean size in bytes.
    #[must_use]
    pub fn mean(&self) -> u64 {
        let weights: u64 = self.0.iter().map(|(_, weight)| u64::from(*weight)).sum();
        self.0.iter().map(|(size, weight)| size * u64::from(*weight)).sum::<u64>() / weights.max(1)
    }

    /// Index of the size of request number `sequence`. The same number always has the same size, and over many requests
    /// the shares of the sizes follow the weights.
    #[must_use]
    pub fn pick(&self, sequence: u64) -> usize {
        if self.0.len() == 1 {
            return 0;
        }
        let weights: u64 = self.0.iter().map(|(_, weight)| u64::from(*weight)).sum();
        // Fibonacci hashing spreads consecutive numbers over the whole range.
        let mut rest = (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % weights.max(1);
        for (index, (_, weight)) in self.0.iter().enumerate() {
            match rest.checked_sub(u64::from(*weight)) {
                None => return index,
                Some(left) => rest = left,
            }
        }
        0
    }
}

impl Workload {
    pub(crate) fn wanted(&self) -> Wanted {
        let (topic, topics, cluster) = (self.topic.clone(), self.topics.max(1), self.cluster.clone());
        Wanted { topic, topics, queues: Some(self.queues), cluster: Some(cluster) }
    }

    /// The credentials with which requests are signed.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        self.access.as_ref().map(Access::credentials)
    }

    /// The configuration of a client of the cluster.
    pub(crate) fn client(&self) -> Config {
        Config { credentials: self.credentials(), ..Config::new(&self.namesrv) }
    }

    /// Names of the topics.
    pub(crate) fn topics(&self) -> impl Iterator<Item = String> {
        let name =
            |number| if self.topics > 1 { format!("{}_{number}", self.topic) } else { self.topic.clone() };
        (0..self.topics.max(1)).map(name)
    }

    /// Name of consumer group number `number`. Push consumers use a group of the run's own, because brokers remember
    /// the offsets of other groups.
    pub(crate) fn group(&self, number: u32) -> String {
        let Self { topic, run, .. } = self;
        match self.consume {
            Consume::Pull => format!("lab_{topic}_{number}"),
            Consume::Push | Consume::Orderly => format!("lab_{topic}_{number}_{run}"),
        }
    }

    /// How the requests in flight are spread over connections to all brokers.
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
        if self.consumers > self.queues {
            let (consumers, queues) = (self.consumers, self.queues);
            return refused(format!(
                "{consumers} consumers in a group: expected at most one for each of the {queues} queues of a topic"
            ));
        }
        if self.consumer_threads.is_some() && self.consume == Consume::Pull {
            return refused(
                "--consumer-threads needs --consume push or orderly: who pulls has no listener".to_owned(),
            );
        }
        if self.threads > 65_536 * self.connections * self.producers {
            return refused(format!(
                "{} requests in flight are more than 65536 per connection",
                self.threads
            ));
        }
        self.compression_kind().map(|_| ())
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

    /// How request headers are written.
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

    fn compression_kind(&self) -> Result<Option<sys_flag::Compression>, Error> {
        Ok(Some(match self.compression.as_str() {
            "" | "none" => return Ok(None),
            "zlib" => sys_flag::Compression::Zlib,
            "lz4" => sys_flag::Compression::Lz4,
            "zstd" => sys_flag::Compression::Zstd,
            other => {
                let why = format!("expected none, zlib, lz4 or zstd, found {other}");
                return Err(Error::Flag { flag: "--compression", why });
            }
        }))
    }

    /// Whether bodies have room for a [`super::mix::Mark`] that consumers can read.
    pub(crate) fn is_marked(&self) -> bool {
        let fits = self.sizes.0.iter().all(|(size, _)| *size >= super::mix::MARK_BYTES as u64);
        fits && self.batch <= 1 && matches!(self.compression.as_str(), "" | "none")
    }

    /// A message of every size, without the parts that differ between connections.
    pub(crate) fn messages(&self) -> Result<Vec<Message>, Error> {
        self.sizes.0.iter().map(|(size, _)| self.message(*size)).collect()
    }

    fn message(&self, size: u64) -> Result<Message, Error> {
        let plain = self.plain(usize::try_from(size).unwrap_or(usize::MAX))?;
        let (body, sys_flag) = match self.compression_kind()? {
            Some(kind) if self.batch <= 1 => {
                let packed = client::compress(kind, 5, &plain).map_err(Error::system("compress the body"))?;
                (packed, sys_flag::compressed_with(kind))
            }
            _ => (plain, 0),
        };
        let half = if self.send == Send::Transaction { sys_flag::TRANSACTION_PREPARED } else { 0 };
        Ok(Message {
            group: PRODUCER_GROUP.to_owned(),
            topic: self.topic.clone(),
            body,
            sys_flag: sys_flag | half,
            keys: self.keys,
            tags: self.tags,
            property_size: self.property_size as usize,
            delay_level: self.delay_level,
            key_prefix: [0; 10],
            batch: if self.batch > 1 { self.batch } else { 0 },
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
