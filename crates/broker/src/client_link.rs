//! Link from the broker to a connected client, independent of the client's protocol.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use wire::body::ResetOffsetBody;
use wire::id::OffsetId;
use wire::units::QueueOffset;

/// Notice to a client, without a response.
#[derive(Clone, Copy)]
pub enum Notice<'a> {
    /// The members of a consumer group changed: 40 `NOTIFY_CONSUMER_IDS_CHANGED`.
    ConsumerIdsChanged {
        /// Name of the group.
        group: &'a str,
    },
    /// Asks a producer for its decision, which arrives as a request of its own: 39 `CHECK_TRANSACTION_STATE`.
    CheckTransaction {
        /// Name of this broker.
        broker_name: &'a str,
        /// Unique key of the message, which is its transaction id as well.
        unique_key: &'a str,
        /// Queue offset of the half message.
        queue_offset: QueueOffset,
        /// The half message's id, which names the record in the log.
        id: OffsetId,
        /// The message as its producer sent it.
        record: &'a [u8],
    },
    /// Moves a consumer to other offsets: 220 `RESET_CONSUMER_CLIENT_OFFSET`.
    ResetOffsets {
        /// Topic of the queues.
        topic: &'a str,
        /// Consumer group.
        group: &'a str,
        /// The time the operator gave, in milliseconds since the epoch.
        timestamp_ms: i64,
        /// The new offset of each queue.
        targets: &'a ResetOffsetBody,
        /// Whether the offsets are sent in the form for clients in C++. As in Java, the operator's tool decides that.
        for_cpp: bool,
    },
    /// Removes a lite topic from the client's own list: 200073 `NOTIFY_UNSUBSCRIBE_LITE`.
    UnsubscribeLite {
        /// Id of the client.
        client_id: &'a str,
        /// Consumer group.
        group: &'a str,
        /// Name of the lite topic.
        lite_topic: &'a str,
    },
}

/// Request to a client.
#[derive(Clone, Debug)]
pub enum Question {
    /// Query of a consumer's state: 307 `GET_CONSUMER_RUNNING_INFO`. The fields are those of the operator's request.
    RunningInfo {
        /// Header fields of the operator's request.
        fields: Vec<(String, String)>,
    },
    /// Consumption of one message, whatever the group's offsets are: 309 `CONSUME_MESSAGE_DIRECTLY`.
    Consume {
        /// Header fields of the operator's request.
        fields: Vec<(String, String)>,
        /// Stored record of the message.
        record: Vec<u8>,
    },
    /// Query of a consumer's offsets: 221 `GET_CONSUMER_STATUS_FROM_CLIENT`.
    Status {
        /// Topic of the queried offsets.
        topic: String,
        /// Consumer group.
        group: String,
    },
    /// Delivery of the reply to a request of the client's application: 326 `PUSH_REPLY_MESSAGE_TO_CLIENT`.
    TakeReply {
        /// Header fields of the request to the client.
        fields: Vec<(&'static str, String)>,
        /// Properties string of the reply.
        properties: Vec<u8>,
        /// Body of the reply.
        body: Vec<u8>,
    },
}

/// Response of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientAnswer {
    /// Response code.
    pub code: i32,
    /// Text for humans.
    pub remark: Option<String>,
    /// Body of the answer.
    pub body: Vec<u8>,
}

/// Reasons why a client did not respond.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The client did not answer in time.
    #[error("{0}")]
    TimedOut(String),
    /// The connection has ended.
    #[error("{0}")]
    Gone(String),
}

/// Future response of a client.
pub type Asked<'a> = Pin<Box<dyn Future<Output = Result<ClientAnswer, AskError>> + Send + 'a>>;

/// Link to a connected client.
pub trait ClientLink: Send + Sync + std::fmt::Debug {
    /// Id of the connection, unique in this process.
    fn id(&self) -> u64;

    /// Address of the client.
    fn remote(&self) -> SocketAddr;

    /// Name of the client's protocol in metrics (`ChannelProtocolType`).
    fn protocol(&self) -> &'static str {
        "remoting"
    }

    /// Whether the connection has ended.
    fn is_closed(&self) -> bool;

    /// Ends the connection once everything sent before has left.
    fn close(&self);

    /// Sends a notice to the client. Ignores a disconnected client.
    fn notify(&self, notice: &Notice<'_>);

    /// Sends a request to the client with the timeout `patience`. Needs a runtime with a timer.
    fn ask(&self, question: Question, patience: Duration) -> Asked<'_>;
}
