//! Gate for fronts of the same process: authenticates and authorizes requests.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use auth::audit::Origin;
use auth::{AuthError, Denial, Mark, Metadata, Request, ResponseTime, Subject};

use super::{Api, Need};
use crate::{Refusal, Result};

/// Reason why a request is not served, and the delay of its response. An address with many failures gets late
/// responses.
#[derive(Debug)]
pub struct Refused {
    /// The refusal, with code `NO_PERMISSION` and RocketMQ's text.
    pub refusal: Refusal,
    /// Delay of the response. `None` if too many responses of the address wait, so that the request gets no response.
    pub wait: Option<Duration>,
    /// New mark of the connection, to be set when the response leaves: the id of the first verified
    /// user of the connection ([`Mark`]). 0 leaves the mark unchanged.
    pub mark: Mark,
}

impl From<Denial> for Refused {
    fn from(Denial { error, response_time: answer, mark }: Denial) -> Self {
        let wait = match answer {
            ResponseTime::Now => Some(Duration::ZERO),
            ResponseTime::After(wait_ms) => Some(Duration::from_millis(wait_ms.unsigned_abs())),
            ResponseTime::Never => None,
        };
        Self { refusal: error.into(), wait, mark }
    }
}

impl From<AuthError> for Refused {
    fn from(error: AuthError) -> Self {
        Denial::from(error).into()
    }
}

impl Api {
    /// Authenticates a gRPC request. `mark` is the mark of its connection ([`Mark`]).
    ///
    /// # Errors
    /// [`Refused`] with RocketMQ's text when the request is not that of a user.
    pub fn authenticate(
        &self,
        metadata: &Metadata<'_>,
        remote: SocketAddr,
        mark: &AtomicU64,
    ) -> Result<Subject, Refused> {
        let gate = &self.broker.sessions.gate;
        if gate.is_open(remote.ip().to_canonical().is_loopback()) {
            return Ok(Subject::Off);
        }
        Ok(gate.verify_grpc(self.now_ms(), metadata, origin(remote), mark)?)
    }

    /// Whether users need permissions, so that the needs of a request must be determined.
    pub fn is_authorizing(&self) -> bool {
        self.broker.sessions.gate.is_authorizing()
    }

    /// Decides whether a user may make a gRPC request. `message` is the full name of the request's protobuf message.
    ///
    /// # Errors
    /// `NO_PERMISSION` with RocketMQ's text.
    pub fn authorize(
        &self,
        user: &Subject,
        message: &str,
        remote: SocketAddr,
        needs: &[Need<'_>],
    ) -> Result<()> {
        let request = (user.clone(), Request::Message(message));
        let decided = self.broker.sessions.gate.authorize(self.now_ms(), request, origin(remote), needs);
        decided.map(drop).map_err(|denied| denied.error.into())
    }

    /// Writes the audit line of a refused gRPC request whose needs cannot be determined.
    pub fn log_refusal(&self, (user, message): (&Subject, &str), remote: SocketAddr, reason: &str) {
        let request = (user, Request::Message(message));
        self.broker.sessions.gate.log_refusal(self.now_ms(), request, origin(remote), reason);
    }
}

/// Makes the origin for audit lines. The connection number is 0, because gRPC connections have none.
fn origin(remote: SocketAddr) -> Origin {
    Origin { address: remote.ip().to_canonical(), connection: 0 }
}
