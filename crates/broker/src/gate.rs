//! Gate: authenticates a request and authorizes its user. Every front (remoting, gRPC) asks the gate once per
//! request, before anything of the request is staged, queued or kept. The crate `auth` handles users, acls and
//! signatures.

mod audit_log;
mod delays;

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use auth::audit::{self, Origin};
use auth::{
    Actions, Arrival, Attempt, Auth, AuthError, Denial, Metadata, Permission, PlainAcl, PlainSubject,
    Request, Resource, ResourceType, Signable, StartError, Subject, Switch,
};
use client::Credentials;
use wire::codes::request;

use crate::config::Config;
use audit_log::AuditLog;
pub(crate) use delays::Delays;

/// Bytes for the header of a send of the largest message.
const HEADER_BYTES: usize = 64 << 10;

/// Requests of a broker to name servers.
const OF_NAME_SERVERS: [i32; 5] = [
    request::REGISTER_BROKER,
    request::UNREGISTER_BROKER,
    request::QUERY_DATA_VERSION,
    request::REGISTER_TOPIC_IN_NAMESRV,
    request::GET_ROUTEINFO_BY_TOPIC,
];

/// Requests of a slave to its master.
const OF_MASTERS: [i32; 6] = [
    request::GET_ALL_TOPIC_CONFIG,
    request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    request::GET_ALL_MESSAGE_REQUEST_MODE,
    request::GET_ALL_CONSUMER_OFFSET,
    request::GET_ALL_DELAY_OFFSET,
    request::VOSTOK_TABLE_CHANGES,
];

/// Requests of a broker to controllers.
const OF_CONTROLLERS: [i32; 8] = [
    request::CONTROLLER_GET_METADATA_INFO,
    request::CONTROLLER_GET_NEXT_BROKER_ID,
    request::CONTROLLER_APPLY_BROKER_ID,
    request::CONTROLLER_REGISTER_BROKER,
    request::CONTROLLER_GET_REPLICA_INFO,
    request::CONTROLLER_ELECT_MASTER,
    request::CONTROLLER_ALTER_SYNC_STATE_SET,
    request::BROKER_HEARTBEAT,
];

/// Permission that a request needs: a resource and actions. Resource names may come from a body, so they are not
/// always parts of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    kind: ResourceType,
    name: Cow<'a, str>,
    actions: Actions,
}

impl<'a> Need<'a> {
    /// Makes a need of any of the actions on a resource.
    pub fn new(resource: Resource<'a>, actions: Actions) -> Self {
        Self { kind: resource.kind, name: Cow::Borrowed(resource.name), actions }
    }

    /// Copies the need, independent of the request.
    pub fn owned(self) -> Need<'static> {
        Need { kind: self.kind, name: Cow::Owned(self.name.into_owned()), actions: self.actions }
    }

    /// Converts the need for the crate `auth`.
    pub fn needed(&self) -> Permission<'_> {
        Permission { resource: Resource { kind: self.kind, name: &self.name }, actions: self.actions }
    }
}

impl std::fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.needed().resource, self.actions)
    }
}

/// Authenticated sender of a request, by the active ACL generation.
pub(crate) enum Verified {
    /// Auth 2.0.
    User(Subject),
    /// ACL 1.0.
    Account(PlainSubject),
}

impl Verified {
    pub fn identity(&self) -> Subject {
        match self {
            Self::User(user) => user.clone(),
            Self::Account(account) => identity(account),
        }
    }
}

/// The gate of a broker.
pub(crate) struct Gate {
    auth: Auth,
    /// The rules of ACL 1.0, when they are on.
    plain: Option<PlainAcl>,
    /// Whether requests need any check. If false, every request is served.
    is_shut: bool,
    /// Remark for clients of other machines, if the gate serves this machine only and does not authenticate.
    refusal_of_others: Option<&'static str>,
    /// Answers that wait because their address failed often.
    pub delays: Delays,
    log: AuditLog,
    own: Option<Credentials>,
}

impl Gate {
    /// Reads users and rules below the store's directory.
    ///
    /// # Errors
    /// Errors of [`Auth::open`] and [`PlainAcl::open`].
    pub fn open(config: &Config) -> Result<Self, StartError> {
        let (root, files) = (&config.store.root, config.plain_files());
        let auth = Auth::open(&config.auth, &root.join("config"), &files)?;
        let settings = auth.settings();
        let plain = settings.is_plain.then(|| PlainAcl::open(files)).transpose()?;
        let is_shut = plain.is_some() || settings.authentication != Switch::Off;
        let own = config.own_credentials();
        if is_shut && own.is_none() {
            tracing::warn!("innerClientAuthenticationCredentials is not set: {}", refused_calls(config));
        }
        let log = AuditLog::new(&root.join("logs"));
        let refusal_of_others = config.refusal_of_others.filter(|_| !is_shut);
        Ok(Self { auth, plain, is_shut, refusal_of_others, delays: Delays::default(), log, own })
    }

    /// Whether clients of other machines are refused, because requests are not authenticated.
    pub fn serves_this_machine_only(&self) -> bool {
        self.refusal_of_others.is_some()
    }

    /// Longest frame of a client before its first signed request, or `None` without authentication. It holds the
    /// largest allowed message, because a producer may begin with such a message.
    pub fn frame_bytes_max(&self, message_bytes_max: usize) -> Option<usize> {
        self.is_shut.then_some(message_bytes_max + HEADER_BYTES)
    }

    /// Whether every request of a client is served. `is_local` is true for a client on this machine.
    pub fn is_open(&self, is_local: bool) -> bool {
        !self.is_shut && (is_local || self.refusal_of_others.is_none())
    }

    /// Refuses every request of another machine if the gate serves this machine only.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] with advice for the operator.
    fn refuse_others(&self, attempt: Attempt<'_>, connection: u64) -> Result<(), Denial> {
        match self.refusal_of_others {
            None => Ok(()),
            Some(text) => {
                let attempt = Attempt { user: "", ..attempt };
                self.noted(attempt, connection, || Err(AuthError::Invalid(text))).map(drop)
            }
        }
    }

    /// Whether requests need permissions, so that their needs must be determined.
    pub fn is_authorizing(&self) -> bool {
        self.auth.settings().authorization != Switch::Off
    }

    /// Users and acls.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// The rules of ACL 1.0; `None` when they are off.
    pub fn plain(&self) -> Option<&PlainAcl> {
        self.plain.as_ref()
    }

    /// Reads the files of ACL 1.0 again. Invalid files leave the rules unchanged.
    pub fn reload(&self) {
        match self.plain.as_ref().map(PlainAcl::reload) {
            Some(Ok(true)) => tracing::info!("the rules of ACL 1.0 have changed"),
            Some(Err(error)) => tracing::error!(%error, "the rules of ACL 1.0 stay as they were"),
            _ => {}
        }
    }

    /// Credentials with which the broker signs its own requests. `None` if it does not sign them.
    pub fn own_credentials(&self) -> Option<&Credentials> {
        self.own.as_ref()
    }

    /// Authenticates a remoting request. `mark` is the mark of its connection.
    pub fn verify(
        &self,
        now_ms: i64,
        signed: &Signable<'_>,
        origin: Origin,
        mark: &AtomicU64,
    ) -> Result<Verified, Denial> {
        let user = signed.fields.text(auth::ACCESS_KEY).unwrap_or_default();
        let (address, request) = (origin.address, Request::Code(signed.code));
        let attempt = Attempt { now_ms, address, request, user, mark };
        self.refuse_others(attempt, origin.connection)?;
        let Some(plain) = &self.plain else {
            let verify = || self.auth.verify(signed);
            return self.noted(attempt, origin.connection, verify).map(Verified::User);
        };
        let mut account = None;
        let verify = || {
            let found = plain.verify(signed, address)?;
            Ok(identity(account.insert(found)))
        };
        self.noted(attempt, origin.connection, verify)?;
        account.map(Verified::Account).ok_or_else(|| AuthError::NoSubject.into())
    }

    /// Checks the seal of a request whose sender is known. A seal ([`wire::seal`]) puts code, receiver and time of the
    /// request under its signature, so that the signature cannot be used again. ACL 1.0 has no seals.
    ///
    /// # Errors
    /// [`AuthError::Seal`], with an audit line.
    pub fn check_seal(
        &self,
        verified: &Verified,
        signed: &Signable<'_>,
        origin: Origin,
        arrival: Arrival<'_>,
    ) -> Result<(), Denial> {
        let Verified::User(user) = verified else { return Ok(()) };
        self.auth.check_seal(user, signed, arrival).map_err(|error| {
            self.log_refusal(arrival.now_ms, (user, Request::Code(signed.code)), origin, &error.to_string());
            error.into()
        })
    }

    /// Authenticates a gRPC request. ACL 1.0 is older than gRPC and has no such requests.
    pub fn verify_grpc(
        &self,
        now_ms: i64,
        metadata: &Metadata<'_>,
        origin: Origin,
        mark: &AtomicU64,
    ) -> Result<Subject, Denial> {
        let (address, request) = (origin.address, Request::Message(metadata.message));
        let attempt = Attempt { now_ms, address, request, user: metadata.user(), mark };
        self.refuse_others(attempt, origin.connection)?;
        if self.plain.is_some() {
            return Err(AuthError::Plain("ACL 1.0 (aclEnable) does not serve gRPC".to_owned()).into());
        }
        self.noted(attempt, origin.connection, || self.auth.verify_grpc(metadata))
    }

    /// Runs a verification under the limit of failures, and writes the audit line.
    fn noted(
        &self,
        attempt: Attempt<'_>,
        connection: u64,
        verify: impl FnOnce() -> Result<Subject, AuthError>,
    ) -> Result<Subject, Denial> {
        let result = self.auth.in_turn(attempt, verify);
        if result.is_err() || AuditLog::is_detailed() {
            let origin = Origin { address: attempt.address, connection };
            let shown = result.as_ref().map_err(|denied| &denied.error);
            self.log.write(attempt.now_ms, &audit::authentication(attempt.user, origin, shown));
        }
        result
    }

    /// Writes the audit line of a request that is refused without a decision about a resource.
    pub fn log_refusal(
        &self,
        now_ms: i64,
        (user, request): (&Subject, Request<'_>),
        origin: Origin,
        reason: &str,
    ) {
        self.log.write(now_ms, &audit::refusal(user, origin, request, reason));
    }

    /// Decides whether the request of an account of ACL 1.0 is served: the account is an administrator's, or has all
    /// permissions.
    ///
    /// # Errors
    /// [`AuthError::Plain`] with RocketMQ's text.
    pub fn authorize_account(
        &self,
        account: &PlainSubject,
        code: i32,
        demands_administrator: bool,
        needs: &[Need<'_>],
    ) -> Result<(), AuthError> {
        let Some(plain) = &self.plain else { return Err(AuthError::NoSubject) };
        let needed: Vec<_> = needs.iter().map(Need::needed).collect();
        match demands_administrator {
            true => plain.check_administrator(account, code),
            false => plain.decide(account, &needed),
        }
    }

    /// Decides whether the request of a verified user is served, and returns the user.
    pub fn authorize(
        &self,
        now_ms: i64,
        (user, request): (Subject, Request<'_>),
        origin: Origin,
        needs: &[Need<'_>],
    ) -> Result<Subject, Denial> {
        let needed: Vec<_> = needs.iter().map(Need::needed).collect();
        let ruling = self.auth.decide(&user, request, origin.address, &needed);
        let audited: &[_] = match ruling.is_allowed() {
            true if AuditLog::is_detailed() => &needed,
            true => &[],
            // The needs before the deciding need are allowed, and those behind it were not examined.
            false => needed.get(ruling.at..=ruling.at).unwrap_or_default(),
        };
        for needed in audited {
            self.log.write(now_ms, &audit::authorization(&user, origin, request, needed, &ruling));
        }
        match ruling.refusal {
            Some(error) => Err(error.into()),
            None => Ok(user),
        }
    }
}

/// Returns the text of a warning: which requests of this broker are refused by servers that ask for users, because the requests
/// have no signature.
fn refused_calls(config: &Config) -> String {
    let named = |codes: &[i32]| {
        let name = |code: &i32| format!("{} {code}", request::name(*code).unwrap_or_default());
        codes.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "requests of this broker itself have no signature. Name servers that ask for users refuse {}; masters that do refuse what a slave asks: {}",
        named(&OF_NAME_SERVERS),
        named(&OF_MASTERS),
    );
    if config.replication.controller.is_enabled {
        text += &format!("; controllers that do refuse {}", named(&OF_CONTROLLERS));
    }
    text
}

/// The account of ACL 1.0 that sends a request, as an identity.
fn identity(account: &PlainSubject) -> Subject {
    account.access_key().map_or(Subject::Anonymous, |name| Subject::User(name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_without_inner_credentials_names_the_calls_that_are_refused() {
        let mut config = Config::new("host", std::net::Ipv4Addr::LOCALHOST.into());
        let text = refused_calls(&config);
        assert!(text.contains("Name servers that ask for users refuse REGISTER_BROKER 103,"), "{text}");
        assert!(text.contains("what a slave asks: GET_ALL_TOPIC_CONFIG 21,"), "{text}");
        assert!(!text.contains("controllers"), "{text}");
        config.replication.controller.is_enabled = true;
        let text = refused_calls(&config);
        assert!(text.contains("controllers that do refuse CONTROLLER_GET_METADATA_INFO 1005,"), "{text}");
        // Every code has a name.
        assert!(!text.contains(", ,") && !text.contains("refuse  "), "{text}");
    }
}
