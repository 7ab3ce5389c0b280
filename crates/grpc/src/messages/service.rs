//! Requests, responses and commands (`service.proto`).

use super::*;

messages! {
/// Request for the queues of a topic.
pub struct QueryRouteRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[message, optional, tag = "2"] endpoints: Option<Endpoints>,
}

/// Response with the queues of a topic.
pub struct QueryRouteResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] message_queues: Vec<MessageQueue>,
}

/// Request to store messages.
pub struct SendMessageRequest {
    #[message, repeated, tag = "1"] messages: Vec<Message>,
}

/// Result of one message of a send: id, queue offset, and handle for a recall.
pub struct SendResultEntry {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[string, tag = "2"] message_id: String,
    #[string, tag = "3"] transaction_id: String,
    #[int64, tag = "4"] offset: i64,
    #[string, tag = "5"] recall_handle: String,
}

/// Response to a send, with an entry for each message.
pub struct SendMessageResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] entries: Vec<SendResultEntry>,
}

/// Request for the queues that a consumer may receive from.
pub struct QueryAssignmentRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[message, optional, tag = "2"] group: Option<Resource>,
    #[message, optional, tag = "3"] endpoints: Option<Endpoints>,
}

/// Response with the queues of a consumer.
pub struct QueryAssignmentResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] assignments: Vec<Assignment>,
}

/// Request of a consumer for messages of a queue or a broker.
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

/// Part of the stream that answers a receive: the status, a message, or the time of the delivery.
pub struct ReceiveMessageResponse {
    #[oneof = "ReceiveContent", tags = "1, 2, 3"] content: Option<ReceiveContent>,
}
}

/// Content of a part of the stream that answers a receive.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are messages, and a box would be an allocation for each"
)]
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ReceiveContent {
    #[prost(message, tag = "1")]
    Status(Status),
    #[prost(message, tag = "2")]
    Message(Message),
    #[prost(message, tag = "3")]
    DeliveryTimestamp(Timestamp),
}

messages! {
/// A message to acknowledge: message id and receipt handle.
pub struct AckMessageEntry {
    #[string, tag = "1"] message_id: String,
    #[string, tag = "2"] receipt_handle: String,
    #[string, optional, tag = "3"] lite_topic: Option<String>,
}

/// Request to acknowledge messages of a topic for a group.
pub struct AckMessageRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[message, repeated, tag = "3"] entries: Vec<AckMessageEntry>,
}

/// Result of one acknowledgement.
pub struct AckMessageResultEntry {
    #[string, tag = "1"] message_id: String,
    #[string, tag = "2"] receipt_handle: String,
    #[message, optional, tag = "3"] status: Option<Status>,
}

/// Response to an acknowledgement, with an entry for each message.
pub struct AckMessageResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[message, repeated, tag = "2"] entries: Vec<AckMessageResultEntry>,
}

/// Request to move a message to the dead letter topic of its group.
pub struct ForwardMessageToDeadLetterQueueRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[string, tag = "3"] receipt_handle: String,
    #[string, tag = "4"] message_id: String,
    #[int32, tag = "5"] delivery_attempt: i32,
    #[int32, tag = "6"] max_delivery_attempts: i32,
    #[string, optional, tag = "7"] lite_topic: Option<String>,
}

/// Response to a request to move a message to the dead letter topic.
pub struct ForwardMessageToDeadLetterQueueResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// Heartbeat of a client. A consumer names its group.
pub struct HeartbeatRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[enumeration = "ClientType", tag = "2"] client_type: i32,
}

/// Response to a heartbeat.
pub struct HeartbeatResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// Decision of a producer about the half message of a transaction.
pub struct EndTransactionRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[string, tag = "2"] message_id: String,
    #[string, tag = "3"] transaction_id: String,
    #[enumeration = "TransactionResolution", tag = "4"] resolution: i32,
    #[enumeration = "TransactionSource", tag = "5"] source: i32,
    #[string, tag = "6"] trace_context: String,
}

/// Response to a decision about a transaction.
pub struct EndTransactionResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// Command to a client: report the stacks of all threads.
pub struct PrintThreadStackTraceCommand {
    #[string, tag = "1"] nonce: String,
}

/// Command to a client: connect to its endpoints again.
pub struct ReconnectEndpointsCommand {
    #[string, tag = "1"] nonce: String,
}

/// Response of a client with the stacks of its threads.
pub struct ThreadStackTrace {
    #[string, tag = "1"] nonce: String,
    #[string, optional, tag = "2"] thread_stack_trace: Option<String>,
}

/// Command to a consumer: consume a message that an operator sends, and report the result.
pub struct VerifyMessageCommand {
    #[string, tag = "1"] nonce: String,
    #[message, optional, tag = "2"] message: Option<Message>,
}

/// Response of a consumer about a message that an operator sent.
pub struct VerifyMessageResult {
    #[string, tag = "1"] nonce: String,
}

/// Command to a producer: decide about a half message.
pub struct RecoverOrphanedTransactionCommand {
    #[message, optional, tag = "1"] message: Option<Message>,
    #[string, tag = "2"] transaction_id: String,
}

/// Command to a consumer: the lite topic was taken from it.
pub struct NotifyUnsubscribeLiteCommand {
    #[string, tag = "1"] lite_topic: String,
}

/// Message of the stream between server and client, in either direction.
pub struct TelemetryCommand {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[oneof = "Command", tags = "2, 3, 4, 5, 6, 7, 8, 9"] command: Option<Command>,
}
}

/// Content of a telemetry message: settings, a command of the server, or a response of the client.
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
/// Notice of a client that it ends.
pub struct NotifyClientTerminationRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
}

/// Response to the notice of a client that it ends.
pub struct NotifyClientTerminationResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}

/// Request to change the invisible time of a received message.
pub struct ChangeInvisibleDurationRequest {
    #[message, optional, tag = "1"] group: Option<Resource>,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[string, tag = "3"] receipt_handle: String,
    #[message, optional, tag = "4"] invisible_duration: Option<Duration>,
    #[string, tag = "5"] message_id: String,
    #[string, optional, tag = "6"] lite_topic: Option<String>,
    #[bool, optional, tag = "7"] suspend: Option<bool>,
}

/// Response with the new receipt handle of a message.
pub struct ChangeInvisibleDurationResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[string, tag = "2"] receipt_handle: String,
}

/// Request to cancel a timed message.
pub struct RecallMessageRequest {
    #[message, optional, tag = "1"] topic: Option<Resource>,
    #[string, tag = "2"] recall_handle: String,
}

/// Response with the id of a cancelled message.
pub struct RecallMessageResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
    #[string, tag = "2"] message_id: String,
}

/// Request to change the lite topics of a consumer.
pub struct SyncLiteSubscriptionRequest {
    #[enumeration = "LiteSubscriptionAction", tag = "1"] action: i32,
    #[message, optional, tag = "2"] topic: Option<Resource>,
    #[message, optional, tag = "3"] group: Option<Resource>,
    #[string, repeated, tag = "4"] lite_topic_set: Vec<String>,
    #[int64, optional, tag = "5"] version: Option<i64>,
    #[message, optional, tag = "6"] offset_option: Option<OffsetOption>,
}

/// Response to a change of lite topics.
pub struct SyncLiteSubscriptionResponse {
    #[message, optional, tag = "1"] status: Option<Status>,
}
}
