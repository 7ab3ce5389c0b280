//! Users of a proxy without a broker. The proxy reads the brokers' users periodically
//! (`ProxyAuthenticationMetadataProvider`, `ProxyAuthorizationMetadataProvider`, which cache each user for 20 s).

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use auth::audit::{self, Origin};
use auth::{
    Attempt, Auth, AuthConfig, AuthError, Metadata, Permission, Request, Signable, StartError, Subject,
    Switch,
};
use broker::api::{Need, Refused, needs_of_request};
use client::AccessLists;
use net::ConnectionHandle;
use wire::frame::Command;

use super::{Cluster, preferred};
use crate::failure::{Failure, Result};
use crate::needs::Needs;

/// Interval at which the users of the brokers are read.
const PERIOD: Duration = Duration::from_secs(5);
/// Period of reading until the users are known for the first time.
const FIRST_PERIOD: Duration = Duration::from_millis(200);

/// Brokers whose lists of users are trusted without proof. A name server without authentication lists every broker
/// that registers.
pub(crate) enum TrustedBrokers {
    /// All brokers, because certificates are checked or by configuration.
    All,
    /// The brokers at these addresses.
    At(Vec<String>),
}

impl TrustedBrokers {
    /// The brokers that the setting `vostokUserBrokers` names; all when every server shows a certificate that is checked.
    pub(crate) fn new(text: &str, checks_servers: bool) -> Self {
        let names = text.split([';', ',']).map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(str::to_owned).collect();
        match names.iter().any(|name| name == "*") {
            true => {
                tracing::warn!(
                    "vostokUserBrokers=*: every broker registered at the name servers can create users of this proxy, unless the name servers know users"
                );
                Self::All
            }
            false if checks_servers => Self::All,
            false => Self::At(names),
        }
    }

    fn includes(&self, broker: &str) -> bool {
        match self {
            Self::All => true,
            Self::At(names) => names.iter().any(|name| name == broker),
        }
    }
}

/// The users and acls of the brokers.
pub(crate) struct Users {
    auth: Auth,
    believed: TrustedBrokers,
    are_known: AtomicBool,
}

impl Users {
    /// Makes an empty set of users. [`run`] reads them.
    ///
    /// # Errors
    /// Settings that stop a start.
    pub(crate) fn new(config: &AuthConfig, believed: TrustedBrokers) -> Result<Self, StartError> {
        Ok(Self { auth: Auth::kept_elsewhere(config)?, believed, are_known: AtomicBool::new(false) })
    }

    /// Authenticates a gRPC call. `mark` is the mark of the call's connection ([`auth::Mark`]).
    pub(crate) fn authenticate(
        &self,
        now_ms: i64,
        metadata: &Metadata<'_>,
        remote: SocketAddr,
        mark: &AtomicU64,
    ) -> Result<Subject, Refused> {
        let (address, request) = (origin(remote).address, Request::Message(metadata.message));
        let attempt = Attempt { now_ms, address, request, user: metadata.user(), mark };
        self.verified(attempt, || self.auth.verify_grpc(metadata))
    }

    /// Checks the user of a remoting request and its permissions, by the route table of the broker. `cluster` is the
    /// name of its cluster.
    pub(crate) fn admit(
        &self,
        now_ms: i64,
        command: &Command<'_>,
        connection: &ConnectionHandle,
        cluster: &str,
    ) -> Result<(), Refused> {
        let user = command.fields.text(auth::ACCESS_KEY).unwrap_or_default();
        let (remote, request) = (connection.remote(), Request::Code(command.code));
        let address = origin(remote).address;
        let attempt = Attempt { now_ms, address, request, user, mark: connection.mark() };
        let identity = self.verified(attempt, || self.auth.verify(&Signable::from(command)))?;
        if !self.is_authorizing() {
            return Ok(());
        }
        let needs =
            needs_of_request(command, cluster, self.auth.settings().is_strict).inspect_err(|error| {
                let line = audit::refusal(&identity, origin(remote), request, &error.to_string());
                tracing::info!(target: "auth_audit", "{line}");
            })?;
        let needed: Vec<_> = needs.iter().map(Need::needed).collect();
        Ok(self.decide((&identity, request), remote, &needed)?)
    }

    /// Runs a verification under the limit of failures, and writes the audit line of a failure.
    fn verified(
        &self,
        attempt: Attempt<'_>,
        verify: impl FnOnce() -> Result<Subject, AuthError>,
    ) -> Result<Subject, Refused> {
        if !self.are_known.load(Ordering::Acquire) {
            return Err(AuthError::Invalid("the proxy has not read the users of the brokers yet").into());
        }
        let origin = Origin { address: attempt.address, connection: 0 };
        Ok(self.auth.in_turn(attempt, verify).inspect_err(|denied| {
            let line = audit::authentication(attempt.user, origin, Err(&denied.error));
            tracing::info!(target: "auth_audit", "{line}");
        })?)
    }

    /// Whether users may not do everything.
    pub(crate) fn is_authorizing(&self) -> bool {
        self.auth.settings().authorization != Switch::Off
    }

    /// Checks that a user has the permissions `needs`. `message` is the full name of the gRPC request message.
    pub(crate) fn authorize(
        &self,
        (user, message): (&Subject, &str),
        remote: SocketAddr,
        needs: Needs<'_>,
    ) -> Result<()> {
        let request = Request::Message(message);
        let needs = needs.inspect_err(|failure| {
            let line = audit::refusal(user, origin(remote), request, &failure.message);
            tracing::info!(target: "auth_audit", "{line}");
        })?;
        let needed: Vec<_> = needs.iter().map(Need::needed).collect();
        let decided = self.decide((user, request), remote, &needed);
        decided.map_err(|error| Failure::unauthorized(error.into()))
    }

    fn decide(
        &self,
        (user, request): (&Subject, Request<'_>),
        remote: SocketAddr,
        needed: &[Permission<'_>],
    ) -> Result<(), AuthError> {
        let origin = origin(remote);
        let ruling = self.auth.decide(user, request, origin.address, needed);
        if let Some(needed) = needed.get(ruling.at).filter(|_| !ruling.is_allowed()) {
            let line = audit::authorization(user, origin, request, needed, &ruling);
            tracing::info!(target: "auth_audit", "{line}");
        }
        ruling.refusal.map_or(Ok(()), Err)
    }

    /// Takes the lists of a broker, unless they equal the last lists.
    fn take(&self, lists: &AccessLists, last: &mut Last) -> Result<(), String> {
        let address = &lists.broker;
        let digest = last.hasher.hash_one((&lists.users, &lists.acls));
        if last.digest != Some(digest) {
            self.auth.take(&lists.users, &lists.acls).map_err(|error| format!("{address}: {error}"))?;
            last.digest = Some(digest);
        }
        (last.broker, last.version) = (address.clone(), lists.version.clone());
        Ok(())
    }
}

/// Last state that was read, to avoid reading or converting it again.
#[derive(Default)]
struct Last {
    /// Address of the broker that is asked first the next time.
    broker: String,
    /// Version that the broker gives to the state ([`AccessLists::version`]).
    version: String,
    /// Hash of the user and acl lists that are in use; `None` before the first.
    digest: Option<u64>,
    hasher: RandomState,
}

/// Reads users and acls from the last successful broker, or else from the first broker that responds.
async fn read(users: &Users, cluster: &Arc<Cluster>, last: &mut Last) -> Result<(), String> {
    let brokers = cluster.brokers().await.map_err(|failure| failure.message)?;
    let mut addresses: Vec<_> = brokers.values().filter_map(preferred).collect();
    addresses.sort_by_key(|address| **address != *last.broker);
    let mut why = "the name servers know no broker".to_owned();
    for address in addresses {
        let known = if *address == *last.broker { &*last.version } else { "" };
        let is_believed = users.believed.includes(address);
        let taken = match cluster.client.access_lists(address, known, is_believed).await {
            Ok(None) => Ok(()),
            Ok(Some(lists)) => users.take(&lists, last),
            Err(error) => Err(error.to_string()),
        };
        match taken {
            Ok(()) => return Ok(()),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Reads the users of the brokers until `stopping`. While reading fails, the last users stay valid.
pub(crate) async fn run(cluster: &Arc<Cluster>, stopping: impl Future<Output = ()>) {
    let Some(users) = &cluster.users else { return };
    let (mut failed, mut stopping, mut last) = (String::new(), pin!(stopping), Last::default());
    loop {
        match read(users, cluster, &mut last).await {
            Ok(()) => {
                let is_first = !users.are_known.swap(true, Ordering::Release);
                if is_first || !failed.is_empty() {
                    tracing::info!("users and acls of the brokers are known");
                }
                failed.clear();
            }
            Err(why) if why != failed => {
                tracing::warn!(
                    "users and acls of the brokers cannot be read: {why}. A broker without proof, as one of Apache RocketMQ, has to be named in vostokUserBrokers of the proxy's file"
                );
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

/// Makes the origin for audit lines. The connection number is 0, because gRPC connections have none.
fn origin(remote: SocketAddr) -> Origin {
    Origin { address: remote.ip().to_canonical(), connection: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_believed_by_name_or_with_checked_certificates() {
        let is_believed =
            |text, checks_servers| TrustedBrokers::new(text, checks_servers).includes("10.0.0.1:10911");
        assert!(!is_believed("", false) && !is_believed("10.0.0.2:10911", false));
        assert!(is_believed("10.0.0.2:10911; 10.0.0.1:10911", false) && is_believed("*", false));
        assert!(is_believed("", true) && is_believed("10.0.0.2:10911", true));
    }

    #[test]
    fn users_are_made_again_only_when_their_lists_have_changed() {
        let mut config = AuthConfig::default();
        config.set("authenticationEnabled", "true");
        let class = "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider";
        config.set("authenticationMetadataProvider", class);
        let (users, mut last) =
            (Users::new(&config, TrustedBrokers::new("", false)).unwrap(), Last::default());
        let mut take = |broker: &str, password: &str, version: &str| {
            let text = format!(r#"[{{"username":"alice"{password}}}]"#);
            let (broker, version) = (broker.to_owned(), version.to_owned());
            let lists = AccessLists { broker, version, users: text.into_bytes(), acls: Vec::new() };
            let taken = users.take(&lists, &mut last);
            taken.map(|()| (users.auth.version(), last.broker.clone(), last.version.clone()))
        };
        let secret = r#","password":"secret""#;
        let (first, ..) = take("a:1", secret, "").unwrap();
        assert_eq!(take("b:1", secret, "7").unwrap(), (first.clone(), "b:1".to_owned(), "7".to_owned()));
        assert!(take("b:1", "", "8").unwrap_err().contains("told to super users only"));
        let (changed, _, version) = take("b:1", r#","password":"other""#, "9").unwrap();
        assert!(changed != first && version == "9");
    }
}
