//! Gate for fronts of the same process: authenticates and authorizes requests.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

use auth::audit::Origin;
use auth::{Auth, Denial, Metadata, Subject};

use super::Api;

impl Api {
    /// Authenticates a gRPC request. `mark` is the mark of its connection ([`auth::Mark`]).
    ///
    /// # Errors
    /// [`Denial`] with RocketMQ's text when the request is not that of a user.
    pub fn authenticate(
        &self,
        metadata: &Metadata<'_>,
        remote: SocketAddr,
        mark: &AtomicU64,
    ) -> Result<Subject, Denial> {
        let gate = &self.broker.sessions.gate;
        if gate.is_open(remote.ip().to_canonical().is_loopback()) {
            return Ok(Subject::Off);
        }
        gate.verify_grpc(self.now_ms(), metadata, Origin::new(remote, 0), mark)
    }

    /// Users and acls of the broker, which decide about requests.
    pub fn auth(&self) -> &Auth {
        self.broker.sessions.gate.auth()
    }
}
