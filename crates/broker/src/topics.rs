//! Topics: their configuration, their queues, and the file they are kept in.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use store::Store;
use tokio::sync::watch;
use wire::body::queue::DataVersion;
use wire::body::topic::{PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig, TopicTable};
use wire::codes::response;
use wire::json;

use crate::held::Held;
use crate::persist;
use crate::{FAQ, Refusal, names};

/// Queues a topic may have; more is refused as a mistake.
pub const QUEUES_MAX: i32 = 65_535;

/// One queue of a topic: its index in the log and the pulls that wait for its next message.
pub struct Queue {
    /// Index and offsets.
    pub log: Arc<store::Queue>,
    /// Pulls held until a message arrives.
    pub held: Held,
    /// True for the queues of delayed messages, whose next delivery may change with an append.
    pub delayed: bool,
}

/// A topic as configured now. A change makes a new value; queues are shared between the old and the new.
pub struct Topic {
    /// Configuration.
    pub config: TopicConfig,
    /// True for system topics clients may not write.
    pub forbidden: bool,
    queues: Vec<Arc<OnceLock<Arc<Queue>>>>,
}

impl Topic {
    fn new(config: TopicConfig, previous: Option<&Topic>) -> Self {
        let count = config.read_queue_nums.max(config.write_queue_nums).clamp(0, QUEUES_MAX) as usize;
        let mut queues = previous.map(|topic| topic.queues.clone()).unwrap_or_default();
        queues.resize_with(queues.len().max(count), Arc::default);
        let forbidden = names::is_forbidden_to_send(&config.topic_name);
        Self { config, forbidden, queues }
    }

    /// Name of the topic.
    pub fn name(&self) -> &str {
        &self.config.topic_name
    }

    /// Queue ids that exist now or existed with a wider configuration.
    pub fn queue_count(&self) -> i32 {
        self.queues.len() as i32
    }

    /// A queue, made on first use; `None` outside of the topic's queues or when the store cannot name it.
    pub fn queue(&self, store: &Store, queue_id: i32) -> Option<&Arc<Queue>> {
        let slot = self.queues.get(usize::try_from(queue_id).ok()?)?;
        if let Some(queue) = slot.get() {
            return Some(queue);
        }
        let log = store.queue(self.name(), queue_id).ok()?;
        let delayed = self.name() == names::SCHEDULE_TOPIC;
        Some(slot.get_or_init(|| Arc::new(Queue { log, held: Held::default(), delayed })))
    }

    /// May messages be read?
    pub fn is_readable(&self) -> bool {
        self.config.perm & PERM_READ != 0
    }

    /// May messages be written?
    pub fn is_writable(&self) -> bool {
        self.config.perm & PERM_WRITE != 0
    }
}

/// Changes remembered for incremental registration; a name server further behind gets the whole table.
const CHANGES_KEPT: usize = 4096;

struct Book {
    version: DataVersion,
    extra: TopicTable,
    /// The last changes: the generation each led to and the topic's name.
    changes: VecDeque<(u64, String)>,
}

/// The table of topics. Every change is on disk before it is visible.
pub struct Topics {
    path: PathBuf,
    table: RwLock<HashMap<String, Arc<Topic>>>,
    /// Serialises changes; held while the file is written, so that its content follows the order of changes.
    book: Mutex<Book>,
    /// Grows with every change, so that a cached topic can be checked without the table's lock.
    generation: AtomicU64,
    /// The generation again, for those who wait for changes.
    changed: watch::Sender<u64>,
}

/// What a new topic is made from when a producer sends to an unknown one.
pub struct Template<'a> {
    /// Topic whose settings are inherited (`TBW102`).
    pub default_topic: &'a str,
    /// Queues the producer asks for.
    pub queue_nums: i32,
}

impl Topics {
    /// Loads `topics.json` from `path`, or starts empty.
    pub fn load(path: PathBuf) -> Result<Self, persist::Error> {
        let mut file: TopicTable = persist::read(&path)?.unwrap_or_default();
        let configs = std::mem::take(&mut file.topic_config_table);
        let topic = |(name, config)| (name, Arc::new(Topic::new(config, None)));
        let table = configs.into_iter().map(topic).collect();
        let version = file.data_version;
        Ok(Self {
            path,
            table: RwLock::new(table),
            book: Mutex::new(Book { version, extra: file, changes: VecDeque::new() }),
            generation: AtomicU64::new(1),
            changed: watch::Sender::new(1),
        })
    }

    /// A topic by name.
    pub fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Number that changes with every change of the table.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// All topics.
    pub fn all(&self) -> Vec<Arc<Topic>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Version of the table and the configuration of all topics, as registered with name servers.
    pub fn snapshot(&self) -> (DataVersion, BTreeMap<String, TopicConfig>) {
        let book = self.book();
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let configs = table.iter().map(|(name, topic)| (name.clone(), topic.config.clone())).collect();
        (book.version, configs)
    }

    /// The table's version and the topics changed after `generation`; `None` when that is too long ago to tell.
    pub fn changed_after(&self, generation: u64) -> Option<(DataVersion, BTreeMap<String, TopicConfig>)> {
        let book = self.book();
        let first = book.changes.front().map_or(u64::MAX, |(first, _)| *first);
        if generation != self.generation() && generation + 1 < first {
            return None;
        }
        let names = book.changes.iter().filter(|(changed, _)| *changed > generation);
        let config = |(_, name): &(u64, String)| Some((name.clone(), self.find(name)?.config.clone()));
        Some((book.version, names.filter_map(config).collect()))
    }

    /// A receiver of the generations to come.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Creates or changes a topic; nothing happens to the table when the file cannot be written.
    pub fn put(&self, config: TopicConfig, now_ms: i64) -> Result<Arc<Topic>, persist::Error> {
        let mut book = self.book();
        self.create(&mut book, config, now_ms)
    }

    /// Creates or changes several topics with one write of the file.
    pub fn put_all(&self, configs: Vec<TopicConfig>, now_ms: i64) -> Result<(), persist::Error> {
        let mut book = self.book();
        let mut version = book.version;
        version.advance(0, now_ms);
        let mut next = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        let names: Vec<String> = configs.iter().map(|config| config.topic_name.clone()).collect();
        for config in configs {
            let name = config.topic_name.clone();
            let topic = Arc::new(Topic::new(config, next.get(&name).map(Arc::as_ref)));
            next.insert(name, topic);
        }
        self.write(&book, &version, &next)?;
        self.publish(&mut book, version, next, names);
        Ok(())
    }

    fn create(
        &self,
        book: &mut Book,
        config: TopicConfig,
        now_ms: i64,
    ) -> Result<Arc<Topic>, persist::Error> {
        let mut version = book.version;
        version.advance(0, now_ms);
        let mut next = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        let name = config.topic_name.clone();
        let topic = Arc::new(Topic::new(config, next.get(&name).map(Arc::as_ref)));
        next.insert(name.clone(), topic.clone());
        self.write(book, &version, &next)?;
        self.publish(book, version, next, vec![name]);
        Ok(topic)
    }

    /// Removes a topic; true when it existed.
    pub fn remove(&self, name: &str, now_ms: i64) -> Result<bool, persist::Error> {
        let mut book = self.book();
        let mut next = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        if next.remove(name).is_none() {
            return Ok(false);
        }
        let mut version = book.version;
        version.advance(0, now_ms);
        self.write(&book, &version, &next)?;
        self.publish(&mut book, version, next, vec![name.to_owned()]);
        Ok(true)
    }

    fn write(
        &self,
        book: &Book,
        version: &DataVersion,
        table: &HashMap<String, Arc<Topic>>,
    ) -> Result<(), persist::Error> {
        let configs = table.iter().map(|(name, topic)| (name.clone(), topic.config.clone())).collect();
        let file = TopicTable {
            data_version: *version,
            topic_config_table: configs,
            extra: book.extra.extra.clone(),
        };
        persist::write(&self.path, &json::to_vec(&file))
    }

    fn publish(
        &self,
        book: &mut Book,
        version: DataVersion,
        next: HashMap<String, Arc<Topic>>,
        names: Vec<String>,
    ) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = next;
        book.version = version;
        let generation = self.generation.fetch_add(1, Ordering::Release) + 1;
        book.changes.extend(names.into_iter().map(|name| (generation, name)));
        let surplus = book.changes.len().saturating_sub(CHANGES_KEPT);
        book.changes.drain(..surplus);
        self.changed.send_replace(generation);
    }

    /// The topic, created with `queues` queues and `perm` when it does not exist.
    pub fn ensure(
        &self,
        name: &str,
        queues: i32,
        perm: i32,
        now_ms: i64,
    ) -> Result<Arc<Topic>, persist::Error> {
        if let Some(topic) = self.find(name) {
            return Ok(topic);
        }
        let mut book = self.book();
        match self.find(name) {
            Some(topic) => Ok(topic),
            None => self.create(&mut book, TopicConfig::new(name, queues, perm), now_ms),
        }
    }

    /// The topic a producer sends to, created from the template when the template allows it
    /// (`TopicConfigManager.createTopicInSendMessageMethod`).
    pub fn find_or_create(
        &self,
        name: &str,
        template: &Template<'_>,
        now_ms: i64,
    ) -> Result<Arc<Topic>, Refusal> {
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
        self.ensure(name, queues, perm, now_ms).map_err(Refusal::from)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<persist::Error> for Refusal {
    fn from(error: persist::Error) -> Self {
        Self::error(format!("the configuration could not be stored: {error}"))
    }
}

#[cfg(test)]
mod tests;
