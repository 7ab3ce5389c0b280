//! Whether connections are encrypted: RocketMQ's `tls.*` settings, from where its programs take them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use net::tls::{Security, TlsSettings};
use wire::body::{format_key_values, parse_key_values};

use crate::roles::Error;

/// File of the settings when no other file is named (`TlsSystemConfig`).
const DEFAULT_FILE: &str = "/etc/rocketmq/tls.properties";

/// Takes the settings of TLS out of a configuration file's text: what is left is for the roles.
///
/// A setting is first looked for in the environment (`tls.server.mode` as `ROCKETMQ_TLS_SERVER_MODE`), then in the
/// text, then in the file of `tls.config.file`; the last one found counts, as in RocketMQ.
pub fn take(text: &[u8]) -> Result<(Vec<u8>, Security), Error> {
    let failed = |error| Error::new("the configuration file", error);
    let mut settings = TlsSettings::default();
    let mut file = None;
    for key in TlsSettings::NAMES.into_iter().chain(["tls.config.file"]) {
        let name = format!("ROCKETMQ_{}", key.replace('.', "_").to_uppercase());
        if let Ok(value) = std::env::var(name) {
            set(&mut settings, &mut file, key, &value)?;
        }
    }
    let mut rest = BTreeMap::new();
    for (key, value) in parse_key_values(text).map_err(failed)? {
        if !set(&mut settings, &mut file, &key, value.trim())? {
            rest.insert(key, value);
        }
    }
    read(&mut settings, file.as_deref())?;
    let security = Security::new(&settings).map_err(|error| Error::new("TLS", error))?;
    Ok((format_key_values(&rest).into_bytes(), security))
}

fn set(
    settings: &mut TlsSettings,
    file: &mut Option<PathBuf>,
    key: &str,
    value: &str,
) -> Result<bool, Error> {
    if key == "tls.config.file" {
        *file = Some(value.into());
        return Ok(true);
    }
    settings.set(key, value).map_err(|error| Error::new("TLS", error))
}

/// Reads the file of settings. One that was named must be there.
fn read(settings: &mut TlsSettings, file: Option<&Path>) -> Result<(), Error> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let failed =
        |error: &dyn std::fmt::Display| Error::new(format!("the TLS settings {}", path.display()), error);
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    for (key, value) in parse_key_values(&text).map_err(|error| failed(&error))? {
        if !settings.set(&key, value.trim()).map_err(|error| failed(&error))? {
            tracing::warn!(key, path = %path.display(), "not a TLS setting; ignored");
        }
    }
    Ok(())
}
