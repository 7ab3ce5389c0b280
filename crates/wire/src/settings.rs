//! Settings of roles: the table that names them, and how a properties file is read into them.
//!
//! [`settings!`](crate::settings!) declares a struct of settings together with its defaults and its table of
//! [`Property`]. A table row has the name, the type, the default, the bounds and the text of a setting.

mod address;
mod codec;
mod file;
mod property;
mod table;

use std::collections::BTreeMap;

pub use address::{
    BROKER_PORT, CONTROLLER_PORT, HA_PORT, NAMESRV_PORT, addresses, is_host, name_servers, variable,
    with_port,
};
pub use codec::{
    Codec, Exact, FunctionCodec, Milliseconds, Plain, SecretCodec, Setting, exact_switch, switch,
};
pub use file::{ConfigError, FileError, FileSettings};
pub use property::{Effect, Fault, Finding, Property};

/// Name under which a broker lists the settings whose new values take effect at its next start, separated by `;`
/// (`GET_BROKER_CONFIG`). Apache RocketMQ shows such values too, but does not distinguish them from the values in
/// effect.
pub const AFTER_RESTART: &str = "countsAfterRestart";

/// Field of the response to `GET_BROKER_CONFIG` in which a broker of Vostok tells the sources of its settings, as
/// `name=file;name=run-time`. A setting that is not in the field has its default.
pub const SOURCES: &str = "settingSources";

/// Whether the shown value of a setting takes effect at the broker's next start only.
pub fn counts_after_restart(shown: &BTreeMap<String, String>, name: &str) -> bool {
    shown.get(AFTER_RESTART).is_some_and(|names| names.split(';').any(|listed| listed == name))
}

#[cfg(test)]
mod tests;
