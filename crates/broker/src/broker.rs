//! Shared state of the broker and functions that its handlers share.

mod light;
mod put;
mod topics;
mod visible;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::Signed;
use net::{CallError, ConnectionHandle, Gone, Reply};
use store::{Read, Store};
use wire::body::group::SubscriptionGroupConfig;
use wire::body::topic::{PERM_READ, PERM_WRITE};
use wire::frame::{Encoding, FrameWriter, Head};
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
use crate::parts::{Delivery, Figures, Identity, Replication, Runtime, Sessions, Tables};
use crate::persist::{self, ConfigFiles};
use crate::refused::Refused;
use crate::replicas::Replicas;
use crate::role::Role;
use crate::rpc_latency::RpcLatency;
use crate::slow::{SlowOperations, WaitCause};
use crate::state::{
    Acting, ClientCalls, DeliveryNotes, DiskWatch, Light, MetadataQueue, Modes, PollTimeouts, Pops, Ranking,
    RegistrationAcks, Retention, Routes, Schedule, Stats, TableCopies, TimerState, Transactions,
};
use crate::topics::{Queue, Topics};
use crate::{Refusal, names};

/// Distance from the log's end within which a queue's first message counts as "in memory", so that a new group begins
/// at offset 0. Java takes 40 % of the machine's memory. A fixed size makes the result depend less on the machine.
const YOUNG_LOG_BYTES: u64 = 8 << 30;

/// The state that all handlers of a broker share: the composition of its parts.
pub struct Broker {
    pub(crate) store: Arc<Store>,
    pub(crate) identity: Identity,
    pub(crate) tables: Tables,
    pub(crate) sessions: Sessions,
    pub(crate) delivery: Delivery,
    pub(crate) replication: Replication,
    pub(crate) figures: Figures,
    pub(crate) runtime: Runtime,
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
        let rpc_clock = (config.metrics.exporter != Exporter::Disable).then(|| clock.clone());
        let durability =
            Durability::new(store.clone(), config.store.flush, config.replication.slave_timeout());
        Arc::new_cyclic(|me| Self {
            identity: Identity::new(&config, ip, port),
            tables: Tables {
                topics,
                groups,
                offsets,
                locks: Locks::default(),
                modes,
                routes: Routes::default(),
                ranking: Ranking::default(),
                light: Light::of(&store),
                files,
            },
            sessions: Sessions {
                clients: Clients::default(),
                client_calls: ClientCalls::default(),
                gate,
                poll_timeouts: PollTimeouts::default(),
            },
            delivery: Delivery {
                schedule,
                timer: TimerState::default(),
                delivery_notes,
                transactions: Transactions::default(),
                pops: Pops::new(&config.broker_cluster_name),
            },
            replication: Replication {
                role: Role::new(&config),
                replicas: Replicas::default(),
                acting: Acting::new(store.appended()),
                table_copies: TableCopies::default(),
                durability: Arc::new(durability),
                registration_acks: RegistrationAcks::default(),
            },
            figures: Figures {
                stats: Stats::default(),
                slow: SlowOperations::default(),
                refused: Refused::default(),
                rpc_latency: Arc::new(RpcLatency::new(rpc_clock)),
            },
            runtime: Runtime {
                clock,
                config: Live::new(config),
                settings_changing: Mutex::default(),
                disk_pool,
                metadata_queue: MetadataQueue::default(),
                supervisor: Arc::default(),
                retention: Retention::default(),
                disk_watch: DiskWatch::default(),
                draining: AtomicBool::new(false),
            },
            arrivals,
            me: me.clone(),
            store,
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
        self.identity.is_named(&self.runtime.config, address)
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
        let Some(credentials) = self.sessions.gate.own_credentials() else {
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
            match self.sessions.gate.own_credentials() {
                None => write(writer),
                Some(credentials) => {
                    Signed::sealed(credentials, code, &peer.remote().to_string(), write).write(writer);
                }
            }
        })
    }

    /// Returns how long an operation has waited since `begin` on the steady clock. Logs a long wait.
    pub(crate) fn note_slow(&self, operation: &str, cause: WaitCause, begin: Duration) -> Duration {
        let took = self.runtime.clock.steady().saturating_sub(begin);
        self.figures.slow.note(|| self.now_ms(), operation, cause, took);
        took
    }

    /// The time of the broker's clock, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        self.runtime.clock.now_ms()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.runtime.config.broker_permission & PERM_WRITE != 0
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.runtime.config.broker_permission & PERM_READ != 0
    }

    /// A queue id below `count`, taken in turn.
    pub(crate) fn spread(&self, count: i32) -> i32 {
        self.identity.spread(count)
    }

    /// Appends to `out` a unique key for a message without a key from its producer.
    pub(crate) fn unique_key(&self, out: &mut Vec<u8>) {
        self.identity.unique_key(self.now_ms(), out);
    }

    /// Number of delay levels.
    pub(crate) fn delay_levels(&self) -> i32 {
        self.runtime.config.store.delay_levels_ms.len() as i32
    }

    /// Delay of a delay level in milliseconds; 1 s for a level that does not exist.
    pub(crate) fn delay_ms(&self, level: i32) -> i64 {
        let index = usize::try_from(level - 1).unwrap_or(0);
        self.runtime.config.store.delay_levels_ms.get(index).copied().unwrap_or(1000)
    }

    /// The configuration of a group. A group that may be created by its first use is created with defaults, and the request waits
    /// for that.
    pub(crate) fn group(&self, name: &str) -> Result<Option<Arc<SubscriptionGroupConfig>>, Refusal> {
        self.tables.groups.find_or_create(name, self.runtime.config.auto_create_subscription_group)
    }

    /// A queue of an existing topic; `None` when topic or queue does not exist.
    pub(crate) fn log_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        self.topic(topic)?.queue(&self.store, queue_id).cloned()
    }

    /// Whether a new group begins at offset 0 of a queue: the queue has no message yet, or its first message was stored not long
    /// ago (`DefaultMessageStore.checkInMemByConsumeOffset`). It does not in a queue that does not exist.
    pub(crate) fn is_young(&self, topic: &str, queue_id: i32) -> bool {
        self.log_queue(topic, queue_id).is_some_and(|queue| self.begins_within(&queue, YOUNG_LOG_BYTES))
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
        self.identity.address(&self.runtime.config)
    }

    /// The port that slaves of this broker connect to.
    pub(crate) fn ha_port(&self) -> u16 {
        self.identity.ha_port(&self.runtime.config)
    }

    /// Address that slaves of this broker connect to: `brokerIP2` and the port for slaves.
    pub(crate) fn ha_address(&self) -> String {
        self.identity.ha_address(&self.runtime.config)
    }

    /// Notifies the consumers of changed groups to rebalance (`notifyConsumerIdsChangedEnable`).
    pub(crate) fn announce(&self, changes: &[clients::Change]) {
        if self.runtime.config.notify_consumer_ids_changed_enable {
            clients::notify(&self.tables.groups, changes);
        }
    }

    /// Returns the timer's lag in seconds, the number of messages that are not in the wheel yet, and the number of
    /// messages in the wheel.
    pub(crate) fn timer_progress(&self, now_ms: i64) -> (i64, i64, i64) {
        let read_ms = self.delivery.timer.read_ms.load(Ordering::Relaxed);
        let end = self.store.find_queue(names::TIMER_TOPIC, 0).map_or(0, |queue| queue.max().to_i64());
        (
            if read_ms > 0 { (now_ms - read_ms).max(0) / 1000 } else { 0 },
            (end - self.delivery.timer.queue_offset.load(Ordering::Relaxed)).max(0),
            self.delivery.timer.pending.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
mod tests;
