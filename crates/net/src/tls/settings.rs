//! The settings and their names (`TlsSystemConfig`, `TlsHelper.extractTlsConfigFromFile`).

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// `tls.server.mode`: what happens to plain and encrypted connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// A TLS hello ends the connection.
    Disabled,
    /// Both are served.
    #[default]
    Permissive,
    /// A plain connection is ended.
    Enforcing,
}

/// `tls.server.need.client.auth`: whether callers show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    None,
    /// They may.
    Optional,
    /// They must.
    Require,
}

/// A certificate chain and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// PEM file of the chain.
    pub certificate: PathBuf,
    /// PEM file of the key.
    pub key: PathBuf,
    /// Password of an encrypted key.
    pub password: Option<String>,
}

/// Everything TLS is told. The default serves both kinds of connections with a certificate made at start, and calls
/// without TLS, as RocketMQ does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// `tls.server.mode`.
    pub mode: TlsMode,
    /// `tls.test.mode.enable`: a certificate made at start, and everybody is trusted. Unless it is set, it holds
    /// while no certificate is named: RocketMQ would quietly ignore a named one.
    pub test: Option<bool>,
    /// `tls.server.certPath`, `tls.server.keyPath`, `tls.server.keyPassword`.
    pub server: Option<Identity>,
    /// `tls.server.need.client.auth`.
    pub client_auth: ClientAuth,
    /// `tls.server.authClient`: whether a certificate shown must be trusted.
    pub verify_client: bool,
    /// `tls.server.trustCertPath`: who signs callers' certificates.
    pub server_trust: Option<PathBuf>,
    /// `tls.enable`: whether connections we open are encrypted. Unless it is set, they are when those that arrive must be.
    pub client_enabled: Option<bool>,
    /// `tls.client.certPath`, `tls.client.keyPath`, `tls.client.keyPassword`.
    pub client: Option<Identity>,
    /// `tls.client.authServer`: whether a server's certificate must be trusted.
    pub verify_server: bool,
    /// `tls.client.trustCertPath`: who signs servers' certificates.
    pub client_trust: Option<PathBuf>,
    /// `tls.ciphers`, separated by commas; all when empty.
    pub ciphers: Vec<String>,
    /// `tls.protocols`, e.g. `TLSv1.3`; all when empty.
    pub protocols: Vec<String>,
}

/// Why TLS cannot be used as set.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        cause: io::Error,
    },
    /// A setting.
    #[error("{key}={value}: {expected}")]
    Setting {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// The certificate and the key do not fit, or cannot be used.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

impl TlsSettings {
    /// The names [`TlsSettings::set`] knows.
    pub const NAMES: [&'static str; 17] = [
        "tls.server.mode",
        "tls.test.mode.enable",
        "tls.server.certPath",
        "tls.server.keyPath",
        "tls.server.keyPassword",
        "tls.server.need.client.auth",
        "tls.server.authClient",
        "tls.server.trustCertPath",
        "tls.enable",
        "useTLS",
        "tls.client.certPath",
        "tls.client.keyPath",
        "tls.client.keyPassword",
        "tls.client.authServer",
        "tls.client.trustCertPath",
        "tls.ciphers",
        "tls.protocols",
    ];

    /// Takes a setting; false when the name is none of TLS's.
    ///
    /// # Errors
    /// The value is none of those expected.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, TlsError> {
        let yes = || value.eq_ignore_ascii_case("true");
        let path = || (!value.is_empty()).then(|| PathBuf::from(value));
        match key {
            "tls.server.mode" => self.mode = mode(key, value)?,
            "tls.test.mode.enable" => self.test = Some(yes()),
            "tls.server.certPath" => self.server.get_or_insert_default().certificate = value.into(),
            "tls.server.keyPath" => self.server.get_or_insert_default().key = value.into(),
            "tls.server.keyPassword" => self.server.get_or_insert_default().password = password(value),
            "tls.server.need.client.auth" => self.client_auth = client_auth(key, value)?,
            "tls.server.authClient" => self.verify_client = yes(),
            "tls.server.trustCertPath" => self.server_trust = path(),
            "tls.enable" | "useTLS" => self.client_enabled = Some(yes()),
            "tls.client.certPath" => self.client.get_or_insert_default().certificate = value.into(),
            "tls.client.keyPath" => self.client.get_or_insert_default().key = value.into(),
            "tls.client.keyPassword" => self.client.get_or_insert_default().password = password(value),
            "tls.client.authServer" => self.verify_server = yes(),
            "tls.client.trustCertPath" => self.client_trust = path(),
            "tls.ciphers" => self.ciphers = list(value),
            "tls.protocols" => self.protocols = list(value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The server's certificate, unless one is made at start.
    pub(super) fn server_identity(&self) -> Option<&Identity> {
        named(self.server.as_ref()).filter(|_| self.test != Some(true))
    }

    /// The caller's certificate, when it has one.
    pub(super) fn client_identity(&self) -> Option<&Identity> {
        named(self.client.as_ref()).filter(|_| self.test != Some(true))
    }

    /// Times of change of the server's files.
    pub(super) fn stamps(&self) -> Vec<Option<SystemTime>> {
        let identity = self.server_identity();
        let files = identity.into_iter().flat_map(|identity| [&identity.certificate, &identity.key]);
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        files.chain(self.server_trust.as_ref()).map(changed).collect()
    }
}

/// An identity that names both files.
fn named(identity: Option<&Identity>) -> Option<&Identity> {
    identity.filter(|identity| {
        !identity.certificate.as_os_str().is_empty() && !identity.key.as_os_str().is_empty()
    })
}

fn mode(key: &str, value: &str) -> Result<TlsMode, TlsError> {
    match value.to_ascii_lowercase().as_str() {
        "disabled" => Ok(TlsMode::Disabled),
        "permissive" | "" => Ok(TlsMode::Permissive),
        "enforcing" => Ok(TlsMode::Enforcing),
        _ => Err(unexpected(key, value, "expected disabled, permissive or enforcing")),
    }
}

fn client_auth(key: &str, value: &str) -> Result<ClientAuth, TlsError> {
    match value.to_ascii_lowercase().as_str() {
        "none" | "" => Ok(ClientAuth::None),
        "optional" => Ok(ClientAuth::Optional),
        "require" => Ok(ClientAuth::Require),
        _ => Err(unexpected(key, value, "expected none, optional or require")),
    }
}

pub(super) fn unexpected(key: &str, value: &str, expected: impl ToString) -> TlsError {
    TlsError::Setting { key: key.to_owned(), value: value.to_owned(), expected: expected.to_string() }
}

fn password(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn list(value: &str) -> Vec<String> {
    value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
