//! Catalogue of a broker's settings for `vostok config`, and all findings of a configuration file at once.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use wire::body::{format_key_values, parse_key_values};

use super::{Config, ConfigError, Effect, Finding, PROPERTIES, aliases, refused, unknown};

/// Treatment of a setting in Vostok.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The setting has an effect. A change takes effect by [`Effect`].
    Served(Effect),
    /// Only the default value works. The start refuses other values.
    Refused,
    /// The setting is accepted and kept, and has no effect.
    WithoutEffect,
}

/// Setting of a broker.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Name of the setting.
    pub name: &'static str,
    /// Treatment of the setting.
    pub treatment: Treatment,
    /// The default here, as text.
    pub default: String,
    /// The default of RocketMQ 5.5.0: `None` when RocketMQ has no such setting, `*` when the machine decides.
    pub java: Option<&'static str>,
    /// Effect of the setting, or the reason why it has no effect or is refused.
    pub text: &'static str,
}

impl Setting {
    /// Returns the unit of the value: the first unit in the setting's text. `None` for a flag, a word or a plain
    /// count.
    pub fn unit(&self) -> Option<&'static str> {
        let is_number = self.default.chars().next().is_some_and(|first| first.is_ascii_digit());
        if !is_number || self.treatment == Treatment::WithoutEffect {
            return None;
        }
        let units = ["milliseconds", "bytes", "percent", "hours", "topics", "seconds"];
        let first = units.into_iter().filter_map(|unit| Some((self.text.find(unit)?, unit))).min();
        first.map(|(_, unit)| unit)
    }

    /// Whether RocketMQ has the setting and begins with another value.
    pub fn differs_from_java(&self) -> bool {
        self.java.is_some_and(|java| java != "*" && java != self.default)
    }
}

/// Every setting of a broker, sorted by name.
pub fn settings() -> Vec<Setting> {
    let defaults = Config::new("", Ipv4Addr::LOCALHOST.into());
    let java: BTreeMap<&str, &str> = wire::defaults::BROKER
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, default)| (aliases::present_name(name).unwrap_or(name), default))
        .collect();
    let setting = |name, treatment, default, text| {
        let java = java.get(name).copied();
        Setting { name, treatment, default, java, text }
    };
    let served = PROPERTIES.iter().map(|property| {
        let default = match property.name {
            "brokerIP1" | "brokerName" => "*".to_owned(),
            _ => property.value(&defaults),
        };
        setting(property.name, Treatment::Served(property.effect), default, property.doc)
    });
    let refused = refused::rules()
        .map(|(name, allowed, why)| setting(name, Treatment::Refused, allowed[0].to_owned(), why));
    let without = unknown::by_reason().into_iter().flat_map(|(reason, names)| {
        names.into_iter().filter_map(move |name| Some((name, reason, unknown::lookup(name)?)))
    });
    // All of these are RocketMQ's or its plug-ins', and have RocketMQ's defaults.
    let without = without.map(|(name, why, known)| Setting {
        java: Some(&known.default),
        ..setting(name, Treatment::WithoutEffect, known.default.clone(), why)
    });
    let mut all: Vec<_> = served.chain(refused).chain(without).collect();
    all.sort_unstable_by_key(|setting| setting.name);
    all
}

/// Returns the setting with a present or older name.
///
/// # Errors
/// No setting has this name. Holds the nearest known name.
pub fn setting(name: &str) -> Result<Setting, Option<&'static str>> {
    let present = aliases::present_name(name).or_else(|| aliases::successor(name)).unwrap_or(name);
    let found = settings().into_iter().find(|setting| setting.name.eq_ignore_ascii_case(present));
    found.ok_or_else(|| unknown::nearest(name))
}

/// Returns all findings of a configuration file: errors that would stop the start, setting by setting, and the
/// findings of the start.
///
/// # Errors
/// The text is not a properties file.
pub fn lint(text: &[u8]) -> Result<(Vec<ConfigError>, Vec<Finding>), ConfigError> {
    let mut values = parse_key_values(text)?;
    let mut refusals: Vec<ConfigError> = Vec::new();
    loop {
        let mut config = Config::of_this_machine();
        match config.set_all(format_key_values(&values).as_bytes()) {
            Ok(mut findings) => {
                match config.check() {
                    Ok(finding) => findings.extend(finding),
                    Err(contradiction) => refusals.push(contradiction),
                }
                return Ok((refusals, findings));
            }
            // The rest of the file is looked at without the refused setting.
            Err(ConfigError::Refused { key, value, reason }) => {
                values.retain(|given, _| !is_named(given, &key));
                refusals.push(ConfigError::Refused { key, value, reason });
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_named(given: &str, name: &str) -> bool {
    aliases::present_name(given).unwrap_or(given) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_stands_once_and_says_what_it_does() {
        let all = settings();
        assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(all.iter().all(|setting| !setting.text.is_empty()));
        // Settings without effect are RocketMQ's, those of its plug-ins too.
        assert!(setting("tieredStoreFileReservedTime").unwrap().java.is_some());
        assert!(setting("connectionsMax").unwrap().java.is_none());
        let differing: Vec<_> = all.iter().filter(|it| it.differs_from_java()).map(|it| it.name).collect();
        assert!(differing.contains(&"controllerHeartBeatTimeoutMills"), "{differing:?}");
        let units =
            ["brokerHeartbeatInterval", "maxMessageSize", "diskMaxUsedSpaceRatio", "autoCreateTopicEnable"];
        let units = units.map(|name| setting(name).unwrap().unit());
        assert_eq!(units, [Some("milliseconds"), Some("bytes"), Some("percent"), None]);
    }

    #[test]
    fn a_setting_is_found_by_older_names_and_similar_ones_are_named() {
        assert_eq!(setting("mapedFileSizeCommitLog").unwrap().name, "mappedFileSizeCommitLog");
        assert_eq!(setting("haSlaveFallbehindMax").unwrap().name, "haMaxGapNotInSync");
        assert_eq!(setting("FILERESERVEDTIME").unwrap().name, "fileReservedTime");
        assert_eq!(setting("fileReservdTime").unwrap_err(), Some("fileReservedTime"));
        assert_eq!(setting("zzzzzzzzzzzz").unwrap_err(), None);
    }

    fn refused_names(text: &str) -> Vec<String> {
        let (refusals, _) = lint(text.as_bytes()).unwrap();
        let key = |error: &ConfigError| match error {
            ConfigError::Refused { key, .. } => key.clone(),
            _ => "-".to_owned(),
        };
        refusals.iter().map(key).collect()
    }

    #[test]
    fn all_refusals_are_found_not_only_the_first() {
        let text =
            "enableDLegerCommitLog=true\nflushDiskType=SOMETIMES\nbrokerRole=SLAVE\nfileReservdTime=4\n";
        assert_eq!(refused_names(text), ["enableDLegerCommitLog", "flushDiskType", "brokerId"]);
        let (_, findings) = lint(text.as_bytes()).unwrap();
        assert!(matches!(&findings[..], [Finding::Unknown { near: Some("fileReservedTime"), .. }]));
    }

    #[test]
    fn numbers_below_their_bound_are_refused() {
        let text =
            "fileReservedTime=-1\nconnectionsMax=0\nmaxMessageSize=0\ntransactionCheckMax=99999999999\n";
        assert_eq!(refused_names(text), ["connectionsMax", "fileReservedTime", "maxMessageSize"]);
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused() {
        for key in ["namesrvAddr", "haMasterAddress", "controllerAddr"] {
            for address in
                ["a b", "h:99999", "h:0", "host:Port", "http://h:9876", "h:9876,i:9876", "h:9876 # x"]
            {
                assert_eq!(refused_names(&format!("{key}={address}\n")), [key], "{address}");
            }
            assert!(refused_names(&format!("{key}=:9876\n")).is_empty());
            assert!(refused_names(&format!("{key}=localhost\n")).is_empty(), "the port has a default");
        }
        assert_eq!(refused_names("haMasterAddress=h:1;i:2\n"), ["haMasterAddress"]);
        for key in ["brokerIP1", "brokerIP2"] {
            for address in ["${BROKER_IP}", "10.0.0.1 # mine", "http://h", "10.0.0.1:10911"] {
                assert_eq!(refused_names(&format!("{key}={address}\n")), [key], "{address}");
            }
        }
        assert!(refused_names("namesrvAddr= h1:9876; [::1]:9876;10.0.0.1:9876;\nbrokerIP2=\n").is_empty());
    }

    #[test]
    fn contradictions_of_several_settings_are_found() {
        assert_eq!(refused_names("brokerRole=SLAVE\nbrokerId=0\n"), ["brokerId"]);
        assert_eq!(refused_names("enableControllerMode=true\n"), ["controllerAddr"]);
        assert_eq!(refused_names("authenticationEnabled=true\naclEnable=true\n"), ["-"]);
        assert!(refused_names("brokerRole=SLAVE\nbrokerId=1\n").is_empty());
    }
}
