//! Settings of the gRPC side, with the names and defaults of `rmq-proxy.json` (`ProxyConfig`).

use std::fmt::{Display, Write as _};

use auth::AuthConfig;
use client::Credentials;
use serde_json::Value;
use wire::settings::{exact_switch, switch};

/// Setting in the documentation.
struct Setting {
    name: &'static str,
    default: String,
    doc: &'static str,
}

/// A value of a setting.
trait Read: Sized + Display {
    /// Reads a value, or a text with a value. `None` if it does not fit.
    fn read(value: &Value) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Read for $number {
            fn read(value: &Value) -> Option<Self> {
                match value {
                    Value::String(text) => text.trim().parse().ok(),
                    value => value.as_i64().and_then(|number| number.try_into().ok()),
                }
            }
        })*
    };
}

numbers!(u16, u32, i32, i64, usize);

impl Read for bool {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => switch(text.trim()),
            value => value.as_bool(),
        }
    }
}

impl Read for String {
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(|text| text.trim().to_owned())
    }
}

macro_rules! settings {
    ($($field:ident: $type:ty = $default:expr, $name:literal, $doc:literal;)*) => {
        /// Settings of the gRPC side. Times are in milliseconds unless a name says otherwise, sizes in bytes.
        #[derive(Clone, Debug)]
        pub struct Config {
            $(#[doc = concat!("`", $name, "`: ", $doc, ".")] pub $field: $type,)*
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Config {
            /// Sets one value; whether there is such a setting.
            fn set(&mut self, name: &str, value: &Value) -> Result<bool, ConfigError> {
                match name {
                    $($name => {
                        let read = <$type>::read(value).ok_or_else(|| ConfigError::value(name, stringify!($type), value));
                        self.$field = read?;
                    })*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }

        fn table() -> Vec<Setting> {
            let config = Config::default();
            vec![$(Setting { name: $name, default: config.$field.to_string(), doc: $doc },)*]
        }
    };
}

settings! {
    port: u16 = 8081, "grpcServerPort", "port of gRPC; `--grpc-port` stands above it";
    remoting_port: i32 = -1, "remotingListenPort", "port of remoting clients, which serves gRPC too, 0 for any; `--proxy-port` stands above it; -1 for none, because the port of the broker serves the same clients; a proxy without a broker passes their requests to the brokers that they name; RocketMQ: 8080";
    advertised_host: String = String::new(), "remotingAccessAddr", "host that routes on the port of remoting clients name; empty for the address that the client connected to";
    request_bytes_max: usize = 136_314_880, "grpcMaxInboundMessageSize", "largest request in bytes";
    connection_calls_max: u32 = 4096, "grpcMaxConcurrentCallsPerConnection", "most calls of one connection at the same time; RocketMQ does not bound them";
    idle_ms: i64 = 120_000, "grpcClientIdleTimeMills", "a connection without calls ends after so long";
    shutdown_s: i64 = 30, "grpcShutdownTimeSeconds", "longest wait for calls when the server stops";
    calls_max: usize = 10_000, "grpcThreadPoolQueueCapacity", "most calls that are served at the same time; a further one waits, and is answered with TOO_MANY_REQUESTS when it cannot wait";
    clients_max: usize = 100_000, "vostokGrpcClientsMax", "most connected clients; settings of a further one are refused";
    held_bytes_max: usize = 256 << 20, "vostokGrpcHeldBytesMax", "most bytes of requests and received messages in memory; receives end with TOO_MANY_REQUESTS above it";
    body_bytes_max: i64 = 4 << 20, "maxMessageSize", "largest body of a message; 0 or less for any";
    checks_empty_body: bool = true, "enableMessageBodyEmptyCheck", "messages without a body are refused";
    properties_bytes_max: usize = 16_384, "maxUserPropertySize", "largest sum of keys and values of user properties, tag and keys";
    properties_max: usize = 128, "userPropertyMaxNum", "most user properties of a message";
    delay_ms_max: i64 = 86_400_000, "maxDelayTimeMills", "longest delay of a message; 0 or less for any";
    recovery_s_max: i64 = 3600, "maxTransactionRecoverySecond", "longest time in which an undecided transaction is not checked; 0 or less for any";
    checks_message_type: bool = true, "enableTopicMessageTypeCheck", "the type of a message must be that of its topic";
    invisible_ms_min: i64 = 10_000, "minInvisibleTimeMillsForRecv", "least invisible time of a receive";
    invisible_ms_max: i64 = 43_200_000, "maxInvisibleTimeMills", "longest invisible time; 0 or less for any";
    polling_ms_min: i64 = 5000, "grpcClientConsumerMinLongPollingTimeoutMillis", "least wait for messages";
    polling_ms_max: i64 = 20_000, "grpcClientConsumerMaxLongPollingTimeoutMillis", "longest wait for messages, also when it is below the least";
    batch_max: i32 = 32, "grpcClientConsumerLongPollingBatchSize", "most messages of a receive that push consumers ask for";
    lite_unacked_max: usize = 100, "maxLiteRenewNumPerChannel", "a consumer of lite topics with more messages that it did not acknowledge receives none";
    lite_additions_max: u32 = 5000, "maxSyncLiteSubscriptionRate", "most additions of lite topics in a second, of all clients; further ones are refused";
    producer_attempts_max: i32 = 3, "grpcClientProducerMaxAttempts", "how often producers try to send";
    producer_backoff_ms_first: i64 = 10, "grpcClientProducerBackoffInitialMillis", "wait of producers before their second attempt when there is too much to do";
    producer_backoff_ms_max: i64 = 1000, "grpcClientProducerBackoffMaxMillis", "longest such wait";
    producer_backoff_multiplier: i32 = 2, "grpcClientProducerBackoffMultiplier", "by how much that wait grows";
    ask_s: i64 = 5, "grpcProxyRelayRequestTimeoutInSeconds", "longest wait for what an operator asks of a client";
    renews: bool = true, "enableProxyAutoRenew", "messages of push consumers stay invisible while they are consumed, however long that takes";
    renewed_invisible_ms: i64 = 60_000, "defaultInvisibleTimeMills", "first invisible time of messages that the server renews";
    renew_ahead_ms: i64 = 10_000, "renewAheadTimeMillis", "a message is renewed so long before it becomes visible";
    renew_ms_max: i64 = 10_800_000, "renewMaxTimeMillis", "after so long a message is not renewed any more and comes again";
    renew_period_ms: i64 = 5000, "renewSchedulePeriodMillis", "time between two looks for messages to renew";
    renew_retries_max: u32 = 3, "maxRenewRetryTimes", "a message whose renewal fails so often in a row is not renewed any more";
    cleared_invisible_ms: i64 = 1000, "invisibleTimeMillisWhenClear", "messages of a client that left come again after so long";
    producers_told_s: i64 = 20, "transactionHeartbeatPeriodSecond", "time between two heartbeats that report transaction producers of this process to other brokers, in seconds";
    cluster: String = "DefaultCluster".to_owned(), "rocketMQClusterName", "cluster that configurations of consumer groups are read from, for a proxy without a broker; any when there is no such cluster";
    sync_topic: String = "DefaultHeartBeatSyncerTopic".to_owned(), "heartbeatSyncerTopicName", "topic on which proxies without a broker tell each other their consumers, those of Apache RocketMQ included; empty for none";
    name_servers: String = String::new(), "namesrvAddr", "name servers of a proxy without a broker; `-n` stands above it";
    authenticates: bool = false, "authenticationEnabled", "clients must be users of the brokers. Before a broker of the same process the settings of the broker count instead, for all that begin with `auth`; a proxy without a broker asks a broker every five seconds whether users and acls have changed";
    user_source: String = String::new(), "authenticationMetadataProvider", "class that knows the users; all that are known here ask the brokers";
    unsigned: String = String::new(), "authenticationWhitelist", "gRPC messages that need no signature, by their full names, separated by commas";
    authorizes: bool = false, "authorizationEnabled", "users may do only what their acls allow; needs `authenticationEnabled`";
    acl_source: String = String::new(), "authorizationMetadataProvider", "class that knows the acls; all that are known here ask the brokers";
    unchecked: String = String::new(), "authorizationWhitelist", "gRPC messages that every user may send";
    credentials: String = String::new(), "innerClientAuthenticationCredentials", "keys with which a proxy without a broker signs its requests to brokers, as in `{\"accessKey\":\"a\",\"secretKey\":\"s\"}`; RocketMQ also asks for `enableAclRpcHookForClusterMode`";
    believed_brokers: String = String::new(), "vostokUserBrokers", "brokers whose users a proxy without a broker believes without proof: addresses separated by `;` or `,`, or `*` for all brokers that the name servers list. Brokers of Vostok prove their answers with the secret of `innerClientAuthenticationCredentials`; those of Apache RocketMQ cannot, and are believed only here or with checked certificates (`tls.client.authServer`). With `*` every broker registered at the name servers can create users of this proxy";
    names_dialled_port: bool = true, "useEndpointPortFromRequest", "routes name host and port that the client dialled; RocketMQ: false";
}

/// Settings of Java's proxy without effect here. The broker of the process does their work or has the setting, there is one class
/// only, or the thread pool or cache does not exist. RocketMQ 5.5.0 itself does not read `longPollingReserveTimeInMillis`.
const WITHOUT_EFFECT: &str = include_str!("config/without_effect.txt");

/// Switches that decide about users. Only `true` and `false` are read, because no misspelt word may turn users off.
const AUTH_SWITCHES: [&str; 2] = ["authenticationEnabled", "authorizationEnabled"];

/// Note about a switch that another word than `false` turns off.
fn off_by_another_word(name: &str, value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    let is_switch = table().iter().any(|it| it.name == name && ["true", "false"].contains(&&*it.default));
    let is_word = !text.is_empty() && !text.eq_ignore_ascii_case("false");
    let is_off = is_switch && is_word && switch(text) == Some(false);
    is_off.then(|| format!("{name} is {text:?} and counts as false; write true or false"))
}

/// Setting of Java's proxy for batched acknowledgement of a call's messages.
const BATCH_ACK: &str = "enableBatchAck";

/// Error of reading settings.
#[derive(Debug)]
pub struct ConfigError(String);

impl ConfigError {
    fn value(name: &str, kind: &str, found: &Value) -> Self {
        let expected = match kind {
            "bool" => "true or false",
            "String" => "a text",
            _ => "a number that fits",
        };
        Self(format!("{name}: expected {expected}, found {found}"))
    }
}

impl Display for ConfigError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads the object of `rmq-proxy.json`. Returns notes about settings that are unknown or have no effect here.
    ///
    /// # Errors
    /// [`ConfigError`] for a text that is no JSON object, and for a value that does not fit.
    pub fn from_json(text: &[u8]) -> Result<(Self, Vec<String>), ConfigError> {
        let parsed: Value = wire::json::from_slice(text).map_err(|error| {
            let before = text.get(..error.position).unwrap_or(text);
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            ConfigError(format!("line {line}: {}", error.reason))
        })?;
        let object = parsed.as_object().ok_or_else(|| ConfigError("expected a JSON object".to_owned()))?;
        let (mut config, mut notes) = (Self::default(), Vec::new());
        for (name, value) in object {
            if AUTH_SWITCHES.contains(&name.as_str())
                && let Value::String(text) = value
                && exact_switch(text.trim()).is_none()
            {
                return Err(ConfigError::value(name, "bool", value));
            }
            if config.set(name, value)? {
                notes.extend(off_by_another_word(name, value));
            } else {
                let is_known = name == BATCH_ACK || WITHOUT_EFFECT.lines().any(|it| it == name);
                notes.push(format!("{name} {}", if is_known { "has no effect here" } else { "is unknown" }));
            }
        }
        Ok((config, notes))
    }

    /// Authentication settings of a proxy without a broker.
    pub fn auth(&self) -> AuthConfig {
        let mut auth = AuthConfig::default();
        let source = |given: &str, class: &str| match given.is_empty() {
            true => format!("org.apache.rocketmq.proxy.auth.{class}MetadataProvider"),
            false => given.to_owned(),
        };
        for (key, value) in [
            ("authenticationEnabled", self.authenticates.to_string()),
            ("authenticationMetadataProvider", source(&self.user_source, "ProxyAuthentication")),
            ("authenticationWhitelist", self.unsigned.clone()),
            ("authorizationEnabled", self.authorizes.to_string()),
            ("authorizationMetadataProvider", source(&self.acl_source, "ProxyAuthorization")),
            ("authorizationWhitelist", self.unchecked.clone()),
        ] {
            auth.set(key, &value);
        }
        auth
    }

    /// The keys with which requests to the brokers of a cluster are signed.
    ///
    /// # Errors
    /// [`ConfigError`] for a text that is not an object with both keys.
    pub fn credentials(&self) -> Result<Option<Credentials>, ConfigError> {
        if self.credentials.is_empty() {
            return Ok(None);
        }
        let keys: Value = wire::json::from_str(&self.credentials).unwrap_or_default();
        match (keys["accessKey"].as_str(), keys["secretKey"].as_str()) {
            (Some(access_key), Some(secret_key)) => Ok(Some(Credentials::new(access_key, secret_key))),
            _ => {
                let text =
                    "innerClientAuthenticationCredentials: expected an object with accessKey and secretKey";
                Err(ConfigError(text.to_owned()))
            }
        }
    }

    /// The text of `docs/proxy-settings.md`.
    pub fn page() -> String {
        let mut text = "# Settings of gRPC\n\n[简体中文](proxy-settings.zh-CN.md)\n\n\
            Names and defaults are those of `rmq-proxy.json` of Apache RocketMQ 5.5.0, and a few of Vostok's own, which begin with `vostok`. The file\n\
            is given with `--proxy-config`; `--grpc-port` and `--proxy-port` stand above its ports. Changes take effect at the next start. An unknown name is named in the log, a value\n\
            that does not fit is refused. This page is made from the table the server itself uses.\n\n\
            | setting | default | what it does |\n|---|---|---|\n"
            .to_owned();
        let mut settings = table();
        settings.sort_by_key(|setting| setting.name);
        for Setting { name, default, doc } in settings {
            let _ = writeln!(text, "| `{name}` | {default} | {doc} |");
        }
        let _ = writeln!(
            text,
            "\nWithout effect, because the settings of the broker say it, there is one class only, or no such thread pool or cache is here: {}. RocketMQ 5.5.0 itself does not read `longPollingReserveTimeInMillis`. TLS is that of the broker's port (`tls.server.*`).\n\n\
            `{BATCH_ACK}`, which RocketMQ has off, has no effect: a call may acknowledge many messages, and each is acknowledged for itself.",
            WITHOUT_EFFECT.lines().collect::<Vec<_>>().join(", ")
        );
        text
    }
}

#[cfg(test)]
mod tests;
