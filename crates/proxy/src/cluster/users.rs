//! Users of a proxy without a broker. The proxy reads the brokers' users periodically
//! (`ProxyAuthenticationMetadataProvider`, `ProxyAuthorizationMetadataProvider`, which cache each user for 20 s).

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use auth::audit::Origin;
use auth::{Attempt, Auth, AuthConfig, AuthError, Denial, Metadata, Request, Signable, StartError, Subject};
use broker::api::needs_of_request;
use client::AccessLists;
use net::ConnectionHandle;
use wire::frame::Command;

use super::{Cluster, preferred};

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
    ) -> Result<Subject, Denial> {
        let (origin, request) = (Origin::new(remote, 0), Request::Message(metadata.message));
        let attempt = Attempt { now_ms, origin, request, user: metadata.user(), mark };
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
    ) -> Result<(), Denial> {
        let user = command.fields.text(auth::ACCESS_KEY).unwrap_or_default();
        let (origin, request) = (Origin::new(connection.remote(), 0), Request::Code(command.code));
        let attempt = Attempt { now_ms, origin, request, user, mark: connection.mark() };
        let sender = self.verified(attempt, || self.auth.verify(&Signable::from(command)))?;
        let needs = || needs_of_request(command, cluster, self.auth.settings().is_strict);
        Ok(self.auth.authorize(now_ms, (&sender, request), origin, needs)?)
    }

    /// Runs a verification, unless the users are not known yet.
    fn verified(
        &self,
        attempt: Attempt<'_>,
        verify: impl FnOnce() -> Result<Subject, AuthError>,
    ) -> Result<Subject, Denial> {
        if !self.are_known.load(Ordering::Acquire) {
            return Err(AuthError::Invalid("the proxy has not read the users of the brokers yet").into());
        }
        self.auth.authenticate(attempt, verify)
    }

    /// Users and acls, which decide about requests.
    pub(crate) fn auth(&self) -> &Auth {
        &self.auth
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
