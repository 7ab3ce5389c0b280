//! The thread that reads for the clock: chains of slots that come near, messages they cancel, and records that are no
//! longer in memory.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use store::timer::{Entry, Load, Loaded, Refused, TimerLog, walk};
use store::{Read, ReadError};
use wire::properties::{self, key};
use wire::record::RecordView;

use crate::broker::Broker;
use crate::vital::Duty;

/// Wait after a disk error.
const RETRY_AFTER: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1000 });
/// What the disk does not give in so many tries, a minute, no longer holds up the rest.
pub(super) const TRIES_MAX: u32 = 60;
/// Bytes of old records read ahead for one slot; what is beyond is read when it is due.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// What the clock asks for.
pub(super) enum Job {
    /// Walk a chain.
    Load(Chain),
    /// Read a record so that it is in memory.
    Touch(Entry),
}

/// What came of it.
pub(super) enum Fetched {
    /// A chain, and the keys its cancelling messages name.
    Loaded(Loaded, Vec<Box<[u8]>>),
    Touched(Entry),
}

/// A chain being fetched.
pub(super) struct Chain {
    load: Load,
    /// What the walk found.
    loaded: Option<Loaded>,
    /// Its cancelling messages that are not read yet.
    unread: Vec<Entry>,
    /// The keys the others name.
    keys: Vec<Box<[u8]>>,
    /// How often the disk refused.
    failed: u32,
}

impl Chain {
    pub(super) fn of(load: Load) -> Self {
        Self { load, loaded: None, unread: Vec::new(), keys: Vec::new(), failed: 0 }
    }
}

/// The clock's end of the thread.
pub(super) struct Fetch {
    pub jobs: Option<Sender<Job>>,
    pub results: Receiver<Fetched>,
    thread: Option<JoinHandle<()>>,
}

impl Fetch {
    /// Starts the thread; it wakes `clock` with every result.
    pub(super) fn start(broker: Arc<Broker>, log: Arc<TimerLog>, clock: Thread) -> std::io::Result<Self> {
        let (jobs, inbox) = channel();
        let (outbox, results) = channel();
        let vital = broker.vital.clone();
        let mut reader = Reader::new(broker, log);
        let run = move || {
            let mut refused = VecDeque::new();
            while let Some(job) = next(&inbox, &mut refused) {
                match reader.serve(job).map(|fetched| outbox.send(fetched)) {
                    Ok(Ok(())) => clock.unpark(),
                    Ok(Err(_)) => return,
                    Err(chain) => refused.push_back((Instant::now() + RETRY_AFTER, *chain)),
                }
            }
        };
        let thread = vital.spawn_for_another(Duty::Timer, "timer-fetch", run)?;
        Ok(Self { jobs: Some(jobs), results, thread: Some(thread) })
    }

    pub(super) fn ask(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // It ends only with the clock.
            let _ = jobs.send(job);
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The next job: a new one, or a chain the disk refused when its time comes; `None` when the clock has stopped. No more
/// chains are held than the agenda asks for at the same time.
fn next(inbox: &Receiver<Job>, refused: &mut VecDeque<(Instant, Chain)>) -> Option<Job> {
    let Some((again, _)) = refused.front() else { return inbox.recv().ok() };
    let left = again.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        match inbox.recv_timeout(left) {
            Ok(job) => return Some(job),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    refused.pop_front().map(|(_, chain)| Job::Load(chain))
}

pub(super) struct Reader {
    broker: Arc<Broker>,
    log: Arc<TimerLog>,
    /// Slots of which something was given up: the disk is not waited for again.
    given_up: BTreeSet<i64>,
}

impl Reader {
    pub(super) fn new(broker: Arc<Broker>, log: Arc<TimerLog>) -> Self {
        Self { broker, log, given_up: BTreeSet::new() }
    }

    /// Does a job; the error is a chain that is to be tried again.
    pub(super) fn serve(&mut self, job: Job) -> Result<Fetched, Box<Chain>> {
        match job {
            Job::Touch(entry) => {
                // Whoever delivers it tells the error.
                let _ = self.read(&entry, &mut Vec::new());
                Ok(Fetched::Touched(entry))
            }
            Job::Load(mut chain) => {
                let loaded = match chain.loaded.take().or_else(|| self.walk(&mut chain)) {
                    Some(loaded) if self.read_cancelling(&mut chain) => loaded,
                    refused => {
                        chain.loaded = refused;
                        chain.failed += 1;
                        return Err(Box::new(chain));
                    }
                };
                self.read_ahead(&loaded.entries);
                Ok(Fetched::Loaded(loaded, chain.keys))
            }
        }
    }

    /// Whether the disk has refused for too long.
    fn is_patient(&self, chain: &Chain) -> bool {
        chain.failed < TRIES_MAX && !self.given_up.contains(&chain.load.slot_ms)
    }

    /// Notes that something of a chain is given up; answers whether that is news.
    fn give_up(&mut self, chain: &Chain) -> bool {
        // Slots before it are never asked for again.
        let read_ms = self.broker.timer.read_ms.load(Ordering::Acquire);
        self.given_up.retain(|slot_ms| *slot_ms >= read_ms);
        self.given_up.insert(chain.load.slot_ms)
    }

    /// What a chain holds; `None` when the disk refuses.
    fn walk(&mut self, chain: &mut Chain) -> Option<Loaded> {
        let slot_ms = chain.load.slot_ms;
        let (loaded, refused) = walk(&self.log, &chain.load);
        if let Some(Refused { at, error }) = refused {
            if self.is_patient(chain) {
                tracing::error!(slot_ms, at, %error, "timed messages cannot be found; it is tried again");
                return None;
            }
            tracing::error!(
                slot_ms,
                at,
                %error,
                "a unit of the timer log cannot be read; it and what was added to its slot before are skipped"
            );
            if self.give_up(chain) {
                self.broker.retention.undelivered.fetch_add(1, Ordering::Relaxed);
            }
        }
        chain.failed = 0;
        chain.unread.clone_from(&loaded.deletes);
        Some(loaded)
    }

    /// Reads the keys that the cancelling messages of a chain name; false when the disk refuses.
    fn read_cancelling(&mut self, chain: &mut Chain) -> bool {
        let mut refused = Vec::new();
        for entry in std::mem::take(&mut chain.unread) {
            match self.cancelled(&entry) {
                Ok(key) => chain.keys.extend(key),
                Err(error) => {
                    let at = entry.log_offset;
                    tracing::error!(%at, %error, "a message that cancels a timed one cannot be read");
                    if matches!(error, ReadError::Io(_)) {
                        refused.push(entry);
                    }
                }
            }
        }
        if refused.is_empty() {
            return true;
        }
        if self.is_patient(chain) {
            chain.unread = refused;
            return false;
        }
        let messages = refused.len() as u64;
        tracing::error!(
            slot_ms = chain.load.slot_ms,
            messages,
            "messages that cancel timed ones are skipped; what they cancel is delivered"
        );
        if self.give_up(chain) {
            self.broker.retention.undelivered.fetch_add(messages, Ordering::Relaxed);
        }
        true
    }

    fn read(&self, entry: &Entry, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        bytes.clear();
        self.broker.store.read_blocking(entry.log_offset, entry.size as usize, bytes)
    }

    /// The key a cancelling message names, if it names one.
    fn cancelled(&self, entry: &Entry) -> Result<Option<Box<[u8]>>, ReadError> {
        let mut bytes = Vec::new();
        self.read(entry, &mut bytes)?;
        let record = RecordView::parse(&bytes).ok();
        let key = record.and_then(|record| properties::get(record.properties(), key::TIMER_DEL_UNIQKEY));
        Ok(key.map(Into::into))
    }

    /// Reads old records in the order of the log, so that they are in memory when they are due.
    fn read_ahead(&self, entries: &[Entry]) {
        let store = &self.broker.store;
        let young = store.appended().get().saturating_sub(store.config().cached_bytes);
        let mut old: Vec<&Entry> = entries.iter().filter(|entry| entry.log_offset.get() < young).collect();
        old.sort_by_key(|entry| entry.log_offset);
        let mut bytes = Vec::new();
        let mut ahead = 0;
        for entry in old {
            bytes.clear();
            if let Ok(Read::NotResident) = store.read(entry.log_offset, entry.size as usize, &mut bytes) {
                let _ = self.read(entry, &mut bytes);
                ahead += u64::from(entry.size);
                if ahead > AHEAD_BYTES_MAX {
                    return;
                }
            }
        }
    }
}
