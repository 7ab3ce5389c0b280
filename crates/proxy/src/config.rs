//! Settings of the gRPC side, with the names and defaults of `rmq-proxy.json` (`ProxyConfig`).

use std::fmt::{Display, Write as _};
use std::sync::LazyLock;

use auth::AuthConfig;
use client::Credentials;
use serde_json::Value;
use wire::settings::{Fault, FunctionCodec, Property, exact_switch};

/// The table of all settings.
static PROPERTIES: LazyLock<Vec<Property<Config>>> = LazyLock::new(Config::properties);

wire::settings! {
    /// Settings of the gRPC side. Times are in milliseconds unless a name says otherwise, sizes in bytes.
    #[derive(Clone, Debug)]
    pub struct Config {
        "grpcServerPort" Restart port: u16 = 8081, "port of gRPC; `--grpc-port` stands above it";
        "remotingListenPort" Restart remoting_port: i32 = -1, "port of remoting clients, which serves gRPC too, 0 for any; `--proxy-port` stands above it; -1 for none, because the port of the broker serves the same clients; a proxy without a broker passes their requests to the brokers that they name; RocketMQ: 8080";
        "remotingAccessAddr" Restart advertised_host: String = String::new(), "host that routes on the port of remoting clients name; empty for the address that the client connected to";
        "grpcMaxInboundMessageSize" Restart request_bytes_max: usize = 136_314_880, "largest request in bytes";
        "grpcMaxConcurrentCallsPerConnection" Restart connection_calls_max: u32 = 4096, "most calls of one connection at the same time; RocketMQ does not bound them";
        "grpcClientIdleTimeMills" Restart idle_ms: i64 = 120_000, "a connection without calls ends after so long";
        "grpcShutdownTimeSeconds" Restart shutdown_s: i64 = 30, "longest wait for calls when the server stops";
        "grpcThreadPoolQueueCapacity" Restart calls_max: usize = 10_000, "most calls that are served at the same time; a further one waits, and is answered with TOO_MANY_REQUESTS when it cannot wait";
        "vostokGrpcClientsMax" Restart clients_max: usize = 100_000, "most connected clients; settings of a further one are refused";
        "vostokGrpcHeldBytesMax" Restart held_bytes_max: usize = 256 << 20, "most bytes of requests and received messages in memory; receives end with TOO_MANY_REQUESTS above it";
        "maxMessageSize" Restart body_bytes_max: i64 = 4 << 20, "largest body of a message; 0 or less for any";
        "enableMessageBodyEmptyCheck" Restart checks_empty_body: bool = true, "messages without a body are refused";
        "maxUserPropertySize" Restart properties_bytes_max: usize = 16_384, "largest sum of keys and values of user properties, tag and keys";
        "userPropertyMaxNum" Restart properties_max: usize = 128, "most user properties of a message";
        "maxDelayTimeMills" Restart delay_ms_max: i64 = 86_400_000, "longest delay of a message; 0 or less for any";
        "maxTransactionRecoverySecond" Restart recovery_s_max: i64 = 3600, "longest time in which an undecided transaction is not checked; 0 or less for any";
        "enableTopicMessageTypeCheck" Restart checks_message_type: bool = true, "the type of a message must be that of its topic";
        "minInvisibleTimeMillsForRecv" Restart invisible_ms_min: i64 = 10_000, "least invisible time of a receive";
        "maxInvisibleTimeMills" Restart invisible_ms_max: i64 = 43_200_000, "longest invisible time; 0 or less for any";
        "grpcClientConsumerMinLongPollingTimeoutMillis" Restart polling_ms_min: i64 = 5000, "least wait for messages";
        "grpcClientConsumerMaxLongPollingTimeoutMillis" Restart polling_ms_max: i64 = 20_000, "longest wait for messages, also when it is below the least";
        "grpcClientConsumerLongPollingBatchSize" Restart batch_max: i32 = 32, "most messages of a receive that push consumers ask for";
        "maxLiteRenewNumPerChannel" Restart lite_unacked_max: usize = 100, "a consumer of lite topics with more messages that it did not acknowledge receives none";
        "maxSyncLiteSubscriptionRate" Restart lite_additions_max: u32 = 5000, "most additions of lite topics in a second, of all clients; further ones are refused";
        "grpcClientProducerMaxAttempts" Restart producer_attempts_max: i32 = 3, "how often producers try to send";
        "grpcClientProducerBackoffInitialMillis" Restart producer_backoff_ms_first: i64 = 10, "wait of producers before their second attempt when there is too much to do";
        "grpcClientProducerBackoffMaxMillis" Restart producer_backoff_ms_max: i64 = 1000, "longest such wait";
        "grpcClientProducerBackoffMultiplier" Restart producer_backoff_multiplier: i32 = 2, "by how much that wait grows";
        "grpcProxyRelayRequestTimeoutInSeconds" Restart ask_s: i64 = 5, "longest wait for what an operator asks of a client";
        "enableProxyAutoRenew" Restart renews: bool = true, "messages of push consumers stay invisible while they are consumed, however long that takes";
        "defaultInvisibleTimeMills" Restart renewed_invisible_ms: i64 = 60_000, "first invisible time of messages that the server renews";
        "renewAheadTimeMillis" Restart renew_ahead_ms: i64 = 10_000, "a message is renewed so long before it becomes visible";
        "renewMaxTimeMillis" Restart renew_ms_max: i64 = 10_800_000, "after so long a message is not renewed any more and comes again";
        "renewSchedulePeriodMillis" Restart renew_period_ms: i64 = 5000, "time between two looks for messages to renew";
        "maxRenewRetryTimes" Restart renew_retries_max: u32 = 3, "a message whose renewal fails so often in a row is not renewed any more";
        "invisibleTimeMillisWhenClear" Restart cleared_invisible_ms: i64 = 1000, "messages of a client that left come again after so long";
        "transactionHeartbeatPeriodSecond" Restart producers_told_s: i64 = 20, "time between two heartbeats that report transaction producers of this process to other brokers, in seconds";
        "rocketMQClusterName" Restart cluster: String = "DefaultCluster".to_owned(), "cluster that configurations of consumer groups are read from, for a proxy without a broker; any when there is no such cluster";
        "heartbeatSyncerTopicName" Restart sync_topic: String = "DefaultHeartBeatSyncerTopic".to_owned(), "topic on which proxies without a broker tell each other their consumers, those of Apache RocketMQ included; empty for none";
        "namesrvAddr" Restart name_servers: String = String::new(), "name servers of a proxy without a broker; `-n` stands above it";
        "authenticationEnabled" Restart authenticates: bool = false, [FunctionCodec(exact)], "clients must be users of the brokers. Before a broker of the same process the settings of the broker count instead, for all that begin with `auth`; a proxy without a broker asks a broker every five seconds whether users and acls have changed";
        "authenticationMetadataProvider" Restart user_source: String = String::new(), "class that knows the users; all that are known here ask the brokers";
        "authenticationWhitelist" Restart unsigned: String = String::new(), "gRPC messages that need no signature, by their full names, separated by commas";
        "authorizationEnabled" Restart authorizes: bool = false, [FunctionCodec(exact)], "users may do only what their acls allow; needs `authenticationEnabled`";
        "authorizationMetadataProvider" Restart acl_source: String = String::new(), "class that knows the acls; all that are known here ask the brokers";
        "authorizationWhitelist" Restart unchecked: String = String::new(), "gRPC messages that every user may send";
        "innerClientAuthenticationCredentials" Restart credentials: String = String::new(), "keys with which a proxy without a broker signs its requests to brokers, as in `{\"accessKey\":\"a\",\"secretKey\":\"s\"}`; RocketMQ also asks for `enableAclRpcHookForClusterMode`";
        "vostokUserBrokers" Restart believed_brokers: String = String::new(), "brokers whose users a proxy without a broker believes without proof: addresses separated by `;` or `,`, or `*` for all brokers that the name servers list. Brokers of Vostok prove their answers with the secret of `innerClientAuthenticationCredentials`; those of Apache RocketMQ cannot, and are believed only here or with checked certificates (`tls.client.authServer`). With `*` every broker registered at the name servers can create users of this proxy";
        "useEndpointPortFromRequest" Restart names_dialled_port: bool = true, "routes name host and port that the client dialled; RocketMQ: false";
    }
}

/// Reads a switch that decides about users. Only `true` and `false` are read, because no misspelt word may turn users off.
fn exact(text: &str) -> Result<bool, Fault> {
    exact_switch(text).ok_or_else(|| Fault::Invalid("true or false".to_owned()))
}

/// Settings of Java's proxy without effect here. The broker of the process does their work or has the setting, they choose a Java
/// class of which there is one only, or the thread pool or cache does not exist. RocketMQ 5.5.0 itself does not read
/// `longPollingReserveTimeInMillis`.
const WITHOUT_EFFECT: &str = include_str!("config/without_effect.txt");

/// Setting of Java's proxy for batched acknowledgement of a call's messages.
const BATCH_ACK: &str = "enableBatchAck";

/// Error of reading settings.
#[derive(Debug)]
pub struct ConfigError(String);

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
            if let Some(property) = PROPERTIES.iter().find(|property| property.name == name) {
                notes.extend(config.set(property, value)?);
            } else {
                let is_known = name == BATCH_ACK || WITHOUT_EFFECT.lines().any(|it| it == name);
                notes.push(format!("{name} {}", if is_known { "has no effect here" } else { "is unknown" }));
            }
        }
        Ok((config, notes))
    }

    /// Sets one value. Returns a note about a switch that another word than `false` turns off.
    fn set(&mut self, property: &Property<Self>, value: &Value) -> Result<Option<String>, ConfigError> {
        let (name, default) = (property.name, property.value(&Self::default()));
        let (expected, is_of_type) = match default.as_str() {
            "true" | "false" => ("true or false", value.is_boolean()),
            number if number.parse::<i64>().is_ok() => ("a number that fits", value.is_number()),
            _ => ("a text", false),
        };
        let text = value.as_str().map(|text| text.trim().to_owned());
        let text = text.or_else(|| is_of_type.then(|| value.to_string()));
        if let Some(variable) = text.as_deref().and_then(|text| property.unfilled(text)) {
            return Err(ConfigError(format!(
                "{name}: expected a value, found the variable {variable} of a template"
            )));
        }
        let is_set = text.as_deref().is_some_and(|text| property.set(self, text).is_ok());
        let text = text
            .filter(|_| is_set)
            .ok_or_else(|| ConfigError(format!("{name}: expected {expected}, found {value}")))?;
        let is_off = property.value(self) == "false" && !["", "false"].contains(&&*text.to_ascii_lowercase());
        Ok(is_off.then(|| format!("{name} is {text:?} and counts as false; write true or false")))
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
        let mut settings: Vec<_> = PROPERTIES.iter().collect();
        settings.sort_by_key(|setting| setting.name);
        for setting in settings {
            let default = setting.value(&Self::default());
            let _ = writeln!(text, "| `{}` | {default} | {} |", setting.name, setting.doc);
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
