//! Settings that cannot be served and must not be ignored: the broker does not start with them.

use std::collections::BTreeMap;

use super::{ConfigError, value};

/// A setting of which only some values can be served.
struct Rule {
    name: &'static str,
    /// The values that can be served, Java's default first.
    allowed: &'static [&'static str],
    reason: &'static str,
}

const NO_ROCKS: &str = "there is no RocksDB here; leave it as it is to keep the state in files";

const RULES: [Rule; 7] = [
    Rule {
        name: "enableDLegerCommitLog",
        allowed: &["false"],
        reason: "the DLedger log is not served; three brokers with enableControllerMode=true, controllerAddr, allAckInSyncStateSet=true, inSyncReplicas=2, minInSyncReplicas=2 and flushDiskType=SYNC_FLUSH take its place",
    },
    Rule {
        name: "duplicationEnable",
        allowed: &["false"],
        reason: "copying the log by hand is not served; leave it out",
    },
    Rule { name: "transRocksDBEnable", allowed: &["false"], reason: NO_ROCKS },
    Rule { name: "timerRocksDBEnable", allowed: &["false"], reason: NO_ROCKS },
    Rule { name: "configManagerVersion", allowed: &["v1"], reason: NO_ROCKS },
    Rule { name: "useSingleRocksDBForAllConfigs", allowed: &["false"], reason: NO_ROCKS },
    Rule { name: "indexRocksDBEnable", allowed: &["false"], reason: NO_ROCKS },
];

/// Refuses a value that the rule of the setting does not allow. Settings without a rule pass.
pub(super) fn check(name: &str, value: &str) -> Result<(), ConfigError> {
    match RULES.iter().find(|rule| rule.name == name) {
        Some(rule) if !rule.allowed.iter().any(|allowed| value::is_same(allowed, value)) => {
            Err(ConfigError::Refused {
                key: name.to_owned(),
                value: value.to_owned(),
                reason: rule.reason.to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Whether there is a rule for the setting.
pub(super) fn is_known(name: &str) -> bool {
    RULES.iter().any(|rule| rule.name == name)
}

/// The names of the settings with a rule.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Name, allowed values and reason of each rule.
pub(super) fn rules() -> impl Iterator<Item = (&'static str, &'static [&'static str], &'static str)> {
    RULES.iter().map(|rule| (rule.name, rule.allowed, rule.reason))
}

/// The defaults of these settings, by name.
pub(super) fn defaults() -> BTreeMap<String, String> {
    RULES.iter().map(|rule| (rule.name.to_owned(), rule.allowed[0].to_owned())).collect()
}
