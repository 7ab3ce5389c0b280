//! A setting as configuration files and requests name it.

use super::codec::HIDDEN;
use super::variable;

/// Time at which a changed setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The change takes effect immediately.
    Live,
    /// The change takes effect after a restart.
    Restart,
    /// The setting is only reported; RocketMQ's threads and queues have no counterpart here.
    None,
    /// Setting without effect. An operator who sets it gets a warning.
    Unsupported,
}

/// Reason why a value is rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is not a value of the setting's type. Holds the description of a valid value.
    Invalid(String),
    /// The number is above its upper bound. Holds the bound, and the description of a valid value.
    Above(String, String),
    /// The value cannot work and must not be ignored. Holds the reason and advice.
    Refused(String),
}

/// Finding in a configuration file for the operator.
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
    /// The value does not apply as written: a number above its bound, an empty text, or a switch that reads as off.
    #[error("setting {key} is {value:?}, expected {expected}; it counts as {counts}")]
    Invalid {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
        /// Description of a valid value.
        expected: String,
        /// The value that counts instead.
        counts: String,
    },
    /// RocketMQ has this setting, Vostok does not.
    #[error("setting {key}={value} has no effect here")]
    Unsupported {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
    },
    /// The setting was changed but has no effect here, and the operator will miss the effect.
    #[error("setting {key}={value} has no effect: {reason}")]
    NoEffect {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
        /// Reason why the setting has no effect.
        reason: String,
    },
    /// The setting was changed but has no effect here, without any loss.
    #[error("setting {key}={value} is not needed: {reason}")]
    NotNeeded {
        /// Name of the setting.
        key: String,
        /// The value that was found.
        value: String,
        /// Reason why the setting is not needed.
        reason: String,
    },
    /// The file has the name under which a Java broker prints a setting. Java reads the setting under the name `now`.
    #[error("setting {key} is read as {now}, its present name")]
    Alias {
        /// The name of the setting that the file uses.
        key: String,
        /// The name of the setting that is read.
        now: &'static str,
    },
}

impl Finding {
    /// Whether the operator should act on this finding.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::NotNeeded { .. } | Self::Alias { .. })
    }
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

type Get<C> = dyn Fn(&C) -> String + Send + Sync;
type Set<C> = dyn Fn(&mut C, &str) -> Result<(), Fault> + Send + Sync;

/// A setting of the configuration `C`, as configuration files and requests name it.
pub struct Property<C> {
    /// Key of the setting.
    pub name: &'static str,
    /// Description of the setting, with its unit.
    pub doc: &'static str,
    /// Time at which a change takes effect.
    pub effect: Effect,
    get: Box<Get<C>>,
    set: Box<Set<C>>,
}

impl<C: Default + 'static> Property<C> {
    /// Returns the unfilled template variable in a value that would take effect. A secret may have any characters.
    pub fn unfilled<'v>(&self, value: &'v str) -> Option<&'v str> {
        let variable = variable(value).filter(|_| self.effect != Effect::None)?;
        let mut settings = C::default();
        let is_secret = self.set(&mut settings, value).is_ok() && self.value(&settings) == HIDDEN;
        (!is_secret).then_some(variable)
    }
}

impl<C: 'static> Property<C> {
    /// A setting that `get` shows and `set` changes.
    pub fn new(
        (name, doc): (&'static str, &'static str),
        effect: Effect,
        get: impl Fn(&C) -> String + Send + Sync + 'static,
        set: impl Fn(&mut C, &str) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Self {
        Self { name, doc, effect, get: Box::new(get), set: Box::new(set) }
    }

    /// Makes the setting of `W`, a configuration with `C` as a part, that shows and changes this setting in the part.
    pub fn within<W: 'static>(self, part: fn(&W) -> &C, part_mut: fn(&mut W) -> &mut C) -> Property<W> {
        let Self { get, set, .. } = self;
        let set = move |whole: &mut W, text: &str| set(part_mut(whole), text);
        Property::new((self.name, self.doc), self.effect, move |whole: &W| get(part(whole)), set)
    }

    /// The setting's value in `config`, as text.
    pub fn value(&self, config: &C) -> String {
        (self.get)(config)
    }

    /// Changes the setting in `config`.
    ///
    /// # Errors
    /// [`Fault`] when the value is rejected; the setting stays as it was.
    pub fn set(&self, config: &mut C, value: &str) -> Result<(), Fault> {
        (self.set)(config, value.trim())
    }

    /// Sets the setting in `config` to the value of a file's line. An empty value leaves any setting but a switch
    /// unchanged, and a number above its upper bound counts as the bound. Returns a finding if the effective value
    /// differs from the written value.
    ///
    /// # Errors
    /// [`Fault`] when the value is rejected; the setting stays as it was.
    pub fn read(&self, config: &mut C, value: &str) -> Result<Option<Finding>, Fault> {
        let value = value.trim();
        let expected = match self.set(config, value) {
            Ok(()) if self.value(config) == "false" && !value.eq_ignore_ascii_case("false") => {
                "true or false".to_owned()
            }
            Ok(()) => return Ok(None),
            Err(Fault::Above(bound, expected)) => {
                self.set(config, &bound).map_err(|_| Fault::Invalid(expected.clone()))?;
                expected
            }
            Err(Fault::Invalid(expected)) if value.is_empty() => expected,
            Err(fault) => return Err(fault),
        };
        let (key, value, counts) = (self.name.to_owned(), value.to_owned(), self.value(config));
        Ok(Some(Finding::Invalid { key, value, expected, counts }))
    }
}
