//! Reads a properties text over the settings, and says what the operator should know of it.

use wire::body::{KeyValuesError, parse_key_values};

use super::property::Property;
use super::{Config, Source, aliases, refused, table, unknown, value};

/// Something in a configuration file that the operator should know of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// No setting has this name.
    #[error("unknown setting {key}: it has no effect{}", did_you_mean(.near.as_deref()))]
    Unknown {
        /// The name that was found.
        key: String,
        /// A known name that is spelled similarly.
        near: Option<&'static str>,
    },
    /// The value does not count as it is written: a number above its bound, an empty text, or a switch that is off.
    #[error("setting {key} is {value:?}, expected {expected}; it counts as {counts}")]
    Invalid {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
        /// What the value must be.
        expected: String,
        /// The value that counts instead.
        counts: String,
    },
    /// The setting was changed but has no effect here, and the operator will miss the effect.
    #[error("setting {key}={value} has no effect: {reason}")]
    NoEffect {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
        /// Why the setting has no effect.
        reason: String,
    },
    /// The setting was changed but has no effect here, and nothing is lost by that.
    #[error("setting {key}={value} is not needed: {reason}")]
    NotNeeded {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
        /// Why the setting is not needed.
        reason: String,
    },
    /// The file uses the name by which Java prints a setting.
    #[error("setting {key} is read as {now}, its present name")]
    Alias {
        /// The name of the setting that the file uses.
        key: String,
        /// The name of the setting that is read.
        now: &'static str,
    },
}

impl Finding {
    /// True when the operator should do something about this finding.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::NotNeeded { .. } | Self::Alias { .. })
    }
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// Why a configuration is refused.
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
        /// Why the value cannot be used, and what to do instead.
        reason: String,
    },
}

impl ConfigError {
    /// The error with `***` for the value of a secret.
    fn without_secret(mut self) -> Self {
        match &mut self {
            Self::Refused { key, value, .. } if table::is_secret(key) => "***".clone_into(value),
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

    /// Sets each setting of a properties text, without a look at how they go together.
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

    /// Checks that the settings go together, and completes those that follow from others.
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
        if let Some(property) = table::property(key) {
            if !table::is_secret(key)
                && let Some(variable) = wire::settings::variable(&value)
            {
                let reason = format!("expected a value, found the variable {variable} of a template");
                return Err(ConfigError::Refused { key: key_owned(), value, reason });
            }
            return self.set_property(property, value).map_err(ConfigError::without_secret);
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

    fn set_property(&mut self, property: &Property, value: String) -> Result<Option<Finding>, ConfigError> {
        let key = property.name.to_owned();
        let (expected, bound) = match (property.set)(self, &value) {
            Ok(()) if property.value(self) == "false" && !value.eq_ignore_ascii_case("false") => {
                ("true or false".to_owned(), None)
            }
            Ok(()) => return Ok(None),
            Err(value::Fault::Above(bound, expected)) => (expected, Some(bound)),
            Err(value::Fault::Invalid(expected)) if value.is_empty() => (expected, None),
            Err(value::Fault::Invalid(expected)) => {
                return Err(ConfigError::Refused { key, value, reason: format!("expected {expected}") });
            }
            Err(value::Fault::Refused(reason)) => return Err(ConfigError::Refused { key, value, reason }),
        };
        if let Some(bound) = bound
            && (property.set)(self, &bound).is_err()
        {
            return Err(ConfigError::Refused { key, value, reason: format!("expected {expected}") });
        }
        let counts = property.value(self);
        Ok(Some(Finding::Invalid { key, value, expected, counts }))
    }

    /// Names of the settings that were given, have no effect, and will be missed: those that nobody knows, and those of Java that
    /// do something there.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().filter(|(key, value)| match unknown::lookup(key) {
            Some(known) => known.is_missed && !value::is_same(&known.default, value),
            None => !refused::is_known(key),
        });
        others.map(|(key, _)| key.as_str())
    }

    /// The controllers decide about role and id, so `brokerRole` and `brokerId` say nothing in controller mode.
    fn check_controller_mode(&self) -> Result<(), ConfigError> {
        if !self.replication.controller.controllers().is_empty() {
            return Ok(());
        }
        let (key, value) = ("controllerAddr".to_owned(), self.replication.controller.controllers.clone());
        let reason = "enableControllerMode=true needs the controllers, host:port separated by ;".to_owned();
        Err(ConfigError::Refused { key, value, reason })
    }
}
