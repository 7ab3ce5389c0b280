//! Broker-to-client calls: requests of the broker to its clients with an answer to wait for (`Broker2Client.callClient`).
//!
//! Answers are waited for on the broker's task thread, never on a connection's thread. At most [`PENDING_MAX`] calls wait at a
//! time; a further one is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use net::{CallError, ConnectionHandle, Reply, Workers};
use wire::codes::response;
use wire::frame::{Encoding, FrameWriter};

use crate::Refusal;
use crate::broker::Broker;

/// Most broker-to-client calls that wait for an answer.
const PENDING_MAX: usize = 10_000;

/// How long a client may take to answer a broker-to-client call (`Broker2Client.callClient`).
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Index of the task thread that never waits for the disk (`broker-tasks-0`).
const PUNCTUAL: usize = 0;

/// The broker-to-client calls that wait for an answer, and the threads that wait.
#[derive(Default)]
pub(crate) struct ClientCalls {
    tasks: OnceLock<Workers>,
    pending: AtomicUsize,
}

impl ClientCalls {
    /// Gives the task threads to use; before this every call is refused.
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
    ) -> Result<(), Refusal> {
        let stopping = || Refusal::new(response::SERVICE_NOT_AVAILABLE, "the broker starts or stops");
        self.tasks.get().ok_or_else(stopping)?.spawn(PUNCTUAL, make).map_err(|_| stopping())
    }
}

/// The place of one call among [`PENDING_MAX`]; dropping it frees the place.
struct Place(Arc<Broker>);

impl Place {
    fn take(broker: &Broker) -> Result<Self, Refusal> {
        let place = Self(broker.handle());
        if broker.client_calls.pending.fetch_add(1, Ordering::Relaxed) >= PENDING_MAX {
            let remark = format!("{PENDING_MAX} requests to clients wait for their answers; try again");
            return Err(Refusal::new(response::SYSTEM_BUSY, remark));
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.client_calls.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends `client` a request and gives its answer to `then` on the broker's task thread. `write` adds the fields and finishes the
/// frame.
pub(crate) fn ask(
    broker: &Broker,
    client: Arc<ConnectionHandle>,
    code: i32,
    write: impl FnOnce(FrameWriter<'_>) + Send + 'static,
    then: impl FnOnce(&Arc<Broker>, Result<Reply, CallError>) + Send + 'static,
) -> Result<(), Refusal> {
    let place = Place::take(broker)?;
    broker.client_calls.spawn(move || async move {
        let answer = client.call(Encoding::Json, code, PATIENCE, write).await;
        then(&place.0, answer);
    })
}
