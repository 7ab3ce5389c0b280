//! Messages that stand in others (`definition.proto`).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;

/// `FilterExpression`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FilterExpression {
    #[prost(enumeration = "FilterType", tag = "1")]
    pub r#type: i32,
    #[prost(string, tag = "2")]
    pub expression: String,
}

/// `RetryPolicy`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RetryPolicy {
    #[prost(int32, tag = "1")]
    pub max_attempts: i32,
    #[prost(oneof = "Strategy", tags = "2, 3")]
    pub strategy: Option<Strategy>,
}

/// `RetryPolicy.strategy`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Strategy {
    #[prost(message, tag = "2")]
    ExponentialBackoff(ExponentialBackoff),
    #[prost(message, tag = "3")]
    CustomizedBackoff(CustomizedBackoff),
}

/// `ExponentialBackoff`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExponentialBackoff {
    #[prost(message, optional, tag = "1")]
    pub initial: Option<Duration>,
    #[prost(message, optional, tag = "2")]
    pub max: Option<Duration>,
    #[prost(float, tag = "3")]
    pub multiplier: f32,
}

/// `CustomizedBackoff`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CustomizedBackoff {
    #[prost(message, repeated, tag = "1")]
    pub next: Vec<Duration>,
}

/// A topic or a group; the namespace is echoed and otherwise ignored (look-ups use the name).
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    #[prost(string, tag = "1")]
    pub resource_namespace: String,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// `SubscriptionEntry`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscriptionEntry {
    #[prost(message, optional, tag = "1")]
    pub topic: Option<Resource>,
    #[prost(message, optional, tag = "2")]
    pub expression: Option<FilterExpression>,
}

/// `Address`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Address {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(int32, tag = "2")]
    pub port: i32,
}

/// `Endpoints`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Endpoints {
    #[prost(enumeration = "AddressScheme", tag = "1")]
    pub scheme: i32,
    #[prost(message, repeated, tag = "2")]
    pub addresses: Vec<Address>,
}

/// `Broker`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Broker {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub id: i32,
    #[prost(message, optional, tag = "3")]
    pub endpoints: Option<Endpoints>,
}

/// `MessageQueue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MessageQueue {
    #[prost(message, optional, tag = "1")]
    pub topic: Option<Resource>,
    #[prost(int32, tag = "2")]
    pub id: i32,
    #[prost(enumeration = "Permission", tag = "3")]
    pub permission: i32,
    #[prost(message, optional, tag = "4")]
    pub broker: Option<Broker>,
    #[prost(enumeration = "MessageType", repeated, tag = "5")]
    pub accept_message_types: Vec<i32>,
}

/// `Digest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Digest {
    #[prost(enumeration = "DigestType", tag = "1")]
    pub r#type: i32,
    #[prost(string, tag = "2")]
    pub checksum: String,
}

/// Fields of a message beside its body and the properties of the application.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SystemProperties {
    #[prost(string, optional, tag = "1")]
    pub tag: Option<String>,
    #[prost(string, repeated, tag = "2")]
    pub keys: Vec<String>,
    #[prost(string, tag = "3")]
    pub message_id: String,
    #[prost(message, optional, tag = "4")]
    pub body_digest: Option<Digest>,
    #[prost(enumeration = "Encoding", tag = "5")]
    pub body_encoding: i32,
    #[prost(enumeration = "MessageType", tag = "6")]
    pub message_type: i32,
    #[prost(message, optional, tag = "7")]
    pub born_timestamp: Option<Timestamp>,
    #[prost(string, tag = "8")]
    pub born_host: String,
    #[prost(message, optional, tag = "9")]
    pub store_timestamp: Option<Timestamp>,
    #[prost(string, tag = "10")]
    pub store_host: String,
    #[prost(message, optional, tag = "11")]
    pub delivery_timestamp: Option<Timestamp>,
    #[prost(string, optional, tag = "12")]
    pub receipt_handle: Option<String>,
    #[prost(int32, tag = "13")]
    pub queue_id: i32,
    #[prost(int64, optional, tag = "14")]
    pub queue_offset: Option<i64>,
    #[prost(message, optional, tag = "15")]
    pub invisible_duration: Option<Duration>,
    #[prost(int32, optional, tag = "16")]
    pub delivery_attempt: Option<i32>,
    #[prost(string, optional, tag = "17")]
    pub message_group: Option<String>,
    #[prost(string, optional, tag = "18")]
    pub trace_context: Option<String>,
    #[prost(message, optional, tag = "19")]
    pub orphaned_transaction_recovery_duration: Option<Duration>,
    #[prost(message, optional, tag = "20")]
    pub dead_letter_queue: Option<DeadLetterQueue>,
    #[prost(string, optional, tag = "21")]
    pub lite_topic: Option<String>,
    #[prost(int32, optional, tag = "22")]
    pub priority: Option<i32>,
}

/// `DeadLetterQueue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeadLetterQueue {
    #[prost(string, tag = "1")]
    pub topic: String,
    #[prost(string, tag = "2")]
    pub message_id: String,
}

/// A message as clients send and receive it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Message {
    #[prost(message, optional, tag = "1")]
    pub topic: Option<Resource>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub user_properties: BTreeMap<String, String>,
    #[prost(message, optional, tag = "3")]
    pub system_properties: Option<SystemProperties>,
    #[prost(bytes = "bytes", tag = "4")]
    pub body: Bytes,
}

/// `Assignment`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Assignment {
    #[prost(message, optional, tag = "1")]
    pub message_queue: Option<MessageQueue>,
}

/// Result of a call, or of an entry of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `UA`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UA {
    #[prost(enumeration = "Language", tag = "1")]
    pub language: i32,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, tag = "3")]
    pub platform: String,
    #[prost(string, tag = "4")]
    pub hostname: String,
}

/// Settings of a gRPC client: type, retry policy and subscriptions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Settings {
    #[prost(enumeration = "ClientType", optional, tag = "1")]
    pub client_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub access_point: Option<Endpoints>,
    #[prost(message, optional, tag = "3")]
    pub backoff_policy: Option<RetryPolicy>,
    #[prost(message, optional, tag = "4")]
    pub request_timeout: Option<Duration>,
    #[prost(oneof = "PubSub", tags = "5, 6")]
    pub pub_sub: Option<PubSub>,
    #[prost(message, optional, tag = "7")]
    pub user_agent: Option<UA>,
    #[prost(message, optional, tag = "8")]
    pub metric: Option<Metric>,
}

/// `Settings.pub_sub`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum PubSub {
    #[prost(message, tag = "5")]
    Publishing(Publishing),
    #[prost(message, tag = "6")]
    Subscription(Subscription),
}

/// `Publishing`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Publishing {
    #[prost(message, repeated, tag = "1")]
    pub topics: Vec<Resource>,
    #[prost(int32, tag = "2")]
    pub max_body_size: i32,
    #[prost(bool, tag = "3")]
    pub validate_message_type: bool,
}

/// `Subscription`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Subscription {
    #[prost(message, optional, tag = "1")]
    pub group: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub subscriptions: Vec<SubscriptionEntry>,
    #[prost(bool, optional, tag = "3")]
    pub fifo: Option<bool>,
    #[prost(int32, optional, tag = "4")]
    pub receive_batch_size: Option<i32>,
    #[prost(message, optional, tag = "5")]
    pub long_polling_timeout: Option<Duration>,
    #[prost(int32, optional, tag = "6")]
    pub lite_subscription_quota: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub max_lite_topic_size: Option<i32>,
}

/// `Metric`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metric {
    #[prost(bool, tag = "1")]
    pub on: bool,
    #[prost(message, optional, tag = "2")]
    pub endpoints: Option<Endpoints>,
}

/// `OffsetOption`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct OffsetOption {
    #[prost(oneof = "OffsetType", tags = "1, 2, 3, 4")]
    pub offset_type: Option<OffsetType>,
}

/// `OffsetOption.offset_type`.
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
