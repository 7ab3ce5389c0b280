//! Settings of authentication and authorization, with the names of `broker.conf` and `rmq-proxy.json`.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::Deserialize;
use wire::json;
use wire::settings::{Plain, Property, SecretCodec, exact_switch};

/// All settings, as configuration files name them.
static PROPERTIES: LazyLock<Vec<Property<AuthConfig>>> = LazyLock::new(AuthConfig::properties);

wire::settings! {
    /// Settings in the form of a configuration file. [`AuthConfig::check`] checks the values together. The settings of RocketMQ's
    /// caches, which do not exist here, are without effect.
    #[derive(Clone, PartialEq, Eq)]
    pub struct AuthConfig {
        "authenticationEnabled" Restart authentication_enabled: String = "false".to_owned(), "requests must be signed by a user";
        "authenticationProvider" Restart authentication_provider: String = String::new(), "class; only the one of RocketMQ";
        "authenticationMetadataProvider" Restart authentication_metadata_provider: String = String::new(), "class that keeps users, org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider; without it every request fails while authenticationEnabled is on";
        "authenticationStrategy" Restart authentication_strategy: String = String::new(), "class; both of RocketMQ are accepted, and every request is verified";
        "authenticationWhitelist" Restart authentication_whitelist: String = String::new(), "request codes and gRPC messages that need no signature, separated by commas";
        "authenticationSealedUsers" Restart sealed_users: String = String::new(), "users, separated by commas, whose requests must have a seal: a signed field that names code, receiver and time, which Vostok's own callers send and no client of RocketMQ does (docs/security.md)";
        "authenticationHidesPasswords" Restart hides_passwords: String = "false".to_owned(), "whether answers 3004 and 3005 leave out passwords for requests without a seal; mqadmin copyUser and RocketMQ's proxies need the passwords";
        "initAuthenticationUser" Restart first_user: String = String::new(), [SecretCodec(Plain)], "JSON with username and password of a super user that a start creates when it is missing";
        "innerClientAuthenticationCredentials" Restart inner_user: String = String::new(), [SecretCodec(Plain)], "JSON with accessKey and secretKey with which the broker signs its own requests; the user is created like initAuthenticationUser";
        "authorizationEnabled" Restart authorization_enabled: String = "false".to_owned(), "users may only do what their acl allows; needs authenticationEnabled";
        "authorizationProvider" Restart authorization_provider: String = String::new(), "class; only the one of RocketMQ";
        "authorizationMetadataProvider" Restart authorization_metadata_provider: String = String::new(), "class that keeps acls, org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider; without it every request fails while authorizationEnabled is on";
        "authorizationStrategy" Restart authorization_strategy: String = String::new(), "class; both of RocketMQ are accepted, and every request is decided";
        "authorizationWhitelist" Restart authorization_whitelist: String = String::new(), "request codes and gRPC messages that every user may send, separated by commas";
        "authorizationStrict" Restart authorization_strict: String = "false".to_owned(), "requests that RocketMQ leaves unchecked need a permission, too (docs/requests.md)";
        "migrateAuthFromV1Enabled" Restart migrates: String = "false".to_owned(), "a start imports the accounts of plain_acl.yml that are not yet users";
        "aclEnable" Restart acl_enabled: String = "false".to_owned(), "ACL 1.0 is on: plain_acl.yml and acl/*.yml beside the file of -c, or in conf below rocketmqHome; not together with authenticationEnabled";
    }
}

/// Reason why a start is refused because of its settings: the expected value, and the actual value unless it has a
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);

const UNAUTHENTICATED: &str =
    "authorizationEnabled needs authenticationEnabled: without it everybody could send the name of any user";
const BOTH_GENERATIONS: &str = "aclEnable (ACL 1.0) and authenticationEnabled or authorizationEnabled (Auth 2.0) are both on, expected one of them; \
     migrateAuthFromV1Enabled=true imports the accounts of ACL 1.0 into Auth 2.0";

impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(PROPERTIES.iter().map(|row| (row.name, row.value(self)))).finish()
    }
}

impl AuthConfig {
    /// The names of all settings.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROPERTIES.iter().map(|row| row.name)
    }

    /// Sets a setting. Returns `false` if no setting has the name.
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let row = PROPERTIES.iter().find(|row| row.name == key);
        row.is_some_and(|row| row.set(self, value).is_ok())
    }

    /// The value of a setting as pages, logs and answers show it: never a secret.
    ///
    /// # Panics
    /// When no setting has the name.
    pub fn get(&self, key: &str) -> String {
        PROPERTIES.iter().find(|row| row.name == key).expect("a name of the table").value(self)
    }

    /// Whether a switch is on. A misspelt value stops the start, because no other word may turn users off silently.
    fn is_on(&self, key: &str) -> Result<bool, ConfigError> {
        match exact_switch(&self.get(key)) {
            Some(is_on) => Ok(is_on),
            None => Err(ConfigError(format!("{key} is {:?}, expected true or false", self.get(key)))),
        }
    }

    fn class(&self, key: &str, known: &[String]) -> Result<(), ConfigError> {
        let value = self.get(key);
        if value.is_empty() || known.contains(&value) {
            return Ok(());
        }
        let expected = known.join(" or ");
        Err(ConfigError(format!(
            "{key} names the class {value}, which does not exist here; expected {expected} or nothing"
        )))
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// [`ConfigError`] for the first setting that stops a start.
    pub fn check(&self) -> Result<Settings, ConfigError> {
        let authentication = self.is_on("authenticationEnabled")?;
        let authorization = self.is_on("authorizationEnabled")?;
        let plain = self.is_on("aclEnable")?;
        if plain && (authentication || authorization) {
            return Err(ConfigError(BOTH_GENERATIONS.to_owned()));
        }
        if authorization && !authentication {
            return Err(ConfigError(UNAUTHENTICATED.to_owned()));
        }
        let (authentication, keeps_users) =
            self.read_switch("authentication", "Authentication", authentication)?;
        let (authorization, keeps_acls) =
            self.read_switch("authorization", "Authorization", authorization)?;
        Ok(Settings {
            authentication,
            authorization,
            unsigned: Whitelist::parse(&self.authentication_whitelist),
            sealed_users: names(&self.sealed_users),
            hides_passwords: self.is_on("authenticationHidesPasswords")?,
            unchecked: Whitelist::parse(&self.authorization_whitelist),
            is_strict: self.is_on("authorizationStrict")?,
            is_plain: plain,
            keeps_users,
            keeps_acls: keeps_users && keeps_acls,
            migrates: self.is_on("migrateAuthFromV1Enabled")?,
            first_user: user("initAuthenticationUser", &self.first_user, "username and password")?,
            inner_user: user(
                "innerClientAuthenticationCredentials",
                &self.inner_user,
                "accessKey and secretKey",
            )?,
        })
    }

    /// Checks the classes of authentication or authorization. All classes of RocketMQ that settings may name are
    /// built in here. Returns whether requests are checked, and whether users or acls are stored. As in RocketMQ,
    /// they may be stored while the check is off.
    fn read_switch(&self, topic: &str, word: &str, is_on: bool) -> Result<(Switch, bool), ConfigError> {
        let package = format!("org.apache.rocketmq.auth.{topic}");
        let metadata = format!("{topic}MetadataProvider");
        let local = format!("{package}.provider.Local{word}MetadataProvider");
        let proxy = format!("org.apache.rocketmq.proxy.auth.Proxy{word}MetadataProvider");
        self.class(&metadata, &[local, proxy])?;
        if is_on {
            let default = format!("{package}.provider.Default{word}Provider");
            self.class(&format!("{topic}Provider"), &[default])?;
            let strategy = |kind| format!("{package}.strategy.{kind}{word}Strategy");
            self.class(&format!("{topic}Strategy"), &["Stateless", "Stateful"].map(strategy))?;
        }
        let is_kept = !self.get(&metadata).is_empty();
        let switch = match (is_on, is_kept) {
            (false, _) => Switch::Off,
            (true, true) => Switch::On,
            (true, false) => Switch::WithoutProvider,
        };
        Ok((switch, is_kept))
    }
}

/// Reads the user of a setting.
fn user(key: &str, text: &str, members: &str) -> Result<Option<Secret>, ConfigError> {
    let wrong = |_| ConfigError(format!("{key} is not JSON with the members {members}"));
    Some(text).filter(|text| !text.is_empty()).map(json::from_str).transpose().map_err(wrong)
}

/// The names of a comma-separated list.
fn names(text: &str) -> HashSet<Box<str>> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Into::into).collect()
}

/// The name and the secret of a user of the settings.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Secret {
    /// Name of the user.
    #[serde(alias = "username", alias = "accessKey")]
    pub name: String,
    /// Secret of the user.
    #[serde(alias = "password", alias = "secretKey")]
    pub secret: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Mode of authentication or authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// No check.
    Off,
    /// Requests are checked.
    On,
    /// The check is on without its provider, so that every request fails as in RocketMQ.
    WithoutProvider,
}

/// Settings that were checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether requests must be signed.
    pub authentication: Switch,
    /// Whether users need the permissions of their acl.
    pub authorization: Switch,
    /// Requests that need no signature.
    pub unsigned: Whitelist,
    /// Users whose requests must have a seal ([`wire::seal`]).
    pub sealed_users: HashSet<Box<str>>,
    /// Whether answers to requests without a seal have no passwords.
    pub hides_passwords: bool,
    /// Requests that every user may send.
    pub unchecked: Whitelist,
    /// Whether requests that RocketMQ leaves unchecked need a permission.
    pub is_strict: bool,
    /// Whether ACL 1.0 is on.
    pub is_plain: bool,
    /// Whether users are kept, also while authentication is off.
    pub keeps_users: bool,
    /// Whether acls are stored for stored users, even while authorization is off.
    pub keeps_acls: bool,
    /// Whether a start imports accounts of ACL 1.0.
    pub migrates: bool,
    /// The super user that a start creates.
    pub first_user: Option<Secret>,
    /// Super user that signs the server's own requests.
    pub inner_user: Option<Secret>,
}

/// Type of a request: its code, or for gRPC the full name of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A remoting request.
    Code(i32),
    /// A gRPC request, such as `apache.rocketmq.v2.QueryRouteRequest`.
    Message(&'a str),
}

impl std::fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}"),
            Self::Message(name) => f.write_str(name),
        }
    }
}

/// Requests that authentication or authorization leaves out.
#[derive(Clone, Debug, Default)]
pub struct Whitelist {
    codes: HashSet<i32>,
    messages: HashSet<Box<str>>,
}

impl Whitelist {
    /// Parses a comma-separated list of request codes and names of gRPC messages.
    pub fn parse(text: &str) -> Self {
        let mut list = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.parse() {
                Ok(code) => list.codes.insert(code),
                Err(_) => list.messages.insert(item.into()),
            };
        }
        list
    }

    /// Whether a request is on the list.
    pub fn contains(&self, request: Request<'_>) -> bool {
        match request {
            Request::Code(code) => self.codes.contains(&code),
            Request::Message(name) => self.messages.contains(name),
        }
    }
}

#[cfg(test)]
mod tests;
