//! The requests that wait until the metadata writer has stored a change of topics or groups.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;
use wire::codes::response;

use crate::change::{Change, Later, Then};
use crate::engine::Wakeup;
use crate::refusal_counts::Cause;
use crate::{Refusal, Result};

/// Most requests that wait for the metadata writer. Further requests are refused as busy.
const WAITING_MAX: usize = 100_000;
/// Most bytes of the requests that wait for the metadata writer, and of the requests that wait for name servers.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;

/// A request that waits for the metadata writer, as its front keeps it.
pub(crate) trait Postponed: Send {
    /// Bytes the request takes while it waits.
    fn bytes(&self) -> usize;

    /// Continues the request when the change is on disk, or failed. Must not wait for the disk, because the calling
    /// thread writes the next changes.
    fn go_on(self: Box<Self>, outcome: Result<Then>);

    /// Returns a function that runs the jobs that wait for the thread of the request's connection. Tests have no such
    /// thread.
    #[cfg(test)]
    fn catch_up(&self) -> Box<dyn Fn()>;
}

/// A request that waits for the metadata writer, and the change it waits for.
pub(crate) struct Waiting {
    /// Change of topics and groups that must be on disk before the request continues.
    pub change: Change,
    then: Then,
    /// The request, as its front keeps it.
    pub request: Box<dyn Postponed>,
}

impl Waiting {
    /// Continues the request after its change is on disk or failed.
    pub(crate) fn go_on(self, outcome: Result<()>) {
        self.request.go_on(outcome.map(|()| self.then));
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    bytes: usize,
    stopped: bool,
    /// Whether the metadata writer ended early, so that requests are refused.
    abandoned: bool,
}

/// The requests that wait for the metadata writer.
#[derive(Default)]
pub(crate) struct MetadataQueue {
    queue: Mutex<Queue>,
    wakeup: Arc<Wakeup>,
    /// Bytes of the requests whose topics are stored and that wait for name servers.
    pub unacknowledged_bytes: AtomicUsize,
}

impl MetadataQueue {
    /// Queues a request together with its change.
    ///
    /// # Errors
    /// `SYSTEM_BUSY` when too many requests wait, `SERVICE_NOT_AVAILABLE` when the metadata writer has ended.
    pub(crate) fn add(&self, later: Later, request: Box<dyn Postponed>) -> Result<()> {
        let Later { change, then } = later;
        let waiting = Waiting { change, then, request };
        let mut queue = self.queue.lock();
        if queue.abandoned {
            return Err(abandoned());
        }
        let bytes = queue.bytes + waiting.request.bytes();
        if queue.stopped || queue.waiting.len() >= WAITING_MAX || bytes > WAITING_BYTES_MAX {
            let count = queue.waiting.len();
            let remark = format!(
                "[OVERLOAD]system busy, start flow control for a while: {count} requests wait for topics or groups to be stored"
            );
            return Err(Refusal::because(Cause::Changes, response::SYSTEM_BUSY, remark));
        }
        queue.bytes = bytes;
        queue.waiting.push(waiting);
        self.wakeup.wake();
        Ok(())
    }

    /// Takes all requests that wait.
    pub(crate) fn take(&self) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        queue.bytes = 0;
        std::mem::take(&mut queue.waiting)
    }

    /// Takes all waiting requests, and refuses later requests because the broker stops.
    pub(crate) fn close(&self) -> Vec<Waiting> {
        self.queue.lock().stopped = true;
        self.take()
    }

    /// Takes all waiting requests, and refuses later requests because the metadata writer has ended, unless the
    /// broker stops.
    pub(crate) fn abandon(&self) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        queue.abandoned = !queue.stopped;
        drop(queue);
        self.take()
    }

    /// Returns the wake-up of the metadata writer.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }
}

/// The refusal of a request that needs the metadata writer after that thread has ended.
pub(crate) fn abandoned() -> Refusal {
    let remark = "service not available now. The thread metadata-writer has stopped: topics and groups are not made or changed";
    Refusal::new(response::SERVICE_NOT_AVAILABLE, remark)
}
