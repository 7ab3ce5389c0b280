//! Messages that are fields of requests and responses (`definition.proto`).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;

messages! {
/// Filter of a subscription: a tag or SQL92 expression.
pub struct FilterExpression {
    #[enumeration = "FilterType", tag = "1"] r#type: i32,
    #[string, tag = "2"] expression: String,
}

/// Retry policy of a client: number of attempts, and the delays between them.
pub struct RetryPolicy {
    #[int32, tag = "1"] max_attempts: i32,
    #[oneof = "Strategy", tags = "2, 3"] strategy: Option<Strategy>,
}
}

/// Delays of a retry policy: exponential backoff, or a list of delays.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Strategy {
    #[prost(message, tag = "2")]
    ExponentialBackoff(ExponentialBackoff),
    #[prost(message, tag = "3")]
    CustomizedBackoff(CustomizedBackoff),
}

messages! {
/// Backoff whose delay begins at `initial` and is multiplied until it reaches `max`.
pub struct ExponentialBackoff {
    #[message, optional, tag = "1"] initial: Option<Duration>,
    #[message, optional, tag = "2"] max: Option<Duration>,
    #[float, tag = "3"] multiplier: f32,
}

/// Backoff with a listed delay for each attempt.
pub struct CustomizedBackoff {
    #[message, repeated, tag = "1"] next: Vec<Duration>,
}

/// A topic or a group; the namespace is echoed and otherwise ignored (look-ups use the name).
pub struct Resource {
    #[string, tag = "1"] resource_namespace: String,
    #[string, tag = "2"] name: String,
}

/// Subscription of a consumer: a topic and its filter.
pub struct SubscriptionEntry {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[message, optional, tag = "2"] expression: Option<FilterExpression>,
}

/// Host and port of a server.
pub struct Address {
    #[string, tag = "1"] host: String,
    #[int32, tag = "2"] port: i32,
}

/// Addresses of one server or proxy, all of the same scheme.
pub struct Endpoints {
    #[enumeration = "AddressScheme", tag = "1"] scheme: i32,
    #[message, repeated, tag = "2"] addresses: Vec<Address>,
}

/// Broker of a queue: name, id and endpoints.
pub struct Broker {
    #[string, tag = "1"] name: String,
    #[int32, tag = "2"] id: i32,
    #[message, optional, tag = "3"] endpoints: Option<Endpoints>,
}

/// Queue of a topic on a broker, with its permission and accepted message types.
pub struct MessageQueue {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[int32, tag = "2"] id: i32,
    #[enumeration = "Permission", tag = "3"] permission: i32,
    #[message, optional, tag = "4"] broker: Option<Broker>,
    #[enumeration = "MessageType", repeated, tag = "5"] accept_message_types: Vec<i32>,
}

/// Checksum of a message body.
pub struct Digest {
    #[enumeration = "DigestType", tag = "1"] r#type: i32,
    #[string, tag = "2"] checksum: String,
}

/// Fields of a message beside its body and the properties of the application.
pub struct SystemProperties {
    #[string, optional, tag = "1"] tag: Option<String>,
    #[string, repeated, tag = "2"] keys: Vec<String>,
    #[string, tag = "3"] message_id: String,
    #[message, optional, tag = "4"] body_digest: Option<Digest>,
    #[enumeration = "Encoding", tag = "5"] body_encoding: i32,
    #[enumeration = "MessageType", tag = "6"] message_type: i32,
    #[message, optional, tag = "7"] born_timestamp: Option<Timestamp>,
    #[string, tag = "8"] born_host: String,
    #[message, optional, tag = "9"] store_timestamp: Option<Timestamp>,
    #[string, tag = "10"] store_host: String,
    #[message, optional, tag = "11"] delivery_timestamp: Option<Timestamp>,
    #[string, optional, tag = "12"] receipt_handle: Option<String>,
    #[int32, tag = "13"] queue_id: i32,
    #[int64, optional, tag = "14"] queue_offset: Option<i64>,
    #[message, optional, tag = "15"] invisible_duration: Option<Duration>,
    #[int32, optional, tag = "16"] delivery_attempt: Option<i32>,
    #[string, optional, tag = "17"] message_group: Option<String>,
    #[string, optional, tag = "18"] trace_context: Option<String>,
    #[message, optional, tag = "19"] orphaned_transaction_recovery_duration: Option<Duration>,
    #[message, optional, tag = "20"] dead_letter_queue: Option<DeadLetterQueue>,
    #[string, optional, tag = "21"] lite_topic: Option<String>,
    #[int32, optional, tag = "22"] priority: Option<i32>,
}

/// Dead letter topic of a message, and the id of the message before it became a dead letter.
pub struct DeadLetterQueue {
    #[string, tag = "1"] topic: String,
    #[string, tag = "2"] message_id: String,
}

/// A message as clients send and receive it.
pub struct Message {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[btree_map = "string, string", tag = "2"] user_properties: BTreeMap<String, String>,
    #[message, optional, tag = "3"] system_properties: Option<SystemProperties>,
    #[bytes = "bytes", tag = "4"] body: Bytes,
}

/// A queue that is assigned to a consumer.
pub struct Assignment {
    #[message, optional, tag = "1"] message_queue: Option<MessageQueue>,
}

/// Result of a call, or of an entry of it.
pub struct Status {
    #[enumeration = "Code", tag = "1"] code: i32,
    #[string, tag = "2"] message: String,
}

/// User agent of a client: language, version, platform and host name.
pub struct UA {
    #[enumeration = "Language", tag = "1"] language: i32,
    #[string, tag = "2"] version: String,
    #[string, tag = "3"] platform: String,
    #[string, tag = "4"] hostname: String,
}

/// Settings of a gRPC client: type, retry policy and subscriptions.
pub struct Settings {
    #[enumeration = "ClientType", optional, tag = "1"] client_type: Option<i32>,
    #[message, optional, tag = "2"] access_point: Option<Endpoints>,
    #[message, optional, tag = "3"] backoff_policy: Option<RetryPolicy>,
    #[message, optional, tag = "4"] request_timeout: Option<Duration>,
    #[oneof = "PubSub", tags = "5, 6"] pub_sub: Option<PubSub>,
    #[message, optional, tag = "7"] user_agent: Option<UA>,
    #[message, optional, tag = "8"] metric: Option<Metric>,
}
}

/// Part of the settings that only producers or only consumers have.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum PubSub {
    #[prost(message, tag = "5")]
    Publishing(Publishing),
    #[prost(message, tag = "6")]
    Subscription(Subscription),
}

messages! {
/// Settings of a producer: topics, and the limit of message bodies.
pub struct Publishing {
    #[message, repeated, tag = "1"] topics: Vec<Resource>,
    #[int32, tag = "2"] max_body_size: i32,
    #[bool, tag = "3"] validate_message_type: bool,
}

/// Settings of a consumer: group, subscriptions, order, and options of receives.
pub struct Subscription {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, repeated, tag = "2"] subscriptions: Vec<SubscriptionEntry>,
    #[bool, optional, tag = "3"] fifo: Option<bool>,
    #[int32, optional, tag = "4"] receive_batch_size: Option<i32>,
    #[message, optional, tag = "5"] long_polling_timeout: Option<Duration>,
    #[int32, optional, tag = "6"] lite_subscription_quota: Option<i32>,
    #[int32, optional, tag = "7"] max_lite_topic_size: Option<i32>,
}

/// Address to which a client sends its metrics, if metrics are on.
pub struct Metric {
    #[bool, tag = "1"] on: bool,
    #[message, optional, tag = "2"] endpoints: Option<Endpoints>,
}
}

/// Start position of a consumer: a policy, an offset, the last `tail_n` messages, or a time.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct OffsetOption {
    #[prost(oneof = "OffsetType", tags = "1, 2, 3, 4")]
    pub offset_type: Option<OffsetType>,
}

/// Kind and value of a start position.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub enum OffsetType {
    #[prost(enumeration = "Policy", tag = "1")]
    Policy(i32),
    #[prost(int64, tag = "2")]
    Offset(i64),
    #[prost(int64, tag = "3")]
    TailN(i64),
    #[prost(int64, tag = "4")]
    Timestamp(i64),
}
