//! Auth 2.0 for its callers: the signer of a request, and whether that user has the needed permissions.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::accounts::{self, Account, Accounts, Files, LoadError};
use crate::config::{AuthConfig, ConfigError, Request, Settings, Switch};
use crate::error::{AuthError, Result, printable};
use crate::failures::{Failures, Mark, ResponseTime};
use crate::names::{Decision, PolicyType, UserStatus, UserType};
use crate::plain::{PlainError, PlainFiles, PlainRules};
use crate::policy::PolicyEntry;
use crate::resource::Permission;
use crate::seal::{Arrival, Seals};
use crate::signature::{GrpcCredentials, Metadata, SIGNATURE_BYTES, Signable, SigningKey, UnsignedQuery};

/// Verified sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Authentication is off, so that every client may do everything.
    Off,
    /// The request needs no signature, and has no valid signature.
    Anonymous,
    /// User whose signature the request has.
    User(Arc<str>),
}

/// Result of verifying a request: its sender, or the reason of the refusal.
type SubjectResult = Result<Subject>;

/// Origin of a request.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Address of the client, or the address in a trusted proxy's preamble.
    pub address: IpAddr,
    /// Id of the connection.
    pub connection: u64,
}

impl Origin {
    /// Makes the origin of a request. `connection` is 0 for gRPC, whose connections have no id, and for requests that
    /// may have been kept since they came.
    pub fn new(remote: SocketAddr, connection: u64) -> Self {
        Self { address: remote.ip().to_canonical(), connection }
    }
}

/// Writes an audit line. The number is the time in milliseconds since 1970.
pub(crate) type Log = Box<dyn Fn(i64, &str) + Send + Sync>;

/// Request to verify.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The time in milliseconds.
    pub now_ms: i64,
    /// Address and connection of the client.
    pub origin: Origin,
    /// Code or message name of the request.
    pub request: Request<'a>,
    /// The user that the request names; empty for none.
    pub user: &'a str,
    /// [`Mark`] of the request's connection, in which a verified user is stored.
    pub mark: &'a AtomicU64,
}

/// Refusal of a request, and the time of its response.
#[derive(Debug)]
pub struct Denial {
    /// Reason of the refusal.
    pub error: AuthError,
    /// When the response may leave.
    pub response_time: ResponseTime,
    /// Mark that the connection gets when the response leaves. 0 for none.
    pub mark: Mark,
}

impl From<AuthError> for Denial {
    /// A refusal that is answered at once.
    fn from(error: AuthError) -> Self {
        Self { error, response_time: ResponseTime::Now, mark: 0 }
    }
}

/// Users, acls and settings of a server. All methods may be called from any thread; changes count for the next request.
pub struct Auth {
    settings: Settings,
    accounts: RwLock<Arc<Accounts>>,
    /// Lock of changes to users or acls. The table is swapped after its file is durable.
    files: Mutex<Files>,
    /// Key for checking signatures of unknown users, so that the check takes as long as for known users.
    decoy: SigningKey,
    failures: Failures,
    seals: Seals,
    /// Destination of audit lines. `None` for the log of the process.
    pub(crate) log: Option<Log>,
    /// Names states of the table: one number for this start, and one for each change.
    version: (u64, AtomicU64),
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("users", &self.accounts().len()).finish_non_exhaustive()
    }
}

/// Errors of starting a server with these settings and files.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting or a user of the settings is wrong, or two settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file of users or acls cannot be read or written, or is damaged.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The files of ACL 1.0 cannot be imported.
    #[error(transparent)]
    Plain(#[from] PlainError),
}

impl Auth {
    /// Reads `users.json` and `acls.json` of a directory if `authenticationMetadataProvider` is set. That happens
    /// even while authentication is off, so that users can be created before it is switched on. Creates missing users
    /// of the settings, and imports the accounts of ACL 1.0 with `migrateAuthFromV1Enabled`.
    ///
    /// # Errors
    /// Every variant of [`StartError`]. They change or remove no file.
    pub fn open(config: &AuthConfig, directory: &Path, plain: &PlainFiles) -> Result<Self, StartError> {
        let settings = config.check()?;
        let mut files = Files::new(directory);
        let mut accounts = Accounts::new();
        if settings.keeps_users {
            files.look();
            accounts = files.load()?;
            let before = accounts.len();
            create_missing(&settings, &mut accounts)?;
            if settings.migrates {
                PlainRules::parse(&plain.read()?.files)?.migrate(&mut accounts);
            }
            if accounts.len() > before {
                files.save(&accounts).map_err(LoadError::from)?;
                files.look();
            }
        }
        Ok(Self::of(settings, accounts, files))
    }

    /// Reads the files of users and acls again if another process has replaced them. Returns whether it has. Meant
    /// for servers that do not change the files.
    ///
    /// # Errors
    /// [`StartError::Load`] and [`StartError::Config`]. Users and acls stay unchanged, and the files are not read
    /// again before their next change.
    pub fn reload(&self) -> Result<bool, StartError> {
        let mut files = self.files();
        if !self.settings.keeps_users || !files.look() {
            return Ok(false);
        }
        let mut accounts = files.load()?;
        create_missing(&self.settings, &mut accounts)?;
        self.replace(accounts);
        Ok(true)
    }

    /// Makes the state for users of another server. It has no users before [`Auth::take`], and uses no files.
    ///
    /// # Errors
    /// [`StartError::Config`] for settings that stop a start.
    pub fn kept_elsewhere(config: &AuthConfig) -> Result<Self, StartError> {
        Ok(Self::of(config.check()?, Accounts::new(), Files::new(Path::new(""))))
    }

    fn of(settings: Settings, accounts: Accounts, files: Files) -> Self {
        Self {
            settings,
            accounts: RwLock::new(Arc::new(accounts)),
            files: Mutex::new(files),
            decoy: SigningKey::new("no user has this secret"),
            failures: Failures::default(),
            seals: Seals::default(),
            log: None,
            version: (RandomState::new().hash_one(()), AtomicU64::new(0)),
        }
    }

    /// Replaces users and acls by those of another server, from its responses to requests 3005 and 3010.
    ///
    /// # Errors
    /// Text about the first invalid user or acl. Users and acls stay unchanged.
    pub fn take(&self, users: &[u8], acls: &[u8]) -> Result<(), String> {
        self.replace(accounts::parse_accounts(users, acls)?);
        Ok(())
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Authenticates a remoting request.
    ///
    /// # Errors
    /// [`AuthError::NoCredentials`], [`AuthError::UnknownUser`], [`AuthError::DisabledUser`], [`AuthError::Signature`], and
    /// [`AuthError::NoAuthenticationProvider`] for every request while the provider is missing.
    pub fn verify(&self, signed: &Signable<'_>) -> Result<Subject> {
        self.identify(Request::Code(signed.code), || {
            let user = signed.access_key().ok_or(AuthError::NoCredentials)?;
            self.check(user, signed.signature(), signed.parts(UnsignedQuery::ByVersion))
        })
    }

    /// Authenticates a gRPC request.
    ///
    /// # Errors
    /// Errors of [`Auth::verify`], and [`AuthError::NoDateTime`], [`AuthError::Header`], [`AuthError::KeyValue`],
    /// [`AuthError::Credential`] and [`AuthError::Context`] for invalid credentials.
    pub fn verify_grpc(&self, metadata: &Metadata<'_>) -> Result<Subject> {
        self.identify(Request::Message(metadata.message), || {
            let GrpcCredentials { user, signature, content } = metadata.credentials()?;
            self.check(user, signature, [content.as_bytes()].into_iter())
        })
    }

    /// Runs a verification under the limit of failures. An address with many failures gets late responses to right
    /// and wrong requests ([`Failures`]). A request that needs no signature never waits. While its address is slowed,
    /// it counts as unauthenticated.
    ///
    /// # Errors
    /// The errors of `verify`. [`AuthError::Slowed`] for a request that is right, or was not verified, because its
    /// turn comes later.
    pub(crate) fn in_turn(
        &self,
        attempt: Attempt<'_>,
        verify: impl FnOnce() -> Result<Subject>,
    ) -> Result<Subject, Denial> {
        let Attempt { now_ms, origin: Origin { address, .. }, request, user, mark } = attempt;
        let reserved =
            self.failures.reserve_response_time(now_ms, address, user, mark.load(Ordering::Relaxed));
        let note = || self.failures.record_failure(now_ms, address, user, reserved);
        if self.settings.authentication == Switch::On && self.settings.unsigned.contains(request) {
            let identity = if reserved.is_none() { verify()? } else { Subject::Anonymous };
            if identity == Subject::Anonymous && !user.is_empty() {
                note();
            }
            return Ok(identity);
        }
        if reserved == Some(ResponseTime::Never) {
            return Err(Denial { error: AuthError::Slowed, response_time: ResponseTime::Never, mark: 0 });
        }
        let identity = verify().map_err(|error| {
            // A failure as the user of the connection ends the connection's verified status.
            let own = self.failures.mark(user);
            let _ = mark.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed);
            Denial { error, response_time: note(), mark: 0 }
        })?;
        if let Subject::User(name) = &identity
            && (reserved.is_some() || mark.load(Ordering::Relaxed) == 0)
        {
            let known = self.failures.mark(name);
            if let Some(response_time @ ResponseTime::After(_)) = reserved {
                return Err(Denial { error: AuthError::Slowed, response_time, mark: known });
            }
            mark.store(known, Ordering::Relaxed);
        }
        Ok(identity)
    }

    fn identify(&self, request: Request<'_>, check: impl FnOnce() -> SubjectResult) -> SubjectResult {
        match self.settings.authentication {
            Switch::Off => Ok(Subject::Off),
            Switch::WithoutProvider => Err(AuthError::NoAuthenticationProvider),
            Switch::On if self.settings.unsigned.contains(request) => {
                Ok(check().unwrap_or(Subject::Anonymous))
            }
            Switch::On => check(),
        }
    }

    /// Checks a signature. The signature is computed before any error about the user, so that responses about unknown
    /// users, disabled users and wrong secrets take equal time.
    fn check<'a>(
        &self,
        user: &str,
        signature: Option<[u8; SIGNATURE_BYTES]>,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> SubjectResult {
        let account = self.enabled(user, AuthError::UnknownUser);
        let key = account.as_ref().map_or(&self.decoy, |account| &account.key);
        let is_right = key.verify(parts, &signature.unwrap_or_default()) && signature.is_some();
        let account = account?;
        if is_right { Ok(Subject::User(account.name.clone())) } else { Err(AuthError::Signature) }
    }

    /// Returns an enabled user. `missing` makes the error for an unknown user.
    pub(crate) fn enabled(&self, user: &str, missing: fn(String) -> AuthError) -> Result<Arc<Account>> {
        let account = self.accounts().get(user).cloned().ok_or_else(|| missing(printable(user)))?;
        match account.status {
            UserStatus::Enable => Ok(account),
            UserStatus::Disable => Err(AuthError::DisabledUser(printable(user))),
        }
    }

    /// Checks the seal of a request whose signature was verified. Users of `authenticationSealedUsers` must send a seal.
    ///
    /// # Errors
    /// [`AuthError::Seal`].
    pub fn check_seal(&self, identity: &Subject, signed: &Signable<'_>, arrival: Arrival<'_>) -> Result<()> {
        let Subject::User(name) = identity else { return Ok(()) };
        self.seals.check(self.settings.sealed_users.contains(name.as_ref()), signed, arrival)
    }

    /// Signs a response with the secret of a user, so that the user can distinguish this broker from an impostor.
    /// Returns `None` for an unknown or disabled user.
    pub fn prove(&self, user: &str, parts: &[&[u8]]) -> Option<String> {
        self.enabled(user, AuthError::RemovedUser).ok().map(|account| account.key.sign(parts))
    }

    /// Decides whether a caller may send a request with these needs. Changes since the caller was verified
    /// count: a user that was removed or disabled meanwhile is refused.
    pub fn decide(
        &self,
        identity: &Subject,
        request: Request<'_>,
        caller: IpAddr,
        needs: &[Permission<'_>],
    ) -> Ruling {
        match self.settings.authorization {
            Switch::Off => return Ruling::allow("authorization is off"),
            Switch::WithoutProvider => return Ruling::deny(AuthError::NoAuthorizationProvider),
            Switch::On if self.settings.unchecked.contains(request) => {
                return Ruling::allow("authorizationWhitelist");
            }
            Switch::On if needs.is_empty() => return Ruling::allow("nothing needed"),
            Switch::On => {}
        }
        let Subject::User(name) = identity else { return Ruling::deny(AuthError::NoSubject) };
        let account = match self.enabled(name, AuthError::RemovedUser) {
            Ok(account) => account,
            Err(refusal) => return Ruling::deny(refusal),
        };
        if account.kind == UserType::Super {
            return Ruling::allow("super user");
        }
        let mut ruling = Ruling::allow("nothing needed");
        for (at, need) in needs.iter().enumerate() {
            ruling = Ruling { at, ..decide_one(&account, need, caller) };
            if !ruling.is_allowed() {
                break;
            }
        }
        ruling
    }

    /// Whether a caller may change super users and see passwords: a super user, or any caller while authentication is off.
    pub fn is_super(&self, identity: &Subject) -> bool {
        let Subject::User(name) = identity else {
            return *identity == Subject::Off && self.settings.authentication == Switch::Off;
        };
        self.enabled(name, AuthError::RemovedUser).is_ok_and(|it| it.kind == UserType::Super)
    }

    /// A name for the present state of users and acls. Equal names are equal states; a new start has new names.
    pub fn version(&self) -> String {
        format!("{:x}-{}", self.version.0, self.version.1.load(Ordering::Acquire))
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    pub(crate) fn accounts(&self) -> Arc<Accounts> {
        self.accounts.read().clone()
    }

    pub(crate) fn replace(&self, accounts: Accounts) {
        *self.accounts.write() = Arc::new(accounts);
        // A reader of a version and then the table gets a table that is not older than the version.
        self.version.1.fetch_add(1, Ordering::Release);
    }
}

/// Creates the users of the settings that are missing.
fn create_missing(settings: &Settings, accounts: &mut Accounts) -> Result<(), ConfigError> {
    for (key, user) in [
        ("initAuthenticationUser", &settings.first_user),
        ("innerClientAuthenticationCredentials", &settings.inner_user),
    ] {
        if let Some(user) = user.as_ref().filter(|user| !accounts.contains_key(user.name.as_str())) {
            let account = Account::new(&user.name, &user.secret, UserType::Super)
                .map_err(|error| ConfigError(format!("{key}: {error}")))?;
            accounts.insert(account.name.clone(), Arc::new(account));
        }
    }
    Ok(())
}

fn decide_one(account: &Arc<Account>, needed: &Permission<'_>, caller: IpAddr) -> Ruling {
    let rule = match account.policies.decide(needed, caller) {
        Some((policy, at)) => Rule::Entry(DecidingEntry { account: account.clone(), policy, at }),
        None => Rule::NoEntry,
    };
    let reason = match &rule {
        Rule::Entry(deciding) if deciding.entry().decision == Decision::Allow => None,
        Rule::Entry(_) => Some("the decision is deny."),
        _ => Some("no matched policies."),
    };
    let refusal = reason.map(|reason| AuthError::NoPermission {
        user: printable(&account.subject()),
        resource: printable(&needed.resource.to_string()),
        source_ip: caller,
        reason,
    });
    Ruling { refusal, rule, at: 0 }
}

/// The response to whether a caller may send a request, with the rule that decided.
pub struct Ruling {
    /// Reason of the refusal. `None` if the request is served.
    pub refusal: Option<AuthError>,
    /// The rule that decided.
    pub rule: Rule,
    /// Position of the deciding need in the request: the first refused need, else the last need. It is the first need
    /// if the rule is about the user or the settings, because RocketMQ checks the user with each need.
    pub at: usize,
}

impl Ruling {
    fn allow(why: &'static str) -> Self {
        Self { refusal: None, rule: Rule::Fixed(why), at: 0 }
    }

    pub(crate) fn deny(refusal: AuthError) -> Self {
        Self { refusal: Some(refusal), rule: Rule::Fixed("no user"), at: 0 }
    }

    /// Whether the request is served.
    pub fn is_allowed(&self) -> bool {
        self.refusal.is_none()
    }
}

/// Rule that decided about a request.
pub enum Rule {
    /// Rule before all entries, such as disabled authorization, or an unknown user.
    Fixed(&'static str),
    /// No entry of the user's policies matches.
    NoEntry,
    /// An entry of the user's policies.
    Entry(DecidingEntry),
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(why) => f.write_str(why),
            Self::NoEntry => f.write_str("no entry"),
            Self::Entry(deciding) => write!(f, "{} {}", deciding.policy, deciding.entry()),
        }
    }
}

/// The entry of a policy that decided.
pub struct DecidingEntry {
    account: Arc<Account>,
    policy: PolicyType,
    at: usize,
}

impl DecidingEntry {
    fn entry(&self) -> &PolicyEntry {
        &self.account.policies.of(self.policy).entries()[self.at]
    }
}

#[cfg(test)]
mod tests;
