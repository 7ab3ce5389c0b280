//! Reads a properties text into the settings, and collects findings for the operator.

use wire::body::{KeyValuesError, parse_key_values};
use wire::settings::{Fault, Finding, variable};

use super::property::property;
use super::{Config, Source, aliases, refused, unknown, value};

/// Errors of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not a properties file.
    #[error(transparent)]
    Text(#[from] KeyValuesError),
    /// The settings of authentication and authorization are wrong or contradict each other.
    #[error(transparent)]
    Auth(#[from] auth::ConfigError),
    /// The setting has a value that cannot be served and must not be ignored.
    #[error("setting {key}={value} cannot be used: {reason}")]
    Refused {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
        /// Reason why the value cannot be used, and advice.
        reason: String,
    },
}

impl ConfigError {
    /// The error with `***` for the value of a secret.
    fn without_secret(mut self) -> Self {
        match &mut self {
            Self::Refused { key, value, .. } if value::is_secret(key) => "***".clone_into(value),
            _ => {}
        }
        self
    }

    /// Name of the setting that is refused.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Refused { key, .. } => Some(key),
            Self::Text(_) | Self::Auth(_) => None,
        }
    }
}

impl Config {
    /// Reads a properties text over these settings. An empty switch is off, an empty value leaves any other setting unchanged, and a
    /// number above its upper bound counts as the bound.
    ///
    /// # Errors
    /// [`ConfigError`], as for [`Config::from_properties`].
    pub fn read(&mut self, text: &[u8]) -> Result<Vec<Finding>, ConfigError> {
        let mut findings = self.set_all(text)?;
        findings.extend(self.check()?);
        Ok(findings)
    }

    /// Sets each setting of a properties text, without a check of their combination. Returns the findings for the operator.
    pub(super) fn set_all(&mut self, text: &[u8]) -> Result<Vec<Finding>, ConfigError> {
        let mut findings = Vec::new();
        for (key, value) in parse_key_values(text)? {
            let value = value.trim().to_owned();
            if let Some(now) = aliases::successor(&key) {
                let reason = aliases::outdated(now);
                findings.push(Finding::NoEffect { key: key.clone(), value: value.clone(), reason });
                self.others.insert(key, value);
                continue;
            }
            let name = match aliases::present_name(&key) {
                Some(now) => {
                    findings.push(Finding::Alias { key: key.clone(), now });
                    now
                }
                None => key.as_str(),
            };
            refused::check(name, &value)?;
            self.sources.insert(name.to_owned(), Source::File);
            findings.extend(self.set(name, value)?);
        }
        Ok(findings)
    }

    /// Checks the combination of settings, and completes settings that depend on others. Returns a finding for a setting
    /// that has no effect in this combination.
    pub(super) fn check(&mut self) -> Result<Option<Finding>, ConfigError> {
        self.store.multi_dispatch = self.light.lmq && self.light.multi_dispatch;
        self.auth.check()?;
        self.store.controller_mode = self.replication.controller.is_enabled;
        if self.store.controller_mode {
            self.check_controller_mode()?;
            let reason = "the controllers elect another master (enableControllerMode)".to_owned();
            let (key, value) = ("enableSlaveActingMaster".to_owned(), "true".to_owned());
            let is_set = std::mem::take(&mut self.replication.acting.is_enabled);
            return Ok(is_set.then_some(Finding::NoEffect { key, value, reason }));
        }
        if self.is_slave() && self.broker_id <= 0 {
            let (key, value) = ("brokerId".to_owned(), self.broker_id.to_string());
            let reason =
                "a slave (brokerRole=SLAVE) has an id above 0, which no other slave of its master has";
            return Err(ConfigError::Refused { key, value, reason: reason.to_owned() });
        }
        if !self.is_slave() && self.broker_id != 0 {
            let value = std::mem::take(&mut self.broker_id).to_string();
            let reason = "a master has id 0; a slave needs brokerRole=SLAVE".to_owned();
            return Ok(Some(Finding::NoEffect { key: "brokerId".to_owned(), value, reason }));
        }
        Ok(None)
    }

    fn set(&mut self, key: &str, value: String) -> Result<Option<Finding>, ConfigError> {
        let key_owned = || key.to_owned();
        if let Some(property) = property(key) {
            if !value::is_secret(key)
                && let Some(variable) = variable(&value)
            {
                let reason = format!("expected a value, found the variable {variable} of a template");
                return Err(ConfigError::Refused { key: key_owned(), value, reason });
            }
            return property.read(self, &value).map_err(|fault| {
                let reason = match fault {
                    Fault::Invalid(expected) | Fault::Above(_, expected) => format!("expected {expected}"),
                    Fault::Refused(reason) => reason,
                };
                ConfigError::Refused { key: key_owned(), value: value.clone(), reason }.without_secret()
            });
        }
        let finding = match unknown::lookup(key) {
            Some(known) if value::is_same(&known.default, &value) => None,
            Some(known) => {
                let (key, value, reason) = (key_owned(), value.clone(), known.reason.to_owned());
                Some(if known.is_missed {
                    Finding::NoEffect { key, value, reason }
                } else {
                    Finding::NotNeeded { key, value, reason }
                })
            }
            None if refused::is_known(key) => None,
            None => Some(Finding::Unknown { key: key_owned(), near: unknown::nearest(key) }),
        };
        self.others.insert(key_owned(), value);
        Ok(finding)
    }

    /// Returns the given settings without effect that matter: unknown names, and settings that have an effect in
    /// Java.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().filter(|(key, value)| match unknown::lookup(key) {
            Some(known) => known.is_missed && !value::is_same(&known.default, value),
            None => !refused::is_known(key),
        });
        others.map(|(key, _)| key.as_str())
    }

    /// Rejects `brokerRole` and `brokerId` in controller mode, because the controllers decide about role and id.
    fn check_controller_mode(&self) -> Result<(), ConfigError> {
        if !self.replication.controller.controllers().is_empty() {
            return Ok(());
        }
        let (key, value) = ("controllerAddr".to_owned(), self.replication.controller.controllers.clone());
        let reason = "enableControllerMode=true needs the controllers, host:port separated by ;".to_owned();
        Err(ConfigError::Refused { key, value, reason })
    }
}
