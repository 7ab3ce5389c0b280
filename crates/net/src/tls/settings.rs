//! The TLS settings and their names (`TlsSystemConfig`, `TlsHelper.extractTlsConfigFromFile`).

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// `tls.server.mode`: treatment of plain and encrypted connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// A TLS hello ends the connection.
    Disabled,
    /// Plain and TLS connections are served.
    #[default]
    Permissive,
    /// A plain connection is closed.
    Enforcing,
}

/// `tls.server.need.client.auth`: whether clients must present a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// Clients may present a certificate.
    Optional,
    /// Clients must present a certificate.
    Require,
}

/// A certificate chain and its private key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPair {
    /// PEM file of the certificate chain.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
    /// Password of the key, if it is encrypted.
    pub password: Option<String>,
}

/// All TLS settings. By default, as in RocketMQ, plain and TLS connections are served, with a certificate created at start,
/// and dialed connections are plain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// `tls.server.mode`: treatment of plain and TLS connections.
    pub mode: TlsMode,
    /// `tls.test.mode.enable`: use a certificate created at start, and trust any certificate. When not set, it is on while
    /// no certificate is named; RocketMQ would silently ignore a named certificate.
    pub test: Option<bool>,
    /// `tls.server.certPath`, `tls.server.keyPath`, `tls.server.keyPassword`: the server's certificate.
    pub server: Option<KeyPair>,
    /// `tls.server.need.client.auth`: whether clients must present a certificate.
    pub client_auth: ClientAuth,
    /// `tls.server.authClient`: whether a client's certificate must be trusted.
    pub verify_client: bool,
    /// `tls.server.trustCertPath`: the authorities that sign clients' certificates.
    pub server_trust: Option<PathBuf>,
    /// `tls.enable`: whether dialed connections are encrypted. When not set, they are if accepted connections must be.
    pub client_enabled: Option<bool>,
    /// `tls.client.certPath`, `tls.client.keyPath`, `tls.client.keyPassword`: the client's certificate.
    pub client: Option<KeyPair>,
    /// `tls.client.authServer`: whether a server's certificate must be trusted.
    pub verify_server: bool,
    /// `tls.client.trustCertPath`: the authorities that sign servers' certificates.
    pub client_trust: Option<PathBuf>,
    /// `tls.replication.mode`: like `tls.server.mode`, for the port of replication. Plain when not set, because
    /// RocketMQ's brokers replicate plain. With `enforcing`, a slave encrypts its connection to the master as well.
    pub replication: Option<TlsMode>,
    /// `tls.ciphers`, separated by commas: allowed cipher suites; all when empty.
    pub ciphers: Vec<String>,
    /// `tls.protocols`, such as `TLSv1.3`: allowed versions; all when empty.
    pub protocols: Vec<String>,
}

/// Errors of the TLS settings.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate, key or trust file cannot be used.
    #[error("{path}: {cause}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file.
        cause: io::Error,
    },
    /// A setting has an invalid value.
    #[error("{key}={value}: {expected}")]
    Setting {
        /// Name of the setting.
        key: String,
        /// The invalid value.
        value: String,
        /// Description of valid content.
        expected: String,
    },
    /// Certificate and key do not belong together, or cannot be used.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

impl TlsSettings {
    /// The names that [`TlsSettings::set`] accepts.
    pub const NAMES: [&'static str; 18] = [
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
        "tls.replication.mode",
        "tls.ciphers",
        "tls.protocols",
    ];

    /// Sets a property; returns false when the name is not a TLS setting.
    ///
    /// # Errors
    /// [`TlsError::Setting`] when the value is invalid.
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
            "tls.replication.mode" => {
                self.replication = (!value.is_empty()).then(|| mode(key, value)).transpose()?;
            }
            "tls.ciphers" => self.ciphers = list(value),
            "tls.protocols" => self.protocols = list(value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The settings of the connections of replication; `None` when they are plain.
    pub(super) fn of_replication(&self) -> Option<Self> {
        let mode = self.replication.filter(|mode| *mode != TlsMode::Disabled)?;
        let client_enabled = Some(mode == TlsMode::Enforcing);
        Some(Self { mode, client_enabled, replication: None, ..self.clone() })
    }

    /// The server's certificate files; `None` when a certificate is created at start.
    pub(super) fn server_identity(&self) -> Option<&KeyPair> {
        named(self.server.as_ref()).filter(|_| self.test != Some(true))
    }

    /// The client's certificate files, if it has any.
    pub(super) fn client_identity(&self) -> Option<&KeyPair> {
        named(self.client.as_ref()).filter(|_| self.test != Some(true))
    }

    /// Whether a server must show a certificate of a trusted authority.
    pub(super) fn checks_servers(&self) -> bool {
        self.verify_server && self.test != Some(true)
    }

    /// Modification times of the server's files.
    pub(super) fn stamps(&self) -> Vec<Option<SystemTime>> {
        let identity = self.server_identity();
        let files = identity.into_iter().flat_map(|identity| [&identity.certificate, &identity.key]);
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        files.chain(self.server_trust.as_ref()).map(changed).collect()
    }
}

/// Returns a pair of certificate and key, or `None` if one of the two has no file name.
fn named(identity: Option<&KeyPair>) -> Option<&KeyPair> {
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
