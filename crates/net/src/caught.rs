//! Catches panics of long-lived tasks, because a runtime drops a task that panics without a report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Error: a future panicked. The panic's message is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task panicked")]
pub struct Panic;

/// Runs a future and turns its panic into an error. Data that the future shares with others must be consistent at each of its
/// steps.
///
/// # Errors
/// [`Panic`] when the future panicked.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    let poll = |context: &mut std::task::Context<'_>| match catch_unwind(AssertUnwindSafe(|| {
        future.as_mut().poll(context)
    })) {
        Ok(done) => done.map(Ok),
        Err(_) => Poll::Ready(Err(Panic)),
    };
    std::future::poll_fn(poll).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_panic_is_an_error_wherever_the_task_is() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        assert_eq!(caught(async { panic!("on purpose") }).await, Err::<(), _>(Panic));
        let later = async {
            tokio::task::yield_now().await;
            panic!("on purpose")
        };
        assert_eq!(caught(later).await, Err::<(), _>(Panic));
    }
}
