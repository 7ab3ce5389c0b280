//! The store's public interface, and the state that its threads share.

mod parts;
mod reading;
mod replication;
mod retention;
mod shell;
mod supervise;

use crate::batch::{Batch, Message};
use crate::config::Config;
use crate::disk::{Disk, LOCK_FILE};
use crate::error::{AppendError, OpenError, PushError};
use crate::fence::OperationsInFlight;
use crate::flusher::{FlushOutcome, Flushes};
use crate::heal_list::HealProgress;
use crate::queue::batched::BATCH_UNIT_BYTES;
use crate::queue::{Queue, UNIT_BYTES};
use crate::recover::OpenReport;
use crate::wake::{Clock, lock};
use parts::Parts;
use shell::{Engines, Workers};
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use wire::units::{LogOffset, QueueOffset};

/// An open store. All methods take `&self`; share it in an `Arc`.
///
/// Dropping it without [`Store::close`] stops its threads and leaves the files as a crash would.
pub struct Store {
    pub(crate) parts: Arc<Parts>,
    recovered: OpenReport,
    workers: Mutex<Workers>,
    /// Engines of a store without threads.
    engines: Mutex<Engines>,
    /// Lock on the store's directory. Held while the store is open.
    store_lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

impl Store {
    /// Opens or creates the store at `config.root`, and recovers it from a crash.
    ///
    /// # Errors
    /// [`OpenError::Locked`] when the store is in use. [`OpenError::FileSize`], [`OpenError::FileName`],
    /// [`OpenError::NoLog`] or [`OpenError::Gap`] when the files do not match the configuration or each other.
    /// [`OpenError::Undecided`] when the end of the log may be damage. [`OpenError::Config`] or [`OpenError::Io`]
    /// otherwise.
    pub fn open(config: Config, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        Self::open_with(config, disk, None)
    }

    /// Opens the store with threads, or without and with a clock that stands at `fixed`.
    fn open_with(mut config: Config, disk: Arc<dyn Disk>, fixed: Option<Instant>) -> Result<Self, OpenError> {
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
        let store_lock = disk.lock(&root.join(LOCK_FILE)).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                OpenError::Locked { root: root.clone(), holder: error.to_string() }
            }
            _ => OpenError::Io { path: root.join(LOCK_FILE), source: error },
        })?;
        let sync_all = disk.syncer(&root.join("consumequeue")).map_err(OpenError::io(&root))?;
        let parts = Arc::new(Parts::new(config, disk, sync_all, Clock::new(fixed)));
        parts.state.config.batched_topics.iter().for_each(|topic| parts.state.queues.add_batched(topic));
        let recovered = parts.recovery().recover()?;
        // Queues that recovery found are not new.
        drop(parts.state.queues.take_grown());
        parts.space.trimmed.store(parts.state.log.min(), Ordering::Relaxed);
        let (mut workers, mut engines) = (Workers::default(), Engines::default());
        match fixed {
            None => workers = parts.start().map_err(OpenError::io(root))?,
            Some(_) => engines = Self::engines_of(&parts),
        }
        let (workers, engines, store_lock) =
            (Mutex::new(workers), Mutex::new(engines), Mutex::new(Some(store_lock)));
        Ok(Self { parts, recovered, workers, engines, store_lock })
    }

    /// Returns the findings and actions of the opening.
    pub fn recovered(&self) -> &OpenReport {
        &self.recovered
    }

    /// Progress of the healer: queue files to check after opening, lost queues to rebuild.
    pub fn progress(&self) -> HealProgress {
        self.parts.lost.progress()
    }

    /// Schedules a rebuild of a queue's units from the log, for a caller that found a unit without its record. Reads
    /// of these units fail with [`crate::ReadError::Rebuilding`] until the rebuild ends.
    pub fn rebuild(&self, queue: &Arc<Queue>, offsets: Range<QueueOffset>) {
        self.parts.lost.mark_lost(queue, offsets.start.get(), offsets.end.get());
    }

    /// Waits until all queue files were checked after opening and lost queues are rebuilt, or their rebuild has
    /// failed for now.
    pub fn wait_healed(&self) {
        if !self.parts.state.clock.has_threads() {
            self.run_due(self.parts.state.clock.now());
            return;
        }
        self.parts.lost.wait_healed(&self.parts.state.queues);
    }

    /// The configuration of the store.
    pub fn config(&self) -> &Config {
        &self.parts.state.config
    }

    /// The handle of a queue, which is created if it does not exist. A queue without messages costs a map entry and
    /// no file.
    ///
    /// # Errors
    /// [`PushError::Queue`] when the topic or queue id cannot be a directory name. [`PushError::Kind`] when a queue
    /// of a deleted topic has another `queue.type`.
    pub fn queue(&self, topic: &str, queue_id: i32) -> Result<Arc<Queue>, PushError> {
        self.parts.state.queues.find_or_create(topic, queue_id)
    }

    /// Makes a topic without queues a topic with batch consume queues (`queue.type=BatchCQ`), in which one record may
    /// hold many messages. [`Config::batched_topics`] lists the topics at opening.
    pub fn add_batched_topic(&self, topic: &str) {
        self.parts.state.queues.add_batched(topic);
    }

    /// The handle of a queue, if it exists.
    pub fn find_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        self.parts.state.queues.find(topic, queue_id)
    }

    /// The number of messages that the queues of a topic ever got, which is the sum of their ends; `None` when the topic has no queue.
    pub fn topic_end(&self, topic: &str) -> Option<u64> {
        self.parts.state.queues.topic_end(topic)
    }

    /// The handles of all queues, in no particular order.
    pub fn queues(&self) -> Vec<Arc<Queue>> {
        self.parts.state.queues.all()
    }

    /// Returns the queues that got messages since the last call or the opening, with the number of messages. The list
    /// avoids a scan of all queues, of which there may be a million. Only one caller may use it, because each message
    /// is counted once.
    pub fn take_grown(&self) -> Vec<(Arc<Queue>, u64)> {
        self.parts.state.queues.take_grown()
    }

    /// Removes all queues of a topic and returns their number (`DefaultMessageStore.deleteTopics`). Their handles
    /// become useless. A topic of the same name that is created later begins at queue offset 0. The old messages stay
    /// in the log until its files are deleted, but belong to no queue. The removal is durable when this returns.
    ///
    /// # Errors
    /// Errors of [`Self::checkpoint`]. The topic is removed anyway, and that becomes durable with the next checkpoint.
    pub fn remove_topic(&self, topic: &str) -> Result<usize, AppendError> {
        self.parts.checkpointer().remove_topic(topic)
    }

    /// Removes several topics with one checkpoint, like [`Self::remove_topic`]. Each topic comes with the expected
    /// sum of its queues' ends, as [`Self::topic_end`] returns it. A topic with another sum got messages and stays.
    /// Returns the removed topics, and the result of the checkpoint.
    ///
    /// # Errors
    /// Errors of [`Self::remove_topic`]. The returned topics are removed anyway.
    pub fn remove_ended_topics<'a>(
        &self,
        topics: &[(&'a str, QueueOffset)],
    ) -> (Vec<&'a str>, Result<(), AppendError>) {
        self.parts.checkpointer().remove_ended_topics(topics)
    }

    /// Creates an empty batch. Keep it and [`Batch::clear`] it after use: its buffer is reused.
    pub fn batch(&self) -> Batch {
        let parts = &self.parts;
        let multi = parts.state.config.multi_dispatch.then(|| parts.state.queues.clone());
        Batch::new(parts.state.delays.clone(), &parts.state.config, multi)
    }

    /// Appends the whole batch. Afterwards the batch has the position of each message. Blocks for one write to the
    /// page cache. `now_ms` is the wall clock in ms since the epoch. Store times never go back even if the clock
    /// does.
    ///
    /// # Errors
    /// See [`AppendError`]. After [`AppendError::Fenced`] it is unknown whether the batch is stored.
    pub fn append(&self, batch: &mut Batch, now_ms: i64) -> Result<(), AppendError> {
        self.parts.appending().append(batch, now_ms)
    }

    /// First log position that the log holds.
    pub fn min(&self) -> LogOffset {
        LogOffset::new(self.parts.state.log.min())
    }

    /// Log position up to which records are appended and visible to readers.
    pub fn appended(&self) -> LogOffset {
        LogOffset::new(self.parts.state.appended.get())
    }

    /// Log position of the newest record. `None` if the log never had a record, or opening did not read one.
    pub fn last_record(&self) -> Option<LogOffset> {
        let last = lock(&self.parts.appender).last_record;
        (self.appended() > LogOffset::ZERO).then(|| LogOffset::new(last))
    }

    /// Log position up to which the log is durable.
    pub fn flushed(&self) -> LogOffset {
        LogOffset::new(self.parts.state.flushed.get())
    }

    /// Whether everything is durable and the flush thread sleeps.
    pub fn flusher_is_idle(&self) -> bool {
        self.parts.state.signals.flush_idle.load(Ordering::Relaxed)
    }

    /// Counters of the flush thread since the store was opened.
    pub fn flushes(&self) -> Flushes {
        self.parts.flusher().flush_counts()
    }

    /// Calls `done` when everything before log position `end` is durable, when that fails, or after
    /// [`Config::flush_timeout`]. If the outcome is known, `done` runs at once on this thread, otherwise on a thread
    /// of the store. `done` must be quick. A waiting call makes the flush thread start at once.
    pub fn when_flushed(&self, end: LogOffset, done: Box<dyn FnOnce(FlushOutcome) + Send>) {
        self.parts.flusher().when_flushed(end, done);
    }

    /// Writes the queue files and the checkpoint now instead of at the next interval. Waits until they are durable.
    ///
    /// # Errors
    /// [`AppendError::NoSpace`] when the disk is full, and nothing is lost; [`AppendError::Fenced`] when the store is fenced.
    pub fn checkpoint(&self) -> Result<(), AppendError> {
        self.parts
            .checkpointer()
            .checkpoint_now()
            .map(|_| ())
            .map_err(|interrupted| self.parts.state.explain(interrupted))
    }

    /// Makes all units that are not in the queue files durable in the unit journal now instead of at the next interval, and
    /// waits for that. Opening after a crash then reads the log only from the current end on.
    ///
    /// # Errors
    /// Errors of [`Self::checkpoint`].
    pub fn journal(&self) -> Result<(), AppendError> {
        self.parts.checkpointer().journal_now().map_err(|interrupted| self.parts.state.explain(interrupted))
    }

    /// Names of the store's threads that ended after a panic.
    pub fn stopped_threads(&self) -> Vec<&'static str> {
        lock(&self.parts.stopped).clone()
    }

    /// The reason why the store is fenced, if it is.
    pub fn fenced(&self) -> Option<String> {
        self.parts.state.fence.reason()
    }

    /// The operations on the log that the disk has not finished.
    pub fn unfinished(&self) -> OperationsInFlight {
        let state = &self.parts.state;
        OperationsInFlight { write: state.writes.unfinished(), flush: state.flushes.unfinished() }
    }

    /// Makes everything durable, writes the checkpoint, removes preallocated files and ends the threads. Later
    /// appends are rejected. A second call does nothing.
    ///
    /// # Errors
    /// [`AppendError::NoSpace`] or [`AppendError::Fenced`] when something could not be made durable; the next opening then
    /// recovers as after a crash.
    pub fn close(&self) -> Result<(), AppendError> {
        let mut workers = lock(&self.workers);
        if std::mem::replace(&mut workers.closed, true) {
            return Ok(());
        }
        lock(&self.parts.appender).closed = true;
        self.stop_others(&mut workers);
        let done = self.parts.checkpointer().checkpoint_now();
        if done.is_ok() {
            self.parts.indexer().close_index();
        }
        self.stop_flushers(&mut workers);
        let result = match done {
            Ok(_) if self.parts.lost.is_healing(&self.parts.state.queues) => {
                tracing::warn!(
                    "closed before all lost queues were rebuilt; a RocketMQ broker must not open the store now"
                );
                Ok(())
            }
            Ok(_) => self
                .parts
                .checkpointer()
                .commit_clean()
                .map_err(|interrupted| self.parts.state.explain(interrupted))
                .and_then(|()| self.leave_clean()),
            Err(interrupted) => Err(self.parts.state.explain(interrupted)),
        };
        drop(lock(&self.store_lock).take());
        result
    }
}

impl Store {
    /// The last steps of a clean stop: removes preallocated files and then the crash mark.
    fn leave_clean(&self) -> Result<(), AppendError> {
        let state = &self.parts.state;
        let root = &state.config.root;
        let done = state.log.remove_from(state.appended.get().max(1));
        let done = done.and_then(|()| state.disk.remove(&root.join("abort")));
        done.and_then(|()| state.disk.sync_dir(root))
            .map_err(|error| AppendError::Fenced(format!("leaving the store {}: {error}", root.display())))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let mut workers = lock(&self.workers);
        lock(&self.parts.appender).closed = true;
        self.stop_others(&mut workers);
        self.stop_flushers(&mut workers);
    }
}

/// Conversion of a stored record into a message, to store it once more.
impl<'a> Message<'a> {
    /// Takes over everything that a sender chose from a stored record.
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
