//! Gate: authenticates a request and authorizes its user. Every front (remoting, gRPC) asks the gate once per
//! request, before anything of the request is staged, queued or kept. The crate `auth` handles users, acls and
//! signatures.

mod audit_log;
mod delays;

use std::sync::atomic::AtomicU64;

use auth::audit::Origin;
use auth::{
    Arrival, Attempt, Auth, AuthError, Denial, Metadata, Permission, PlainAcl, PlainSubject, Request,
    Signable, StartError, Subject, Switch,
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
    own: Option<Credentials>,
}

impl Gate {
    /// Reads users and rules below the store's directory.
    ///
    /// # Errors
    /// Errors of [`Auth::open`] and [`PlainAcl::open`].
    pub fn open(config: &Config) -> Result<Self, StartError> {
        let (root, files) = (&config.store.root, config.plain_files());
        let log = AuditLog::new(&root.join("logs"));
        let auth = Auth::open(&config.auth, &root.join("config"), &files)?;
        let auth = auth.logging_to(move |now_ms, line| log.write(now_ms, line));
        let settings = auth.settings();
        let plain = settings.is_plain.then(|| PlainAcl::open(files)).transpose()?;
        let is_shut = plain.is_some() || settings.authentication != Switch::Off;
        let own = config.own_credentials();
        if is_shut && own.is_none() {
            tracing::warn!("innerClientAuthenticationCredentials is not set: {}", refused_calls(config));
        }
        let refusal_of_others = config.refusal_of_others.filter(|_| !is_shut);
        Ok(Self { auth, plain, is_shut, refusal_of_others, delays: Delays::default(), own })
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
    fn refuse_others(&self, attempt: Attempt<'_>) -> Result<(), Denial> {
        match self.refusal_of_others {
            None => Ok(()),
            Some(text) => {
                let attempt = Attempt { user: "", ..attempt };
                self.auth.authenticate(attempt, || Err(AuthError::Invalid(text))).map(drop)
            }
        }
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
        let attempt = Attempt { now_ms, origin, request: Request::Code(signed.code), user, mark };
        self.refuse_others(attempt)?;
        let Some(plain) = &self.plain else {
            return self.auth.authenticate(attempt, || self.auth.verify(signed)).map(Verified::User);
        };
        let mut account = None;
        let verify = || {
            let found = plain.verify(signed, origin.address)?;
            Ok(identity(account.insert(found)))
        };
        self.auth.authenticate(attempt, verify)?;
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
            self.auth.log_refusal(arrival.now_ms, (user, Request::Code(signed.code)), origin, &error);
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
        let request = Request::Message(metadata.message);
        let attempt = Attempt { now_ms, origin, request, user: metadata.user(), mark };
        self.refuse_others(attempt)?;
        if self.plain.is_some() {
            return Err(AuthError::Plain("ACL 1.0 (aclEnable) does not serve gRPC".to_owned()).into());
        }
        self.auth.authenticate(attempt, || self.auth.verify_grpc(metadata))
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
        needs: &[Permission<'_>],
    ) -> Result<(), AuthError> {
        let Some(plain) = &self.plain else { return Err(AuthError::NoSubject) };
        match demands_administrator {
            true => plain.check_administrator(account, code),
            false => plain.decide(account, needs),
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
