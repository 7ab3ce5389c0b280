//! Retention: the thread that deletes old messages by age, size and disk space, watches how full the disk is, and warns before
//! it is full. Which files are deleted is decided by [`store::decide`].

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
use crate::supervisor::SupervisedWork;
use lag::Lags;
pub(crate) use report::{size, status};
pub(crate) use requests::{clean_expired_queues, clean_unused_topics, delete_expired_log};

/// Interval between two checks of how full the disk is.
const WATCH: Duration = Duration::from_secs(1);

/// Pause between freeing two pieces of a deleted file's space, while one deleted file is left. With more files the pause is
/// shorter by that factor, since a broker may store more than a gigabyte per second.
const PIECE_PAUSE: Duration = Duration::from_millis(10);

/// What the retention thread shares with request handlers.
#[derive(Default)]
pub(crate) struct Retention {
    /// Number of delayed, timed and popped messages that were given up since the broker started, because their record is deleted
    /// or cannot be read.
    pub(crate) undelivered: AtomicU64,
    /// Number of coming rounds that delete expired files whatever the hour (`deleteWhen`).
    asked: AtomicU32,
    /// When topics with a retention time of their own were last checked, in milliseconds since the epoch; 0 when the next round
    /// is to check them.
    topics_ms: AtomicI64,
    /// Whether an operator asked to remove the queues of topics that are not configured.
    unused_asked: AtomicBool,
    stopping: AtomicBool,
    woken: (Mutex<bool>, Condvar),
    forecast: Mutex<Forecast>,
    /// When each warning was last logged, so that it is not repeated every second.
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

/// The running retention thread; dropping this value stops and joins the thread.
pub(crate) struct RetentionThread {
    broker: Arc<Broker>,
    thread: Option<JoinHandle<()>>,
}

impl RetentionThread {
    /// Checks how full the disk is, expires messages of topics with a retention time of their own, and starts the thread.
    pub(crate) fn start(broker: Arc<Broker>) -> std::io::Result<Self> {
        watch(&broker);
        topics::expire_when_due(&broker, broker.now_ms());
        let running = broker.clone();
        let thread =
            broker.supervisor.spawn(SupervisedWork::Retention, "retention", move || run(&running))?;
        Ok(Self { broker, thread: Some(thread) })
    }
}

impl Drop for RetentionThread {
    fn drop(&mut self) {
        self.broker.supervisor.stop();
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
            // While the log is over its size only a round that deleted something is followed by another at once; files
            // that cannot be deleted are tried again with the next regular round.
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

/// Checks how full the disk is. From now on sends are accepted or refused by the level it returns.
pub(crate) fn watch(broker: &Broker) -> Level {
    let level = broker.store.watch_space(&broker.config.retention).unwrap_or_else(|error| {
        tracing::error!(%error, "the disk cannot be asked how full it is");
        broker.store.space().level
    });
    report::forecast(broker, broker.now_ms());
    level
}

/// Whether the commit log is larger than configured.
fn is_over(broker: &Broker) -> bool {
    let most = broker.config.retention.log_bytes_max;
    let store = &broker.store;
    most > 0 && store.appended().get() - store.min().get() > most
}

/// Runs one round of retention. True when files were deleted.
pub(crate) fn clean(broker: &Broker, now_ms: i64, hour: u8) -> bool {
    let asked = &broker.retention.asked;
    let asked =
        asked.fetch_update(Ordering::AcqRel, Ordering::Acquire, |rounds| rounds.checked_sub(1)).is_ok();
    let reserved_ms = timed::reserved_ms(broker, now_ms);
    let settings = RetentionSettings { reserved_ms, ..broker.config.retention.clone() };
    // Filled only when the store asks for it, because a file is about to be deleted.
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

/// Whether messages that a group has not consumed are protected from deletion now.
fn protects(broker: &Broker) -> bool {
    match broker.config.retention.unconsumed {
        Unconsumed::Drop => false,
        Unconsumed::Protect => broker.store.space().level < Level::Clean,
        Unconsumed::Reject => true,
    }
}

#[cfg(test)]
mod tests;
