//! Position writer: an engine that waits for the disk, so that engines that deliver messages do not wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use store::{FlushOutcome, Store};
use wire::units::LogOffset;

use crate::engine::{Engine, Next, Wakeup};
use crate::parts::{Delivery, Runtime};
use crate::state::DeliveryNote;

type Job = Box<dyn FnOnce() + Send>;

/// Queues jobs for the position writer. Each user has at most one queued job, so the queue is short.
#[derive(Clone)]
pub(crate) struct PositionWriter {
    jobs: Sender<Job>,
    wakeup: Arc<Wakeup>,
}

/// Engine that runs the jobs of the position writer, one after the other.
pub(crate) struct PositionWrites {
    jobs: Receiver<Job>,
}

impl PositionWriter {
    /// Creates the position writer and its engine.
    pub(crate) fn new() -> (Self, PositionWrites) {
        let (sender, jobs) = channel();
        (Self { jobs: sender, wakeup: Arc::default() }, PositionWrites { jobs })
    }

    /// Returns the wake-up of the engine.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    /// Queues `job` behind the earlier jobs. Drops `job` if the engine has ended.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let _ = self.jobs.send(Box::new(job));
        self.wakeup.wake();
    }
}

impl Engine for PositionWrites {
    fn round(&mut self, _now_ms: i64) -> Next {
        self.jobs.try_iter().for_each(|job| job());
        Next::Woken
    }

    /// Runs the remaining jobs.
    fn stop(&mut self) {
        self.jobs.try_iter().for_each(|job| job());
    }
}

/// Returns this master's delivery progress, and the end of its log, which contains the delivered copies.
pub(crate) fn delivered(store: &Store, delivery: &Delivery, now_ms: i64) -> DeliveryNote {
    let timers = *delivery.timer.checkpoint();
    let delays = delivery.schedule.offsets();
    // Read last: copies are in the log before the positions behind their messages are published.
    DeliveryNote::new(store.appended(), now_ms, timers, delays)
}

/// Saves this master's delivery progress, in case it is deposed and the end of its log is cut. The log must be on
/// disk up to the note's end.
pub(crate) fn keep(delivery: &Delivery, runtime: &Runtime, note: DeliveryNote) {
    if !runtime.config.is_controlled() {
        return;
    }
    let kept = delivery.delivery_notes.add(&mut delivery.delivery_notes.lock(), note);
    if let Err(error) = kept {
        tracing::warn!(%error, "positions of delayed and timed messages are kept in memory only");
    }
}

/// Waits until the log is on disk up to `end`; false when the store failed or was closed before.
pub(crate) fn wait_flushed(store: &Store, end: LogOffset) -> bool {
    while store.flushed() < end {
        let (sender, receiver) = channel();
        store.when_flushed(end, Box::new(move |outcome| drop(sender.send(outcome))));
        match receiver.recv() {
            Ok(FlushOutcome::Flushed | FlushOutcome::TimedOut) => {}
            Ok(FlushOutcome::Failed(_)) | Err(_) => return false,
        }
    }
    true
}
