//! Retention as an operator sees it: the thread that deletes what is too old or too much, watches the disk, and says
//! beforehand when it will be full. What goes is decided by [`store::decide`].

mod lag;
mod report;
mod requests;
mod timed;
mod topics;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use store::{Forecast, GaveBack, Level, RetentionSettings, Round, Unconsumed};

use crate::broker::Broker;
use crate::vital::Duty;
use lag::Lags;
pub(crate) use report::{size, status};
pub(crate) use requests::{clean_expired_queues, clean_unused_topics, delete_expired_log};

/// How often the disk is looked at.
const WATCH: Duration = Duration::from_secs(1);

/// Pause between two pieces of space given back, while one file waits for that. With more of them it is shorter: what a
/// broker takes in may be more than a gigabyte a second.
const PIECE_PAUSE: Duration = Duration::from_millis(10);

/// What the thread shares with requests.
#[derive(Default)]
pub(crate) struct Retention {
    /// Delayed, timed and popped messages given up since the start: what they were stored as is gone or cannot be read.
    pub(crate) undelivered: AtomicU64,
    /// Rounds that delete expired files whatever the hour.
    asked: AtomicU32,
    /// When topics with a time of their own were last looked at; 0 when it is to be done with the next round.
    topics_ms: AtomicI64,
    /// The queues of topics nobody has configured are to go.
    unused_asked: AtomicBool,
    stopping: AtomicBool,
    woken: (Mutex<bool>, Condvar),
    forecast: Mutex<Forecast>,
    /// Last time each warning was given, so that it is not repeated every second.
    warned: Mutex<report::Warned>,
}

impl Retention {
    fn wake(&self) {
        *self.woken.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.1.notify_all();
    }

    fn wait(&self, pause: Duration) {
        let woken = self.woken.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.woken.1.wait_timeout_while(woken, pause, |woken| !*woken);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// The running thread; dropping it stops and joins it.
pub(crate) struct RetentionThread {
    broker: Arc<Broker>,
    thread: Option<JoinHandle<()>>,
}

impl RetentionThread {
    /// Looks at the disk, lets topics with a time of their own begin where they should, and starts the thread.
    pub(crate) fn start(broker: Arc<Broker>) -> std::io::Result<Self> {
        watch(&broker);
        topics::expire_when_due(&broker, broker.now_ms());
        let running = broker.clone();
        let thread = broker.vital.spawn(Duty::Retention, "retention", move || run(&running))?;
        Ok(Self { broker, thread: Some(thread) })
    }
}

impl Drop for RetentionThread {
    fn drop(&mut self) {
        self.broker.vital.stop();
        self.broker.retention.stopping.store(true, Ordering::Release);
        self.broker.retention.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(broker: &Broker) {
    let (mut watched, mut cleaned) = (Instant::now(), Instant::now());
    let (mut pause, mut deleted) = (WATCH, false);
    loop {
        let interval = Duration::from_millis(broker.config.clean_resource_interval_ms.unsigned_abs());
        broker.retention.wait(pause.min(interval));
        if broker.retention.stopping.load(Ordering::Acquire) {
            return;
        }
        if broker.retention.unused_asked.swap(false, Ordering::AcqRel) {
            requests::remove_unused_topics(broker);
        }
        let asked = broker.retention.asked.load(Ordering::Acquire) > 0;
        let mut is_short = false;
        if watched.elapsed() >= WATCH || asked {
            watched = Instant::now();
            // What cannot go is looked at again with the next round.
            is_short = watch(broker) >= Level::Clean || deleted && is_over(broker);
        }
        if cleaned.elapsed() >= interval || is_short || asked {
            cleaned = Instant::now();
            deleted = clean(broker, broker.now_ms(), store::local_hour(broker.now_ms()));
        }
        let waiting = broker.store.files_to_give_back().max(1);
        pause = match broker.store.give_back() {
            Ok(GaveBack::Nothing) => WATCH,
            Ok(GaveBack::Piece) => PIECE_PAUSE / waiting,
            Ok(GaveBack::LastPiece) => {
                Duration::from_millis(broker.config.delete_files_interval_ms) / waiting
            }
            Err(error) => {
                tracing::warn!(%error, "the space of a deleted file is given back when the broker stops");
                WATCH
            }
        };
    }
}

/// Looks at the disk; sends are refused or accepted from now on as it says.
pub(crate) fn watch(broker: &Broker) -> Level {
    let level = broker.store.watch_space(&broker.config.retention).unwrap_or_else(|error| {
        tracing::error!(%error, "the disk cannot be asked how full it is");
        broker.store.space().level
    });
    report::forecast(broker, broker.now_ms());
    level
}

/// Whether the log has more bytes than it may.
fn is_over(broker: &Broker) -> bool {
    let most = broker.config.retention.log_bytes_max;
    let store = &broker.store;
    most > 0 && store.appended().get() - store.min().get() > most
}

/// One round; whether files went.
pub(crate) fn clean(broker: &Broker, now_ms: i64, hour: u8) -> bool {
    let asked = &broker.retention.asked;
    let asked =
        asked.fetch_update(Ordering::AcqRel, Ordering::Acquire, |rounds| rounds.checked_sub(1)).is_ok();
    let reserved_ms = timed::reserved_ms(broker, now_ms);
    let settings = RetentionSettings { reserved_ms, ..broker.config.retention.clone() };
    // Filled by the store only when a file would go.
    let lags = Mutex::new(Lags::default());
    let unconsumed_from = || {
        let found = Lags::of(broker);
        let first = found.first();
        *lags.lock().unwrap_or_else(PoisonError::into_inner) = found;
        first
    };
    let done =
        broker.store.retain(&settings, &Round { now_ms, hour, asked, unconsumed_from: &unconsumed_from });
    let lags = lags.into_inner().unwrap_or_else(PoisonError::into_inner);
    let deleted = match done {
        Ok(done) => {
            report::round(broker, &done, &lags, now_ms);
            done.min > done.from
        }
        Err(error) => {
            tracing::error!(%error, "old messages could not be deleted; it is tried again");
            false
        }
    };
    topics::expire_when_due(broker, now_ms);
    deleted
}

/// Whether messages somebody has not consumed may go now.
fn protects(broker: &Broker) -> bool {
    match broker.config.retention.unconsumed {
        Unconsumed::Drop => false,
        Unconsumed::Protect => broker.store.space().level < Level::Clean,
        Unconsumed::Reject => true,
    }
}

#[cfg(test)]
mod tests;
