//! Settings, and the one table that knows their names in `broker.conf` (`BrokerConfig`, `MessageStoreConfig`,
//! `NettyServerConfig`).
//!
//! A file of Java's is taken as it is. What it says about things this broker does otherwise or not yet is reported to
//! the operator; what would weaken a promise if it were ignored stops the start.

mod live;
mod page;
mod refused;
mod space;
mod table;
mod unknown;
mod update;
mod value;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use net::TrustedProxies;
use wire::body::{KeyValuesError, format_key_values, parse_key_values};

use crate::pop::settings::PopSettings;
use crate::timer::Timers;

pub(crate) use live::{Live, TooManySets};
pub use page::{page, settings_help};
pub use table::{Effect, PROPERTIES, Property};
pub(crate) use update::{NotChanged, Update, merged, update};

/// Bounds of one pull.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// `maxTransferCountOnMessageInMemory`.
    pub count_max: i32,
    /// `maxTransferBytesOnMessageInMemory`.
    pub bytes_max: usize,
    /// `maxTransferCountOnMessageInDisk`.
    pub disk_count_max: i32,
    /// `maxTransferBytesOnMessageInDisk`.
    pub disk_bytes_max: usize,
    /// `accessMessageInMemoryMaxRatio`: messages further behind the end of the log than this percentage of the memory count
    /// as being on the disk.
    pub memory_ratio: i64,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
    /// `maxFilterMessageSize` in index units of 20 bytes: how many are looked at.
    pub scan_units: i64,
}

/// How transactions are looked after.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// `transactionTimeOut`: a half message this young is not checked.
    pub timeout_ms: i64,
    /// `transactionCheckMax`: checks of one message.
    pub check_max: i64,
    /// `transactionCheckInterval`.
    pub check_interval_ms: u64,
    /// `rejectTransactionMessage`.
    pub rejects: bool,
}

/// Whether and how many light queues are served. Both switches must be on.
#[derive(Clone, Debug)]
pub struct LightQueues {
    /// `enableLmq`.
    pub lmq: bool,
    /// `enableMultiDispatch`.
    pub multi_dispatch: bool,
    /// `enableLmqQuota`.
    pub quota: bool,
    /// `maxLmqConsumeQueueNum`.
    pub queues_max: usize,
}

/// Bounds of a query by key.
#[derive(Clone, Debug)]
pub struct Query {
    /// `maxMsgsNumBatch`: most messages of an answer.
    pub count_max: i32,
    /// `defaultQueryMaxNum`: most messages of a query by unique key.
    pub unique_max: i32,
}

/// What a broker is told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// `brokerClusterName`.
    pub broker_cluster_name: String,
    /// `brokerName`: masters and slaves of one group have the same.
    pub broker_name: String,
    /// `brokerId`: 0 for masters.
    pub broker_id: i64,
    /// `brokerIP1`: address clients are told to use, or the name of a machine.
    pub broker_ip1: String,
    /// `bindAddress`.
    pub bind_address: IpAddr,
    /// `proxyProtocolTrustedAddresses`: whose PROXY preambles are believed.
    pub trusted_proxies: TrustedProxies,
    /// `connectionBufferBytes`: memory of all connections; 0 for a share of the machine's.
    pub connection_bytes_max: usize,
    /// `listenPort`; 0 takes any free one.
    pub listen_port: u16,
    /// `namesrvAddr`: `host:port` separated by `;`.
    pub namesrv_addr: Option<String>,
    /// `autoCreateTopicEnable`: the first message to an unknown topic creates it.
    pub auto_create_topic_enable: bool,
    /// `autoCreateSubscriptionGroup`: the first use of an unknown group creates it.
    pub auto_create_subscription_group: bool,
    /// `defaultTopicQueueNums`: most queues of a topic created by its first message.
    pub default_topic_queue_nums: i32,
    /// `brokerPermission`: bits 4 read, 2 write.
    pub broker_permission: i32,
    /// `maxMessageSize`: largest body in bytes.
    pub max_message_size: usize,
    /// `regionId`.
    pub region_id: String,
    /// `traceOn`.
    pub trace_on: bool,
    /// `traceTopicEnable`: the topic message traces go to exists from the start.
    pub trace_topic_enable: bool,
    /// `msgTraceTopicName`: its name.
    pub trace_topic: String,
    /// `storeReplyMessageEnable`: replies between applications are stored, not only passed on.
    pub store_reply_message_enable: bool,
    /// `longPollingEnable`: pulls wait as long as the client says.
    pub long_polling_enable: bool,
    /// `shortPollingTimeMills`: how long they wait otherwise.
    pub short_polling_time_ms: i64,
    /// `enablePropertyFilter`: consumers may filter by SQL92.
    pub enable_property_filter: bool,
    /// `litePullMessageEnable`.
    pub lite_pull_message_enable: bool,
    /// `notifyConsumerIdsChangedEnable`: members of a group are told when it changes.
    pub notify_consumer_ids_changed_enable: bool,
    /// `useServerSideResetOffset`: the broker resets offsets itself instead of telling the consumers to.
    pub server_side_reset: bool,
    /// `flushConsumerOffsetInterval`.
    pub flush_consumer_offset_interval_ms: u64,
    /// `registerNameServerPeriod`.
    pub register_name_server_period_ms: u64,
    /// `slaveReadEnable`: consumers far behind are told to read from a slave.
    pub slave_read_enable: bool,
    /// `forceRegister`: name servers are reminded of topics they have been told of.
    pub force_register: bool,
    /// `enableSingleTopicRegister`: name servers are told of changed topics alone.
    pub single_topic_register: bool,
    /// `enableSplitRegistration`: registrations have at most `split_registration_size` topics.
    pub split_registration: bool,
    /// `splitRegistrationSize`.
    pub split_registration_size: usize,
    /// Light queues.
    pub light: LightQueues,
    /// Bounds of one pull.
    pub transfer: Transfer,
    /// Messages for a point in time.
    pub timers: Timers,
    /// Pop consumption.
    pub pop: PopSettings,
    /// Bounds of a query by key.
    pub query: Query,
    /// How transactions are looked after.
    pub transaction: Transaction,
    /// What old messages and full disks lead to.
    pub retention: store::RetentionSettings,
    /// `cleanResourceInterval`.
    pub clean_resource_interval_ms: i64,
    /// `deleteCommitLogFilesInterval`.
    pub delete_files_interval_ms: u64,
    /// `replicasPerDiskPartition`.
    replicas_per_disk_partition: i32,
    /// Of the log.
    pub store: store::Config,
    /// `messageDelayLevel` as it was given.
    delay_levels: String,
    /// The file the settings come from, and changed ones go to.
    file: Option<PathBuf>,
    has_store_path: bool,
    has_commit_log_path: bool,
    /// Settings that do nothing here, kept for whoever asks for the configuration.
    others: BTreeMap<String, String>,
}

/// Something in a configuration file the operator should know about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// No setting has this name.
    #[error("unknown setting {key}: it has no effect{}", did_you_mean(.near.as_deref()))]
    Unknown {
        /// What was found.
        key: String,
        /// A known name that looks much like it.
        near: Option<&'static str>,
    },
    /// The value does not fit; the default stays, as in Java.
    #[error("setting {key} is {value:?}, expected {expected}; it stays {stays}")]
    Invalid {
        /// Name of the setting.
        key: String,
        /// What was found.
        value: String,
        /// What it must hold.
        expected: String,
        /// What counts instead.
        stays: String,
    },
    /// The setting was changed and does nothing here, which makes a difference.
    #[error("setting {key}={value} has no effect: {reason}")]
    NoEffect {
        /// Name of the setting.
        key: String,
        /// What was found.
        value: String,
        /// Why.
        reason: String,
    },
    /// The setting was changed and does nothing here, which nobody will miss.
    #[error("setting {key}={value} is not needed: {reason}")]
    NotNeeded {
        /// Name of the setting.
        key: String,
        /// What was found.
        value: String,
        /// Why.
        reason: String,
    },
    /// An older name of a setting.
    #[error("setting {key} is read as {now}, its present name")]
    Alias {
        /// What was found.
        key: String,
        /// Its present name.
        now: &'static str,
    },
}

impl Finding {
    /// True when the operator should act.
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Invalid { .. } | Self::NoEffect { .. })
    }
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is malformed.
    #[error(transparent)]
    Text(#[from] KeyValuesError),
    /// A setting asks for something that must not be ignored.
    #[error("setting {key}={value} cannot be used: {reason}")]
    Refused {
        /// Name of the setting.
        key: String,
        /// What was found.
        value: String,
        /// Why, and what to do instead.
        reason: String,
    },
}

impl Config {
    /// The defaults on this machine: its host name and address count.
    pub fn of_this_machine() -> Self {
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mut config = Self::new(host_name.trim(), crate::start::reachable_ip());
        if let Some(memory_bytes) = memory_bytes() {
            config.store.cached_bytes = memory_bytes / 4;
            config.store.cold_bytes = config.store.cold_bytes.min(memory_bytes / 16);
            config.transfer.memory_bytes = memory_bytes;
        }
        config
    }

    /// RocketMQ's defaults for a host.
    pub fn new(host_name: &str, ip: IpAddr) -> Self {
        let broker_name = if host_name.is_empty() { "DEFAULT_BROKER" } else { host_name };
        Self {
            broker_cluster_name: "DefaultCluster".to_owned(),
            broker_name: broker_name.to_owned(),
            broker_id: 0,
            broker_ip1: ip.to_string(),
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            trusted_proxies: TrustedProxies::default(),
            connection_bytes_max: 0,
            listen_port: 10911,
            namesrv_addr: None,
            auto_create_topic_enable: true,
            auto_create_subscription_group: true,
            default_topic_queue_nums: 8,
            broker_permission: 6,
            max_message_size: 4 << 20,
            region_id: "DefaultRegion".to_owned(),
            trace_on: true,
            trace_topic_enable: false,
            trace_topic: crate::names::TRACE_TOPIC.to_owned(),
            store_reply_message_enable: true,
            long_polling_enable: true,
            short_polling_time_ms: 1000,
            enable_property_filter: false,
            lite_pull_message_enable: true,
            notify_consumer_ids_changed_enable: true,
            server_side_reset: true,
            flush_consumer_offset_interval_ms: 5000,
            register_name_server_period_ms: 30_000,
            force_register: true,
            single_topic_register: false,
            split_registration: false,
            split_registration_size: 800,
            light: LightQueues { lmq: false, multi_dispatch: false, quota: false, queues_max: 20_000 },
            slave_read_enable: false,
            transfer: Transfer {
                count_max: 32,
                bytes_max: 262_144,
                disk_count_max: 8,
                disk_bytes_max: 65_536,
                memory_ratio: 40,
                memory_bytes: 16 << 30,
                scan_units: 800,
            },
            timers: Timers::default(),
            pop: PopSettings::default(),
            query: Query { count_max: 64, unique_max: 32 },
            transaction: Transaction {
                timeout_ms: 6000,
                check_max: 15,
                check_interval_ms: 30_000,
                rejects: false,
            },
            retention: store::RetentionSettings::default(),
            clean_resource_interval_ms: 10_000,
            delete_files_interval_ms: 100,
            replicas_per_disk_partition: 1,
            store: store::Config {
                key_index: true,
                record_bytes_max: table::MESSAGE_BYTES_MAX + 65_536,
                ..store::Config::new("./data")
            },
            delay_levels: "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".to_owned(),
            file: None,
            has_store_path: false,
            has_commit_log_path: false,
            others: BTreeMap::new(),
        }
    }

    /// The defaults on this machine changed by a properties text.
    ///
    /// # Errors
    /// The text is malformed, or asks for something that must not be ignored.
    pub fn from_properties(text: &[u8]) -> Result<(Self, Vec<Finding>), ConfigError> {
        let mut config = Self::of_this_machine();
        let findings = config.read(text)?;
        Ok((config, findings))
    }

    /// Reads a properties text over these settings. A value of the wrong type leaves a setting as it was.
    ///
    /// # Errors
    /// As [`Config::from_properties`].
    pub fn read(&mut self, text: &[u8]) -> Result<Vec<Finding>, ConfigError> {
        let mut findings = Vec::new();
        for (key, value) in parse_key_values(text)? {
            let value = value.trim().to_owned();
            let name = match table::present_name(&key) {
                Some(now) => {
                    findings.push(Finding::Alias { key: key.clone(), now });
                    now
                }
                None => key.as_str(),
            };
            refused::check(name, &value)?;
            findings.extend(self.set(name, value)?);
        }
        self.store.multi_dispatch = self.light.lmq && self.light.multi_dispatch;
        if self.broker_id != 0 {
            let value = std::mem::take(&mut self.broker_id).to_string();
            let reason = "a master has id 0, and slaves are not served yet".to_owned();
            findings.push(Finding::NoEffect { key: "brokerId".to_owned(), value, reason });
        }
        Ok(findings)
    }

    fn set(&mut self, key: &str, value: String) -> Result<Option<Finding>, ConfigError> {
        let key_owned = || key.to_owned();
        if let Some(property) = table::property(key) {
            return match (property.set)(self, &value) {
                Ok(()) => Ok(None),
                Err(value::Fault::Refused(reason)) => {
                    Err(ConfigError::Refused { key: key_owned(), value, reason })
                }
                Err(value::Fault::Invalid(expected)) => {
                    let stays = property.value(self);
                    Ok(Some(Finding::Invalid { key: key_owned(), value, expected, stays }))
                }
            };
        }
        let finding = match unknown::lookup(key) {
            Some(known) if known.default == value => None,
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

    /// True when the text named `storePathRootDir`.
    pub fn has_store_path(&self) -> bool {
        self.has_store_path
    }

    /// Sets `storePathRootDir`, and `storePathCommitLog` when it was not named.
    pub fn set_store_root(&mut self, root: &Path) {
        root.clone_into(&mut self.store.root);
        if !self.has_commit_log_path {
            self.store.commit_log = root.join("commitlog");
        }
    }

    /// Says which file the settings were read from.
    pub fn set_file(&mut self, path: &Path) {
        self.file = Some(path.to_owned());
    }

    /// The file of settings changed while the broker runs, of a broker that was started without one.
    pub fn file_of(root: &Path) -> PathBuf {
        root.join("config").join("broker.properties")
    }

    /// The file changed settings go to.
    pub(crate) fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| Self::file_of(&self.store.root))
    }

    /// Addresses of `namesrvAddr`.
    pub fn name_servers(&self) -> Vec<String> {
        let list = self.namesrv_addr.as_deref().unwrap_or_default().split(';');
        list.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// What a setting without effect is shown as; empty for names nobody knows.
    pub(crate) fn shown(&self, key: &str) -> String {
        let default = || unknown::lookup(key).map(|known| known.default.clone());
        self.others.get(key).cloned().or_else(default).unwrap_or_default()
    }

    /// All settings as a properties text, those without effect and unknown ones included (`GET_BROKER_CONFIG`).
    pub fn to_properties(&self) -> String {
        let mut all: BTreeMap<String, String> = unknown::defaults();
        all.extend(refused::defaults());
        all.extend(self.others.clone());
        all.extend(PROPERTIES.iter().map(|property| (property.name.to_owned(), property.value(self))));
        format_key_values(&all)
    }
}

/// Memory of this machine.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests;
