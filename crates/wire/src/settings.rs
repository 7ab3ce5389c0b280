//! Settings of a role in a properties file: what each is called, how values are read and shown, and what a file says that has no effect.

use std::path::PathBuf;

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

/// A problem in a configuration file that the operator should know of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// No setting has this name.
    #[error("unknown setting {0}: it has no effect")]
    Unknown(String),
    /// The value is invalid; the setting keeps its default.
    #[error("{0}; the default stays")]
    Invalid(ConfigError),
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
        Ok(text.eq_ignore_ascii_case("true"))
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
