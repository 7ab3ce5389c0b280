//! The position writer: a thread that waits for the disk, so that the threads that deliver messages do not.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use store::{FlushOutcome, Store};
use wire::units::LogOffset;

use crate::supervisor::{SupervisedWork, Supervisor};

type Job = Box<dyn FnOnce() + Send>;

/// The position writer. Each of its users has at most one job there, so its queue is short.
pub(crate) struct PositionWriter {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl PositionWriter {
    /// Starts the position writer.
    pub(crate) fn start(supervisor: &Arc<Supervisor>) -> std::io::Result<Arc<Self>> {
        let (jobs, queued): (Sender<Job>, Receiver<Job>) = channel();
        let run = move || queued.iter().for_each(|job| job());
        let thread = supervisor.spawn(SupervisedWork::Positions, "position-writer", run)?;
        Ok(Arc::new(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) }))
    }

    /// Has the position writer run `job` after the jobs before it; drops `job` when the thread was stopped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            // The send fails only when the thread has ended, and then the sender is gone.
            let _ = jobs.send(Box::new(job));
        }
    }

    /// Finishes the queued jobs and ends the thread.
    pub(crate) fn stop(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
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
