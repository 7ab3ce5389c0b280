//! Configuration of the controller, and the single table of its property names in `controller.conf`
//! (`ControllerConfig`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use replica::roster::LeaderConfig;
use wire::body::{format_key_values, parse_key_values};
use wire::settings::{self, ConfigError, Effect, FileError, Setting, Warning};

/// Configuration of the controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Address to listen on; the port is that of this controller among its peers.
    pub bind_address: String,
    /// The remark with which clients of other machines are refused; `None` to serve other machines.
    pub refusal_of_others: Option<&'static str>,
    /// Port to listen on instead; 0 takes any free one. For a controller without peers.
    pub listen_port: Option<u16>,
    /// Name of the group of controllers.
    pub group: String,
    /// The controllers of the group: `n0-host:port;...`.
    pub peers: String,
    /// Id of this controller in the list of peers.
    pub self_id: String,
    /// Directory of the consensus journal.
    pub store_path: PathBuf,
    /// File to which changed settings are written.
    pub config_store_path: PathBuf,
    /// Keys that no request may change, separated by `;`.
    pub config_black_list: String,
    /// Home directory of the installation; only reported.
    pub rocketmq_home: String,
    /// Whether a broker outside the in-sync set may be elected when no member is alive. It loses messages.
    pub enable_elect_unclean_master: bool,
    /// Whether brokers get a notice of elections at once.
    pub notify_broker_role_changed: bool,
    /// Interval in ms at which broker sets without a living master are searched.
    pub scan_inactive_master_interval: u64,
    /// Settings of Java's controller without effect here.
    inert: BTreeMap<&'static str, String>,
    /// Keys that this version does not know, kept to be reported with the configuration.
    pub unknown: BTreeMap<String, String>,
}

/// Settings of Java's controller without effect here, with Java's defaults: its threads, its raft libraries and its metrics.
const INERT: &[(&str, &str)] = &[
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

impl Config {
    /// Default configuration; `home` is the directory of the controller's files (RocketMQ: the user's home directory).
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self {
            bind_address: "0.0.0.0".to_owned(),
            refusal_of_others: None,
            listen_port: None,
            group: String::new(),
            peers: String::new(),
            self_id: String::new(),
            store_path: home.join("controller"),
            config_store_path: home.join("controller/controller.properties"),
            config_black_list: "configBlackList;configStorePath".to_owned(),
            rocketmq_home: String::new(),
            enable_elect_unclean_master: false,
            notify_broker_role_changed: true,
            scan_inactive_master_interval: 5000,
            inert: INERT.iter().map(|(key, value)| (*key, (*value).to_owned())).collect(),
            unknown: BTreeMap::new(),
        }
    }

    /// Whether `controller.conf` has a setting with this name.
    #[must_use]
    pub fn knows(key: &str) -> bool {
        property(key).is_some() || INERT.iter().any(|(name, _)| *name == key)
    }

    /// Whether a setting with this name is the controller's alone, so that no other role of the process knows it.
    #[must_use]
    pub fn owns(key: &str) -> bool {
        Self::knows(key) && !SHARED.contains(&key) && !key.starts_with("metric")
    }

    /// Reads the text of a properties file over these settings, and returns warnings about keys and values without effect.
    ///
    /// # Errors
    /// [`FileError`] when the text is malformed or a value does not have the type of its setting.
    pub fn read(&mut self, text: &[u8]) -> Result<Vec<Warning>, FileError> {
        let mut warnings = Vec::new();
        for (key, value) in parse_key_values(text)? {
            if let Some(property) = property(&key) {
                warnings.extend(property.read(self, &value)?);
                continue;
            }
            match self.set(&key, &value) {
                Ok(true) if is_refused(&key, value.trim()) => {
                    warnings.push(Warning::Unsupported(key, value));
                }
                Ok(true) => {}
                Ok(false) => {
                    self.unknown.insert(key.clone(), value);
                    warnings.push(Warning::Unknown(key));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(warnings)
    }

    /// Changes one setting, or an unknown key that was kept; returns false for any other key.
    ///
    /// # Errors
    /// [`ConfigError`] when the value does not have the setting's type.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        if let Some(kept) = self.unknown.get_mut(key) {
            value.clone_into(kept);
            return Ok(true);
        }
        if let Some(inert) = self.inert.get_mut(key) {
            value.trim().clone_into(inert);
            return Ok(true);
        }
        property(key).map_or(Ok(false), |property| property.change(self, value).map(|()| true))
    }

    /// All keys and values in the format of a properties file.
    #[must_use]
    pub fn text(&self) -> String {
        let known = PROPERTIES.iter().map(|property| (property.name.to_owned(), (property.get)(self)));
        let inert = self.inert.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        format_key_values(&self.unknown.clone().into_iter().chain(inert).chain(known).collect())
    }

    /// Whether no request may change this key (`Configuration.blackList` and `ControllerConfig.configBlackList`).
    #[must_use]
    pub fn is_locked(&self, key: &str) -> bool {
        LOCKED.contains(&key) || self.config_black_list.split(';').any(|locked| locked.trim() == key)
    }

    /// Returns the settings of elections.
    #[must_use]
    pub fn elections(&self) -> LeaderConfig {
        LeaderConfig {
            may_lose: self.enable_elect_unclean_master,
            scan_interval_ms: self.scan_inactive_master_interval.max(100),
            notifies: self.notify_broker_role_changed,
        }
    }
}

/// Whether this value of a setting without effect is refused, because an operator would rely on it.
fn is_refused(key: &str, value: &str) -> bool {
    matches!(key, "controllerType" | "isProcessReadEvent" | "processReadEvent" | "metricsExporterType")
        && INERT.iter().any(|(name, default)| *name == key && *default != value)
}

/// A setting, as configuration files and requests name it.
pub type Property = settings::Property<Config>;

fn property(key: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.name == key)
}

macro_rules! properties {
    ($($name:literal, $effect:ident, $field:ident, $doc:literal;)*) => {
        /// All settings of `controller.conf` that have an effect.
        pub const PROPERTIES: &[Property] = &[$(Property {
            name: $name,
            doc: $doc,
            effect: Effect::$effect,
            get: |config| config.$field.show(),
            set: |config, text| Setting::parse(text).map(|value| config.$field = value),
        }),*];
    };
}

properties! {
    "bindAddress", Restart, bind_address, "address to listen on";
    "controllerDLegerGroup", Restart, group, "name of the group of controllers";
    "controllerDLegerPeers", Restart, peers, "the controllers of the group, as n0-host:port;n1-host:port;n2-host:port";
    "controllerDLegerSelfId", Restart, self_id, "which of them this one is";
    "controllerStorePath", Restart, store_path, "directory of what the controllers agreed upon";
    "configStorePath", Restart, config_store_path, "file that changed settings are written to";
    "configBlackList", Restart, config_black_list, "keys that no request may change, separated by ;";
    "rocketmqHome", None, rocketmq_home, "home directory of the installation";
    "enableElectUncleanMaster", Live, enable_elect_unclean_master, "elect a broker outside the in-sync set when no member is alive; loses messages";
    "notifyBrokerRoleChanged", Live, notify_broker_role_changed, "tell brokers of elections at once";
    "scanInactiveMasterInterval", Live, scan_inactive_master_interval, "milliseconds between looks for broker sets without a living master";
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
                "setting scanInactiveMasterInterval is ``, expected a number of 0 or more; the default stays",
            ]
        );
        let error = config.read(b"scanInactiveMasterInterval=x\n").unwrap_err();
        assert_eq!(error.key(), Some("scanInactiveMasterInterval"));
        assert!(config.read(b"enableElectUncleanMaster=yes\n").is_err());
        assert!(config.text().contains("nobody=1\n"));
        assert!(config.is_locked("controllerStorePath") && !config.is_locked("enableElectUncleanMaster"));
    }
}
