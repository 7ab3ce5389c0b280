//! Configuration of the name server, and the single table of its property names in `namesrv.conf`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use auth::AuthConfig;
use net::{ConnectionLimits, TrustedProxies};
use wire::settings::{self, FileSettings};

use crate::Bounds;

/// A setting, as configuration files and requests name it.
type Property = settings::Property<Config>;

/// All settings of `namesrv.conf`.
static PROPERTIES: LazyLock<Vec<Property>> = LazyLock::new(Config::properties);

wire::settings! {
    /// Configuration of the name server (`NamesrvConfig`, `NettyServerConfig`).
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        "bindAddress" Restart bind_address: String = "0.0.0.0".to_owned(), "address to listen on";
        "proxyProtocolTrustedAddresses" Restart trusted_proxies: TrustedProxies = TrustedProxies::default(), "addresses and networks, separated by ;, whose PROXY preambles are accepted";
        "connectionBufferBytes" Restart connection_bytes_max: usize = 0, "most bytes all connections hold of unfinished requests and of answers not taken; 0 is a sixteenth of the memory, 536870912 at most";
        "connectionsMax" Restart connections_max: usize = ConnectionLimits::default().total, "most connections that are accepted; further ones are closed at once";
        "connectionsPerAddressMax" Restart connections_per_address_max: usize = ConnectionLimits::default().per_address, "most connections that are accepted from one address, in IPv6 from a network of 64 bits; trusted proxies are left out";
        "tlsHandshakesPerSecondMax" Restart tls_handshakes_per_second_max: usize = ConnectionLimits::default().handshakes_per_second, "TLS handshakes that may begin in a second, a quarter of them from one address; further connections are closed";
        "listenPort" Restart listen_port: u16 = 9876, "port to listen on; 0 takes any free one";
        "kvConfigPath" Restart kv_config_path: PathBuf = PathBuf::new(), "file of the key-value settings";
        "configStorePath" Restart config_store_path: PathBuf = PathBuf::new(), "file that changed settings are written to";
        "rocketmqHome" None rocketmq_home: String = String::new(), "home directory of the installation; only reported";
        "configBlackList" Restart config_black_list: String = "configBlackList;configStorePath;kvConfigPath".to_owned(), "keys that no request may change, separated by ;";
        "registrationBytesMax" Live registration_bytes_max: usize = 64 << 20, "most bytes to which the compressed body of a registration may inflate; a larger one is refused with code 1";
        "topicsPerBrokerMax" Live topics_per_broker_max: usize = 200_000, "most topics of one broker name; a registration that would exceed it is refused whole with code 1";
        "brokersMax" Live brokers_max: usize = 10_000, "most brokers, and most clusters; a further broker is refused with code 1";
        "routeBytesMax" Live route_bytes_max: usize = 0, "most bytes, estimated, of the topics of all brokers; what would exceed it is refused with code 1; 0 is a quarter of the memory";
        "kvConfigBytesMax" Live kv_bytes_max: usize = 8 << 20, "most bytes, estimated, of all key-value settings; a setting that would exceed it is refused with code 1";
        "scanNotActiveBrokerInterval" Restart scan_interval_ms: u64 = 5000, "interval in milliseconds at which silent brokers are searched";
        "unRegisterBrokerQueueCapacity" Live departures_max: usize = 3000, "most brokers that may wait to be removed from the routes";
        "supportActingMaster" Live support_acting_master: bool = false, "show the smallest slave of a group without master as its master";
        "notifyMinBrokerIdChanged" Live notify_min_broker_id_changed: bool = false, "tell brokers when the smallest id of their group changes";
        "deleteTopicWithBrokerRegistration" Live delete_topic_with_broker_registration: bool = false, "a registration of a whole table removes the topics it does not name";
        "enableAllTopicList" Live enable_all_topic_list: bool = true, "answer requests for the list of all topics";
        "enableTopicList" Live enable_topic_list: bool = true, "answer requests for the other topic lists";
        "needWaitForService" Live need_wait_for_service: bool = false, "refuse routes until brokers have had time to register";
        "waitSecondsForService" Live wait_seconds_for_service: u64 = 45, "seconds after the start during which needWaitForService refuses routes";
        "returnOrderTopicConfigToBroker" Live return_order_topic_config_to_broker: bool = true, "answer registrations with the order configuration";
        "orderMessageEnable" Live order_message_enable: bool = false, "show the order configuration in routes";
        "serverChannelMaxIdleTimeSeconds" Restart idle_seconds: u64 = 120, "seconds without traffic after which a connection is closed";
        "clusterTest" Unsupported cluster_test: bool = false, "look up unknown topics in another environment; not supported";
        "productEnvName" Unsupported product_env_name: String = "center".to_owned(), "name of the environment of clusterTest; not supported";
        "enableControllerInNamesrv" Restart enable_controller_in_namesrv: bool = false, "run a controller in this process";
        "defaultThreadPoolNums" None default_thread_pool_nums: u32 = 16, "RocketMQ's thread pool size for all requests but routes; no effect";
        "clientRequestThreadPoolNums" None client_request_thread_pool_nums: u32 = 8, "RocketMQ's thread pool size for routes; no effect";
        "defaultThreadPoolQueueCapacity" None default_thread_pool_queue_capacity: u32 = 10_000, "RocketMQ's queue size for all requests but routes; no effect";
        "clientRequestThreadPoolQueueCapacity" None client_request_thread_pool_queue_capacity: u32 = 50_000, "RocketMQ's queue size for routes; no effect";
    }
    fields {
        /// Whether requests must be signed, and the users. Off by default, because RocketMQ's name server has no users.
        pub auth: AuthConfig = AuthConfig::default();
        /// The remark with which clients of other machines are refused (`NO_PERMISSION`); `None` to serve
        /// them. Not a setting of configuration files.
        pub refusal_of_others: Option<&'static str> = None;
        /// Keys that this version does not know, kept to be reported with the configuration.
        pub unknown: BTreeMap<String, String> = BTreeMap::new();
    }
    also { auth_properties() }
}

/// The settings of authentication and authorization that a name server has. The values are checked together at the start.
fn auth_properties() -> impl Iterator<Item = Property> {
    let other_roles = [
        "authenticationSealedUsers",
        "authenticationHidesPasswords",
        "authorizationStrict",
        "migrateAuthFromV1Enabled",
        "aclEnable",
    ];
    let own = AuthConfig::properties().into_iter().filter(move |row| !other_roles.contains(&row.name));
    own.map(|row| row.within(|config: &Config| &config.auth, |config: &mut Config| &mut config.auth))
}

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
    /// Default configuration; `home` is the directory of the name server's files (RocketMQ: the user's home directory).
    pub fn new(home: &Path) -> Self {
        Self {
            kv_config_path: home.join("namesrv/kvConfig.json"),
            config_store_path: home.join("namesrv/namesrv.properties"),
            ..Self::default()
        }
    }

    /// Whether no request may change this key (`Configuration.blackList` and `NamesrvConfig.configBlackList`).
    pub fn is_locked(&self, key: &str) -> bool {
        LOCKED.contains(&key)
            || AuthConfig::names().any(|name| name == key)
            || self.config_black_list.split(';').any(|locked| locked.trim() == key)
    }

    /// Bounds of the route tables.
    pub(crate) fn bounds(&self) -> Bounds {
        let bytes = match self.route_bytes_max {
            0 => net::memory_limit().map_or(ROUTE_BYTES_DEFAULT, |bytes| bytes / 4),
            given => given,
        };
        Bounds { brokers: self.brokers_max, topics_per_broker: self.topics_per_broker_max, bytes }
    }

    /// [`Config::idle_seconds`] as a duration.
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }
}

/// Default bound of the routes where the memory is unknown.
const ROUTE_BYTES_DEFAULT: usize = 256 << 20;

/// Keys that are locked even without `configBlackList`, like those of authentication. They are RocketMQ's keys
/// (`DefaultRequestProcessor.initConfigBlackList`), and all others that name a path, an address or an environment. A
/// user who may change settings must not choose the written files, the listening address or the trusted proxies
/// (CVE-2023-37582).
const LOCKED: [&str; 8] = [
    "bindAddress",
    "configBlackList",
    "configStorePath",
    "kvConfigPath",
    "listenPort",
    "productEnvName",
    "proxyProtocolTrustedAddresses",
    "rocketmqHome",
];

#[cfg(test)]
mod tests;
