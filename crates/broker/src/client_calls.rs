//! Broker-to-client calls: requests of the broker to its clients that expect a response (`Broker2Client.callClient`).
//!
//! The broker's task thread waits for the responses, never a connection's thread. At most [`PENDING_MAX`] calls wait
//! at a time. Further calls are refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wire::codes::response;

use crate::client_link::{AskError, ClientAnswer, ClientLink, Question};
use crate::parts::Sessions;
use crate::{Refusal, Result};

/// Most broker-to-client calls that wait for an answer.
const PENDING_MAX: usize = 10_000;

/// Timeout of a client's response to a broker-to-client call (`Broker2Client.callClient`).
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Permit of a call, one of [`PENDING_MAX`]. Dropping the permit frees it.
struct PendingCall(Arc<Sessions>);

impl PendingCall {
    fn take(sessions: &Arc<Sessions>) -> Result<Self> {
        let place = Self(sessions.clone());
        if sessions.client_calls.pending.fetch_add(1, Ordering::Relaxed) >= PENDING_MAX {
            let remark = format!("{PENDING_MAX} requests to clients wait for their answers; try again");
            return Err(Refusal::new(response::SYSTEM_BUSY, remark));
        }
        Ok(place)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.0.client_calls.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends a request to a client, and passes the response to `then` on the broker's task thread.
///
/// # Errors
/// `SYSTEM_BUSY` when too many calls wait for answers, `SERVICE_NOT_AVAILABLE` while the broker starts or stops.
pub(crate) fn ask(
    sessions: &Arc<Sessions>,
    client: Arc<dyn ClientLink>,
    question: Question,
    then: impl FnOnce(Result<ClientAnswer, AskError>) + Send + 'static,
) -> Result<()> {
    let pending = PendingCall::take(sessions)?;
    sessions.client_calls.spawn(move || async move {
        let answer = client.ask(question, PATIENCE).await;
        then(answer);
        drop(pending);
    })
}
