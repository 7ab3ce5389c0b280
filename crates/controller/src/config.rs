//! Configuration of the controller, and the single table of its property names in `controller.conf`
//! (`ControllerConfig`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use replica::roster::LeaderConfig;
use wire::settings::{self, Effect, FileSettings};

/// A setting, as configuration files and requests name it.
type Property = settings::Property<Config>;

/// All settings of `controller.conf`.
static PROPERTIES: LazyLock<Vec<Property>> = LazyLock::new(Config::properties);

wire::settings! {
    /// Configuration of the controller.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        "bindAddress" Restart bind_address: String = "0.0.0.0".to_owned(), "address to listen on; the port is that of this controller among its peers";
        "controllerDLegerGroup" Restart group: String = String::new(), "name of the group of controllers";
        "controllerDLegerPeers" Restart peers: String = String::new(), "the controllers of the group, as n0-host:port;n1-host:port;n2-host:port";
        "controllerDLegerSelfId" Restart self_id: String = String::new(), "id of this controller in the list of peers";
        "controllerStorePath" Restart store_path: PathBuf = PathBuf::new(), "directory of the consensus journal";
        "configStorePath" Restart config_store_path: PathBuf = PathBuf::new(), "file that changed settings are written to";
        "configBlackList" Restart config_black_list: String = "configBlackList;configStorePath".to_owned(), "keys that no request may change, separated by ;";
        "rocketmqHome" None rocketmq_home: String = String::new(), "home directory of the installation; only reported";
        "enableElectUncleanMaster" Live enable_elect_unclean_master: bool = false, "elect a broker outside the in-sync set when no member is alive; loses messages";
        "notifyBrokerRoleChanged" Live notify_broker_role_changed: bool = true, "notify brokers of elections at once";
        "scanInactiveMasterInterval" Live scan_inactive_master_interval: u64 = 5000, "interval in milliseconds at which broker sets without a living master are searched";
    }
    fields {
        /// The remark with which clients of other machines are refused; `None` to serve other machines.
        pub refusal_of_others: Option<&'static str> = None;
        /// Port to listen on, for a controller without peers. 0 takes any free port.
        pub listen_port: Option<u16> = None;
        /// Settings of Java's controller without effect here.
        inert: BTreeMap<&'static str, String> = INERT.map(|(key, value)| (key, value.to_owned())).into();
        /// Keys that this version does not know, kept to be reported with the configuration.
        pub unknown: BTreeMap<String, String> = BTreeMap::new();
    }
    also { INERT.map(|(key, _)| inert(key)) }
}

/// Settings of Java's controller without effect here, with Java's defaults: its threads, its raft libraries and its metrics.
const INERT: [(&str, &str); 19] = [
    ("controllerType", "DLedger"),
    ("scanNotActiveBrokerInterval", "5000"),
    ("controllerThreadPoolNums", "16"),
    ("controllerRequestThreadPoolQueueCapacity", "50000"),
    ("mappedFileSize", "1073741824"),
    ("electMasterMaxRetryCount", "3"),
    ("isProcessReadEvent", "false"),
    ("processReadEvent", "false"),
    ("metricsExporterType", "DISABLE"),
    ("metricsGrpcExporterTarget", ""),
    ("metricsGrpcExporterHeader", ""),
    ("metricGrpcExporterTimeOutInMills", "3000"),
    ("metricGrpcExporterIntervalInMills", "60000"),
    ("metricLoggingExporterIntervalInMills", "10000"),
    ("metricsPromExporterPort", "5557"),
    ("metricsPromExporterHost", ""),
    ("metricsLabel", ""),
    ("metricsInDelta", "false"),
    ("listenPort", "9876"),
];

/// Settings without effect that an operator would rely on. A value other than the default gets a warning.
const MISSED: [&str; 4] = ["controllerType", "isProcessReadEvent", "processReadEvent", "metricsExporterType"];

/// A setting of Java's controller without effect here.
fn inert(key: &'static str) -> Property {
    let effect = if MISSED.contains(&key) { Effect::Unsupported } else { Effect::None };
    let set = move |config: &mut Config, value: &str| {
        config.inert.insert(key, value.to_owned());
        Ok(())
    };
    Property::new((key, ""), effect, move |config: &Config| config.inert[key].clone(), set)
}

/// Keys that are locked even without `configBlackList`.
const LOCKED: [&str; 5] =
    ["bindAddress", "configBlackList", "configStorePath", "rocketmqHome", "controllerStorePath"];

/// Settings that other roles have under the same name.
const SHARED: [&str; 6] = [
    "bindAddress",
    "listenPort",
    "rocketmqHome",
    "configStorePath",
    "configBlackList",
    "scanNotActiveBrokerInterval",
];

impl FileSettings for Config {
    fn table() -> &'static [Property] {
        &PROPERTIES
    }

    fn unknown(&self) -> &BTreeMap<String, String> {
        &self.unknown
    }

    fn unknown_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.unknown
    }
}

impl Config {
    /// Default configuration; `home` is the directory of the controller's files (RocketMQ: the user's home directory).
    pub fn new(home: &Path) -> Self {
        Self {
            store_path: home.join("controller"),
            config_store_path: home.join("controller/controller.properties"),
            ..Self::default()
        }
    }

    /// Whether `controller.conf` has a setting with this name.
    pub fn knows(key: &str) -> bool {
        Self::property(key).is_some()
    }

    /// Whether a setting with this name is the controller's alone, so that no other role of the process knows it.
    pub fn owns(key: &str) -> bool {
        Self::knows(key) && !SHARED.contains(&key) && !key.starts_with("metric")
    }

    /// Whether no request may change this key (`Configuration.blackList` and `ControllerConfig.configBlackList`).
    pub fn is_locked(&self, key: &str) -> bool {
        LOCKED.contains(&key) || self.config_black_list.split(';').any(|locked| locked.trim() == key)
    }

    /// Returns the settings of elections.
    pub fn elections(&self) -> LeaderConfig {
        LeaderConfig {
            may_lose: self.enable_elect_unclean_master,
            scan_interval_ms: self.scan_inactive_master_interval.max(100),
            notifies: self.notify_broker_role_changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_java_is_read_as_it_is() {
        let mut config = Config::new(Path::new("/home"));
        let text = b"controllerDLegerGroup = group1\ncontrollerDLegerPeers = n0-127.0.0.1:9878\n\
            controllerDLegerSelfId = n0\nenableElectUncleanMaster = TRUE\ncontrollerThreadPoolNums=4\n";
        assert_eq!(config.read(text).unwrap(), []);
        assert_eq!((config.group.as_str(), config.self_id.as_str()), ("group1", "n0"));
        assert!(config.elections().may_lose && config.elections().notifies);
        let text = config.text();
        assert!(
            text.contains("controllerThreadPoolNums=4\n")
                && text.contains("scanInactiveMasterInterval=5000\n")
        );
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let mut config = Config::new(Path::new("/home"));
        let warnings = config.read(b"controllerType=jRaft\nnobody=1\nscanInactiveMasterInterval=\n").unwrap();
        let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "setting controllerType=jRaft has no effect here",
                "unknown setting nobody: it has no effect",
                "setting scanInactiveMasterInterval is \"\", expected a number of 0 or more; it counts as 5000",
            ]
        );
        let error = config.read(b"scanInactiveMasterInterval=x\n").unwrap_err();
        assert_eq!(error.key(), Some("scanInactiveMasterInterval"));
        assert!(config.read(b"enableElectUncleanMaster=yes\n").is_err());
        assert!(config.text().contains("nobody=1\n"));
        assert!(config.is_locked("controllerStorePath") && !config.is_locked("enableElectUncleanMaster"));
    }
}
