//! Fetch engine, which reads from the disk for the timer. It reads chains of slots that begin soon, the keys in their
//! cancelling messages, and records that are no longer in memory.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};

use store::timer::{ChainRequest, ChainResult, DueEntry, TimerLog, UnreadableUnit, walk};
use store::{Read, ReadError};
use wire::properties::{self, key};
use wire::record::RecordView;

use crate::engine::{Engine, Next, Wakeup};
use crate::parts::DeliveryParts;

/// Pause in milliseconds before a chain that could not be read is tried again.
const RETRY_AFTER_MS: i64 = if cfg!(test) { 0 } else { 1000 };
/// Attempts after which a failed read is given up, so that it no longer holds up other reads. About a minute.
pub(super) const TRIES_MAX: u32 = 60;
/// Most bytes of old records read ahead for a slot. Records beyond that are read when they are due.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// Job of the timer for the fetch engine.
pub(super) enum Job {
    /// Read the chain of a slot.
    Load(Chain),
    /// Reads the record of an entry into memory.
    Touch(DueEntry),
}

/// The result of a job.
pub(super) enum Fetched {
    /// The entries of a chain, and the keys its cancelling messages name.
    Loaded(ChainResult, Vec<Box<[u8]>>),
    /// Entry whose record was read, or is unreadable.
    Touched(DueEntry),
}

/// Chain that is being read: the units of a slot in the timer log, linked from the newest to the oldest.
pub(super) struct Chain {
    load: ChainRequest,
    /// The entries of the chain, once it was read.
    loaded: Option<ChainResult>,
    /// Cancelling messages of the chain whose records are not read yet.
    unread: Vec<DueEntry>,
    /// Keys in the cancelling messages read so far.
    keys: Vec<Box<[u8]>>,
    /// Number of failed attempts to read from the disk.
    failed: u32,
}

impl Chain {
    pub(super) fn of(load: ChainRequest) -> Self {
        Self { load, loaded: None, unread: Vec::new(), keys: Vec::new(), failed: 0 }
    }
}

/// The timer's end of the channels to the fetch engine.
pub(crate) struct Fetch {
    jobs: Sender<Job>,
    wakeup: Arc<Wakeup>,
    pub(super) results: Receiver<Fetched>,
}

impl Fetch {
    /// The timer's end, and the fetch engine, which reads the timer log `log` and wakes the timer with every result.
    pub(crate) fn new(parts: Arc<DeliveryParts>, log: Arc<TimerLog>) -> (Self, Fetcher) {
        let (jobs, inbox) = channel();
        let (outbox, results) = channel();
        let reader = Reader::new(parts, log);
        let fetch = Self { jobs, wakeup: Arc::default(), results };
        (fetch, Fetcher { reader, inbox, outbox, refused: VecDeque::new() })
    }

    /// Returns the wake-up of the fetch engine.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    pub(super) fn ask(&self, job: Job) {
        // Sending cannot fail while the timer runs, since the fetch engine is kept until the timer has stopped.
        let _ = self.jobs.send(job);
        self.wakeup.wake();
    }
}

/// The fetch engine, which reads from the disk for the timer.
pub(crate) struct Fetcher {
    reader: Reader,
    inbox: Receiver<Job>,
    outbox: Sender<Fetched>,
    /// Unreadable chains, and the time of the next attempt of each (milliseconds since 1970). Their number is bounded
    /// by the timer's concurrent jobs.
    refused: VecDeque<(i64, Chain)>,
}

impl Fetcher {
    /// Returns the next job: an unreadable chain whose next attempt is due, or a new job.
    fn next(&mut self, now_ms: i64) -> Option<Job> {
        // A time further ahead than the pause was noted before the clock was set back.
        let is_due = |again_ms: i64| again_ms <= now_ms || again_ms > now_ms + RETRY_AFTER_MS;
        if self.refused.front().is_some_and(|(again_ms, _)| is_due(*again_ms)) {
            return self.refused.pop_front().map(|(_, chain)| Job::Load(chain));
        }
        self.inbox.try_recv().ok()
    }

    /// Performs a job. Returns the chain for another attempt, if any.
    fn serve(&mut self, job: Job) -> Option<Chain> {
        match self.reader.serve(job) {
            Ok(fetched) => {
                // Sending fails if the timer is gone, and then the result is not needed.
                let _ = self.outbox.send(fetched);
                self.reader.parts.delivery.timer.wakeup().wake();
                None
            }
            Err(chain) => Some(*chain),
        }
    }
}

impl Engine for Fetcher {
    fn round(&mut self, now_ms: i64) -> Next {
        let Some(job) = self.next(now_ms) else {
            return self.refused.front().map_or(Next::Woken, |(again_ms, _)| Next::At(*again_ms));
        };
        let refused = self.serve(job);
        self.refused.extend(refused.map(|chain| (now_ms + RETRY_AFTER_MS, chain)));
        Next::At(now_ms)
    }

    /// Performs the remaining jobs, so that the timer knows the undelivered messages.
    fn stop(&mut self) {
        while let Ok(job) = self.inbox.try_recv() {
            self.serve(job);
        }
    }
}

pub(super) struct Reader {
    parts: Arc<DeliveryParts>,
    log: Arc<TimerLog>,
    /// Slots of which a read was given up; further reads that fail there are not tried again.
    given_up: BTreeSet<i64>,
}

impl Reader {
    pub(super) fn new(parts: Arc<DeliveryParts>, log: Arc<TimerLog>) -> Self {
        Self { parts, log, given_up: BTreeSet::new() }
    }

    /// Performs a job.
    ///
    /// # Errors
    /// The unreadable chain, for another attempt.
    pub(super) fn serve(&mut self, job: Job) -> Result<Fetched, Box<Chain>> {
        match job {
            Job::Touch(entry) => {
                // The error is ignored here: the delivery reads the record again and reports it.
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

    /// Whether an unreadable chain gets another attempt.
    fn is_patient(&self, chain: &Chain) -> bool {
        chain.failed < TRIES_MAX && !self.given_up.contains(&chain.load.slot_ms)
    }

    /// Records that a read of a chain is given up. True the first time for its slot.
    fn give_up(&mut self, chain: &Chain) -> bool {
        // Slots before the read time are never asked for again, so they need not be remembered.
        let read_ms = self.parts.delivery.timer.read_ms.load(Ordering::Acquire);
        self.given_up.retain(|slot_ms| *slot_ms >= read_ms);
        self.given_up.insert(chain.load.slot_ms)
    }

    /// Reads the entries of a chain. Returns `None` if the disk fails and the chain gets another attempt.
    fn walk(&mut self, chain: &mut Chain) -> Option<ChainResult> {
        let slot_ms = chain.load.slot_ms;
        let (loaded, refused) = walk(&self.log, &chain.load);
        if let Some(UnreadableUnit { at, error }) = refused {
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
                self.parts.runtime.retention.undelivered.fetch_add(1, Ordering::Relaxed);
            }
        }
        chain.failed = 0;
        chain.unread.clone_from(&loaded.deletes);
        Some(loaded)
    }

    /// Reads the keys in the cancelling messages of a chain. Returns false if the disk fails and the chain gets
    /// another attempt.
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
            self.parts.runtime.retention.undelivered.fetch_add(messages, Ordering::Relaxed);
        }
        true
    }

    fn read(&self, entry: &DueEntry, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        bytes.clear();
        self.parts.tables.store.read_blocking(entry.log_offset, entry.size as usize, bytes)
    }

    /// Reads a cancelling message and returns the key it names, if any.
    fn cancelled(&self, entry: &DueEntry) -> Result<Option<Box<[u8]>>, ReadError> {
        let mut bytes = Vec::new();
        self.read(entry, &mut bytes)?;
        let record = RecordView::parse(&bytes).ok();
        let key = record.and_then(|record| properties::get(record.properties(), key::TIMER_DEL_UNIQKEY));
        Ok(key.map(Into::into))
    }

    /// Reads the old records among `entries` in the order of the commit log, so that they are in memory when they are due.
    fn read_ahead(&self, entries: &[DueEntry]) {
        let store = &self.parts.tables.store;
        let young = store.appended().get().saturating_sub(store.config().cached_bytes);
        let mut old: Vec<&DueEntry> = entries.iter().filter(|entry| entry.log_offset.get() < young).collect();
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
