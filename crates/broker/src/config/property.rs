//! What a setting is, and the settings that are more than one field of [`Config`] or than one parser.

use super::Config;
use super::space::{directories, show_directories};
use super::value::{Fault, directory, number, show};

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At once: the setting can be changed while the broker runs.
    Live,
    /// After a restart of the broker.
    Restart,
}

/// Source of the value of a setting; a setting without a source has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Configuration file.
    File,
    /// Command line of the process.
    CommandLine,
    /// Environment of the process.
    Environment,
    /// Request to the running broker, which also wrote the value to the file.
    RunTime,
}

impl Source {
    /// The source in answers to operators.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::CommandLine => "command-line",
            Self::Environment => "environment",
            Self::RunTime => "run-time",
        }
    }
}

/// One setting, as configuration files and requests know it.
pub struct Property {
    /// Name of the setting.
    pub name: &'static str,
    /// What the setting does, with its unit.
    pub doc: &'static str,
    /// When a change takes effect.
    pub effect: Effect,
    pub(super) get: fn(&Config) -> String,
    pub(super) set: fn(&mut Config, &str) -> Result<(), Fault>,
}

impl Property {
    /// The setting's value in `config`, as text.
    pub fn value(&self, config: &Config) -> String {
        (self.get)(config)
    }
}

pub(super) const STORE_ROOT: Property = Property {
    name: "storePathRootDir",
    doc: "directory of the store and its configuration files",
    effect: Effect::Restart,
    get: |config| show(config.store.root.display()),
    set: |config, text| {
        config.set_store_root(&directory(text)?);
        config.has_store_path = true;
        Ok(())
    },
};

pub(super) const COMMIT_LOG: Property = Property {
    name: "storePathCommitLog",
    doc: "directories of the commit log, separated by commas; in the store's unless it is named",
    effect: Effect::Restart,
    get: |config| {
        show_directories(std::iter::once(&config.store.commit_log).chain(&config.store.commit_log_more))
    },
    set: |config, text| {
        let mut all = directories(text).into_iter();
        config.store.commit_log = all.next().ok_or_else(|| Fault::Invalid("a directory".to_owned()))?;
        config.store.commit_log_more = all.collect();
        config.has_commit_log_path = true;
        Ok(())
    },
};

/// Most bytes of a body that `maxMessageSize` may allow; the store takes bodies of that size.
pub(super) const MESSAGE_BYTES_MAX: usize = 128 << 20;

pub(super) const MESSAGE_SIZE: Property = Property {
    name: "maxMessageSize",
    doc: "largest message body in bytes",
    effect: Effect::Live,
    get: |config| show(config.max_message_size),
    set: |config, text| {
        config.max_message_size = number(text, 1..=MESSAGE_BYTES_MAX as i64)?;
        Ok(())
    },
};

pub(super) const DELAY_LEVELS: Property = Property {
    name: "messageDelayLevel",
    doc: "delays of the levels 1, 2, 3 and so on: numbers with the unit s, m, h or d",
    effect: Effect::Restart,
    get: |config| config.delay_levels.clone(),
    set: |config, text| {
        let levels = store::delivery_delays(text).filter(|levels| !levels.is_empty());
        let expected = "expected delays such as 1s 5s 10s 30s 1m 2h 1d, separated by blanks";
        config.store.delay_levels_ms = levels.ok_or_else(|| Fault::Refused(expected.to_owned()))?;
        text.clone_into(&mut config.delay_levels);
        Ok(())
    },
};

/// Bytes of a queue unit.
const UNIT_BYTES: i64 = 20;

pub(super) const SCAN: Property = Property {
    name: "maxFilterMessageSize",
    doc: "bytes of a queue's index that one pull looks through, 20 per message",
    effect: Effect::Live,
    get: |config| show(config.transfer.scan_units * UNIT_BYTES),
    set: |config, text| {
        config.transfer.scan_units = number::<i64>(text, UNIT_BYTES..=i64::from(i32::MAX))? / UNIT_BYTES;
        Ok(())
    },
};
