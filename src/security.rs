//! Whether connections are encrypted: RocketMQ's `tls.*` settings, from where its programs take them.

use std::collections::BTreeMap;

use net::tls::{Security, TlsSources};
use wire::body::{format_key_values, parse_key_values};

use crate::roles::Error;

/// Takes the settings of TLS out of a configuration file's text. The text that is left is for the roles.
///
/// A setting is first looked for in the environment, then in the text, then in the file of `tls.config.file`. The
/// setting that is found last counts, as in RocketMQ.
pub fn take(text: &[u8]) -> Result<(Vec<u8>, Security), Error> {
    let failed = |error| Error::new("TLS", error);
    let mut sources = TlsSources::of_environment(|name| std::env::var(name).ok()).map_err(failed)?;
    let mut rest = BTreeMap::new();
    let pairs = parse_key_values(text).map_err(|error| Error::new("the configuration file", error))?;
    for (key, value) in pairs {
        if !sources.set(&key, value.trim()).map_err(failed)? {
            rest.insert(key, value);
        }
    }
    let security = sources.read().and_then(|settings| Security::new(&settings)).map_err(failed)?;
    Ok((format_key_values(&rest).into_bytes(), security))
}
