//! Configuration of the name server, and the single table of its property names in `namesrv.conf`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use auth::AuthConfig;
use net::{ConnectionLimits, TrustedProxies};
use wire::body::{format_key_values, parse_key_values};
use wire::settings::{self, ConfigError, Effect, FileError, Setting, Warning};

use crate::Bounds;

/// Configuration of the name server (`NamesrvConfig`, `NettyServerConfig`).
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Address to listen on.
    pub bind_address: String,
    /// Proxies whose PROXY preambles are accepted.
    pub trusted_proxies: TrustedProxies,
    /// Memory budget of all connections in bytes; 0 for a sixteenth of the memory, at most 512 MiB.
    pub connection_bytes_max: usize,
    /// Most connections that are accepted.
    pub connections_max: usize,
    /// Most connections that are accepted from one address.
    pub connections_per_address_max: usize,
    /// TLS handshakes that may begin in a second; one address may begin a quarter of them.
    pub tls_handshakes_per_second_max: usize,
    /// Port to listen on; 0 takes any free one.
    pub listen_port: u16,
    /// Whether requests must be signed, and the users. Off by default, because RocketMQ's name server has no users.
    pub auth: AuthConfig,
    /// The remark with which clients of other machines are refused (`NO_PERMISSION`); `None` to serve them. No property.
    pub refusal_of_others: Option<&'static str>,
    /// File of the key-value settings (`kvConfig.json`).
    pub kv_config_path: PathBuf,
    /// File to which changed settings are written.
    pub config_store_path: PathBuf,
    /// Home directory of the installation; only reported.
    pub rocketmq_home: String,
    /// Keys that no request may change, separated by `;`.
    pub config_black_list: String,
    /// Most bytes to which a compressed registration may inflate.
    pub registration_bytes_max: usize,
    /// Most topics that a broker group may have.
    pub topics_per_broker_max: usize,
    /// Most brokers that may be registered, and most clusters.
    pub brokers_max: usize,
    /// Most estimated bytes of all routes; 0 for a quarter of the memory.
    pub route_bytes_max: usize,
    /// Most estimated bytes of key-value settings.
    pub kv_bytes_max: usize,
    /// Interval in ms at which silent brokers are searched.
    pub scan_interval_ms: u64,
    /// Most brokers that may wait to be removed from the routes.
    pub departures_max: usize,
    /// Whether the smallest slave of a broker group without master is shown with id 0.
    pub support_acting_master: bool,
    /// Whether brokers are notified when the smallest id of their group changes.
    pub notify_min_broker_id_changed: bool,
    /// Whether a full registration removes the topics that it does not contain.
    pub delete_topic_with_broker_registration: bool,
    /// Whether `GET_ALL_TOPIC_LIST_FROM_NAMESERVER` is answered.
    pub enable_all_topic_list: bool,
    /// Whether requests for the other topic lists are served.
    pub enable_topic_list: bool,
    /// Whether routes are refused until brokers have had time to register.
    pub need_wait_for_service: bool,
    /// Seconds after the start during which routes are refused.
    pub wait_seconds_for_service: u64,
    /// Whether answers to registrations contain the order configuration of topics.
    pub return_order_topic_config_to_broker: bool,
    /// Whether routes contain the order configuration of topics.
    pub order_message_enable: bool,
    /// Seconds without traffic after which a connection is closed.
    pub idle_seconds: u64,
    /// Whether unknown topics are looked up in another environment: not supported.
    pub cluster_test: bool,
    /// Name of the other environment for unknown topics. Not supported.
    pub product_env_name: String,
    /// Whether a controller runs in this process; the binary starts it.
    pub enable_controller_in_namesrv: bool,
    /// RocketMQ's thread pool size for all requests but routes; no effect.
    pub default_thread_pool_nums: u32,
    /// RocketMQ's thread pool size for routes; no effect.
    pub client_request_thread_pool_nums: u32,
    /// RocketMQ's queue size for all requests but routes; no effect.
    pub default_thread_pool_queue_capacity: u32,
    /// RocketMQ's queue size for routes; no effect.
    pub client_request_thread_pool_queue_capacity: u32,
    /// Keys that this version does not know, kept to be reported with the configuration.
    pub unknown: BTreeMap<String, String>,
}

impl Config {
    /// Default configuration; `home` is the directory of the name server's files (RocketMQ: the user's home directory).
    pub fn new(home: &Path) -> Self {
        Self {
            bind_address: "0.0.0.0".to_owned(),
            trusted_proxies: TrustedProxies::default(),
            connection_bytes_max: 0,
            connections_max: ConnectionLimits::default().total,
            connections_per_address_max: ConnectionLimits::default().per_address,
            tls_handshakes_per_second_max: ConnectionLimits::default().handshakes_per_second,
            listen_port: 9876,
            auth: AuthConfig::default(),
            refusal_of_others: None,
            kv_config_path: home.join("namesrv/kvConfig.json"),
            config_store_path: home.join("namesrv/namesrv.properties"),
            rocketmq_home: String::new(),
            config_black_list: "configBlackList;configStorePath;kvConfigPath".to_owned(),
            registration_bytes_max: 64 << 20,
            topics_per_broker_max: 200_000,
            brokers_max: 10_000,
            route_bytes_max: 0,
            kv_bytes_max: 8 << 20,
            scan_interval_ms: 5000,
            departures_max: 3000,
            support_acting_master: false,
            notify_min_broker_id_changed: false,
            delete_topic_with_broker_registration: false,
            enable_all_topic_list: true,
            enable_topic_list: true,
            need_wait_for_service: false,
            wait_seconds_for_service: 45,
            return_order_topic_config_to_broker: true,
            order_message_enable: false,
            idle_seconds: 120,
            cluster_test: false,
            product_env_name: "center".to_owned(),
            enable_controller_in_namesrv: false,
            default_thread_pool_nums: 16,
            client_request_thread_pool_nums: 8,
            default_thread_pool_queue_capacity: 10_000,
            client_request_thread_pool_queue_capacity: 50_000,
            unknown: BTreeMap::new(),
        }
    }

    /// Reads the text of a properties file over these settings, and returns warnings about keys and values without effect.
    ///
    /// # Errors
    /// [`FileError`] when the text is malformed or a value does not have the type of its setting.
    pub fn read(&mut self, text: &[u8]) -> Result<Vec<Warning>, FileError> {
        let mut warnings = Vec::new();
        for (key, value) in parse_key_values(text)? {
            match property(&key) {
                None => {
                    self.unknown.insert(key.clone(), value);
                    warnings.push(Warning::Unknown(key));
                }
                Some(property) => {
                    let default = property.value(&Self::new(Path::new("")));
                    if let Some(warning) = property.read(self, &value)? {
                        warnings.push(warning);
                    } else if property.effect == Effect::Unsupported && value.trim() != default {
                        warnings.push(Warning::Unsupported(key, value));
                    }
                }
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
        property(key).map_or(Ok(false), |property| property.change(self, value).map(|()| true))
    }

    /// Returns all keys with their values, including unknown keys.
    pub fn entries(&self) -> BTreeMap<String, String> {
        let known = PROPERTIES.iter().map(|property| (property.name.to_owned(), (property.get)(self)));
        self.unknown.clone().into_iter().chain(known).collect()
    }

    /// All keys and values in the format of a properties file.
    pub fn text(&self) -> String {
        format_key_values(&self.entries())
    }

    /// Whether no request may change this key (`Configuration.blackList` and `NamesrvConfig.configBlackList`).
    pub fn is_locked(&self, key: &str) -> bool {
        LOCKED.contains(&key)
            || auth::KEYS.contains(&key)
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

/// A setting, as configuration files and requests name it.
pub type Property = settings::Property<Config>;

fn property(key: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.name == key)
}

macro_rules! properties {
    ($($name:literal, $effect:ident, $field:ident, $doc:literal;)* auth { $($auth:literal, $auth_doc:literal;)* }) => {
        /// All settings of `namesrv.conf`.
        pub const PROPERTIES: &[Property] = &[$(Property {
            name: $name,
            doc: $doc,
            effect: Effect::$effect,
            get: |config| config.$field.show(),
            set: |config, text| Setting::parse(text).map(|value| config.$field = value),
        },)* $(Property {
            name: $auth,
            doc: $auth_doc,
            effect: Effect::Restart,
            get: |config| config.auth.shown($auth).to_owned(),
            set: |config, text| {
                // The values are checked together at the start.
                config.auth.set($auth, text);
                Ok(())
            },
        }),*];
    };
}

properties! {
    "bindAddress", Restart, bind_address, "address to listen on";
    "proxyProtocolTrustedAddresses", Restart, trusted_proxies, "addresses and networks, separated by ;, whose PROXY preambles are believed";
    "connectionBufferBytes", Restart, connection_bytes_max, "most bytes all connections hold of unfinished requests and of answers not taken; 0 is a sixteenth of the memory, 536870912 at most";
    "connectionsMax", Restart, connections_max, "most connections that are accepted; further ones are closed at once";
    "connectionsPerAddressMax", Restart, connections_per_address_max, "most connections that are accepted from one address, in IPv6 from a network of 64 bits; trusted proxies are left out";
    "tlsHandshakesPerSecondMax", Restart, tls_handshakes_per_second_max, "TLS handshakes that may begin in a second, a quarter of them from one address; further connections are closed";
    "listenPort", Restart, listen_port, "port to listen on";
    "kvConfigPath", Restart, kv_config_path, "file of the key-value settings";
    "configStorePath", Restart, config_store_path, "file that changed settings are written to";
    "rocketmqHome", None, rocketmq_home, "home directory of the installation";
    "configBlackList", Restart, config_black_list, "keys that no request may change, separated by ;";
    "registrationBytesMax", Live, registration_bytes_max, "most bytes to which the compressed body of a registration may inflate; a larger one is refused with code 1";
    "topicsPerBrokerMax", Live, topics_per_broker_max, "most topics of one broker name; a registration that would exceed it is refused whole with code 1";
    "brokersMax", Live, brokers_max, "most brokers, and most clusters; a further broker is refused with code 1";
    "routeBytesMax", Live, route_bytes_max, "most bytes, estimated, of the topics of all brokers; what would exceed it is refused with code 1; 0 is a quarter of the memory";
    "kvConfigBytesMax", Live, kv_bytes_max, "most bytes, estimated, of all key-value settings; a setting that would exceed it is refused with code 1";
    "scanNotActiveBrokerInterval", Restart, scan_interval_ms, "milliseconds between looks for silent brokers";
    "unRegisterBrokerQueueCapacity", Live, departures_max, "departures that may wait to be processed";
    "supportActingMaster", Live, support_acting_master, "show the smallest slave of a group without master as its master";
    "notifyMinBrokerIdChanged", Live, notify_min_broker_id_changed, "tell brokers when the smallest id of their group changes";
    "deleteTopicWithBrokerRegistration", Live, delete_topic_with_broker_registration, "a registration of a whole table removes the topics it does not name";
    "enableAllTopicList", Live, enable_all_topic_list, "answer requests for the list of all topics";
    "enableTopicList", Live, enable_topic_list, "answer requests for the other topic lists";
    "needWaitForService", Live, need_wait_for_service, "give no routes until brokers had time to register";
    "waitSecondsForService", Live, wait_seconds_for_service, "seconds brokers have for that";
    "returnOrderTopicConfigToBroker", Live, return_order_topic_config_to_broker, "answer registrations with the order configuration";
    "orderMessageEnable", Live, order_message_enable, "show the order configuration in routes";
    "serverChannelMaxIdleTimeSeconds", Restart, idle_seconds, "seconds without traffic after which a connection is closed";
    "clusterTest", Unsupported, cluster_test, "look for unknown topics in another environment";
    "productEnvName", Unsupported, product_env_name, "name of that environment";
    "enableControllerInNamesrv", Restart, enable_controller_in_namesrv, "run a controller in this process";
    "defaultThreadPoolNums", None, default_thread_pool_nums, "Java's pool size for all requests but routes";
    "clientRequestThreadPoolNums", None, client_request_thread_pool_nums, "Java's pool size for routes";
    "defaultThreadPoolQueueCapacity", None, default_thread_pool_queue_capacity, "Java's queue size for all requests but routes";
    "clientRequestThreadPoolQueueCapacity", None, client_request_thread_pool_queue_capacity, "Java's queue size for routes";
    auth {
        "authenticationEnabled", "requests must be signed by a user; without a signature they get code 16";
        "authenticationProvider", "class; only the one of RocketMQ";
        "authenticationMetadataProvider", "class that keeps users, org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider; without it every request fails while authenticationEnabled is on";
        "authenticationStrategy", "class; both of RocketMQ are accepted, and every request is verified";
        "authenticationWhitelist", "request codes that need no signature, separated by commas";
        "initAuthenticationUser", "JSON with username and password of a super user that a start creates when it is missing";
        "innerClientAuthenticationCredentials", "JSON with accessKey and secretKey of the brokers, as in their files; the user is created like initAuthenticationUser";
        "authorizationEnabled", "what changes routes or settings needs a super user, or an acl with Update on the cluster; needs authenticationEnabled";
        "authorizationProvider", "class; only the one of RocketMQ";
        "authorizationMetadataProvider", "class that keeps acls, org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider; without it every request fails while authorizationEnabled is on";
        "authorizationStrategy", "class; both of RocketMQ are accepted, and every request is decided";
        "authorizationWhitelist", "request codes that every user may send, separated by commas";
    }
}

#[cfg(test)]
mod tests;
