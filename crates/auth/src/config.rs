//! Settings of authentication and authorization, with the names of `broker.conf` and `rmq-proxy.json`.

use std::collections::HashSet;

use serde::Deserialize;
use wire::json;

/// Package of RocketMQ's classes; those that settings may name are all built in here.
const CLASSES: &str = "org.apache.rocketmq.";

/// Settings as they are written in a configuration file.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthConfig {
    values: [String; KEYS.len()],
}

/// The names of all settings. Their documentation is in the broker's table of settings; the settings of RocketMQ's caches, which
/// do not exist here, are without effect.
pub const KEYS: [&str; 15] = [
    "authenticationEnabled",
    "authenticationProvider",
    "authenticationMetadataProvider",
    "authenticationStrategy",
    "authenticationWhitelist",
    "initAuthenticationUser",
    "innerClientAuthenticationCredentials",
    "authorizationEnabled",
    "authorizationProvider",
    "authorizationMetadataProvider",
    "authorizationStrategy",
    "authorizationWhitelist",
    "authorizationStrict",
    "migrateAuthFromV1Enabled",
    "aclEnable",
];

/// The settings that are `true` or `false`; the others are texts, empty by default.
const SWITCHES: [&str; 5] = [
    "authenticationEnabled",
    "authorizationEnabled",
    "authorizationStrict",
    "migrateAuthFromV1Enabled",
    "aclEnable",
];

/// Why a start is refused because of its settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value of a switch is neither `true` nor `false`.
    #[error("{key} is {value:?}, expected true or false")]
    Switch {
        /// Name of the setting.
        key: &'static str,
        /// The value that was found.
        value: String,
    },
    /// A setting names a class that is not built in.
    #[error("{key} names the class {value}, which does not exist here; expected {expected} or nothing")]
    Class {
        /// Name of the setting.
        key: &'static str,
        /// The class that was found.
        value: String,
        /// The classes that are known.
        expected: String,
    },
    /// A user in the settings cannot be read. The text never shows the value, which holds a secret.
    #[error("{key} is not JSON with the members {members}")]
    User {
        /// Name of the setting.
        key: &'static str,
        /// The members that are expected.
        members: &'static str,
    },
    /// Authorization is on and authentication is off: everybody could take the name of any user.
    #[error(
        "authorizationEnabled needs authenticationEnabled: without it everybody could send the name of any user"
    )]
    Unauthenticated,
    /// ACL 1.0 and Auth 2.0 are both on.
    #[error(
        "aclEnable (ACL 1.0) and authenticationEnabled or authorizationEnabled (Auth 2.0) are both on, expected one of them; \
         migrateAuthFromV1Enabled=true imports the accounts of ACL 1.0 into Auth 2.0"
    )]
    BothGenerations,
}

impl Default for AuthConfig {
    fn default() -> Self {
        let default = |key: &str| if SWITCHES.contains(&key) { "false" } else { "" };
        Self { values: KEYS.map(|key| default(key).to_owned()) }
    }
}

impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(KEYS.map(|key| (key, self.shown(key)))).finish()
    }
}

impl AuthConfig {
    /// Sets a setting; `false` when its name is not one of [`KEYS`].
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let at = KEYS.iter().position(|known| *known == key);
        at.inspect(|at| value.trim().clone_into(&mut self.values[*at])).is_some()
    }

    /// The value of a setting.
    ///
    /// # Panics
    /// When the name is not one of [`KEYS`].
    #[must_use]
    pub fn get(&self, key: &str) -> &str {
        let at = KEYS.iter().position(|known| *known == key).expect("a name of the table");
        &self.values[at]
    }

    /// The value of a setting as pages, logs and answers show it: never a secret.
    ///
    /// # Panics
    /// When the name is not one of [`KEYS`].
    #[must_use]
    pub fn shown(&self, key: &str) -> &str {
        let is_secret = matches!(key, "initAuthenticationUser" | "innerClientAuthenticationCredentials");
        if is_secret && !self.get(key).is_empty() { "***" } else { self.get(key) }
    }

    fn is_on(&self, key: &'static str) -> Result<bool, ConfigError> {
        let value = self.get(key);
        if value.is_empty() {
            return Ok(false);
        }
        value.to_ascii_lowercase().parse().map_err(|_| ConfigError::Switch { key, value: value.to_owned() })
    }

    fn class(&self, key: &'static str, known: &[&str]) -> Result<(), ConfigError> {
        let value = self.get(key);
        let is_known = value.strip_prefix(CLASSES).is_some_and(|class| known.contains(&class));
        if value.is_empty() || is_known {
            return Ok(());
        }
        let expected: Vec<_> = known.iter().map(|class| format!("{CLASSES}{class}")).collect();
        Err(ConfigError::Class { key, value: value.to_owned(), expected: expected.join(" or ") })
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// Every variant of [`ConfigError`], for the first setting that stops a start.
    pub fn check(&self) -> Result<Settings, ConfigError> {
        let authentication = self.is_on("authenticationEnabled")?;
        let authorization = self.is_on("authorizationEnabled")?;
        let plain = self.is_on("aclEnable")?;
        if plain && (authentication || authorization) {
            return Err(ConfigError::BothGenerations);
        }
        if authorization && !authentication {
            return Err(ConfigError::Unauthenticated);
        }
        self.classes("authentication", "Authentication", authentication)?;
        self.classes("authorization", "Authorization", authorization)?;
        let provider = |key| !self.get(key).is_empty();
        Ok(Settings {
            authentication: Switch::of(authentication, provider("authenticationMetadataProvider")),
            authorization: Switch::of(authorization, provider("authorizationMetadataProvider")),
            unsigned: Whitelist::parse(self.get("authenticationWhitelist")),
            unchecked: Whitelist::parse(self.get("authorizationWhitelist")),
            is_strict: self.is_on("authorizationStrict")?,
            is_plain: plain,
            keeps_users: provider("authenticationMetadataProvider"),
            keeps_acls: provider("authorizationMetadataProvider"),
            migrates: self.is_on("migrateAuthFromV1Enabled")?,
            first_user: self.user("initAuthenticationUser", "username and password")?,
            inner_user: self.user("innerClientAuthenticationCredentials", "accessKey and secretKey")?,
        })
    }

    /// Checks the classes of authentication or authorization. As in RocketMQ, the one that keeps users or acls counts also while
    /// the check itself is off.
    fn classes(&self, topic: &'static str, word: &str, is_on: bool) -> Result<(), ConfigError> {
        let named =
            |end| KEYS.into_iter().find(|key| *key == format!("{topic}{end}")).expect("a name of the table");
        let [provider, metadata, strategy] = ["Provider", "MetadataProvider", "Strategy"].map(named);
        let local = format!("auth.{topic}.provider.Local{word}MetadataProvider");
        self.class(metadata, &[&local, &format!("proxy.auth.Proxy{word}MetadataProvider")])?;
        if !is_on {
            return Ok(());
        }
        self.class(provider, &[&format!("auth.{topic}.provider.Default{word}Provider")])?;
        let name = |kind: &str| format!("auth.{topic}.strategy.{kind}{word}Strategy");
        self.class(strategy, &[&name("Stateless"), &name("Stateful")])
    }

    fn user(&self, key: &'static str, members: &'static str) -> Result<Option<Secret>, ConfigError> {
        let text = self.get(key);
        if text.is_empty() {
            return Ok(None);
        }
        json::from_str(text).map(Some).map_err(|_| ConfigError::User { key, members })
    }
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

/// Whether one of the two checks is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Nothing is checked.
    Off,
    /// Requests are checked.
    On,
    /// The check is on without its provider, so that every request fails as in RocketMQ.
    WithoutProvider,
}

impl Switch {
    fn of(is_on: bool, has_provider: bool) -> Self {
        match (is_on, has_provider) {
            (false, _) => Self::Off,
            (true, true) => Self::On,
            (true, false) => Self::WithoutProvider,
        }
    }
}

/// Settings that were checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether requests must be signed.
    pub authentication: Switch,
    /// Whether users may only do what their acl allows.
    pub authorization: Switch,
    /// Requests that need no signature.
    pub unsigned: Whitelist,
    /// Requests that every user may send.
    pub unchecked: Whitelist,
    /// Whether requests that RocketMQ leaves unchecked need a permission.
    pub is_strict: bool,
    /// Whether ACL 1.0 is on.
    pub is_plain: bool,
    /// Whether users are kept, also while authentication is off.
    pub keeps_users: bool,
    /// Whether acls are kept, also while authorization is off.
    pub keeps_acls: bool,
    /// Whether a start imports accounts of ACL 1.0.
    pub migrates: bool,
    /// The super user that a start creates.
    pub first_user: Option<Secret>,
    /// The super user whose name the server's own requests have.
    pub inner_user: Option<Secret>,
}

/// What a request is: its code, or for gRPC the full name of its message.
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

/// Requests that one of the two checks leaves out.
#[derive(Clone, Debug, Default)]
pub struct Whitelist {
    codes: HashSet<i32>,
    messages: HashSet<Box<str>>,
}

impl Whitelist {
    /// Parses a comma-separated list of request codes and names of gRPC messages.
    #[must_use]
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
    #[must_use]
    pub fn contains(&self, request: Request<'_>) -> bool {
        match request {
            Request::Code(code) => self.codes.contains(&code),
            Request::Message(name) => self.messages.contains(name),
        }
    }
}

#[cfg(test)]
mod tests;
