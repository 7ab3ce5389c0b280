//! The users of a proxy without a broker: those that the brokers keep, read again and again (`ProxyAuthenticationMetadataProvider`,
//! `ProxyAuthorizationMetadataProvider`, which keep each user for 20 s).

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use auth::audit::{self, Origin};
use auth::{
    Answer, Auth, AuthConfig, AuthError, Failures, Identity, Metadata, Needed, Request, Signed, StartError,
    Switch,
};
use broker::api::{Need, Refused};
use wire::frame::Command;

use super::{Cluster, preferred};
use crate::failure::Failure;

/// Time between two looks at the users of the brokers.
const PERIOD: Duration = Duration::from_secs(5);
/// The same until they are known for the first time.
const FIRST_PERIOD: Duration = Duration::from_millis(200);

/// The users and acls of the brokers.
pub(crate) struct Users {
    auth: Auth,
    are_known: AtomicBool,
    failures: Mutex<Failures>,
}

impl Users {
    /// No users yet; [`run`] reads them.
    ///
    /// # Errors
    /// Settings that stop a start.
    pub(crate) fn new(config: &AuthConfig) -> Result<Self, StartError> {
        let auth = Auth::kept_elsewhere(config)?;
        Ok(Self { auth, are_known: AtomicBool::new(false), failures: Mutex::default() })
    }

    /// Finds out who makes a call. An address that fails often is answered late.
    pub(crate) fn authenticate(
        &self,
        now_ms: i64,
        metadata: &Metadata<'_>,
        remote: SocketAddr,
    ) -> Result<Identity, Refused> {
        self.noted(now_ms, remote, metadata.user(), || self.auth.verify_grpc(metadata))
    }

    /// Whether a remoting request is of a user who has what it needs.
    pub(crate) fn admit(
        &self,
        now_ms: i64,
        command: &Command<'_>,
        remote: SocketAddr,
        needed: Needed<'_>,
    ) -> Result<(), Refused> {
        let user = command.fields.text(auth::ACCESS_KEY).unwrap_or_default();
        let identity = self.noted(now_ms, remote, user, || self.auth.verify(&Signed::from(command)))?;
        let request = Request::Code(command.code);
        self.decide((&identity, request), remote, &[needed]).map_err(|error| Refused::new(error, Answer::Now))
    }

    /// Verifies a request, and notes a failure.
    fn noted(
        &self,
        now_ms: i64,
        remote: SocketAddr,
        user: &str,
        verify: impl FnOnce() -> Result<Identity, AuthError>,
    ) -> Result<Identity, Refused> {
        if !self.are_known.load(Ordering::Acquire) {
            let text = "the proxy has not read the users of the brokers yet";
            return Err(Refused::new(AuthError::Invalid(text), Answer::Now));
        }
        let result = verify();
        if result.is_err() {
            tracing::info!(target: "auth_audit", "{}", audit::authentication(user, origin(remote), &result));
        }
        result.map_err(|error| {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            Refused::new(error, failures.note(now_ms, origin(remote).address))
        })
    }

    /// Whether users may not do everything.
    pub(crate) fn is_authorizing(&self) -> bool {
        self.auth.settings().authorization != Switch::Off
    }

    /// Checks what a user needs for a message of this full name.
    pub(crate) fn authorize(
        &self,
        (user, message): (&Identity, &str),
        remote: SocketAddr,
        needs: &[Need<'_>],
    ) -> Result<(), Failure> {
        let needed: Vec<_> = needs.iter().map(Need::needed).collect();
        let decided = self.decide((user, Request::Message(message)), remote, &needed);
        decided.map_err(|error| Failure::unauthorized(error.into()))
    }

    fn decide(
        &self,
        (user, request): (&Identity, Request<'_>),
        remote: SocketAddr,
        needed: &[Needed<'_>],
    ) -> Result<(), AuthError> {
        let origin = origin(remote);
        let ruling = self.auth.decide(user, request, origin.address, needed);
        if let Some(needed) = needed.get(ruling.at).filter(|_| !ruling.is_allowed()) {
            let line = audit::authorization(user, origin, request, needed, &ruling);
            tracing::info!(target: "auth_audit", "{line}");
        }
        ruling.refusal.map_or(Ok(()), Err)
    }

    /// Reads users and acls from the first broker that tells them.
    async fn read(&self, cluster: &Cluster) -> Result<(), String> {
        let brokers = cluster.brokers().await.map_err(|failure| failure.message)?;
        let mut why = "the name servers know no broker".to_owned();
        for address in brokers.values().filter_map(preferred) {
            let told = async {
                let users = cluster.client.users(address).await?;
                Ok::<_, client::Error>((users, cluster.client.acls(address).await?))
            };
            match told.await {
                Ok((users, _)) if users.iter().any(|user| user.password.is_none()) => {
                    why = format!(
                        "{address} tells passwords to super users only, and innerClientAuthenticationCredentials name none"
                    );
                }
                Ok((users, acls)) => match self.auth.take(&users, &acls) {
                    Ok(()) => return Ok(()),
                    Err(error) => why = format!("{address}: {error}"),
                },
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }
}

/// Reads the users of the brokers until the proxy stops, as `stopping` says. While they cannot be read, those of before count.
pub(crate) async fn run(cluster: &Cluster, stopping: impl Future<Output = ()>) {
    let Some(users) = &cluster.users else { return };
    let (mut failed, mut stopping) = (String::new(), pin!(stopping));
    loop {
        match users.read(cluster).await {
            Ok(()) => {
                let is_first = !users.are_known.swap(true, Ordering::Release);
                if is_first || !failed.is_empty() {
                    tracing::info!("users and acls of the brokers are known");
                }
                failed.clear();
            }
            Err(why) if why != failed => {
                tracing::warn!("users and acls of the brokers cannot be read: {why}");
                failed = why;
            }
            Err(_) => {}
        }
        let are_known = users.are_known.load(Ordering::Relaxed);
        tokio::select! {
            () = tokio::time::sleep(if are_known { PERIOD } else { FIRST_PERIOD }) => {}
            () = &mut stopping => return,
        }
    }
}

/// Connections of gRPC have no number here, so audit lines say 0.
fn origin(remote: SocketAddr) -> Origin {
    Origin { address: remote.ip().to_canonical(), connection: 0 }
}
