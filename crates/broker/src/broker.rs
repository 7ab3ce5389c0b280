//! Shared state of the broker and functions that its handlers share.

mod light;
mod put;
mod topics;
mod visible;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::Signed;
use net::{CallError, ConnectionHandle, Gone, Reply};
use store::{Read, Store};
use wire::body::group::SubscriptionGroupConfig;
use wire::body::topic::{PERM_READ, PERM_WRITE};
use wire::frame::{Encoding, FrameWriter, Head};
use wire::id::UniqKeys;
use wire::properties::{self, key};
use wire::units::QueueOffset;

use crate::clients::{self, Clients};
use crate::clock::Clock;
use crate::config::{Config, Exporter, Live};
use crate::disk_pool::DiskPool;
use crate::durability::Durability;
use crate::gate::Gate;
use crate::groups::Groups;
use crate::locks::Locks;
use crate::offsets::Offsets;
use crate::persist::{self, ConfigFiles};
use crate::refused::Refused;
use crate::replicas::Replicas;
use crate::role::Role;
use crate::rpc_latency::RpcLatency;
use crate::slow::{SlowOperations, WaitCause};
use crate::state::{
    Acting, ClientCalls, DeliveryNotes, DiskWatch, Light, Lite, MetadataQueue, Modes, PollTimeouts, Pops,
    Ranking, RegistrationAcks, Retention, Routes, Schedule, Stats, TableCopies, TimerState, Transactions,
};
use crate::supervisor::Supervisor;
use crate::topics::{Queue, Topics};
use crate::{Refusal, names};

/// Milliseconds of a month of 31 days: the creation time in unique keys counts modulo this.
const MONTH_MS: i64 = 31 * 24 * 3_600_000;

/// Distance from the log's end within which a queue's first message counts as "in memory", so that a new group begins
/// at offset 0. Java takes 40 % of the machine's memory. A fixed size makes the result depend less on the machine.
const YOUNG_LOG_BYTES: u64 = 8 << 30;

/// The state that all handlers of a broker share.
pub struct Broker {
    pub(crate) clock: Clock,
    pub(crate) config: Live,
    /// Authentication and authorization of requests.
    pub(crate) gate: Gate,
    /// Lock of a request that changes settings (25).
    pub(crate) settings_changing: Mutex<()>,
    pub(crate) store: Arc<Store>,
    pub(crate) files: ConfigFiles,
    pub(crate) topics: Topics,
    pub(crate) groups: Groups,
    pub(crate) clients: Clients,
    pub(crate) offsets: Offsets,
    pub(crate) locks: Locks,
    pub(crate) schedule: Schedule,
    pub(crate) timer: TimerState,
    /// Positions of delayed and timed messages that the log proves.
    pub(crate) delivery_notes: DeliveryNotes,
    pub(crate) poll_timeouts: PollTimeouts,
    pub(crate) disk_pool: DiskPool,
    pub(crate) metadata_queue: MetadataQueue,
    pub(crate) registration_acks: RegistrationAcks,
    pub(crate) light: Light,
    /// Subscriptions of clients to lite topics, and their events.
    pub(crate) lite: Lite,
    pub(crate) transactions: Transactions,
    pub(crate) retention: Retention,
    pub(crate) client_calls: ClientCalls,
    pub(crate) pops: Pops,
    pub(crate) modes: Modes,
    pub(crate) routes: Routes,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) refused: Refused,
    pub(crate) slow: SlowOperations,
    pub(crate) rpc_latency: Arc<RpcLatency>,
    /// Address that is written into records as the store host and is part of message ids.
    pub(crate) store_host: SocketAddr,
    /// Properties that every sent message gets: region, trace switch, cluster.
    pub(crate) sent_properties: Vec<u8>,
    pub(crate) stats: Stats,
    pub(crate) ranking: Ranking,
    /// Whether the broker stops. Clients newer than 5.3.1 then get `GO_AWAY`.
    pub(crate) draining: AtomicBool,
    /// Durability policy: the meaning of "stored".
    pub(crate) durability: Arc<Durability>,
    /// Master or slave.
    pub(crate) role: Role,
    /// Other brokers of the group.
    pub(crate) replicas: Replicas,
    /// Watch of the disk: writes and flushes of the log that are not finished.
    pub(crate) disk_watch: DiskWatch,
    /// Whether this slave acts for its master.
    pub(crate) acting: Acting,
    /// Which of this master's tables its slaves have.
    pub(crate) table_copies: TableCopies,
    unique_keys: UniqKeys,
    unique_counter: AtomicU32,
    spread_counter: AtomicU32,
    arrivals: Arrivals,
    me: std::sync::Weak<Broker>,
}

/// Errors of loading a broker's state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Table(#[from] persist::Error),
    #[error(transparent)]
    Auth(#[from] auth::StartError),
}

/// The parts of a broker's state that are loaded from files before it starts.
pub(crate) struct Loaded {
    pub clock: Clock,
    pub config: Config,
    pub gate: Gate,
    pub store: Arc<Store>,
    pub files: ConfigFiles,
    pub topics: Topics,
    pub groups: Groups,
    pub offsets: Offsets,
    pub schedule: Schedule,
    pub delivery_notes: DeliveryNotes,
    pub modes: Modes,
    pub disk_pool: DiskPool,
}

/// Functions that run when a queue with waiting requests grows. The operations that answer these requests are above
/// the broker's state, which knows only these functions.
#[derive(Clone, Copy)]
pub(crate) struct Arrivals {
    /// Runs the suspended pulls of the queue.
    pub pulls: fn(&Arc<Broker>, &Arc<Queue>),
    /// Runs suspended pops of the queue's topic.
    pub pops: fn(&Arc<Broker>, &Arc<Queue>),
    /// Gives the messages of a lite queue to clients of a group, or of all groups.
    pub lite: fn(&Arc<Broker>, Option<&str>, &Arc<str>),
}

impl Loaded {
    /// Loads the tables of `files` that need no other state.
    pub(crate) fn read(
        config: Config,
        topics: Topics,
        store: Arc<Store>,
        files: ConfigFiles,
        disk_pool: DiskPool,
    ) -> Result<Self, LoadError> {
        let gate = Gate::open(&config)?;
        let light = config.store.multi_dispatch;
        Ok(Self {
            clock: Clock::default(),
            gate,
            groups: Groups::load(files.file("subscriptionGroup.json"))?.with_light(light),
            offsets: if light { Offsets::load_light(&files) } else { Offsets::load(&files) }?,
            schedule: Schedule::load(files.file("delayOffset.json"))?,
            delivery_notes: DeliveryNotes::load(
                files.at(config.store.root.join("vostok/deliveryNotes")),
                store.appended(),
            ),
            modes: Modes::load(files.file("messageRequestMode.json"))?,
            topics,
            store,
            files,
            disk_pool,
            config,
        })
    }
}

impl Broker {
    pub(crate) fn new(loaded: Loaded, arrivals: Arrivals, ip: IpAddr, port: u16) -> Arc<Self> {
        let Loaded {
            clock,
            config,
            gate,
            store,
            files,
            topics,
            groups,
            offsets,
            schedule,
            delivery_notes,
            modes,
            disk_pool,
        } = loaded;
        let mut sent_properties = Vec::new();
        properties::append(&mut sent_properties, key::MSG_REGION, config.region_id.as_bytes());
        let trace: &[u8] = if config.trace_on { b"true" } else { b"false" };
        properties::append(&mut sent_properties, key::TRACE_SWITCH, trace);
        properties::append(&mut sent_properties, key::CLUSTER, config.broker_cluster_name.as_bytes());
        let process_id = std::process::id() as u16;
        Arc::new_cyclic(|me| Self {
            gate,
            store_host: SocketAddr::new(ip, port),
            sent_properties,
            clients: Clients::default(),
            locks: Locks::default(),
            timer: TimerState::default(),
            delivery_notes,
            poll_timeouts: PollTimeouts::default(),
            metadata_queue: MetadataQueue::default(),
            registration_acks: RegistrationAcks::default(),
            retention: Retention::default(),
            client_calls: ClientCalls::default(),
            supervisor: Arc::default(),
            refused: Refused::default(),
            slow: SlowOperations::default(),
            rpc_latency: Arc::new(RpcLatency::new(
                (config.metrics.exporter != Exporter::Disable).then(|| clock.clone()),
            )),
            clock,
            light: Light::of(&store),
            lite: Lite::default(),
            pops: Pops::new(&config.broker_cluster_name),
            draining: AtomicBool::new(false),
            durability: Arc::new(Durability::new(
                store.clone(),
                config.store.flush,
                config.replication.slave_timeout(),
            )),
            role: Role::new(&config),
            replicas: Replicas::default(),
            disk_watch: DiskWatch::default(),
            acting: Acting::new(store.appended()),
            table_copies: TableCopies::default(),
            transactions: Transactions::default(),
            routes: Routes::default(),
            stats: Stats::default(),
            ranking: Ranking::default(),
            unique_keys: UniqKeys::new(ip, process_id, 0x0766_6f73),
            unique_counter: AtomicU32::new(0),
            spread_counter: AtomicU32::new(0),
            arrivals,
            me: me.clone(),
            config: Live::new(config),
            settings_changing: Mutex::default(),
            store,
            files,
            topics,
            groups,
            offsets,
            schedule,
            modes,
            disk_pool,
        })
    }

    /// The shared handle of this broker.
    pub(crate) fn handle(&self) -> Arc<Self> {
        self.me
            .upgrade()
            .expect("a broker is only ever made inside an Arc, which the caller's reference keeps alive")
    }

    /// Whether a seal with this address is for this broker.
    pub(crate) fn is_named(&self, address: &str) -> bool {
        address == self.address() || address == self.store_host.to_string()
    }

    /// Sends a request to another server, with the broker's own signature if it has one
    /// (`innerClientAuthenticationCredentials`).
    pub(crate) async fn call(
        &self,
        peer: &ConnectionHandle,
        code: i32,
        patience: Duration,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Reply, CallError> {
        let Some(credentials) = self.gate.own_credentials() else {
            return peer.call(Encoding::Json, code, patience, write).await;
        };
        let signed = Signed::sealed(credentials, code, &peer.remote().to_string(), write);
        peer.call(Encoding::Json, code, patience, |writer| signed.write(writer)).await
    }

    /// Sends another server a one-way request, signed like [`Self::call`].
    pub(crate) fn send_one_way(
        &self,
        peer: &ConnectionHandle,
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<(), Gone> {
        let head = Head::one_way(Encoding::Json, code, peer.next_opaque());
        peer.push(|out| {
            let writer = FrameWriter::begin(out, head);
            match self.gate.own_credentials() {
                None => write(writer),
                Some(credentials) => {
                    Signed::sealed(credentials, code, &peer.remote().to_string(), write).write(writer);
                }
            }
        })
    }

    /// Returns how long an operation has waited since `begin` on the steady clock. Logs a long wait.
    pub(crate) fn note_slow(&self, operation: &str, cause: WaitCause, begin: Duration) -> Duration {
        let took = self.clock.steady().saturating_sub(begin);
        self.slow.note(|| self.now_ms(), operation, cause, took);
        took
    }

    /// The time of the broker's clock, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.config.broker_permission & PERM_WRITE != 0
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.config.broker_permission & PERM_READ != 0
    }

    /// A queue id below `count`, taken in turn.
    pub(crate) fn spread(&self, count: i32) -> i32 {
        let next = self.spread_counter.fetch_add(1, Ordering::Relaxed);
        let count = u32::try_from(count).unwrap_or(0).max(1);
        (next % count) as i32
    }

    /// Appends to `out` a unique key for a message without a key from its producer.
    pub(crate) fn unique_key(&self, out: &mut Vec<u8>) {
        let month_ms = self.now_ms().rem_euclid(MONTH_MS) as u32;
        let counter = self.unique_counter.fetch_add(1, Ordering::Relaxed) as u16;
        self.unique_keys.append_to(out, month_ms, counter);
    }

    /// Number of delay levels.
    pub(crate) fn delay_levels(&self) -> i32 {
        self.config.store.delay_levels_ms.len() as i32
    }

    /// Delay of a delay level in milliseconds; 1 s for a level that does not exist.
    pub(crate) fn delay_ms(&self, level: i32) -> i64 {
        let index = usize::try_from(level - 1).unwrap_or(0);
        self.config.store.delay_levels_ms.get(index).copied().unwrap_or(1000)
    }

    /// The configuration of a group. A group that may be created by its first use is created with defaults, and the request waits
    /// for that.
    pub(crate) fn group(&self, name: &str) -> Result<Option<Arc<SubscriptionGroupConfig>>, Refusal> {
        self.groups.find_or_create(name, self.config.auto_create_subscription_group)
    }

    /// A queue of an existing topic; `None` when topic or queue does not exist.
    pub(crate) fn log_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        self.topic(topic)?.queue(&self.store, queue_id).cloned()
    }

    /// Whether a new group begins at offset 0 of a queue: the queue has no message yet, or its first message was stored not long
    /// ago (`DefaultMessageStore.checkInMemByConsumeOffset`). It does not in a queue that does not exist.
    pub(crate) fn is_young(&self, topic: &str, queue_id: i32) -> bool {
        self.log_queue(topic, queue_id).is_some_and(|queue| self.begins_young(&queue))
    }

    /// Whether a new group begins at offset 0 of this queue, like [`Self::is_young`].
    pub(crate) fn begins_young(&self, queue: &Queue) -> bool {
        self.begins_within(queue, YOUNG_LOG_BYTES)
    }

    /// Whether message 0 of a queue still exists and lies within `bytes` of the log's end; true for a queue without messages.
    pub(crate) fn begins_within(&self, queue: &Queue, bytes: u64) -> bool {
        let appended = self.store.appended();
        let is_near = |at| appended.since(at) < bytes;
        if queue.index.min().get() > 0 || queue.index.max().get() == 0 || is_near(self.store.min()) {
            return queue.index.min().get() == 0;
        }
        let mut first = Vec::new();
        // A first unit that is not in memory belongs to an old message.
        let read = queue.index.units(QueueOffset::new(0), 1, &mut first);
        matches!(read, Ok(Read::Done)) && first.first().is_some_and(|unit| is_near(unit.log_offset))
    }

    /// Address that clients use: the configured `brokerIP1`, and the port.
    pub(crate) fn address(&self) -> String {
        let (host, port) = (&self.config.broker_ip1, self.store_host.port());
        match host.parse() {
            Ok(ip) => SocketAddr::new(ip, port).to_string(),
            Err(_) => format!("{host}:{port}"),
        }
    }

    /// The port that slaves of this broker connect to.
    pub(crate) fn ha_port(&self) -> u16 {
        match self.config.replication.port {
            0 => self.store_host.port().wrapping_add(1),
            port => port,
        }
    }

    /// Address that slaves of this broker connect to: `brokerIP2` and the port for slaves.
    pub(crate) fn ha_address(&self) -> String {
        let config = &self.config;
        let host = if config.replication.ip.is_empty() { &config.broker_ip1 } else { &config.replication.ip };
        match host.parse() {
            Ok(ip) => SocketAddr::new(ip, self.ha_port()).to_string(),
            Err(_) => format!("{host}:{}", self.ha_port()),
        }
    }

    /// Notifies the consumers of changed groups to rebalance (`notifyConsumerIdsChangedEnable`).
    pub(crate) fn announce(&self, changes: &[clients::Change]) {
        if self.config.notify_consumer_ids_changed_enable {
            clients::notify(&self.groups, changes);
        }
    }

    /// Returns the timer's lag in seconds, the number of messages that are not in the wheel yet, and the number of
    /// messages in the wheel.
    pub(crate) fn timer_progress(&self, now_ms: i64) -> (i64, i64, i64) {
        let read_ms = self.timer.read_ms.load(Ordering::Relaxed);
        let end = self.store.find_queue(names::TIMER_TOPIC, 0).map_or(0, |queue| queue.max().to_i64());
        (
            if read_ms > 0 { (now_ms - read_ms).max(0) / 1000 } else { 0 },
            (end - self.timer.queue_offset.load(Ordering::Relaxed)).max(0),
            self.timer.pending.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
mod tests;
