//! The broker's shared state and what its handlers have in common.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use net::ConnectionHandle;
use store::{AppendError, Batch, FlushMode, Message, PushError, Read, ReadError, Store};
use wire::body::group::SubscriptionGroupConfig;
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::id::UniqKeys;
use wire::properties::{self, key};
use wire::units::{LogOffset, QueueOffset};

use crate::assign::{Modes, Routes};
use crate::client_calls::ClientCalls;
use crate::clients::{self, Clients};
use crate::config::{Config, Live};
use crate::disk_pool::DiskPool;
use crate::groups::Groups;
use crate::light::Light;
use crate::locks::Locks;
use crate::long_polling::{PollTimeouts, SuspendedPull};
use crate::metadata_writer::{Change, MetadataWriter};
use crate::offsets::Offsets;
use crate::pop::{self, Pops};
use crate::position_writer::wait_flushed;
use crate::refused::Refused;
use crate::register::RegistrationAcks;
use crate::retention::Retention;
use crate::schedule::Schedule;
use crate::stats::Stats;
use crate::supervisor::{SupervisedWork, Supervisor};
use crate::topics::{Queue, Topic, Topics};
use crate::transaction::Transactions;
use crate::{Refusal, names, pull, timer};

/// Milliseconds of a month of 31 days: the creation time in unique keys counts modulo this.
const MONTH_MS: u128 = 31 * 24 * 3_600_000;

/// A queue whose first message lies within this many bytes of the log's end counts as "in memory", so that a new group begins at
/// offset 0. Java takes 40 % of the machine's memory; a fixed size makes the result depend less on the machine.
const YOUNG_LOG_BYTES: u64 = 8 << 30;

/// Most groups with conflicting subscriptions that the runtime table names.
const CONFLICTS_NAMED: usize = 50;

/// The state that all handlers of a broker share.
pub struct Broker {
    pub(crate) config: Live,
    /// Held while a request changes settings (25).
    pub(crate) settings_changing: Mutex<()>,
    pub(crate) store: Arc<Store>,
    pub(crate) topics: Topics,
    pub(crate) groups: Groups,
    pub(crate) clients: Clients,
    pub(crate) offsets: Offsets,
    pub(crate) locks: Locks,
    pub(crate) schedule: Schedule,
    pub(crate) timer: timer::Shared,
    pub(crate) poll_timeouts: PollTimeouts,
    pub(crate) disk_pool: DiskPool,
    pub(crate) metadata_writer: MetadataWriter,
    pub(crate) registration_acks: RegistrationAcks,
    pub(crate) light: Light,
    pub(crate) transactions: Transactions,
    pub(crate) retention: Retention,
    pub(crate) client_calls: ClientCalls,
    pub(crate) pops: Pops,
    pub(crate) modes: Modes,
    pub(crate) routes: Routes,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) refused: Refused,
    /// Address that is written into records as the store host and is part of message ids.
    pub(crate) store_host: SocketAddr,
    /// Properties that every sent message gets: region, trace switch, cluster.
    pub(crate) sent_properties: Vec<u8>,
    pub(crate) stats: Stats,
    /// True while the broker stops: clients newer than 5.3.1 are told to go elsewhere (`GO_AWAY`).
    pub(crate) draining: AtomicBool,
    /// True with `SYNC_FLUSH`: an answer that says "stored" waits for the flush.
    flushes_first: AtomicBool,
    unique_keys: UniqKeys,
    unique_counter: AtomicU32,
    spread_counter: AtomicU32,
    me: std::sync::Weak<Broker>,
}

/// Why the broker could not store a message that it made itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PutError {
    #[error(transparent)]
    Push(#[from] PushError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Topic(#[from] Refusal),
}

/// The parts of a broker's state that are loaded from files before it starts.
pub(crate) struct Loaded {
    pub config: Config,
    pub store: Arc<Store>,
    pub topics: Topics,
    pub groups: Groups,
    pub offsets: Offsets,
    pub schedule: Schedule,
    pub modes: Modes,
    pub disk_pool: DiskPool,
}

impl Broker {
    pub(crate) fn new(loaded: Loaded, ip: IpAddr, port: u16) -> Arc<Self> {
        let Loaded { config, store, topics, groups, offsets, schedule, modes, disk_pool } = loaded;
        let mut sent_properties = Vec::new();
        properties::append(&mut sent_properties, key::MSG_REGION, config.region_id.as_bytes());
        let trace: &[u8] = if config.trace_on { b"true" } else { b"false" };
        properties::append(&mut sent_properties, key::TRACE_SWITCH, trace);
        properties::append(&mut sent_properties, key::CLUSTER, config.broker_cluster_name.as_bytes());
        let process_id = std::process::id() as u16;
        Arc::new_cyclic(|me| Self {
            store_host: SocketAddr::new(ip, port),
            sent_properties,
            clients: Clients::default(),
            locks: Locks::default(),
            timer: timer::Shared::default(),
            poll_timeouts: PollTimeouts::default(),
            metadata_writer: MetadataWriter::default(),
            registration_acks: RegistrationAcks::default(),
            retention: Retention::default(),
            client_calls: ClientCalls::default(),
            supervisor: Arc::default(),
            refused: Refused::default(),
            light: Light::of(&store),
            pops: Pops::new(&config.broker_cluster_name),
            draining: AtomicBool::new(false),
            flushes_first: AtomicBool::new(config.store.flush == FlushMode::Sync),
            transactions: Transactions::default(),
            routes: Routes::default(),
            stats: Stats::default(),
            unique_keys: UniqKeys::new(ip, process_id, 0x0766_6f73),
            unique_counter: AtomicU32::new(0),
            spread_counter: AtomicU32::new(0),
            me: me.clone(),
            config: Live::new(config),
            settings_changing: Mutex::default(),
            store,
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

    /// The wall clock, milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.config.broker_permission & PERM_WRITE != 0
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.config.broker_permission & PERM_READ != 0
    }

    /// `flushDiskType` as it is now.
    pub(crate) fn flush_mode(&self) -> FlushMode {
        if self.flushes_before_answer() { FlushMode::Sync } else { FlushMode::Async }
    }

    /// Changes `flushDiskType` and calls `done` once the change has taken effect; sends go on meanwhile. For `SYNC_FLUSH`
    /// everything appended so far is flushed first: from then on consumers see only what is on disk, and a message that a
    /// consumer has read must not become invisible.
    pub(crate) fn set_flush_mode(self: &Arc<Self>, mode: FlushMode, done: impl FnOnce() + Send + 'static) {
        let broker = self.clone();
        let switch = move || {
            broker.flushes_first.store(mode == FlushMode::Sync, Ordering::Relaxed);
            tracing::info!(?mode, "flushDiskType was changed");
            done();
        };
        match mode {
            FlushMode::Async => switch(),
            FlushMode::Sync => self.store.when_flushed(self.store.appended(), Box::new(|_| switch())),
        }
    }

    /// True when the answer to a send that waits for storing leaves only after the flush.
    pub(crate) fn flushes_before_answer(&self) -> bool {
        self.flushes_first.load(Ordering::Relaxed)
    }

    /// A queue id below `count`, taken in turn.
    pub(crate) fn spread(&self, count: i32) -> i32 {
        let next = self.spread_counter.fetch_add(1, Ordering::Relaxed);
        let count = u32::try_from(count).unwrap_or(0).max(1);
        (next % count) as i32
    }

    /// Appends to `out` a unique key for a message whose producer set none.
    pub(crate) fn unique_key(&self, out: &mut Vec<u8>) {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let month_ms = (elapsed.as_millis() % MONTH_MS) as u32;
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

    /// `SCHEDULE_TOPIC_XXXX`, in which delayed messages wait; refused when the thread that delivers them has stopped.
    pub(crate) fn schedule_topic(&self) -> Result<Arc<Topic>, Refusal> {
        self.supervisor.demand(SupervisedWork::Delay)?;
        self.find_or_ensure(names::SCHEDULE_TOPIC, self.delay_levels())
    }

    /// `rmq_sys_wheel_timer`, in which timed messages wait; refused when the thread that delivers them has stopped.
    pub(crate) fn timer_topic(&self) -> Result<Arc<Topic>, Refusal> {
        self.supervisor.demand(SupervisedWork::Timer)?;
        self.find_or_ensure(names::TIMER_TOPIC, 1)
    }

    /// The retry topic of a group, created on first use.
    pub(crate) fn retry_topic(&self, group: &str, queues: i32) -> Result<Arc<Topic>, Refusal> {
        self.find_or_ensure(&names::retry_topic(group), queues)
    }

    /// The configuration of a group's retry topic; `None` when the topic exists.
    pub(crate) fn retry_topic_missing(&self, group: &str, queues: i32) -> Option<TopicConfig> {
        let name = names::retry_topic(group);
        let missing = self.topics.find(&name).is_none();
        missing.then(|| TopicConfig::new(name, queues, PERM_READ | PERM_WRITE))
    }

    /// The dead letter topic of a group, created on first use.
    pub(crate) fn dead_letter_topic(&self, group: &str) -> Result<Arc<Topic>, Refusal> {
        self.find_or_ensure(&names::dlq_topic(group), 1)
    }

    fn find_or_ensure(&self, name: &str, queues: i32) -> Result<Arc<Topic>, Refusal> {
        let missing = || Change::ensure_topic(TopicConfig::new(name, queues, PERM_READ | PERM_WRITE));
        self.topics.find(name).ok_or_else(|| Refusal::after(missing()))
    }

    /// A queue of an existing topic; `None` when topic or queue does not exist.
    pub(crate) fn log_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        self.topic(topic)?.queue(&self.store, queue_id).cloned()
    }

    /// Whether a new group begins at offset 0 of a queue: the queue has no message yet, or its first message was stored not long
    /// ago (`DefaultMessageStore.checkInMemByConsumeOffset`).
    pub(crate) fn is_young(&self, topic: &str, queue_id: i32) -> bool {
        self.log_queue(topic, queue_id).is_none_or(|queue| self.begins_within(&queue, YOUNG_LOG_BYTES))
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

    /// The address that clients are told to use: `brokerIP1` as it is set, and the port.
    pub(crate) fn address(&self) -> String {
        let (host, port) = (&self.config.broker_ip1, self.store_host.port());
        match host.parse() {
            Ok(ip) => SocketAddr::new(ip, port).to_string(),
            Err(_) => format!("{host}:{port}"),
        }
    }

    /// `RMQ_SYS_TRANS_HALF_TOPIC`, in which undecided transaction messages wait.
    pub(crate) fn half_topic(&self) -> Result<Arc<Topic>, Refusal> {
        self.find_or_ensure(names::HALF_TOPIC, 1)
    }

    /// Stores a message that the broker made itself and wakes the consumers that wait for it.
    pub(crate) fn put(
        &self,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
    ) -> Result<store::Placed, PutError> {
        let now_ms = self.now_ms();
        let queue = self.put_queue(topic, queue_id, now_ms)?;
        let mut batch: Batch = self.store.batch();
        batch.push(&queue.index, message)?;
        self.store.append(&mut batch, now_ms)?;
        let mut queues = self.further_queues(&batch);
        queues.push(queue);
        self.grown(batch.end(), queues);
        Ok(batch.placed(0))
    }

    /// The queue that a message made by the broker goes to: `queue_id`, or the topic's first queue when there is no such queue.
    pub(crate) fn put_queue(&self, topic: &str, queue_id: i32, now_ms: i64) -> Result<Arc<Queue>, PutError> {
        if let Some(queue) = self.log_queue(topic, queue_id) {
            return Ok(queue);
        }
        let found = self.topics.ensure(topic, queue_id.max(0) + 1, now_ms)?;
        let queue = found.queue(&self.store, queue_id).or_else(|| found.queue(&self.store, 0));
        let missing = || Refusal::error(format!("topic[{topic}] has no queue {queue_id}"));
        Ok(queue.cloned().ok_or_else(missing)?)
    }

    /// Wakes the consumers that wait at queues that grew by an append that ended at `end`, as soon as they may see the messages.
    pub(crate) fn grown(&self, end: LogOffset, mut queues: Vec<Arc<Queue>>) {
        for queue in &mut queues {
            // For a deleted topic the queue is one that nobody waits at; the topic may exist again with other queues.
            if let Some(known) = self.log_queue(queue.index.topic(), queue.index.queue_id()) {
                *queue = known;
            }
        }
        if self.flushes_before_answer() {
            self.handle().wake_when_flushed(end, queues);
        } else {
            queues.iter().for_each(|queue| self.wake(queue));
        }
    }

    /// Runs the suspended pulls and the waiting pops of a queue that grew, and wakes the threads that follow the queue.
    pub(crate) fn wake(&self, queue: &Arc<Queue>) {
        if queue.delayed {
            self.schedule.wake();
        }
        if queue.timed {
            self.timer.wake();
        }
        if queue.revives {
            self.pops.wake_reviver();
        }
        // In this order: `is_waited_on` has the memory fence that both checks need.
        let is_pulled = queue.suspended.is_waited_on();
        if queue.waiters.has_count() {
            pop::arrived(&self.handle(), queue);
        }
        if !is_pulled {
            return;
        }
        let broker = self.handle();
        for held in queue.suspended.take() {
            broker.hand_over(held);
        }
    }

    /// Runs a pull that was taken out of its list on the thread of its own connection. The caller, a producer's thread or the
    /// thread that answers flushed sends, must not read the log for every group that waits.
    fn hand_over(self: &Arc<Self>, held: SuspendedPull) {
        let (broker, peer) = (self.clone(), held.peer.clone());
        let (deadline_ms, id) = (held.deadline_ms, held.id);
        let run = move |_: &Arc<ConnectionHandle>, out: &mut Vec<u8>| broker.run_held(held, out);
        if peer.put_back(Box::new(run)).is_err() {
            self.poll_timeouts.forget(deadline_ms, id);
        }
    }

    /// Runs a pull that was taken out of its list; puts the pull back when no message matched.
    fn run_held(self: &Arc<Self>, mut held: SuspendedPull, out: &mut Vec<u8>) {
        let (deadline_ms, id) = (held.deadline_ms, held.id);
        let queue = held.pull.queue.clone();
        loop {
            // The long polling timeout may have fired while the pull was out of its list, and it fires once only.
            let expired = deadline_ms <= self.now_ms();
            let Some(waiting) = pull::resume(self, held, expired, out) else { break };
            let examined = waiting.pull.offset;
            queue.suspended.add(waiting);
            if self.visible_end(&queue) <= examined && deadline_ms > self.now_ms() {
                return;
            }
            match queue.suspended.take_one(id) {
                Some(again) => held = again,
                None => return,
            }
        }
        self.poll_timeouts.forget(deadline_ms, id);
    }

    /// Tells the consumers of changed groups to rebalance (`notifyConsumerIdsChangedEnable`).
    pub(crate) fn announce(&self, changes: &[clients::Change]) {
        if self.config.notify_consumer_ids_changed_enable {
            clients::notify(&self.groups, changes);
        }
    }

    /// Answers the suspended pulls whose long polling timeout has passed.
    pub(crate) fn answer_expired(self: &Arc<Self>) {
        for held in self.poll_timeouts.expired(self.now_ms()) {
            self.hand_over(held);
        }
    }

    /// Writes to their files the positions that changed: of transactions, pops and consumer groups.
    pub(crate) fn save(&self) {
        let now_ms = self.now_ms();
        // The flushed end is taken before the positions: what is on disk by then covers every copy that was delivered before.
        self.transactions.note(self, self.store.flushed());
        self.pops.save(self);
        // The end of the log is read after the offsets were taken, so that everything the offsets speak of lies before it.
        let settled = || wait_flushed(&self.store, self.store.appended());
        if let Err(error) = self.offsets.save(now_ms, settled) {
            tracing::error!(%error, "a configuration file could not be written; it is tried again");
        }
    }

    /// How many seconds the timer is behind, how many messages it has not added to the wheel, how many messages are in the wheel.
    pub(crate) fn timer_progress(&self, now_ms: i64) -> (i64, i64, i64) {
        let read_ms = self.timer.read_ms.load(Ordering::Relaxed);
        let end = self.store.find_queue(names::TIMER_TOPIC, 0).map_or(0, |queue| queue.max().to_i64());
        (
            if read_ms > 0 { (now_ms - read_ms).max(0) / 1000 } else { 0 },
            (end - self.timer.queue_offset.load(Ordering::Relaxed)).max(0),
            self.timer.pending.load(Ordering::Relaxed),
        )
    }

    /// Names of the broker's and the store's threads and tasks that ended before they were told to.
    fn stopped_threads(&self) -> String {
        let mut names = self.supervisor.names();
        names.extend(self.store.stopped_threads().into_iter().map(str::to_owned));
        names.join(",")
    }

    /// The broker's own lines of the runtime table.
    pub(crate) fn status(&self) -> BTreeMap<&'static str, String> {
        let (flushes, progress) = (self.store.flushes(), self.store.progress());
        let conflicts = self.clients.conflicts();
        let named = conflicts.iter().take(CONFLICTS_NAMED).map(String::as_str).collect::<Vec<_>>().join(",");
        let mut status = BTreeMap::from([
            ("vostokVersion", env!("CARGO_PKG_VERSION").to_owned()),
            ("subscriptionConflictGroups", conflicts.len().to_string()),
            ("subscriptionConflicts", named),
            ("appended", self.store.appended().to_string()),
            ("flushed", self.store.flushed().to_string()),
            ("flushes", flushes.count.to_string()),
            ("flushWaitersAnswered", flushes.answered.to_string()),
            ("uncheckedQueues", progress.unchecked_queues.to_string()),
            ("lostQueues", progress.lost_queues.to_string()),
            ("rebuildLeftBytes", progress.rebuild_end.saturating_sub(progress.rebuild_at).to_string()),
            ("damagedMessages", self.store.damaged().to_string()),
            ("timerReadMs", self.timer.read_ms.load(Ordering::Relaxed).to_string()),
            ("timerQueueOffset", self.timer.queue_offset.load(Ordering::Relaxed).to_string()),
            ("timerPending", self.timer.pending.load(Ordering::Relaxed).to_string()),
            ("topics", self.topics.all().len().to_string()),
            ("stoppedThreads", self.stopped_threads()),
        ]);
        status.extend(self.refused.status());
        status
    }
}
