//! How the broker reaches a connected client, whatever protocol the client speaks.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use wire::body::ResetOffsetBody;
use wire::id::OffsetId;
use wire::units::QueueOffset;

/// What a client is told, without an answer.
#[derive(Clone, Copy)]
pub enum Notice<'a> {
    /// The members of a consumer group changed: 40 `NOTIFY_CONSUMER_IDS_CHANGED`.
    ConsumerIdsChanged {
        /// Name of the group.
        group: &'a str,
    },
    /// A producer is asked for its decision, which comes as a request of its own: 39 `CHECK_TRANSACTION_STATE`.
    CheckTransaction {
        /// Name of this broker.
        broker_name: &'a str,
        /// Unique key of the message, which is its transaction id as well.
        unique_key: &'a str,
        /// Where the half message is.
        queue_offset: QueueOffset,
        /// The half message's id, which names the record in the log.
        id: OffsetId,
        /// The message as its producer sent it.
        record: &'a [u8],
    },
    /// A consumer goes on at other offsets: 220 `RESET_CONSUMER_CLIENT_OFFSET`.
    ResetOffsets {
        /// Topic of the queues.
        topic: &'a str,
        /// Consumer group.
        group: &'a str,
        /// The time the operator gave, in milliseconds since the epoch.
        timestamp_ms: i64,
        /// The new offset of each queue.
        targets: &'a ResetOffsetBody,
        /// The offsets go in the form of clients in C++; as in Java, the operator's tool decides that.
        for_cpp: bool,
    },
}

/// What a client is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// What a consumer is doing: 307 `GET_CONSUMER_RUNNING_INFO`. The fields are those of the operator's request.
    RunningInfo {
        /// Header fields of the operator's request.
        fields: Vec<(String, String)>,
    },
    /// To consume one message, whatever the group's offsets are: 309 `CONSUME_MESSAGE_DIRECTLY`.
    Consume {
        /// Header fields of the operator's request.
        fields: Vec<(String, String)>,
        /// The message as it is stored.
        record: Vec<u8>,
    },
    /// How far a consumer is: 221 `GET_CONSUMER_STATUS_FROM_CLIENT`.
    Status {
        /// Topic whose offsets are asked for.
        topic: String,
        /// Consumer group.
        group: String,
    },
    /// To take the reply to a request of its application: 326 `PUSH_REPLY_MESSAGE_TO_CLIENT`.
    TakeReply {
        /// Header fields of the request to the client.
        fields: Vec<(&'static str, String)>,
        /// Properties string of the reply.
        properties: Vec<u8>,
        /// Body of the reply.
        body: Vec<u8>,
    },
}

/// What a client answered.
#[derive(Clone, Debug, Default)]
pub struct ClientAnswer {
    /// Response code.
    pub code: i32,
    /// Text for humans.
    pub remark: Option<String>,
    /// Body of the answer.
    pub body: Vec<u8>,
}

/// Why a client did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The client did not answer in time.
    #[error("{0}")]
    TimedOut(String),
    /// The connection has ended.
    #[error("{0}")]
    Gone(String),
}

/// The answer of a client, when it comes.
pub type Asked<'a> = Pin<Box<dyn Future<Output = Result<ClientAnswer, AskError>> + Send + 'a>>;

/// How the broker reaches one connected client.
pub trait ClientLink: Send + Sync + std::fmt::Debug {
    /// Id of the connection, unique in this process.
    fn id(&self) -> u64;

    /// Address of the client.
    fn remote(&self) -> SocketAddr;

    /// Name of the client's protocol, as metrics have it (`ChannelProtocolType`).
    fn protocol(&self) -> &'static str {
        "remoting"
    }

    /// Whether the connection has ended.
    fn is_closed(&self) -> bool;

    /// Ends the connection once everything sent before has left.
    fn close(&self);

    /// Tells the client something. A client that is gone is passed over.
    fn notify(&self, notice: &Notice<'_>);

    /// Asks the client something; the answer may take `patience`. Needs a runtime with a timer.
    fn ask(&self, question: Question, patience: Duration) -> Asked<'_>;
}
