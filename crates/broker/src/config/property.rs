//! Sources of settings, and the settings that need more than a single field of [`Config`].

use wire::settings::{Effect, Fault};

use super::space::{directories, show_directories};
use super::value::directory;
use super::{Config, PROPERTIES, Property};

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

/// The setting with this name.
pub(super) fn property(key: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.name == key)
}

/// The settings that change several fields.
pub(super) fn others() -> [Property; 3] {
    let store_root = Property::new(
        ("storePathRootDir", "directory of the store and its configuration files"),
        Effect::Restart,
        |config: &Config| config.store.root.display().to_string(),
        |config: &mut Config, text| {
            config.set_store_root(&directory(text)?);
            config.has_store_path = true;
            Ok(())
        },
    );
    let commit_log = Property::new(
        (
            "storePathCommitLog",
            "directories of the commit log, separated by commas; in the store's unless it is named",
        ),
        Effect::Restart,
        |config: &Config| {
            show_directories(std::iter::once(&config.store.commit_log).chain(&config.store.commit_log_more))
        },
        |config: &mut Config, text| {
            let mut all = directories(text)?.into_iter();
            config.store.commit_log = all.next().ok_or_else(|| Fault::Invalid("a directory".to_owned()))?;
            config.store.commit_log_more = all.collect();
            config.has_commit_log_path = true;
            Ok(())
        },
    );
    let delay_levels = Property::new(
        ("messageDelayLevel", "delays of the levels 1, 2, 3 and so on: numbers with the unit s, m, h or d"),
        Effect::Restart,
        |config: &Config| config.delay_levels.clone(),
        |config: &mut Config, text| {
            let levels = store::delivery_delays(text).filter(|levels| !levels.is_empty());
            let expected = "expected delays such as 1s 5s 10s 30s 1m 2h 1d, separated by blanks";
            config.store.delay_levels_ms = levels.ok_or_else(|| Fault::Refused(expected.to_owned()))?;
            text.clone_into(&mut config.delay_levels);
            Ok(())
        },
    );
    [store_root, commit_log, delay_levels]
}
