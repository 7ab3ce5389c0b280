//! Settings of a role in a properties file: what each is called, how values are read and shown, and what a file says that has no effect.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::body::KeyValuesError;

/// Name under which a broker lists the settings whose shown values count after its next start, separated by `;`
/// (`GET_BROKER_CONFIG`). Apache RocketMQ shows such values, too, and does not tell them from those that count.
pub const AFTER_RESTART: &str = "countsAfterRestart";

/// Field of the answer to `GET_BROKER_CONFIG` in which a broker of Vostok tells the sources of its settings, as
/// `name=file;name=run-time`. A setting that is not in the field has its default.
pub const SOURCES: &str = "settingSources";

/// Whether the value that a broker shows of a setting counts after its next start only.
pub fn counts_after_restart(shown: &BTreeMap<String, String>, name: &str) -> bool {
    shown.get(AFTER_RESTART).is_some_and(|names| names.split(';').any(|listed| listed == name))
}

/// Error: a value does not have its setting's type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting {key} is `{value}`, expected {expected}")]
pub struct ConfigError {
    /// Name of the setting.
    pub key: String,
    /// The value that was found.
    pub value: String,
    /// Description of the values that are accepted.
    pub expected: &'static str,
}

/// Error: a configuration file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The text is not a properties file.
    #[error(transparent)]
    Text(#[from] KeyValuesError),
    /// A value does not have its setting's type.
    #[error(transparent)]
    Value(#[from] ConfigError),
}

impl FileError {
    /// Name of the setting whose value is refused.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Value(error) => Some(&error.key),
        }
    }
}

/// A problem in a configuration file that the operator should know of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// No setting has this name.
    #[error("unknown setting {0}: it has no effect")]
    Unknown(String),
    /// The value is empty; the setting keeps its default.
    #[error("{0}; the default stays")]
    Empty(ConfigError),
    /// The value turns a switch off, as anything but `true` does in RocketMQ: name and value.
    #[error("setting {0} is `{1}` and counts as false; write true or false")]
    Off(String, String),
    /// RocketMQ has this setting, Vostok does not: its name and value.
    #[error("setting {0}={1} has no effect here")]
    Unsupported(String, String),
}

/// When a changed setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The change takes effect immediately.
    Live,
    /// The change takes effect after a restart.
    Restart,
    /// The setting is only reported; RocketMQ's threads and queues have no counterpart here.
    None,
    /// The setting has no effect, and an operator who sets it is warned.
    Unsupported,
}

/// A setting of the configuration `C`, as configuration files and requests name it.
pub struct Property<C> {
    /// Key of the setting.
    pub name: &'static str,
    /// Description of the setting.
    pub doc: &'static str,
    /// When a change takes effect.
    pub effect: Effect,
    /// The setting's value in a configuration.
    pub get: fn(&C) -> String,
    /// Changes the setting; an error describes the values that are accepted.
    pub set: fn(&mut C, &str) -> Result<(), &'static str>,
}

impl<C> Property<C> {
    /// The setting's value in `config`.
    pub fn value(&self, config: &C) -> String {
        (self.get)(config)
    }

    /// Changes the setting in `config` as a line of a file says, and returns a warning if the value is another than was written.
    ///
    /// # Errors
    /// [`ConfigError`] when the value does not have the setting's type; the setting stays as it was.
    pub fn read(&self, config: &mut C, value: &str) -> Result<Option<Warning>, ConfigError> {
        let text = value.trim();
        match self.change(config, value) {
            Ok(()) => {
                let is_other = self.value(config) == "false" && !text.eq_ignore_ascii_case("false");
                Ok(is_other.then(|| Warning::Off(self.name.to_owned(), text.to_owned())))
            }
            Err(error) if text.is_empty() => Ok(Some(Warning::Empty(error))),
            Err(error) => Err(error),
        }
    }

    /// Changes the setting in `config`.
    ///
    /// # Errors
    /// [`ConfigError`] when the value does not have the setting's type; the setting stays as it was.
    pub fn change(&self, config: &mut C, value: &str) -> Result<(), ConfigError> {
        (self.set)(config, value.trim()).map_err(|expected| ConfigError {
            key: self.name.to_owned(),
            value: value.to_owned(),
            expected,
        })
    }
}

/// A value type of settings.
pub trait Setting: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// A description of the values that are accepted.
    fn parse(text: &str) -> Result<Self, &'static str>;

    /// The text of the value.
    fn show(&self) -> String;
}

impl Setting for bool {
    fn parse(text: &str) -> Result<Self, &'static str> {
        switch(text).ok_or("true or false")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn parse(text: &str) -> Result<Self, &'static str> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Setting for PathBuf {
    fn parse(text: &str) -> Result<Self, &'static str> {
        Ok(text.into())
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

macro_rules! numbers {
    ($($type:ty: $expected:literal),*) => {$(
        impl Setting for $type {
            fn parse(text: &str) -> Result<Self, &'static str> {
                text.parse().map_err(|_| $expected)
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers! {
    u16: "a port number of 0 to 65535", u32: "a number of 0 or more", u64: "a number of 0 or more",
    usize: "a number of 0 or more"
}

/// Words that turn a switch off, beside misspellings of `false`.
const OFF: [&str; 9] = ["", "no", "off", "0", "n", "f", "none", "disable", "disabled"];

/// Reads a switch; `None` when its reader may have meant that the switch is on, or another thing.
///
/// RocketMQ takes everything but `true` for false (`MixAll.properties2Object`). Words that mean false are read so here as well;
/// words that mean true, and words without a meaning, are refused, because they would turn the switch off silently.
pub fn switch(text: &str) -> Option<bool> {
    let word = text.to_ascii_lowercase();
    match word.as_str() {
        "true" => Some(true),
        word if OFF.contains(&word) || word.starts_with('f') && distance(word, "false") <= 2 => Some(false),
        _ => None,
    }
}

/// Reads a switch that decides about users: `true`, `false` in any case, or nothing for `false`. A misspelt word may have meant either.
pub fn exact_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "" | "false" => Some(false),
        _ => None,
    }
}

/// The number of letters to change, add or remove to get from one word to the other.
fn distance(word: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in word.bytes().take(32).enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, known) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != known);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// Reads addresses of servers, `host:port` separated by `;`. An address without a host is of this machine, as in RocketMQ
/// (`NetworkUtil.string2SocketAddress`). Which machine a name means is asked when it is connected to.
///
/// # Errors
/// A text that says what was expected, and which part was found.
pub fn addresses(text: &str) -> Result<String, String> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let parts: Result<Vec<String>, String> = parts.map(address).collect();
    parts.map(|parts| parts.join(";"))
}

fn address(text: &str) -> Result<String, String> {
    let unusable = || format!("expected host:port, as 10.0.0.1:9876, several separated by ;, found {text:?}");
    let (host, port) = text.rsplit_once(':').ok_or_else(unusable)?;
    let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(unusable)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let without_zone = bare.split_once('%').map_or(bare, |(address, _)| address);
    if without_zone.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{bare}]:{port}"));
    }
    match host {
        "" => Ok(format!("127.0.0.1:{port}")),
        host if is_host(host) => Ok(format!("{host}:{port}")),
        _ => Err(unusable()),
    }
}

/// Whether a text is an IPv4 address or can be the name of a machine.
pub fn is_host(text: &str) -> bool {
    let is_fit = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
    let is_name = text.bytes().any(|letter| letter.is_ascii_alphabetic());
    text.len() <= 253 && text.bytes().all(is_fit) && (is_name || text.parse::<std::net::Ipv4Addr>().is_ok())
}

/// A variable that whoever fills a template should have replaced, such as `${BROKER_IP}` or `{{ .ip }}`.
pub fn variable(text: &str) -> Option<&str> {
    let (begin, open, close) = [("${", "}"), ("{{", "}}")]
        .into_iter()
        .find_map(|(open, close)| Some((text.find(open)?, open, close)))?;
    let name_at = begin + open.len();
    let name = &text[name_at..name_at + text[name_at..].find(close)?];
    let is_fit = |letter: char| letter.is_alphanumeric() || " _.:-".contains(letter);
    let is_name = name.chars().any(char::is_alphabetic) && name.chars().all(is_fit);
    is_name.then(|| &text[begin..name_at + name.len() + close.len()])
}

#[cfg(test)]
mod tests;
