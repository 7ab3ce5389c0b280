//! Waits of the typed API's calls: for the storage of a topic or group, the flush of the log, and the disk pool.

use tokio::sync::oneshot;
use wire::codes::response;
use wire::units::LogOffset;

use super::Api;
use crate::change::{ROUNDS_MAX, Then};
use crate::disk_pool::Kind;
use crate::state::Postponed;
use crate::{Refusal, Result};

/// A call that waits for the metadata writer.
struct Waiting(oneshot::Sender<Result<Then>>);

impl Postponed for Waiting {
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn go_on(self: Box<Self>, outcome: Result<Then>) {
        // The caller may have stopped waiting, but the change stays.
        let _ = self.0.send(outcome);
    }

    #[cfg(test)]
    fn catch_up(&self) -> Box<dyn Fn()> {
        Box::new(|| {})
    }
}

/// Makes the refusal of a call whose response was dropped because the broker stops.
pub(super) fn stopping() -> Refusal {
    Refusal::new(response::SERVICE_NOT_AVAILABLE, "the broker is stopping")
}

impl Api {
    /// Serves a call again each time after the missing topics or groups are on disk.
    pub(super) async fn until_stored<T>(&self, mut serve: impl FnMut() -> Result<T>) -> Result<T> {
        let mut served = serve();
        for _ in 0..ROUNDS_MAX {
            match served {
                Err(refusal) if refusal.later.is_some() => self.wait_for_change(refusal).await?,
                served => return served,
            }
            served = serve();
        }
        served
    }

    /// Waits until the metadata change in [`Refusal::later`] is on disk.
    ///
    /// # Errors
    /// `refusal` itself if it contains no change, or the refusal of the change.
    pub(super) async fn wait_for_change(&self, mut refusal: Refusal) -> Result<()> {
        let Some(later) = refusal.later.take() else { return Err(refusal) };
        let (sender, receiver) = oneshot::channel();
        self.broker.runtime.metadata_queue.add(*later, Box::new(Waiting(sender)))?;
        receiver.await.map_err(|_| stopping())?.map(drop)
    }

    /// Waits until the log is stored up to `end`.
    pub(super) async fn durable(&self, end: LogOffset) -> Result<()> {
        if self.broker.replication.durability.is_stored(end) {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        // The caller may have stopped waiting, but its records stay.
        self.broker
            .replication
            .durability
            .when(end, move |outcome| drop(sender.send(Refusal::not_durable(&outcome))));
        receiver.await.map_err(|_| stopping())?.map_or(Ok(()), Err)
    }

    /// Runs work that may wait for the disk in the disk pool.
    pub(super) async fn in_disk_pool<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let reservation = self.broker.runtime.disk_pool.reserve(Kind::Requests, 0)?;
        let (sender, receiver) = oneshot::channel();
        reservation.run(move || drop(sender.send(work())));
        receiver.await.map_err(|_| stopping())?
    }
}
