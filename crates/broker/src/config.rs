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
mod timers;
mod unknown;
mod update;
mod value;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use auth::AuthConfig;
use client::Credentials;
use net::TrustedProxies;
use wire::body::format_key_values;
use wire::settings::{AFTER_RESTART, Exact, FunctionCodec, Milliseconds, Plain};
pub use wire::settings::{Effect, Finding};

pub use acting_master::ActingMaster;
pub use catalog::{Setting, Treatment, lint, setting, settings};
pub use controller_mode::ControllerMode;
pub(crate) use live::{Live, TooManySets};
pub use metrics::{Exporter, Metrics};
pub(crate) use own_ip::own_ip;
pub(crate) use pop::{Mode, PopSettings};
pub use property::Source;
pub use reading::ConfigError;
pub use replication::{Replication, Role};
pub use settings_page::{page, settings_help};
use space::{
    FLUSH_MODES, POLICIES, directories, hours, hours_ms, only_broker, show_directories, show_hours,
    show_hours_ms, show_watermark, watermark,
};
pub use timers::Timers;
pub(crate) use update::{NotChanged, Update, merged, update};
use value::{
    DAY_MS, INT_MAX, Must, address, bytes, host, name, optional_addresses, proxies, scan_units, show_bytes,
    show_optional, show_scan_units, show_size, size, topic,
};

/// A setting, as configuration files and requests name it.
type Property = wire::settings::Property<Config>;

/// All settings that have an effect here.
static PROPERTIES: LazyLock<Vec<Property>> = LazyLock::new(Config::properties);

/// Most bytes of a body that `maxMessageSize` may allow; the store takes bodies of that size.
const MESSAGE_BYTES_MAX: usize = 128 << 20;

wire::settings! {
    /// Bounds of a pull.
    #[derive(Clone, Debug)]
    pub struct Transfer {
        "maxTransferCountOnMessageInMemory" Live count_max: i32 = 32, [1..=65_535], "most messages of one pull";
        "maxTransferBytesOnMessageInMemory" Live bytes_max: usize = 262_144, [1..=128 << 20], "most bytes of one pull; the first message always fits";
        "maxTransferCountOnMessageInDisk" Live disk_count_max: i32 = 8, [1..=65_535], "most messages of one pull far behind the end of the log without read-ahead";
        "maxTransferBytesOnMessageInDisk" Live disk_bytes_max: usize = 65_536, [1..=128 << 20], "most bytes of a pull that reads from the disk; the first message always fits";
        "accessMessageInMemoryMaxRatio" Live memory_ratio: i64 = 40, [0..=100], "percentage of the memory; messages further behind count as being on the disk";
        "maxFilterMessageSize" Live scan_units: i64 = 800, [(scan_units, show_scan_units)], "bytes of a queue's index that one pull looks through, 20 per message";
    }
    fields {
        /// Memory of the machine in bytes.
        pub memory_bytes: u64 = 16 << 30;
    }
}

wire::settings! {
    /// Check-backs of undecided transactions.
    #[derive(Clone, Debug)]
    pub struct Transaction {
        "transactionTimeOut" Live timeout_ms: i64 = 6000, [0..=DAY_MS], "milliseconds before a producer is asked about a transaction it left undecided";
        "transactionCheckMax" Live check_max: i64 = 15, [0..=i64::from(i32::MAX)], "times a producer is asked about a half message before it is given up";
        "transactionCheckInterval" Live check_interval_ms: u64 = 30_000, [1..=DAY_MS], "milliseconds between looks at undecided transactions";
        "rejectTransactionMessage" Live rejects: bool = false, "transaction messages are refused";
    }
}

wire::settings! {
    /// Whether light queues are served, and how many. Both `enableLmq` and `enableMultiDispatch` must be on.
    #[derive(Clone, Debug)]
    pub struct LightQueues {
        "enableLmq" Restart lmq: bool = false, "light queues are served (%LMQ%...), with enableMultiDispatch";
        "enableMultiDispatch" Restart multi_dispatch: bool = false, "messages may name further queues they belong to, with enableLmq";
        "enableLmqQuota" Live quota: bool = false, "limits light queues to maxLmqConsumeQueueNum; without it the limit is 1000000, or maxLmqConsumeQueueNum if larger";
        "maxLmqConsumeQueueNum" Live queues_max: usize = 20_000, [0..=i64::from(i32::MAX)], "most light queues; below 1000000 it needs enableLmqQuota";
    }
}

wire::settings! {
    /// Settings of lite topics.
    #[derive(Clone, Debug)]
    pub struct LiteSettings {
        "maxLiteSubscriptionCount" Live subscriptions_max: usize = 100_000, [0..=INT_MAX], "most subscriptions to lite topics, and most clients of lite topics";
        "maxClientEventCount" Live events_max: usize = 100, [1..=100_000], "most lite topics with new messages that a client has at a time, unless its group says lite.sub.client.max.event.cnt";
        "liteSubscriptionCheckTimeoutMills" Live client_timeout_ms: i64 = 180_000, [1000..=DAY_MS], "milliseconds without a request about its lite topics after which a client loses them";
        "liteTtlCheckInterval" Live expiry_interval_ms: i64 = 120_000, [1000..=DAY_MS], "milliseconds between two searches for expired lite topics";
        "minLiteTTl" Live life_min_ms: i64 = 900_000, [0..=DAY_MS], "milliseconds that a lite topic lives at least after its last message, and after the start";
    }
}

wire::settings! {
    /// Bounds of a query by key (request 12).
    #[derive(Clone, Debug)]
    pub struct Query {
        "maxMsgsNumBatch" Live count_max: i32 = 64, [1..=65_535], "most messages of an answer to a query by key";
        "defaultQueryMaxNum" Live unique_max: i32 = 32, [1..=65_535], "most messages of an answer to a query by unique key";
    }
}

wire::settings! {
    /// The settings of a broker.
    #[derive(Clone, Debug)]
    pub struct Config {
        "brokerClusterName" Restart broker_cluster_name: String = "DefaultCluster".to_owned(), [FunctionCodec(name)], "cluster the broker belongs to";
        "brokerName" Restart broker_name: String = "DEFAULT_BROKER".to_owned(), [FunctionCodec(name)], "name of the broker; masters and slaves of one group have the same";
        "brokerId" Restart broker_id: i64 = 0, [Exact(-1..=i64::MAX)], "0 for a master; a slave has a number above 0 of its own";
        "brokerIP1" Restart broker_ip1: String = String::new(), [FunctionCodec(host)], "address clients are told to use, or a name they can resolve";
        "bindAddress" Restart bind_address: IpAddr = Ipv4Addr::UNSPECIFIED.into(), [FunctionCodec(address)], "address to listen on; also for the name server of the same process";
        "proxyProtocolTrustedAddresses" Restart trusted_proxies: TrustedProxies = TrustedProxies::default(), [FunctionCodec(proxies)], "addresses and networks, separated by ;, whose PROXY preambles are believed; a connection of others that begins with one is closed";
        "connectionBufferBytes" Restart connection_bytes_max: usize = 0, [(size, show_size)], "most bytes that all connections hold of unfinished requests and of answers not taken, such as 1g; 0 is a sixteenth of the memory, 512m at most";
        "listenPort" Restart listen_port: u16 = 10911, [Exact(1..=65_535)], "port to listen on; the port two below is the second one";
        "namesrvAddr" Live namesrv_addr: Option<String> = None, [(optional_addresses, show_optional)], "name servers, host:port separated by ;";
        "registerNameServerPeriod" Live register_name_server_period_ms: u64 = 30_000, [1000..=DAY_MS], "milliseconds between registrations with the name servers; a minute at most";
        "enablePropertyFilter" Live enable_property_filter: bool = false, "consumers may filter by SQL92";
        "forceRegister" Live force_register: bool = true, "name servers are told again of 5000 topics every period, so that one they lost comes back";
        "enableSingleTopicRegister" Live single_topic_register: bool = false, "name servers are told of a changed topic alone, and of the whole table with the next period";
        "enableSplitRegistration" Live split_registration: bool = false, "registrations have at most splitRegistrationSize topics instead of 5000";
        "splitRegistrationSize" Live split_registration_size: usize = 800, [2..=50_000], "topics in one registration with enableSplitRegistration";
        "maxMessageSize" Live max_message_size: usize = 4 << 20, [1..=MESSAGE_BYTES_MAX as i64], "largest message body in bytes";
        "brokerPermission" Live broker_permission: i32 = 6, [Exact(0..=7)], "4 clients may read, 2 they may write, 6 both";
        "regionId" Restart region_id: String = "DefaultRegion".to_owned(), "region written into messages";
        "traceOn" Restart trace_on: bool = true, "clients may write message traces";
        "traceTopicEnable" Restart trace_topic_enable: bool = false, "the topic of message traces exists from the start";
        "msgTraceTopicName" Restart trace_topic: String = crate::names::TRACE_TOPIC.to_owned(), [FunctionCodec(topic)], "topic of message traces that traceTopicEnable makes";
        "storeReplyMessageEnable" Live store_reply_message_enable: bool = true, "replies between applications are stored, not only passed on";
        "autoCreateTopicEnable" Live auto_create_topic_enable: bool = true, "the first message to an unknown topic creates it";
        "defaultTopicQueueNums" Live default_topic_queue_nums: i32 = 8, [1..=65_535], "most queues of a topic created by its first message; a start keeps those that TBW102 has in the store";
        "autoCreateSubscriptionGroup" Live auto_create_subscription_group: bool = true, "the first heartbeat, pull or pop of an unknown group creates it";
        "longPollingEnable" Live long_polling_enable: bool = true, "pulls of empty queues wait as long as the client says";
        "shortPollingTimeMills" Live short_polling_time_ms: i64 = 1000, [1..=DAY_MS], "milliseconds a pull that found nothing waits without longPollingEnable, or when its client names no time";
        "litePullMessageEnable" Live lite_pull_message_enable: bool = true, "lite pull consumers are served";
        "notifyConsumerIdsChangedEnable" Live notify_consumer_ids_changed_enable: bool = true, "members of a group are told when it changes";
        "useServerSideResetOffset" Live server_side_reset: bool = true, "offsets are reset at the broker; false tells connected consumers to do it";
        "flushConsumerOffsetInterval" Live flush_consumer_offset_interval_ms: u64 = 5000, [1..=DAY_MS], "milliseconds between writes of consumer offsets";
        "slaveReadEnable" Live slave_read_enable: bool = false, "consumers far behind are told to read from the broker their group names";
        "cleanResourceInterval" Live clean_resource_interval_ms: i64 = 10_000, [100..=DAY_MS], "milliseconds between two looks for files to delete";
        "deleteCommitLogFilesInterval" Live delete_files_interval_ms: u64 = 100, [0..=DAY_MS], "milliseconds between giving back the space of two deleted files";
        "replicasPerDiskPartition" Restart replicas_per_disk_partition: i32 = 1, [FunctionCodec(only_broker)], "brokers that share the disk; 1 here";
    }
    parts {
        /// Replication of the log between the brokers of a group.
        replication: Replication;
        /// Whether and how many light queues are served.
        light: LightQueues;
        /// Lite topics.
        lite: LiteSettings;
        /// Bounds of a pull.
        transfer: Transfer;
        /// Delivery of timed messages.
        timers: Timers;
        /// Whether and how metrics are served.
        metrics: Metrics;
        /// Pop consumption.
        pop: PopSettings;
        /// Bounds of a query by key.
        query: Query;
        /// Check-backs of undecided transactions.
        transaction: Transaction;
        /// Authentication and authorization.
        auth: AuthConfig;
    }
    paths {
        "connectionsMax" Restart [connection_limits.total], [1..=i64::from(u32::MAX)], "most connections that are accepted by the process; further ones are closed at once";
        "connectionsPerAddressMax" Restart [connection_limits.per_address], [1..=i64::from(u32::MAX)], "most connections that are accepted from one address, in IPv6 from a network of 64 bits; proxies of proxyProtocolTrustedAddresses are left out";
        "tlsHandshakesPerSecondMax" Restart [connection_limits.handshakes_per_second], [1..=i64::from(u32::MAX)], "TLS handshakes that may begin in a second, a quarter of them from one address; further ones wait up to two seconds, then their connections are closed";
        "messageIndexEnable" Restart [store.key_index], "messages are found by their keys";
        "maxHashSlotNum" Restart [store.index_slots], [1..=500_000_000], "slots of a key index file; files of other sizes are made anew from the log";
        "maxIndexNum" Restart [store.index_items], [2..=INT_MAX], "places for keys in a key index file; files of other sizes are made anew from the log";
        "mappedFileSizeCommitLog" Restart [store.segment_bytes], [4096..=1 << 31], "bytes of a commit log file of a new store; the files of an existing store keep their size";
        "mappedFileSizeConsumeQueue" Restart [store.queue_file_bytes], [20..=1 << 31], "bytes of a queue file of a new store; the files of an existing store keep their size";
        "mapperFileSizeBatchConsumeQueue" Restart [store.batch_file_bytes], [46..=1 << 31], "bytes of a file of a queue of batches of a new store; the files of an existing store keep their size";
        "flushDiskType" Live [store.flush], [Must(FLUSH_MODES)], "ASYNC_FLUSH answers before the disk has a message, SYNC_FLUSH after";
        "flushIntervalCommitLog" Restart [store.flush_interval], [Milliseconds(1..=DAY_MS)], "milliseconds a message stays off the disk at most, with ASYNC_FLUSH";
        "syncFlushTimeout" Restart [store.flush_timeout], [Milliseconds(1..=DAY_MS)], "milliseconds a sender waits for the disk, with SYNC_FLUSH";
        "flushIntervalConsumeQueue" Restart [store.checkpoint_interval], [Milliseconds(1..=DAY_MS)], "milliseconds between checkpoints, to which a restart goes back";
        "fileReservedTime" Live [retention.reserved_ms], [(hours_ms, show_hours_ms)], "hours a commit log file is kept after it was written last";
        "deleteWhen" Live [retention.delete_hours], [(hours, show_hours)], "local hours at which files older than fileReservedTime are deleted, such as 04 or 02;14";
        "diskMaxUsedSpaceRatio" Live [retention.expire_at], [(|text: &str| watermark(text, 10, 95), show_watermark)], "percent in use, or free bytes such as 50g, from which expired files are deleted at any hour";
        "diskSpaceCleanForciblyRatio" Live [retention.clean_at], [(|text: &str| watermark(text, 30, 85), show_watermark)], "percent in use, or free bytes, from which the oldest files are deleted at any age";
        "diskSpaceWarningLevelRatio" Live [retention.refuse_at], [(|text: &str| watermark(text, 35, 90), show_watermark)], "percent in use, or free bytes, from which sends are refused";
        "cleanFileForciblyEnable" Live [retention.cleans_forcibly], "files are deleted before their time when the disk gets full";
        "deleteFileBatchMax" Live [retention.batch_max], [1..=65_535], "most commit log files deleted in one round";
        "commitLogRetentionBytes" Live [retention.log_bytes_max], [(bytes, show_bytes)], "most bytes the commit log holds, such as 500g; 0 for no limit";
        "unconsumedDataPolicy" Live [retention.unconsumed], [Must(POLICIES)], "old messages a group has not consumed: PROTECT until the disk gets full, DROP, or REJECT sends instead";
        "readOnlyCommitLogStorePaths" Restart [store.commit_log_read_only], [(directories, |paths: &Vec<PathBuf>| show_directories(paths))], "further directories of the commit log, separated by commas, that get no new files";
        "enabledAppendPropCRC" Restart [store.crc_property], [Must(Plain)], "messages get a checksum of their whole record";
    }
    fields {
        /// Retention settings, and the disk usage from which on sends are refused.
        pub retention: store::RetentionSettings = store::RetentionSettings::default();
        /// `connectionsMax`, `connectionsPerAddressMax` and `tlsHandshakesPerSecondMax`: how many connections are accepted.
        pub connection_limits: net::ConnectionLimits = net::ConnectionLimits::default();
        /// The settings of the store.
        pub store: store::Config = store::Config {
            key_index: true,
            record_bytes_max: MESSAGE_BYTES_MAX + 65_536,
            ..store::Config::new("./data")
        };
        /// `messageDelayLevel` as the file gives it.
        delay_levels: String = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".to_owned();
        /// The file that the settings come from and that changed settings are written to.
        file: Option<PathBuf> = None;
        has_store_path: bool = false;
        has_commit_log_path: bool = false;
        /// The remark with which clients of other machines are refused; `None` to serve them.
        pub(crate) refusal_of_others: Option<&'static str> = None;
        /// Settings without effect here, kept for answers that show the configuration.
        others: BTreeMap<String, String> = BTreeMap::new();
        /// Values that a request has put into the file and that count after the next start, by name of the setting.
        after_restart: BTreeMap<String, String> = BTreeMap::new();
        /// Sources of the settings that were given, by present name.
        sources: BTreeMap<String, Source> = BTreeMap::new();
        /// The name server of this process, which stays when `namesrvAddr` changes.
        pub own_name_server: Option<String> = None;
    }
    also { property::others() }
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
        let mut config = Self { broker_ip1: ip.to_string(), ..Self::default() };
        if !host_name.is_empty() {
            host_name.clone_into(&mut config.broker_name);
        }
        config
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
