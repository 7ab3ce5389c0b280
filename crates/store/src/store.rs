//! The store's public interface, and the state that its threads share.

use crate::append::Appender;
use crate::batch::{Batch, Message};
use crate::checkpoint::{Checkpoint, Interrupted, Rounds};
use crate::config::Config;
use crate::digest::{Damaged, Digests, Numbered};
use crate::disk::{Disk, Syncer};
use crate::error::{AppendError, OpenError, PushError, ReadError};
use crate::fence::Fence;
use crate::flush::{Flush, FlushOutcome, Flushes};
use crate::index::{Geometry, KeyIndex, KeyMatches, KeyQuery};
use crate::log::Log;
use crate::queue::batched::BATCH_UNIT_BYTES;
use crate::queue::files::{OpenFiles, Touched};
use crate::queue::journal::Journal;
use crate::queue::registry::Queues;
use crate::queue::{Queue, UNIT_BYTES, Unit};
use crate::read::{Boundary, Read};
use crate::read_ahead::Windows;
use crate::recover::{Healer, Progress, Recovered};
use crate::retention;
use crate::supervise::Need;
use crate::wake::{Wake, lock};
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use wire::units::{LogOffset, QueueOffset};

/// What the appender, the readers and the store's threads share.
///
/// Locks are taken in this order: checkpointing, journaling, appender, touched, page, a queue's tail, the lists of unwritten
/// and fresh queues; the key index's after the appender's. Watermarks: `flushed <= appended`; both only grow.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) disk: Arc<dyn Disk>,
    /// Makes the file system of the queue files durable (`syncfs`).
    pub(crate) sync_all: Syncer,
    pub(crate) log: Log,
    pub(crate) queues: Queues,
    pub(crate) appender: Mutex<Appender>,
    /// Log position up to which records are written and indexed.
    pub(crate) appended: AtomicU64,
    /// Log position up to which the log is durable.
    pub(crate) flushed: AtomicU64,
    pub(crate) fence: Fence,
    /// Names of threads that ended after a panic.
    pub(crate) stopped: Mutex<Vec<&'static str>>,
    pub(crate) flush: Flush,
    pub(crate) checkpoint: Wake,
    pub(crate) journal_wake: Wake,
    pub(crate) preallocation: Wake,
    /// Set by the flush and the checkpoint thread while they sleep with nothing to do. Paired with `appended`.
    pub(crate) flush_idle: AtomicBool,
    pub(crate) checkpoint_idle: AtomicBool,
    pub(crate) stopping: AtomicBool,
    pub(crate) flusher_stops: AtomicBool,
    /// Content of the `checkpoint` file.
    pub(crate) page: Mutex<Checkpoint>,
    /// State of the checkpoint rounds; locked during a checkpoint.
    pub(crate) checkpointing: Mutex<Rounds>,
    /// When the last finished checkpoint read the log's end.
    pub(crate) checkpointed_at: Mutex<Instant>,
    /// The unit journal: a durable copy of units that are not in the queue files yet.
    pub(crate) journaling: Mutex<Journal>,
    /// Queue files that must be synced before the next checkpoint.
    pub(crate) touched: Mutex<Touched>,
    /// Digests: checksums of what RocketMQ's checksum leaves out.
    pub(crate) digests: Digests,
    /// Log position below which bytes may have come from the disk. Only grows.
    pub(crate) from_disk: AtomicU64,
    pub(crate) damaged: Damaged,
    /// State of the healer, which rebuilds lost queue files.
    pub(crate) healer: Healer,
    /// Read-ahead windows: parts of the log that are in memory for readers far behind its end.
    pub(crate) windows: Mutex<Windows>,
    pub(crate) retention: retention::State,
    pub(crate) index: KeyIndex,
    delays: Arc<[i64]>,
}

/// An open store. All methods take `&self`; share it in an `Arc`.
///
/// Dropping it without [`Store::close`] stops its threads and leaves the files as a crash would.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    recovered: Recovered,
    workers: Mutex<Workers>,
    /// The lock on the store's directory, held as long as the store is open.
    store_lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

#[derive(Default)]
struct Workers {
    flushers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    closed: bool,
}

impl Store {
    /// Opens or creates the store at `config.root`, and recovers it from a crash.
    ///
    /// # Errors
    /// [`OpenError::Locked`] when the store is in use; [`OpenError::FileSize`], [`OpenError::FileName`] or [`OpenError::Gap`]
    /// when its files do not match the configuration; [`OpenError::Undecided`] when the log's end cannot be told from damage;
    /// [`OpenError::Config`] or [`OpenError::Io`] otherwise.
    pub fn open(mut config: Config, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        config.queue_file_bytes = config.queue_file_bytes.next_multiple_of(UNIT_BYTES);
        config.batch_file_bytes = config.batch_file_bytes.max(1).next_multiple_of(BATCH_UNIT_BYTES);
        if config.queue_file_bytes == 0 || !(256..=1 << 31).contains(&config.segment_bytes) {
            let (segment, queue) = (config.segment_bytes, config.queue_file_bytes);
            let text = format!(
                "a commit log file of {segment} bytes with a queue file of {queue} bytes cannot work: expected 256 to 2147483648 and at least 20"
            );
            return Err(OpenError::Config(text));
        }
        let (slots, items) = (config.index_slots, config.index_items);
        if slots == 0 || items < 2 || slots.max(items) > i32::MAX.unsigned_abs() {
            let text = format!(
                "key index files of {slots} slots and {items} items cannot work: expected 1 to 2147483647 slots and at least 2 items"
            );
            return Err(OpenError::Config(text));
        }
        let root = config.root.clone();
        let queues = root.join("consumequeue");
        for directory in [&root, &config.commit_log, &queues].into_iter().chain(&config.commit_log_more) {
            disk.create_dir_all(directory).map_err(OpenError::io(directory))?;
        }
        let store_lock = disk.lock(&root.join("lock")).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                OpenError::Locked { root: root.clone(), holder: error.to_string() }
            }
            _ => OpenError::Io { path: root.join("lock"), source: error },
        })?;
        let sync_all = disk.syncer(&root.join("consumequeue")).map_err(OpenError::io(&root))?;
        let shared = Arc::new(Shared::new(config, disk, sync_all));
        shared.config.batched_topics.iter().for_each(|topic| shared.queues.add_batched(topic));
        let recovered = shared.recover()?;
        shared.retention.trimmed.store(shared.log.min(), Ordering::Relaxed);
        let workers = shared.clone().start().map_err(OpenError::io(root))?;
        let store_lock = Mutex::new(Some(store_lock));
        Ok(Self { shared, recovered, workers: Mutex::new(workers), store_lock })
    }

    /// What opening the store found and did.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Progress of the healer: queue files to check after opening, lost queues to rebuild.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Has units of a queue rebuilt from the log, for a caller that found one which does not lead to its record. Reading
    /// these units fails with [`ReadError::Rebuilding`] until the rebuild is done.
    pub fn rebuild(&self, queue: &Arc<Queue>, offsets: Range<QueueOffset>) {
        self.shared.lose(queue, offsets.start.get(), offsets.end.get());
    }

    /// Waits until all queue files were checked after opening and lost ones are rebuilt, or their rebuild has failed for now.
    pub fn wait_healed(&self) {
        self.shared.wait_healed();
    }

    /// The configuration of the store.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The handle of a queue, which is created if it does not exist. A queue without messages costs a map entry and no file.
    ///
    /// # Errors
    /// [`PushError::Queue`] when the topic or queue id cannot be a directory name.
    pub fn queue(&self, topic: &str, queue_id: i32) -> Result<Arc<Queue>, PushError> {
        self.shared.queues.find_or_create(topic, queue_id)
    }

    /// Makes a topic that has no queues yet a topic with batch consume queues (`queue.type=BatchCQ`): one record may hold
    /// many messages. Topics that are known when the store is opened are in [`Config::batched_topics`].
    pub fn add_batched_topic(&self, topic: &str) {
        self.shared.queues.add_batched(topic);
    }

    /// The handle of a queue, if it exists.
    #[must_use]
    pub fn find_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        self.shared.queues.find(topic, queue_id)
    }

    /// The handles of all queues, in no particular order.
    #[must_use]
    pub fn queues(&self) -> Vec<Arc<Queue>> {
        self.shared.queues.all()
    }

    /// Removes all queues of a topic and returns their number (`DefaultMessageStore.deleteTopics`). Their handles become
    /// useless. A topic of the same name that is created later begins at queue offset 0; the old messages stay in the log
    /// until its files are deleted, but belong to no queue. The removal is durable when this returns.
    ///
    /// # Errors
    /// As [`Self::checkpoint`]; the topic is removed all the same, and that becomes durable with the next checkpoint.
    pub fn remove_topic(&self, topic: &str) -> Result<usize, AppendError> {
        self.shared.remove_topic(topic)
    }

    /// Creates an empty batch. Keep it and [`Batch::clear`] it after use: its buffer is reused.
    #[must_use]
    pub fn batch(&self) -> Batch {
        let shared = &self.shared;
        let multi = shared.config.multi_dispatch.then(|| shared.clone());
        Batch::new(shared.delays.clone(), &shared.config, multi)
    }

    /// Appends the whole batch; afterwards the batch tells where each message is. Blocks for one write to the page cache.
    /// `now_ms` is the wall clock in ms since the epoch; store times never go back even if the clock does.
    ///
    /// # Errors
    /// See [`AppendError`]. After [`AppendError::Fenced`] it is unknown whether the batch is stored.
    pub fn append(&self, batch: &mut Batch, now_ms: i64) -> Result<(), AppendError> {
        self.shared.append(batch, now_ms)
    }

    /// First log position that the log holds.
    #[must_use]
    pub fn min(&self) -> LogOffset {
        LogOffset::new(self.shared.log.min())
    }

    /// Log position up to which records are appended and visible to readers.
    #[must_use]
    pub fn appended(&self) -> LogOffset {
        LogOffset::new(self.shared.appended.load(Ordering::Acquire))
    }

    /// Log position of the newest record; `None` when the log never had one, or opening did not read one.
    #[must_use]
    pub fn last_record(&self) -> Option<LogOffset> {
        let last = lock(&self.shared.appender).last_record;
        (self.appended() > LogOffset::ZERO).then(|| LogOffset::new(last))
    }

    /// Log position up to which the log is durable.
    #[must_use]
    pub fn flushed(&self) -> LogOffset {
        LogOffset::new(self.shared.flushed.load(Ordering::Acquire))
    }

    /// Whether everything is durable and the flush thread sleeps.
    #[must_use]
    pub fn flusher_is_idle(&self) -> bool {
        self.shared.flush_idle.load(Ordering::Relaxed)
    }

    /// Counters of the flush thread since the store was opened.
    #[must_use]
    pub fn flushes(&self) -> Flushes {
        self.shared.flush.counts()
    }

    /// Calls `done` once everything before log position `end` is durable, when that fails, or after
    /// [`Config::flush_timeout`]. When the outcome is known already, `done` runs at once on this thread, otherwise on a
    /// thread of the store; it must be quick. A waiting call makes the flush thread start at once.
    pub fn when_flushed(&self, end: LogOffset, done: Box<dyn FnOnce(FlushOutcome) + Send>) {
        self.shared.when_flushed(end, done);
    }

    /// Writes the queue files and the checkpoint now instead of at the next interval, and waits until they are durable.
    ///
    /// # Errors
    /// [`AppendError::NoSpace`] when the disk is full, and nothing is lost; [`AppendError::Fenced`] when the store is fenced.
    pub fn checkpoint(&self) -> Result<(), AppendError> {
        self.shared.checkpoint_now().map(|_| ()).map_err(|interrupted| self.shared.explain(interrupted))
    }

    /// Makes all units that are not in the queue files durable in the unit journal now instead of at the next interval, and
    /// waits for that. Opening after a crash then reads the log only from the current end on.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub fn journal(&self) -> Result<(), AppendError> {
        self.shared.journal_now().map_err(|interrupted| self.shared.explain(interrupted))
    }

    /// Names of the store's threads that ended after a panic.
    #[must_use]
    pub fn stopped_threads(&self) -> Vec<&'static str> {
        lock(&self.shared.stopped).clone()
    }

    /// The reason why the store is fenced, if it is.
    #[must_use]
    pub fn fenced(&self) -> Option<String> {
        self.shared.fence.reason()
    }

    /// Appends `length` bytes of the log to `out` if they are in memory. The range must lie in one commit log file.
    ///
    /// # Errors
    /// [`ReadError::Range`] when the log does not hold the range; [`ReadError::Io`] when reading fails. `out` is then
    /// unchanged.
    pub fn read(&self, from: LogOffset, length: usize, out: &mut Vec<u8>) -> Result<Read, ReadError> {
        self.shared.read(from, length, out, true)
    }

    /// Like [`Self::read`], but waits for the disk.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_blocking(&self, from: LogOffset, length: usize, out: &mut Vec<u8>) -> Result<(), ReadError> {
        self.shared.read(from, length, out, false).map(|_| ())
    }

    /// Appends the records of these units to `out`, one after the other as in the answer to a pull, if all are in memory.
    /// Blank units are skipped.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_units(&self, units: &[Unit], out: &mut Vec<u8>) -> Result<Read, ReadError> {
        self.shared.read_units(units, out, true)
    }

    /// Like [`Self::read_units`], but waits for the disk.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_units_blocking(&self, units: &[Unit], out: &mut Vec<u8>) -> Result<(), ReadError> {
        self.shared.read_units(units, out, false).map(|_| ())
    }

    /// Appends the records of these messages of one queue to `out`, one after the other as in the answer to a pull, if all
    /// are in memory. Blank units are skipped. Records that may come from the disk are checked.
    ///
    /// # Errors
    /// As [`Self::read`], and [`ReadError::Damaged`] with all messages that cannot be served.
    pub fn read_messages(
        &self,
        queue: &Queue,
        messages: &[Numbered],
        out: &mut Vec<u8>,
    ) -> Result<Read, ReadError> {
        self.shared.read_messages(queue, messages, out, true)
    }

    /// Like [`Self::read_messages`], but waits for the disk.
    ///
    /// # Errors
    /// As [`Self::read_messages`].
    pub fn read_messages_blocking(
        &self,
        queue: &Queue,
        messages: &[Numbered],
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.shared.read_messages(queue, messages, out, false).map(|_| ())
    }

    /// Number of damaged messages found since the store was opened, at most 4,096.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.shared.damaged.count()
    }

    /// Appends the record that begins at log position `at` to `out`. Waits for the disk.
    ///
    /// # Errors
    /// As [`Self::read`]; [`ReadError::Record`] when no record begins there; [`ReadError::Damaged`] when it is damaged.
    pub fn record_at(&self, at: LogOffset, out: &mut Vec<u8>) -> Result<(), ReadError> {
        self.shared.record_at(at, out, false).map(|_| ())
    }

    /// Store time in ms since the epoch of the message at a queue offset; `None` when the message does not exist (any more),
    /// or is damaged. Waits for the disk.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn store_time(&self, queue: &Queue, offset: QueueOffset) -> Result<Option<i64>, ReadError> {
        self.shared.store_time(queue, offset)
    }

    /// The queue offset for a store time, between the queue's minimum and maximum offset, as RocketMQ's
    /// `SEARCH_OFFSET_BY_TIMESTAMP` defines it. Waits for the disk.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn offset_by_time(
        &self,
        queue: &Queue,
        time_ms: i64,
        boundary: Boundary,
    ) -> Result<QueueOffset, ReadError> {
        self.shared.offset_by_time(queue, time_ms, boundary)
    }

    /// Messages with a key or tag, newest first. Waits for the disk. Finds all messages appended before the call, unless the
    /// key index is still catching up after a crash; [`KeyMatches`] tells how far it is.
    ///
    /// # Errors
    /// [`ReadError::Io`] when the key index or the log cannot be read.
    pub fn query(&self, query: &KeyQuery<'_>) -> Result<KeyMatches, ReadError> {
        self.shared.query(query)
    }

    /// Log position up to which the key index is complete.
    #[must_use]
    pub fn indexed(&self) -> LogOffset {
        LogOffset::new(self.shared.index.indexed())
    }

    /// Makes everything durable, writes the checkpoint, removes preallocated files and ends the threads. Appends are refused
    /// from now on. A second call does nothing.
    ///
    /// # Errors
    /// [`AppendError::NoSpace`] or [`AppendError::Fenced`] when something could not be made durable; the next opening then
    /// recovers as after a crash.
    pub fn close(&self) -> Result<(), AppendError> {
        let mut workers = lock(&self.workers);
        if std::mem::replace(&mut workers.closed, true) {
            return Ok(());
        }
        lock(&self.shared.appender).closed = true;
        self.stop_others(&mut workers);
        let done = self.shared.checkpoint_now();
        if done.is_ok() {
            self.shared.close_index();
        }
        self.stop_flushers(&mut workers);
        let result = match done {
            Ok(_) if self.shared.is_healing() => {
                tracing::warn!(
                    "closed before all lost queues were rebuilt; a RocketMQ broker must not open the store now"
                );
                Ok(())
            }
            Ok(_) => self
                .shared
                .commit_clean()
                .map_err(|interrupted| self.shared.explain(interrupted))
                .and_then(|()| self.shared.leave_clean()),
            Err(interrupted) => Err(self.shared.explain(interrupted)),
        };
        drop(lock(&self.store_lock).take());
        result
    }

    fn stop_others(&self, workers: &mut Workers) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.checkpoint.wake();
        self.shared.journal_wake.wake();
        self.shared.preallocation.wake();
        self.shared.healer.wake.wake();
        self.shared.wake_index();
        workers.others.drain(..).for_each(|worker| drop(worker.join()));
    }

    fn stop_flushers(&self, workers: &mut Workers) {
        self.shared.flusher_stops.store(true, Ordering::Release);
        self.shared.flush.wake.wake();
        self.shared.flush.deadline_wake.wake();
        workers.flushers.drain(..).for_each(|worker| drop(worker.join()));
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let mut workers = lock(&self.workers);
        lock(&self.shared.appender).closed = true;
        self.stop_others(&mut workers);
        self.stop_flushers(&mut workers);
    }
}

impl Shared {
    fn new(config: Config, disk: Arc<dyn Disk>, sync_all: Syncer) -> Self {
        let healer = Healer::default();
        let open = Arc::new(OpenFiles::new(disk.clone(), config.open_queue_files, healer.wake.clone()));
        let digests = Digests::new(&config.root, config.segment_bytes, disk.clone());
        let geometry = Geometry { slots: config.index_slots, items: config.index_items };
        Self {
            index: KeyIndex::new(config.key_index, geometry, config.root.join("index"), disk.clone()),
            log: Log::new(&config, disk.clone()),
            queues: Queues::new(&config.root, config.queue_file_bytes, open),
            delays: config.delay_levels_ms.clone().into(),
            config,
            disk,
            sync_all,
            appender: Mutex::default(),
            appended: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            fence: Fence::default(),
            stopped: Mutex::default(),
            flush: Flush::default(),
            checkpoint: Wake::default(),
            journal_wake: Wake::default(),
            preallocation: Wake::default(),
            flush_idle: AtomicBool::new(false),
            checkpoint_idle: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            flusher_stops: AtomicBool::new(false),
            page: Mutex::default(),
            checkpointing: Mutex::default(),
            checkpointed_at: Mutex::new(Instant::now()),
            journaling: Mutex::default(),
            touched: Mutex::default(),
            digests,
            from_disk: AtomicU64::new(0),
            damaged: Damaged::default(),
            healer,
            windows: Mutex::default(),
            retention: retention::State::default(),
        }
    }

    pub(crate) fn delays(&self) -> &[i64] {
        &self.delays
    }

    /// Starts the store's threads.
    fn start(self: Arc<Self>) -> std::io::Result<Workers> {
        let spawn = |name: &'static str, need: Need, run: fn(&Self)| {
            let shared = self.clone();
            thread::Builder::new().name(name.to_owned()).spawn(move || shared.supervise(name, need, run))
        };
        let flushers = vec![
            spawn("store-flush", Need::Required, Self::run_flusher)?,
            spawn("store-deadline", Need::Required, Self::run_deadlines)?,
        ];
        let mut others = vec![
            spawn("store-check", Need::Required, Self::run_checkpoints)?,
            spawn("store-journal", Need::Required, Self::run_journal)?,
            spawn("store-prealloc", Need::Required, Self::run_preallocation)?,
            spawn("store-heal", Need::Useful, Self::run_healer)?,
        ];
        if self.config.key_index {
            others.push(spawn("store-index", Need::Useful, Self::run_index)?);
        }
        Ok(Workers { flushers, others, closed: false })
    }

    pub(crate) fn explain(&self, interrupted: Interrupted) -> AppendError {
        match (interrupted, self.fence.reason()) {
            (Interrupted::NoSpace(error), _) => AppendError::NoSpace(error),
            (Interrupted::Fenced, Some(reason)) => AppendError::Fenced(reason),
            (Interrupted::Fenced, None) => AppendError::Closed,
        }
    }

    /// The last steps of a clean stop: removes preallocated files and then the crash mark.
    fn leave_clean(&self) -> Result<(), AppendError> {
        let root = &self.config.root;
        let done = self.log.remove_from(self.appended.load(Ordering::Acquire).max(1));
        let done = done.and_then(|()| self.disk.remove(&root.join("abort")));
        done.and_then(|()| self.disk.sync_dir(root))
            .map_err(|error| AppendError::Fenced(format!("leaving the store {}: {error}", root.display())))
    }
}

/// Conversion of a stored record into a message, to store it once more.
impl<'a> Message<'a> {
    /// Takes over everything that a sender chose from a stored record.
    #[must_use]
    pub fn of(record: &wire::record::RecordView<'a>) -> Self {
        Self {
            body: record.body(),
            properties: record.properties(),
            sys_flag: record.sys_flag(),
            flag: record.flag(),
            born_timestamp: record.born_timestamp(),
            born_host: record.born_host(),
            store_host: record.store_host(),
            reconsume_times: record.reconsume_times(),
            prepared_transaction_offset: record.prepared_transaction_offset(),
        }
    }
}
