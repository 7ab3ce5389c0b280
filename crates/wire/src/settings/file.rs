//! Properties files of the roles whose files may have names without a setting.

use std::collections::BTreeMap;

use super::{Effect, Fault, Finding, Property};
use crate::body::{KeyValuesError, format_key_values, parse_key_values};

/// Error: a value does not have its setting's type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting {key} is `{value}`, expected {expected}")]
pub struct ConfigError {
    /// Name of the setting.
    pub key: String,
    /// The value that was found.
    pub value: String,
    /// Description of the values that are accepted.
    pub expected: String,
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
    /// Returns the name of the setting whose value is invalid.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Value(error) => Some(&error.key),
        }
    }
}

/// Settings of a role that keeps unknown names of its file, and reports them with its configuration.
pub trait FileSettings: Default + 'static {
    /// All settings of the role.
    fn table() -> &'static [Property<Self>];

    /// Names without a setting, with their values.
    fn unknown(&self) -> &BTreeMap<String, String>;

    /// Names without a setting, with their values.
    fn unknown_mut(&mut self) -> &mut BTreeMap<String, String>;

    /// The setting with this name.
    fn property(key: &str) -> Option<&'static Property<Self>> {
        Self::table().iter().find(|property| property.name == key)
    }

    /// Reads the text of a properties file over these settings.
    ///
    /// # Errors
    /// [`FileError`] when the text is malformed or a value does not have the type of its setting.
    fn read(&mut self, text: &[u8]) -> Result<Vec<Finding>, FileError> {
        let mut findings = Vec::new();
        for (key, value) in parse_key_values(text)? {
            let Some(property) = Self::property(&key) else {
                self.unknown_mut().insert(key.clone(), value);
                findings.push(Finding::Unknown { key, near: None });
                continue;
            };
            if let Some(variable) = property.unfilled(&value) {
                let expected = format!("a value without the variable {variable} of a template");
                return Err(error(&key, &value, Fault::Invalid(expected)).into());
            }
            if let Some(finding) = property.read(self, &value).map_err(|fault| error(&key, &value, fault))? {
                findings.push(finding);
            } else if property.effect == Effect::Unsupported
                && value.trim() != property.value(&Self::default())
            {
                findings.push(Finding::Unsupported { key, value });
            }
        }
        Ok(findings)
    }

    /// Changes one setting, or an unknown name that was kept; returns false for any other name.
    ///
    /// # Errors
    /// [`ConfigError`] when the value does not have the setting's type.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        if let Some(kept) = self.unknown_mut().get_mut(key) {
            value.clone_into(kept);
            return Ok(true);
        }
        let Some(property) = Self::property(key) else { return Ok(false) };
        property.set(self, value).map(|()| true).map_err(|fault| error(key, value, fault))
    }

    /// All names and values in the format of a properties file, including unknown names.
    fn text(&self) -> String {
        let known = Self::table().iter().map(|property| (property.name.to_owned(), property.value(self)));
        format_key_values(&self.unknown().clone().into_iter().chain(known).collect())
    }
}

fn error(key: &str, value: &str, fault: Fault) -> ConfigError {
    let (Fault::Invalid(expected) | Fault::Above(_, expected) | Fault::Refused(expected)) = fault;
    ConfigError { key: key.to_owned(), value: value.to_owned(), expected }
}
