//! The thread that reads for the clock: chains of slots that come near, messages they cancel, and records that are no
//! longer in memory.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use store::Read;
use store::timer::{Entry, Load, Loaded, TimerLog, walk};
use wire::properties::{self, key};
use wire::record::RecordView;

use crate::broker::Broker;
use crate::vital::Duty;

/// Wait after a disk error.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes of old records read ahead for one slot; what is beyond is read when it is due.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// What the clock asks for.
pub(super) enum Job {
    /// Walk a chain.
    Load(Load),
    /// Read a record so that it is in memory.
    Touch(Entry),
}

/// What came of it.
pub(super) enum Fetched {
    /// A chain, and the keys its cancelling messages name.
    Loaded(Loaded, Vec<Box<[u8]>>),
    Touched(Entry),
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
        let reader = Reader { broker, log };
        let run = move || {
            while let Ok(job) = inbox.recv() {
                let Some(fetched) = reader.serve(job) else { return };
                if outbox.send(fetched).is_err() {
                    return;
                }
                clock.unpark();
            }
        };
        let thread = vital.spawn(Duty::Timer, "timer-fetch", run)?;
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

struct Reader {
    broker: Arc<Broker>,
    log: Arc<TimerLog>,
}

impl Reader {
    /// `None` when the broker stops meanwhile.
    fn serve(&self, job: Job) -> Option<Fetched> {
        match job {
            Job::Touch(entry) => {
                // Whoever delivers it tells the error.
                let _ = self.read(&entry, &mut Vec::new());
                Some(Fetched::Touched(entry))
            }
            Job::Load(load) => loop {
                match walk(&self.log, &load) {
                    Ok(loaded) => {
                        let keys = loaded.deletes.iter().filter_map(|entry| self.cancelled(entry)).collect();
                        self.read_ahead(&loaded.entries);
                        return Some(Fetched::Loaded(loaded, keys));
                    }
                    Err(error) => {
                        tracing::error!(slot_ms = load.slot_ms, %error, "timed messages cannot be found; it is tried again");
                    }
                }
                if self.broker.timer.stopping.load(std::sync::atomic::Ordering::Acquire) {
                    return None;
                }
                thread::park_timeout(RETRY_AFTER);
            },
        }
    }

    fn read(&self, entry: &Entry, bytes: &mut Vec<u8>) -> Result<(), store::ReadError> {
        bytes.clear();
        self.broker.store.read_blocking(entry.log_offset, entry.size as usize, bytes)
    }

    /// The key a cancelling message names.
    fn cancelled(&self, entry: &Entry) -> Option<Box<[u8]>> {
        let mut bytes = Vec::new();
        if let Err(error) = self.read(entry, &mut bytes) {
            tracing::error!(at = %entry.log_offset, %error, "a message that cancels a timed one cannot be read");
            return None;
        }
        let record = RecordView::parse(&bytes).ok()?;
        properties::get(record.properties(), key::TIMER_DEL_UNIQKEY).map(Into::into)
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
