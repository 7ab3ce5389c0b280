//! Places that TLS settings come from: the environment, a configuration file, and a file of their own (`TlsSystemConfig`).

use super::{Security, TlsError, TlsMode, TlsSettings};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use wire::body::parse_key_values;

/// File of the settings when no other file is named.
const DEFAULT_FILE: &str = "/etc/rocketmq/tls.properties";
/// Name of the setting that names another file.
const FILE: &str = "tls.config.file";

/// TLS settings while they are collected. The setting that is found last counts, as in RocketMQ.
#[derive(Default)]
pub struct TlsSources {
    settings: TlsSettings,
    file: Option<PathBuf>,
}

impl TlsSources {
    /// Reads the environment, where `tls.server.mode` has the name `ROCKETMQ_TLS_SERVER_MODE`.
    ///
    /// # Errors
    /// [`TlsError::Setting`] when a value is invalid.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, TlsError> {
        let mut sources = Self::default();
        for key in TlsSettings::NAMES.into_iter().chain([FILE]) {
            if let Some(value) = variable(&format!("ROCKETMQ_{}", key.replace('.', "_").to_uppercase())) {
                sources.set(key, &value)?;
            }
        }
        Ok(sources)
    }

    /// Sets a property; returns false when the name is not a TLS setting.
    ///
    /// # Errors
    /// [`TlsError::Setting`] when the value is invalid.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, TlsError> {
        if key == FILE {
            self.file = Some(value.into());
            return Ok(true);
        }
        self.settings.set(key, value)
    }

    /// Reads the file of settings, which must exist if a source names it, and returns all settings.
    ///
    /// # Errors
    /// [`TlsError::File`] when the file cannot be read; [`TlsError::Setting`] when a value is invalid.
    pub fn read(self) -> Result<TlsSettings, TlsError> {
        self.read_unless(&[ErrorKind::NotFound])
    }

    /// Loads the certificates for a program that dials servers and accepts no connections. The default file may belong
    /// to a server whose user alone may read it; the program then takes the file as absent.
    ///
    /// # Errors
    /// The errors of [`Self::read`] and [`Security::new`].
    pub fn of_tool(self) -> Result<Security, TlsError> {
        let settings = self.read_unless(&[ErrorKind::NotFound, ErrorKind::PermissionDenied])?;
        let encrypts = settings.client_enabled.unwrap_or(settings.mode == TlsMode::Enforcing);
        let (mode, client_enabled) = (TlsMode::Disabled, Some(encrypts));
        Security::new(&TlsSettings { mode, client_enabled, replication: None, ..settings })
    }

    fn read_unless(mut self, absent: &[ErrorKind]) -> Result<TlsSettings, TlsError> {
        let path = self.file.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let failed = |cause| TlsError::File { path: path.to_owned(), cause };
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(cause) if self.file.is_none() && absent.contains(&cause.kind()) => return Ok(self.settings),
            Err(cause) => return Err(failed(cause)),
        };
        let pairs =
            parse_key_values(&text).map_err(|why| failed(io::Error::new(ErrorKind::InvalidData, why)))?;
        for (key, value) in pairs {
            if !self.settings.set(&key, value.trim())? {
                tracing::warn!(key, path = %path.display(), "not a TLS setting; ignored");
            }
        }
        Ok(self.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_tool(settings: &[(&str, &str)]) -> Result<Security, TlsError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines: String = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        std::fs::write(file.path(), lines).unwrap();
        let path = file.path().display().to_string();
        TlsSources::of_environment(|name| (name == "ROCKETMQ_TLS_CONFIG_FILE").then(|| path.clone()))?
            .of_tool()
    }

    #[test]
    fn a_tool_is_plain_unless_settings_of_clients_or_an_enforcing_server_encrypt() {
        let client = |settings: &[_]| of_tool(settings).unwrap().client.is_some();
        assert!(!client(&[]));
        assert!(!client(&[("tls.server.certPath", "/absent"), ("tls.server.keyPath", "/absent")]));
        assert!(client(&[("tls.enable", "true")]));
        assert!(client(&[("tls.server.mode", "enforcing")]));
        assert!(!client(&[("tls.server.mode", "enforcing"), ("tls.enable", "false")]));
        assert!(of_tool(&[("tls.server.mode", "enforcing")]).unwrap().server.is_none());
    }

    #[test]
    fn a_tool_verifies_servers_when_the_settings_say_so() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tls/golden/ca.pem");
        let given =
            [("tls.enable", "true"), ("tls.client.authServer", "true"), ("tls.client.trustCertPath", golden)];
        assert!(of_tool(&given).unwrap().checks_servers());
        assert!(of_tool(&given[..2]).is_err(), "no authority is trusted");
        assert!(!of_tool(&given[..1]).unwrap().checks_servers());
    }
}
