//! Finds the settings of a broker that differ from RocketMQ's defaults.

use crate::archive::{BrokerFile, HostFile, RunFile};

/// The defaults that RocketMQ 5.5.0 reports; a star marks one that depends on the machine. Vostok's settings are
/// compared with them as well.
const OF_5: &str = wire::defaults::BROKER;

/// Default of a thread pool on a machine that is not known.
pub(super) const UNKNOWN: &str = "*";

/// Defaults of 4.9.8 that differ, and settings that only 4.9.8 has (`BrokerConfig`, `MessageStoreConfig`).
const OF_4: &str = include_str!("defaults/rocketmq_4.properties");

/// Defaults of settings that 5.5.0 does not report but other brokers do (`AuthConfig`, tiered storage), and of Vostok's
/// own settings.
const MORE: &str = include_str!("defaults/more.properties");

/// Name of a thread pool, and its size by the number of processors.
type Pool = (&'static str, fn(u32) -> u32);

/// Thread pools whose default size depends on the number of processors (`BrokerConfig`).
const BY_CORES: [Pool; 9] = [
    ("clientCallbackExecutorThreads", |cores| cores),
    ("endTransactionThreadPoolNums", |cores| 8 + 2 * cores),
    ("heartbeatThreadPoolNums", |cores| cores.min(32)),
    ("litePullMessageThreadPoolNums", |cores| 16 + 2 * cores),
    ("processReplyMessageThreadPoolNums", |cores| 16 + 2 * cores),
    ("pullMessageThreadPoolNums", |cores| 16 + 2 * cores),
    ("putMessageFutureThreadPoolNums", |cores| cores.min(4)),
    ("queryMessageThreadPoolNums", |cores| 8 + cores),
    ("sendMessageThreadPoolNums", |cores| cores.min(4)),
];

/// A setting that differs from its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed<'a> {
    pub key: &'a str,
    pub value: &'a str,
    /// The default. `None` when RocketMQ has no such setting; [`UNKNOWN`] when the default depends on a machine that
    /// was not observed.
    pub default: Option<String>,
}

/// The RocketMQ release whose defaults are compared.
pub(super) fn release(file: &RunFile) -> &'static str {
    if is_4(file) { "RocketMQ 4.9.8" } else { "RocketMQ 5.5.0" }
}

/// The settings of a broker that differ from the defaults, by name. Settings of the machine, such as names and paths,
/// are left out.
pub(super) fn changed<'a>(file: &RunFile, broker: &'a BrokerFile) -> Vec<Changed<'a>> {
    let host = file.hosts.iter().find(|host| broker.host.as_ref() == Some(&host.name));
    let changed = |(key, value): (&'a String, &'a String)| {
        let default = match default(key, is_4(file)) {
            // Vostok does not have this thread pool and reports no size.
            Some("*") if value.is_empty() => return None,
            Some("*") if BY_CORES.iter().any(|(pool, _)| pool == key) => {
                let size = host.and_then(|host| by_cores(key, host));
                size.map_or_else(|| UNKNOWN.to_owned(), |size| size.to_string())
            }
            Some("*") => return None,
            Some(default) => default.to_owned(),
            // RocketMQ reports nothing for a setting that is not set.
            None if value.is_empty() => return None,
            None => return Some(Changed { key, value, default: None }),
        };
        (*value != default).then_some(Changed { key, value, default: Some(default) })
    };
    broker.settings.iter().filter_map(changed).collect()
}

fn is_4(file: &RunFile) -> bool {
    file.target.version.starts_with("4.")
}

fn default(key: &str, is_4: bool) -> Option<&'static str> {
    let files = [if is_4 { OF_4 } else { "" }, MORE, OF_5];
    let mut lines = files.into_iter().flat_map(str::lines).filter_map(|line| line.split_once('='));
    lines.find(|(name, _)| *name == key).map(|(_, default)| default)
}

/// Default size of a thread pool on a machine; `None` for other settings that depend on the machine.
fn by_cores(key: &str, host: &HostFile) -> Option<u32> {
    let (_, size) = BY_CORES.iter().find(|(name, _)| *name == key)?;
    let allowed = host.cores_allowed.map_or(host.cores, |allowed| (allowed.ceil() as u32).min(host.cores));
    (allowed > 0).then(|| size(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::testing;

    fn found(version: &str, settings: &[(&str, &str)]) -> Vec<String> {
        let mut file = testing::file();
        version.clone_into(&mut file.target.version);
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        file.target.brokers[0].settings = settings.collect();
        let told = |found: Changed<'_>| {
            format!("{}={} ({})", found.key, found.value, found.default.unwrap_or_default())
        };
        changed(&file, &file.target.brokers[0]).into_iter().map(told).collect()
    }

    #[test]
    fn only_what_differs_is_told() {
        let settings = [
            ("brokerName", "anything"),
            ("flushDiskType", "SYNC_FLUSH"),
            ("maxMessageSize", "4194304"),
            ("sendMessageThreadPoolNums", "16"),
            ("pullMessageThreadPoolNums", "32"),
            ("clientCallbackExecutorThreads", ""),
            ("storePathRootDir", "/data"),
            ("vostokOwn", "1"),
            ("authenticationProvider", ""),
            ("authenticationEnabled", "true"),
            ("userCacheMaxNum", "1000"),
            ("brokerIP1", "10.0.0.1"),
        ];
        // The broker's machine has eight cores.
        let expected = [
            "authenticationEnabled=true (false)",
            "flushDiskType=SYNC_FLUSH (ASYNC_FLUSH)",
            "sendMessageThreadPoolNums=16 (4)",
            "vostokOwn=1 ()",
        ];
        assert_eq!(found("5.5.0", &settings), expected);
    }

    #[test]
    fn pools_of_a_machine_that_is_not_known_are_told() {
        let mut file = testing::file();
        file.target.brokers[0].host = None;
        let settings =
            [("sendMessageThreadPoolNums", "16"), ("listenPort", "10911"), ("brokerIP1", "10.0.0.1")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        file.target.brokers[0].settings = settings.into();
        let found = changed(&file, &file.target.brokers[0]);
        let default = Some(UNKNOWN.to_owned());
        assert_eq!(found, [Changed { key: "sendMessageThreadPoolNums", value: "16", default }]);
    }

    #[test]
    fn defaults_of_version_4_are_its_own() {
        let settings = [("transactionCheckInterval", "60000"), ("maxDelayTime", "40"), ("deleteWhen", "04")];
        assert_eq!(found("4.9.8", &settings), Vec::<String>::new());
        assert_eq!(found("5.3.1", &settings).len(), 2);
    }

    #[test]
    fn a_broker_with_all_defaults_differs_in_nothing() {
        let all: Vec<(&str, &str)> = OF_5.lines().filter_map(|line| line.split_once('=')).collect();
        assert!(all.len() > 400);
        let without_stars: Vec<_> = all.into_iter().filter(|(_, default)| *default != "*").collect();
        assert_eq!(found("5.5.0", &without_stars), Vec::<String>::new());
    }
}
