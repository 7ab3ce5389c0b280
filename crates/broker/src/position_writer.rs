//! The position writer: an engine that waits for the disk, so that those that deliver messages do not.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use store::{FlushOutcome, Store};
use wire::units::LogOffset;

use crate::engine::{Engine, Next, Wakeup};

type Job = Box<dyn FnOnce() + Send>;

/// Hands jobs to the position writer. Each of its users has at most one job there, so its queue is short.
#[derive(Clone)]
pub(crate) struct PositionWriter {
    jobs: Sender<Job>,
    wakeup: Arc<Wakeup>,
}

/// The engine that runs the jobs of the position writer, one after the other.
pub(crate) struct PositionWrites {
    jobs: Receiver<Job>,
}

impl PositionWriter {
    /// Creates the position writer and its engine.
    pub(crate) fn new() -> (Self, PositionWrites) {
        let (sender, jobs) = channel();
        (Self { jobs: sender, wakeup: Arc::default() }, PositionWrites { jobs })
    }

    /// Wakes the engine.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    /// Has the engine run `job` after the jobs before it; drops `job` when the engine is gone.
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

    /// Runs the jobs that are left.
    fn stop(&mut self) {
        self.jobs.try_iter().for_each(|job| job());
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
