//! Topics: their configuration, their queues, and the file `topics.json`.

pub(crate) mod attributes;
mod change;
mod send_counts;

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use store::Store;
use tokio::sync::watch;
use wire::body::Extra;
use wire::body::queue::DataVersion;
use wire::body::topic::{PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig};
use wire::codes::response;

use crate::change::Change;
use crate::change_log::ChangeLog;
use crate::long_polling::{SuspendedPulls, Waiters};
use crate::ordered_table::OrderedTable;
use crate::persist::{self, ConfigFile};
use crate::{FAQ, Refusal, Result, names};
pub(crate) use send_counts::{MessageKind, SIZE_BOUNDS, SendCounts, SentOfKind};

/// Most queues of a topic; a larger number is refused as a mistake.
pub const QUEUES_MAX: i32 = 65_535;

/// Queue of a topic: its index, and the suspended pulls and pops that wait for its next message.
pub struct Queue {
    /// The queue's index and offsets in the store.
    pub index: Arc<store::Queue>,
    /// Suspended pulls, which wait for a message of the queue.
    pub suspended: SuspendedPulls,
    /// Suspended pops, which wait for a message of the topic.
    pub(crate) waiters: Arc<Waiters>,
    /// Whether the queue holds delayed messages. An append wakes their delivery.
    pub delayed: bool,
    /// Whether the queue is the timer queue. An append wakes the timer thread.
    pub timed: bool,
    /// Whether the queue belongs to the revive topic. An append wakes the revive thread.
    pub revives: bool,
    /// Whether the value stands for the queue of a lite topic, and is in no topic. An append gives clients an event.
    pub lite: bool,
    /// Counts of producers' messages in the queue, for statistics.
    pub(crate) sent: SendCounts,
}

impl Queue {
    /// Makes a value for the queue of a lite topic.
    pub(crate) fn lite(index: Arc<store::Queue>) -> Self {
        Self {
            index,
            suspended: SuspendedPulls::default(),
            waiters: Arc::default(),
            delayed: false,
            timed: false,
            revives: false,
            lite: true,
            sent: SendCounts::default(),
        }
    }

    /// Whether suspended requests or the broker's own threads may wait for an append to the queue. The caller has published the
    /// new end.
    pub(crate) fn is_waited_on(&self) -> bool {
        // The order matters: the first check executes the fence that the checks of pulls and of pops both need.
        self.suspended.is_waited_on()
            || self.waiters.has_count()
            || self.delayed
            || self.timed
            || self.revives
            || self.lite
    }
}

/// A queue and a direct pointer to its index, so that both can be prefetched at once.
struct QueueSlot {
    queue: Arc<Queue>,
    index: Arc<store::Queue>,
}

/// Topic with its present configuration. A change makes a new value, which shares the queues with the old value.
pub struct Topic {
    /// Configuration of the topic.
    pub config: TopicConfig,
    /// Whether the topic is a system topic to which clients may not send.
    pub forbidden: bool,
    /// Whether only the newest message of each key is kept (`cleanup.policy=COMPACTION`), so that every message needs
    /// a key.
    pub compacts: bool,
    /// Whether a batch sent to the topic is stored as one record of many messages (`queue.type=BatchCQ`).
    pub batched: bool,
    /// Whether the queues stand for priorities, of which pops take the highest first (`message.type=PRIORITY`).
    pub prioritized: bool,
    /// Suspended pops of the topic; shared by all values of the topic.
    pub(crate) waiters: Arc<Waiters>,
    /// Result that the front of the process derived from the configuration.
    pub(crate) front: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// Number of queue ids that exist now or existed with a configuration of more queues.
    count: usize,
    /// Slot for each queue id. Allocated at the first use of a queue, because most of a million topics are never
    /// used.
    queues: OnceLock<Box<[OnceLock<QueueSlot>]>>,
    /// Used queues by queue id, shared by all values of the topic.
    used: Arc<Mutex<BTreeMap<usize, Arc<Queue>>>>,
}

impl Topic {
    pub(crate) fn new(config: TopicConfig, previous: Option<&Topic>) -> Self {
        let count = config.read_queue_nums.max(config.write_queue_nums).clamp(0, QUEUES_MAX) as usize;
        let used = previous.map(|topic| topic.used.clone()).unwrap_or_default();
        let count = count.max(previous.map_or(0, |topic| topic.count));
        let queues = OnceLock::new();
        let forbidden = names::is_forbidden_to_send(&config.topic_name);
        let says = |name, value| config.attributes.get(name).is_some_and(|it| it == value);
        let compacts = says(attributes::CLEANUP_POLICY, "COMPACTION");
        let batched = says(attributes::QUEUE_TYPE, attributes::BATCHED);
        let prioritized = says(attributes::MESSAGE_TYPE, attributes::PRIORITY);
        let waiters = previous.map(|topic| topic.waiters.clone()).unwrap_or_default();
        let front = OnceLock::new();
        Self { config, forbidden, compacts, batched, prioritized, waiters, front, count, queues, used }
    }

    /// Name of the topic.
    pub fn name(&self) -> &str {
        &self.config.topic_name
    }

    /// Number of queue ids that exist now or existed with a configuration of more queues.
    pub fn queue_count(&self) -> i32 {
        self.count as i32
    }

    /// A queue, opened on first use. `None` when the topic has no such queue, or the store refuses its name.
    pub fn queue(&self, store: &Store, queue_id: i32) -> Option<&Arc<Queue>> {
        let index = usize::try_from(queue_id).ok()?;
        if index >= self.count {
            return None;
        }
        let slot =
            self.queues.get_or_init(|| (0..self.count).map(|_| OnceLock::new()).collect()).get(index)?;
        if let Some(place) = slot.get() {
            return Some(&place.queue);
        }
        // Opened at most once, also when two values of the topic are in use.
        let queue = match self.used.lock().entry(index) {
            Entry::Occupied(used) => used.get().clone(),
            Entry::Vacant(free) => free.insert(self.open(store, queue_id)?).clone(),
        };
        Some(&slot.get_or_init(|| QueueSlot { index: queue.index.clone(), queue }).queue)
    }

    /// Opens a queue that was not used before.
    fn open(&self, store: &Store, queue_id: i32) -> Option<Arc<Queue>> {
        if self.batched {
            store.add_batched_topic(self.name());
        }
        let refused = |error: &_| tracing::warn!(topic = self.name(), queue_id, %error, "a queue is refused");
        let index = store.queue(self.name(), queue_id).inspect_err(refused).ok()?;
        let delayed = self.name() == names::SCHEDULE_TOPIC;
        let timed = self.name() == names::TIMER_TOPIC;
        let revives = self.name().starts_with(names::REVIVE_PREFIX);
        let waiters = self.waiters.clone();
        let (suspended, sent) = (SuspendedPulls::default(), SendCounts::default());
        Some(Arc::new(Queue { index, suspended, waiters, delayed, timed, revives, lite: false, sent }))
    }

    /// Prefetches a queue's data into the processor cache, because a message for it comes soon.
    pub(crate) fn prefetch(&self, queue_id: i32) {
        let slots = self.queues.get();
        let slot = slots.and_then(|slots| slots.get(usize::try_from(queue_id).unwrap_or(usize::MAX)));
        if let Some(QueueSlot { queue, index }) = slot.and_then(OnceLock::get) {
            store::prefetch(queue);
            store::prefetch(index);
        }
    }

    /// Returns the used queues by queue id.
    pub(crate) fn opened(&self) -> Vec<(usize, Arc<Queue>)> {
        self.used.lock().iter().map(|(queue_id, queue)| (*queue_id, queue.clone())).collect()
    }

    /// Calls `each` with the used queues. The topic's queues are locked meanwhile.
    pub(crate) fn each_opened(&self, each: impl FnMut(&Arc<Queue>)) {
        self.used.lock().values().for_each(each);
    }

    /// Whether a request holds the topic or waits at one of its queues. `topic` is the value in the table.
    pub(crate) fn is_in_use(topic: &Arc<Self>) -> bool {
        // An unused queue is held twice: by its slot, and by the table of used queues.
        Arc::strong_count(topic) > 1 || topic.used.lock().values().any(|queue| Arc::strong_count(queue) > 2)
    }

    /// Whether the topic has read permission.
    pub fn is_readable(&self) -> bool {
        self.config.perm & PERM_READ != 0
    }

    /// Whether the topic has write permission.
    pub fn is_writable(&self) -> bool {
        self.config.perm & PERM_WRITE != 0
    }
}

/// Most topics that are read under one lock of the table.
const PART: usize = if cfg!(test) { 2 } else { 4096 };

struct Book {
    version: DataVersion,
    generation: u64,
    /// The last changes, for incremental registration.
    changes: ChangeLog,
}

/// The table of topics. Every change is on disk before it is visible.
pub struct Topics {
    file: ConfigFile,
    /// Whether the table was read from `topics.json`, from its copy, or from neither.
    source: persist::Source,
    table: RwLock<OrderedTable<Arc<Topic>>>,
    /// Locked while the file is written, so that its content follows the order of changes. Contains the members of the file that
    /// this version does not know. Locked before `book`, which is locked before `table`.
    writing: Mutex<Extra>,
    book: Mutex<Book>,
    /// Generation of the table, which grows with every change, so that a cached topic can be checked without the table's lock.
    generation: AtomicU64,
    /// The generation for tasks that wait for changes.
    changed: watch::Sender<u64>,
}

/// The parameters of a topic that is created when a producer sends to an unknown topic.
pub struct Template<'a> {
    /// The topic whose settings the new topic inherits (`TBW102`).
    pub default_topic: &'a str,
    /// Number of queues the producer asks for.
    pub queue_nums: i32,
}

/// The refusal of a request about a topic that does not exist.
pub(crate) fn not_exist(name: &str) -> Refusal {
    Refusal::new(response::TOPIC_NOT_EXIST, format!("topic[{name}] not exist"))
}

impl Topics {
    /// Loads `topics.json`; starts empty when there is no such file.
    pub fn load(file: ConfigFile) -> Result<Self, persist::Error> {
        let (table, source) = file.read_from()?;
        let (version, configs, extra) = change::split(table.unwrap_or_default());
        let topic = |(name, config): (String, TopicConfig)| {
            // The key of an entry is the topic's name, whatever name its value contains.
            let config = TopicConfig { topic_name: name.clone(), ..config };
            (name, Arc::new(Topic::new(config, None)))
        };
        Ok(Self {
            file,
            source,
            table: RwLock::new(configs.into_iter().map(topic).collect()),
            writing: Mutex::new(extra),
            book: Mutex::new(Book { version, generation: 1, changes: ChangeLog::default() }),
            generation: AtomicU64::new(1),
            changed: watch::Sender::new(1),
        })
    }

    /// Finds a topic by name.
    pub fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.table.read().get(name).cloned()
    }

    /// Names of the topics with queues of batches (`queue.type=BatchCQ`), for the store.
    pub(crate) fn batched(&self) -> Vec<String> {
        self.all().filter(|topic| topic.batched).map(|topic| topic.name().to_owned()).collect()
    }

    /// Whether the table was read from `topics.json`, from its copy, or from neither.
    pub(crate) fn source(&self) -> persist::Source {
        self.source
    }

    /// The generation of the table: a number that grows with every change.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns a receiver that has the generation of the table and is notified of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns all topics, sorted by name. The table is locked for a part of them at a time. With a million topics, a
    /// whole copy would block all requests behind the first request that creates a topic.
    pub fn all(&self) -> impl Iterator<Item = Arc<Topic>> {
        let part = |name: &str| Some(self.after(name, PART)).filter(|part| !part.is_empty());
        std::iter::successors(part(""), move |last| part(last.last()?.name())).flatten()
    }

    /// Returns at most `count` topics whose names are greater than `name`, sorted by name.
    fn after(&self, name: &str, count: usize) -> Vec<Arc<Topic>> {
        self.table.read().after(name).take(count).map(|(_, topic)| topic.clone()).collect()
    }

    /// Calls `each` with the names greater than `name` that contain `text`, in order. Stops when `each` returns false
    /// or `count` names were examined. Returns the last examined name if there were `count` names. The table is
    /// locked meanwhile.
    pub(crate) fn search(
        &self,
        name: &str,
        text: &str,
        count: usize,
        each: impl FnMut(&str) -> bool,
    ) -> Option<String> {
        self.table.read().search(name, text, count, each).map(str::to_owned)
    }

    /// The number of topics.
    pub(crate) fn count(&self) -> usize {
        self.table.read().len()
    }

    /// The version of the table (`DataVersion`).
    pub fn version(&self) -> DataVersion {
        self.book.lock().version
    }

    /// The version of the table and all topics, sorted by name, as registered with name servers.
    pub fn snapshot(&self) -> (DataVersion, Vec<Arc<Topic>>) {
        let book = self.book.lock();
        (book.version, self.all().collect())
    }

    /// Returns the version of the table, and at most `count` of its topics whose names are greater than `name`,
    /// sorted by name.
    pub(crate) fn snapshot_after(&self, name: &str, count: usize) -> (DataVersion, Vec<Arc<Topic>>) {
        let book = self.book.lock();
        (book.version, self.after(name, count))
    }

    /// The version of the table, and at most `count` of its topics from the index `first` on, sorted by name.
    pub(crate) fn snapshot_page(&self, first: usize, count: usize) -> (DataVersion, Vec<Arc<Topic>>) {
        let book = self.book.lock();
        let topics =
            self.table.read().iter().skip(first).take(count).map(|(_, topic)| topic.clone()).collect();
        (book.version, topics)
    }

    /// Returns the version of the table, and the topics that changed after `generation`. Returns `None` if
    /// the list of changes does not reach back that far.
    pub fn changed_after(&self, generation: u64) -> Option<(DataVersion, Vec<Arc<Topic>>)> {
        let book = self.book.lock();
        let names = book.changes.after(generation, book.generation)?;
        Some((book.version, names.iter().filter_map(|name| self.find(name)).collect()))
    }

    /// Returns the version of the table, and the sorted names of the topics that changed or were removed after
    /// `generation`. Returns `None` instead of names if the list of changes does not reach back that far.
    pub(crate) fn changed_since(&self, generation: u64) -> (DataVersion, Option<Vec<String>>) {
        let book = self.book.lock();
        (book.version, book.changes.after(generation, book.generation))
    }

    /// Gives the table a new version, so that it is registered as a whole with all name servers again.
    /// `state_version` is the epoch of a broker that became master. Name servers prefer the broker with the larger
    /// state version.
    pub(crate) fn renew(&self, state_version: Option<i64>, now_ms: i64) {
        let mut book = self.book.lock();
        let state_version = state_version.unwrap_or(book.version.state_version);
        book.version.advance(state_version, now_ms);
        book.changes.clear();
        book.generation += 1;
        self.show(book.generation);
    }

    fn show(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
        self.changed.send_replace(generation);
    }

    /// The topic of a send. An unknown topic is created from the template when that allows it; the send then waits until the
    /// topic is stored (`TopicConfigManager.createTopicInSendMessageMethod`).
    pub(crate) fn find_or_create(&self, name: &str, template: &Template<'_>) -> Result<Arc<Topic>> {
        if let Some(topic) = self.find(name) {
            return Ok(topic);
        }
        names::check_topic(name)?;
        let unknown = || {
            let remark = format!("topic[{name}] not exist, apply first please!{FAQ}");
            Refusal::new(response::TOPIC_NOT_EXIST, remark)
        };
        if names::is_forbidden_to_send(name) {
            let remark = format!("Sending message to topic[{name}] is forbidden.");
            return Err(Refusal::new(response::NO_PERMISSION, remark));
        }
        let (queues, perm) = match self.find(template.default_topic) {
            Some(default) if default.config.perm & PERM_INHERIT != 0 => {
                let queues = template.queue_nums.min(default.config.write_queue_nums).max(0);
                (queues, default.config.perm & !PERM_INHERIT)
            }
            _ if name.starts_with(names::RETRY_PREFIX) => (1, PERM_READ | PERM_WRITE),
            _ => return Err(unknown()),
        };
        Err(Refusal::after(Change::ensure_topic(TopicConfig::new(name, queues, perm))))
    }
}

impl From<persist::Error> for Refusal {
    fn from(error: persist::Error) -> Self {
        Self::error(format!("the configuration could not be stored: {error}"))
    }
}

#[cfg(test)]
mod tests;
