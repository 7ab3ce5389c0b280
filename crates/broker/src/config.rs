//! Settings, and the single table of their names in `broker.conf` (`BrokerConfig`, `MessageStoreConfig`,
//! `NettyServerConfig`).
//!
//! A configuration file of Java's broker is valid unchanged. Settings with another effect here, or without effect
//! yet, are reported to the operator. A setting whose omission would weaken a promise stops the start.

mod acting_master;
mod aliases;
mod catalog;
mod controller_mode;
mod live;
mod metrics;
mod own_ip;
mod pop;
mod property;
mod reading;
mod refused;
mod replication;
mod settings_page;
mod space;
mod table;
mod timers;
mod unknown;
mod update;
mod value;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use client::Credentials;
use net::TrustedProxies;
use wire::body::format_key_values;
use wire::settings::AFTER_RESTART;

pub use acting_master::ActingMaster;
pub use catalog::{Setting, Treatment, lint, setting, settings};
pub use controller_mode::ControllerMode;
pub(crate) use live::{Live, TooManySets};
pub use metrics::{Exporter, Metrics};
pub(crate) use own_ip::own_ip;
pub(crate) use pop::{Mode, PopSettings};
pub use property::{Effect, Property, Source};
pub use reading::{ConfigError, Finding};
pub use replication::{Replication, Role};
pub use settings_page::{page, settings_help};
pub use table::PROPERTIES;
pub use timers::Timers;
pub(crate) use update::{NotChanged, Update, merged, update};

/// Bounds of a pull.
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
    /// `maxFilterMessageSize` in queue units of 20 bytes: most units that a pull examines.
    pub scan_units: i64,
}

/// Check-backs of undecided transactions.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// `transactionTimeOut`: the age in milliseconds from which on a half message is checked.
    pub timeout_ms: i64,
    /// `transactionCheckMax`: most check-backs for a half message.
    pub check_max: i64,
    /// `transactionCheckInterval`: milliseconds between two rounds of checks.
    pub check_interval_ms: u64,
    /// `rejectTransactionMessage`: transaction messages are refused.
    pub rejects: bool,
}

/// Whether light queues are served, and how many. Both `enableLmq` and `enableMultiDispatch` must be on.
#[derive(Clone, Debug)]
pub struct LightQueues {
    /// `enableLmq`.
    pub lmq: bool,
    /// `enableMultiDispatch`.
    pub multi_dispatch: bool,
    /// `enableLmqQuota`: whether `maxLmqConsumeQueueNum` applies.
    pub quota: bool,
    /// `maxLmqConsumeQueueNum`.
    pub queues_max: usize,
}

/// Settings of lite topics.
#[derive(Clone, Debug)]
pub struct LiteSettings {
    /// `maxLiteSubscriptionCount`: most subscriptions of all clients, and most clients.
    pub subscriptions_max: usize,
    /// `maxClientEventCount`: most lite topics with messages that a client has at a time.
    pub events_max: usize,
    /// `liteSubscriptionCheckTimeoutMills`: a client that is silent for this time loses its subscriptions.
    pub client_timeout_ms: i64,
    /// `liteTtlCheckInterval`: time between two searches for expired lite topics.
    pub expiry_interval_ms: i64,
    /// `minLiteTTl`: least life of a lite topic after its last message, and after the start of the broker.
    pub life_min_ms: i64,
}

impl Default for LiteSettings {
    fn default() -> Self {
        Self {
            subscriptions_max: 100_000,
            events_max: 100,
            client_timeout_ms: 180_000,
            expiry_interval_ms: 120_000,
            life_min_ms: 900_000,
        }
    }
}

/// Bounds of a query by key (request 12).
#[derive(Clone, Debug)]
pub struct Query {
    /// `maxMsgsNumBatch`: most messages of an answer.
    pub count_max: i32,
    /// `defaultQueryMaxNum`: most messages of a query by unique key.
    pub unique_max: i32,
}

/// The settings of a broker.
#[derive(Clone, Debug)]
pub struct Config {
    /// `brokerClusterName`.
    pub broker_cluster_name: String,
    /// `brokerName`: common name of the master and the slaves of a group.
    pub broker_name: String,
    /// `brokerId`: 0 for masters.
    pub broker_id: i64,
    /// `brokerIP1`: address or host name that clients use.
    pub broker_ip1: String,
    /// `bindAddress`.
    pub bind_address: IpAddr,
    /// `proxyProtocolTrustedAddresses`: addresses whose PROXY preambles are trusted.
    pub trusted_proxies: TrustedProxies,
    /// `connectionBufferBytes`: the memory budget of all connections; 0 for a share of the machine's memory.
    pub connection_bytes_max: usize,
    /// `connectionsMax`, `connectionsPerAddressMax` and `tlsHandshakesPerSecondMax`: how many connections are accepted.
    pub connection_limits: net::ConnectionLimits,
    /// `listenPort`. 0 takes any free port.
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
    /// `regionId`: a property that every sent message gets.
    pub region_id: String,
    /// `traceOn`: whether clients may write message traces. Every sent message has a property with the value.
    pub trace_on: bool,
    /// `traceTopicEnable`: the topic message traces go to exists from the start.
    pub trace_topic_enable: bool,
    /// `msgTraceTopicName`: name of the topic for message traces.
    pub trace_topic: String,
    /// `storeReplyMessageEnable`: replies between applications are stored besides being passed on.
    pub store_reply_message_enable: bool,
    /// `longPollingEnable`: whether a pull without messages waits for the time that its client requests.
    pub long_polling_enable: bool,
    /// `shortPollingTimeMills`: milliseconds a pull waits without long polling.
    pub short_polling_time_ms: i64,
    /// `enablePropertyFilter`: consumers may filter by SQL92.
    pub enable_property_filter: bool,
    /// `litePullMessageEnable`: request 361 is served.
    pub lite_pull_message_enable: bool,
    /// `notifyConsumerIdsChangedEnable`: whether members of a group get a notice of its changes.
    pub notify_consumer_ids_changed_enable: bool,
    /// `useServerSideResetOffset`: the broker resets offsets itself instead of telling the consumers to.
    pub server_side_reset: bool,
    /// `flushConsumerOffsetInterval`: milliseconds between two writes of the consumer offsets.
    pub flush_consumer_offset_interval_ms: u64,
    /// `registerNameServerPeriod`: milliseconds between two registrations with name servers.
    pub register_name_server_period_ms: u64,
    /// Replication of the log between the brokers of a group.
    pub replication: Replication,
    /// `slaveReadEnable`: whether consumers far behind are directed to a slave, and a slave serves pulls.
    pub slave_read_enable: bool,
    /// `forceRegister`: name servers are also reminded of topics that did not change.
    pub force_register: bool,
    /// `enableSingleTopicRegister`: a changed topic is registered alone instead of with the whole table.
    pub single_topic_register: bool,
    /// `enableSplitRegistration`: a registration has at most `split_registration_size` topics.
    pub split_registration: bool,
    /// `splitRegistrationSize`.
    pub split_registration_size: usize,
    /// Whether and how many light queues are served.
    pub light: LightQueues,
    /// Lite topics.
    pub lite: LiteSettings,
    /// Bounds of a pull.
    pub transfer: Transfer,
    /// Delivery of timed messages.
    pub timers: Timers,
    /// Whether and how metrics are served.
    pub metrics: Metrics,
    /// Pop consumption.
    pub pop: PopSettings,
    /// Bounds of a query by key.
    pub query: Query,
    /// Check-backs of undecided transactions.
    pub transaction: Transaction,
    /// Retention settings, and the disk usage from which on sends are refused.
    pub retention: store::RetentionSettings,
    /// `cleanResourceInterval`: milliseconds between two rounds of retention.
    pub clean_resource_interval_ms: i64,
    /// `deleteCommitLogFilesInterval`: milliseconds between the removal of two commit log files.
    pub delete_files_interval_ms: u64,
    /// `replicasPerDiskPartition`: brokers that share the disk.
    replicas_per_disk_partition: i32,
    /// The settings of the store.
    pub store: store::Config,
    /// `messageDelayLevel` as the file gives it.
    delay_levels: String,
    /// The file that the settings come from and that changed settings are written to.
    file: Option<PathBuf>,
    has_store_path: bool,
    /// The remark with which clients of other machines are refused; `None` to serve them.
    pub(crate) refusal_of_others: Option<&'static str>,
    has_commit_log_path: bool,
    /// Authentication and authorization.
    pub auth: auth::AuthConfig,
    /// Settings without effect here, kept for answers that show the configuration.
    others: BTreeMap<String, String>,
    /// Values that a request has put into the file and that count after the next start, by name of the setting.
    after_restart: BTreeMap<String, String>,
    /// Sources of the settings that were given, by present name.
    sources: BTreeMap<String, Source>,
    /// The name server of this process, which stays when `namesrvAddr` changes.
    pub own_name_server: Option<String>,
}

impl Config {
    /// The defaults, with the host name and address of this machine.
    pub fn of_this_machine() -> Self {
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mut config = Self::new(host_name.trim(), crate::reachable::reachable_ip());
        if let Some(memory_bytes) = memory_bytes() {
            config.store.cached_bytes = memory_bytes / 4;
            config.store.cold_bytes = config.store.cold_bytes.min(memory_bytes / 16);
            config.transfer.memory_bytes = memory_bytes;
        }
        config
    }

    /// RocketMQ's defaults, for a machine of this name and address.
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
            connection_limits: net::ConnectionLimits::default(),
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
            lite: LiteSettings::default(),
            replication: Replication::default(),
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
            metrics: Metrics::default(),
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
                record_bytes_max: property::MESSAGE_BYTES_MAX + 65_536,
                ..store::Config::new("./data")
            },
            delay_levels: "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".to_owned(),
            auth: auth::AuthConfig::default(),
            file: None,
            has_store_path: false,
            refusal_of_others: None,
            has_commit_log_path: false,
            others: BTreeMap::new(),
            after_restart: BTreeMap::new(),
            sources: BTreeMap::new(),
            own_name_server: None,
        }
    }

    /// The defaults of this machine, changed by a properties text.
    ///
    /// # Errors
    /// [`ConfigError`]: the text is malformed, or a setting has a value that cannot be served and must not be ignored.
    pub fn from_properties(text: &[u8]) -> Result<(Self, Vec<Finding>), ConfigError> {
        let mut config = Self::of_this_machine();
        let findings = config.read(text)?;
        Ok((config, findings))
    }

    /// Whether controllers elect the master of this broker's group (`enableControllerMode`).
    pub fn is_controlled(&self) -> bool {
        self.replication.controller.is_enabled
    }

    /// Whether the operator made this broker a slave (`brokerRole=SLAVE`). Always false in controller mode, where the
    /// role can change.
    pub fn is_slave(&self) -> bool {
        self.replication.role == Role::Slave && !self.is_controlled()
    }

    /// Whether this broker starts by copying another broker's log: a slave, or a broker to which the controllers have
    /// not assigned a role.
    pub(crate) fn begins_as_copy(&self) -> bool {
        self.is_slave() || self.is_controlled()
    }

    /// Whether the slave with the smallest id acts for a master of this group that is gone (`enableSlaveActingMaster`).
    pub fn has_acting_master(&self) -> bool {
        self.replication.acting.is_enabled
    }

    /// Whether this broker waits at its start for the state of the other brokers in its group
    /// (`BrokerPreOnlineService`). Java waits only with `totalReplicas` above 1.
    pub(crate) fn waits_for_group(&self) -> bool {
        self.replication.acting.is_enabled && !self.replication.acting.skips_pre_online
    }

    /// Whether the configuration file sets `storePathRootDir`.
    pub fn has_store_path(&self) -> bool {
        self.has_store_path
    }

    /// Sets `storePathRootDir`, and `storePathCommitLog` below it if the file did not set the latter.
    pub fn set_store_root(&mut self, root: &Path) {
        root.clone_into(&mut self.store.root);
        if !self.has_commit_log_path {
            self.store.commit_log = root.join("commitlog");
        }
    }

    /// Refuses clients of other machines with `NO_PERMISSION` and `text`. Counts only while neither authentication nor ACL 1.0 is
    /// on.
    pub fn serve_this_machine_only(&mut self, text: &'static str) {
        self.refusal_of_others = Some(text);
    }

    /// Notes the source of a setting that was not read from the file.
    pub fn set_source(&mut self, name: &str, source: Source) {
        self.sources.insert(name.to_owned(), source);
    }

    /// The sources of the settings that do not have their default, as `name=source;name=source`.
    pub(crate) fn sources(&self) -> String {
        let sources = self.sources.iter().map(|(name, source)| format!("{name}={}", source.name()));
        sources.collect::<Vec<_>>().join(";")
    }

    /// Sets the file that the settings were read from.
    pub fn set_file(&mut self, path: &Path) {
        self.file = Some(path.to_owned());
    }

    /// The file for settings changed at run time, for a broker below `root` that was started without a configuration file.
    pub fn file_of(root: &Path) -> PathBuf {
        root.join("config").join("broker.properties")
    }

    /// The file that settings changed at run time are written to.
    pub(crate) fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| Self::file_of(&self.store.root))
    }

    /// The keys with which the broker signs its own requests (`innerClientAuthenticationCredentials`); `None` when there are none, or
    /// when the settings of authentication stop its start.
    #[must_use]
    pub fn own_credentials(&self) -> Option<Credentials> {
        let user = self.auth.check().ok()?.inner_user?;
        Some(Credentials::new(&user.name, &user.secret))
    }

    /// Directory of the rules of ACL 1.0: `conf` below `rocketmqHome`, else the directory of the configuration file,
    /// else `config` of the store.
    pub(crate) fn plain_files(&self) -> auth::PlainFiles {
        let home = self.others.get("rocketmqHome").filter(|home| !home.is_empty());
        let beside = || self.file().parent().map(Path::to_owned).unwrap_or_default();
        let directory = home.map_or_else(beside, |home| Path::new(home).join("conf"));
        auth::PlainFiles { file: directory.join("plain_acl.yml"), directory: directory.join("acl") }
    }

    /// The addresses of `namesrvAddr`.
    pub fn name_servers(&self) -> Vec<String> {
        let list = self.namesrv_addr.as_deref().unwrap_or_default().split(';');
        list.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// The value that is shown of a setting without effect here; empty for an unknown name.
    pub(crate) fn shown(&self, key: &str) -> String {
        let default = || unknown::lookup(key).map(|known| known.default.clone());
        self.others.get(key).cloned().or_else(default).unwrap_or_default()
    }

    /// Returns all settings as a properties text, including unknown settings and settings without effect
    /// (`GET_BROKER_CONFIG`). A value that counts after the next start replaces the present value, as in RocketMQ,
    /// and its setting is listed.
    pub fn to_properties(&self) -> String {
        let mut all: BTreeMap<String, String> = unknown::defaults();
        all.extend(refused::defaults());
        all.extend(self.others.clone());
        all.extend(PROPERTIES.iter().map(|property| (property.name.to_owned(), property.value(self))));
        all.extend(self.after_restart.clone());
        if !self.after_restart.is_empty() {
            let names: Vec<&str> = self.after_restart.keys().map(String::as_str).collect();
            all.insert(AFTER_RESTART.to_owned(), names.join(";"));
        }
        format_key_values(&all)
    }
}

/// Returns the bytes of memory of this machine, or `None` if the system does not tell.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests;
