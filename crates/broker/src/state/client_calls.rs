//! State of broker-to-client calls: the number of calls that wait for an answer, and the threads on which
//! they wait.

use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

use net::Workers;
use wire::codes::response;

use crate::engine::PUNCTUAL;
use crate::{Refusal, Result};

/// The broker-to-client calls that wait for an answer, and the threads that wait.
#[derive(Default)]
pub(crate) struct ClientCalls {
    tasks: OnceLock<Workers>,
    /// Number of calls that wait for an answer.
    pub pending: AtomicUsize,
}

impl ClientCalls {
    /// Sets the task threads. Before this, every call is refused.
    pub(crate) fn start(&self, tasks: Workers) {
        // A broker starts its tasks once; a second call could only bring the same threads.
        let _ = self.tasks.set(tasks);
    }

    /// Runs a future on `broker-tasks-0`, the task thread that never waits for the disk.
    ///
    /// # Errors
    /// `SERVICE_NOT_AVAILABLE` while the broker starts or stops.
    pub(crate) fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<()> {
        let stopping = || Refusal::new(response::SERVICE_NOT_AVAILABLE, "the broker starts or stops");
        self.tasks.get().ok_or_else(stopping)?.spawn(PUNCTUAL, make).map_err(|_| stopping())
    }
}
