//! Requests, responses and commands (`service.proto`).

use super::*;

messages! {
/// `QueryRouteRequest`.
pub struct QueryRouteRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[message, optional, tag = "2"] endpoints: Option<Endpoints>,
}

/// `QueryRouteResponse`.
pub struct QueryRouteResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] message_queues: Vec<MessageQueue>,
}

/// `SendMessageRequest`.
pub struct SendMessageRequest {
    #[message, repeated, tag = "1"] messages: Vec<Message>,
}

/// `SendResultEntry`.
pub struct SendResultEntry {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[string, tag = "2"] message_id: String,
    #[string, tag = "3"] transaction_id: String,
    #[int64, tag = "4"] offset: i64,
    #[string, tag = "5"] recall_handle: String,
}

/// `SendMessageResponse`.
pub struct SendMessageResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] entries: Vec<SendResultEntry>,
}

/// `QueryAssignmentRequest`.
pub struct QueryAssignmentRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[message, optional, tag = "2"] group: Option<Resource>,
    #[message, optional, tag = "3"] endpoints: Option<Endpoints>,
}

/// `QueryAssignmentResponse`.
pub struct QueryAssignmentResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] assignments: Vec<Assignment>,
}

/// `ReceiveMessageRequest`.
pub struct ReceiveMessageRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, optional, tag = "2"] message_queue: Option<MessageQueue>,
    #[message, optional, tag = "3"] filter_expression: Option<FilterExpression>,
    #[int32, tag = "4"] batch_size: i32,
    #[message, optional, tag = "5"] invisible_duration: Option<Duration>,
    #[bool, tag = "6"] auto_renew: bool,
    #[message, optional, tag = "7"] long_polling_timeout: Option<Duration>,
    #[string, optional, tag = "8"] attempt_id: Option<String>,
}

/// `ReceiveMessageResponse`.
pub struct ReceiveMessageResponse {
    #[oneof = "Received", tags = "1, 2, 3"] content: Option<Received>,
}
}

/// `ReceiveMessageResponse.content`.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are messages, and a box would be an allocation for each"
)]
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Received {
    #[prost(message, tag = "1")]
    Status(Status),
    #[prost(message, tag = "2")]
    Message(Message),
    #[prost(message, tag = "3")]
    DeliveryTimestamp(Timestamp),
}

messages! {
/// `AckMessageEntry`.
pub struct AckMessageEntry {
    #[string, tag = "1"] message_id: String,
    #[string, tag = "2"] receipt_handle: String,
    #[string, optional, tag = "3"] lite_topic: Option<String>,
}

/// `AckMessageRequest`.
pub struct AckMessageRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[message, repeated, tag = "3"] entries: Vec<AckMessageEntry>,
}

/// `AckMessageResultEntry`.
pub struct AckMessageResultEntry {
    #[string, tag = "1"] message_id: String,
    #[string, tag = "2"] receipt_handle: String,
    #[message, optional, tag = "3"] status: Option<Status>,
}

/// `AckMessageResponse`.
pub struct AckMessageResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] entries: Vec<AckMessageResultEntry>,
}

/// `ForwardMessageToDeadLetterQueueRequest`.
pub struct ForwardMessageToDeadLetterQueueRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[string, tag = "3"] receipt_handle: String,
    #[string, tag = "4"] message_id: String,
    #[int32, tag = "5"] delivery_attempt: i32,
    #[int32, tag = "6"] max_delivery_attempts: i32,
    #[string, optional, tag = "7"] lite_topic: Option<String>,
}

/// `ForwardMessageToDeadLetterQueueResponse`.
pub struct ForwardMessageToDeadLetterQueueResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// `HeartbeatRequest`.
pub struct HeartbeatRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[enumeration = "ClientType", tag = "2"] client_type: i32,
}

/// `HeartbeatResponse`.
pub struct HeartbeatResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// `EndTransactionRequest`.
pub struct EndTransactionRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[string, tag = "2"] message_id: String,
    #[string, tag = "3"] transaction_id: String,
    #[enumeration = "TransactionResolution", tag = "4"] resolution: i32,
    #[enumeration = "TransactionSource", tag = "5"] source: i32,
    #[string, tag = "6"] trace_context: String,
}

/// `EndTransactionResponse`.
pub struct EndTransactionResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// `PrintThreadStackTraceCommand`.
pub struct PrintThreadStackTraceCommand {
    #[string, tag = "1"] nonce: String,
}

/// `ReconnectEndpointsCommand`.
pub struct ReconnectEndpointsCommand {
    #[string, tag = "1"] nonce: String,
}

/// `ThreadStackTrace`.
pub struct ThreadStackTrace {
    #[string, tag = "1"] nonce: String,
    #[string, optional, tag = "2"] thread_stack_trace: Option<String>,
}

/// `VerifyMessageCommand`.
pub struct VerifyMessageCommand {
    #[string, tag = "1"] nonce: String,
    #[message, optional, tag = "2"] message: Option<Message>,
}

/// `VerifyMessageResult`.
pub struct VerifyMessageResult {
    #[string, tag = "1"] nonce: String,
}

/// `RecoverOrphanedTransactionCommand`.
pub struct RecoverOrphanedTransactionCommand {
    #[message, optional, tag = "1"] message: Option<Message>,
    #[string, tag = "2"] transaction_id: String,
}

/// `NotifyUnsubscribeLiteCommand`.
pub struct NotifyUnsubscribeLiteCommand {
    #[string, tag = "1"] lite_topic: String,
}

/// Message of the stream between server and client, in either direction.
pub struct TelemetryCommand {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[oneof = "Command", tags = "2, 3, 4, 5, 6, 7, 8, 9"] command: Option<Command>,
}
}

/// `TelemetryCommand.command`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Command {
    #[prost(message, tag = "2")]
    Settings(Settings),
    #[prost(message, tag = "3")]
    ThreadStackTrace(ThreadStackTrace),
    #[prost(message, tag = "4")]
    VerifyMessageResult(VerifyMessageResult),
    #[prost(message, tag = "5")]
    RecoverOrphanedTransactionCommand(RecoverOrphanedTransactionCommand),
    #[prost(message, tag = "6")]
    PrintThreadStackTraceCommand(PrintThreadStackTraceCommand),
    #[prost(message, tag = "7")]
    VerifyMessageCommand(VerifyMessageCommand),
    #[prost(message, tag = "8")]
    ReconnectEndpointsCommand(ReconnectEndpointsCommand),
    #[prost(message, tag = "9")]
    NotifyUnsubscribeLiteCommand(NotifyUnsubscribeLiteCommand),
}

messages! {
/// `NotifyClientTerminationRequest`.
pub struct NotifyClientTerminationRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
}

/// `NotifyClientTerminationResponse`.
pub struct NotifyClientTerminationResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// `ChangeInvisibleDurationRequest`.
pub struct ChangeInvisibleDurationRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[string, tag = "3"] receipt_handle: String,
    #[message, optional, tag = "4"] invisible_duration: Option<Duration>,
    #[string, tag = "5"] message_id: String,
    #[string, optional, tag = "6"] lite_topic: Option<String>,
    #[bool, optional, tag = "7"] suspend: Option<bool>,
}

/// `ChangeInvisibleDurationResponse`.
pub struct ChangeInvisibleDurationResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[string, tag = "2"] receipt_handle: String,
}

/// `RecallMessageRequest`.
pub struct RecallMessageRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[string, tag = "2"] recall_handle: String,
}

/// `RecallMessageResponse`.
pub struct RecallMessageResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[string, tag = "2"] message_id: String,
}

/// `SyncLiteSubscriptionRequest`.
pub struct SyncLiteSubscriptionRequest {
    #[enumeration = "LiteSubscriptionAction", tag = "1"] action: i32,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[message, optional, tag = "3"] group: Option<Resource>,
    #[string, repeated, tag = "4"] lite_topic_set: Vec<String>,
    #[int64, optional, tag = "5"] version: Option<i64>,
    #[message, optional, tag = "6"] offset_option: Option<OffsetOption>,
}

/// `SyncLiteSubscriptionResponse`.
pub struct SyncLiteSubscriptionResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}
}
