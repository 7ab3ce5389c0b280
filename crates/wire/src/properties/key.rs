//! Well-known property names (`MessageConst`).

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
    };
}

keys! {
    /// Index keys, separated by single spaces. Set by producers.
    KEYS = "KEYS";
    /// Tag. Its hash is stored in the queue unit. Set by producers.
    TAGS = "TAGS";
    /// `"false"` when the producer does not wait for the flush. Default true.
    WAIT_STORE_MSG_OK = "WAIT";
    /// Delay level as text.
    DELAY = "DELAY";
    /// Original topic of a retried message.
    RETRY_TOPIC = "RETRY_TOPIC";
    /// Original topic of half, delayed and timer messages.
    REAL_TOPIC = "REAL_TOPIC";
    /// Original queue id of half, delayed and timer messages.
    REAL_QUEUE_ID = "REAL_QID";
    /// `"true"` marks a half message.
    TRANSACTION_PREPARED = "TRAN_MSG";
    /// Producer group, for transaction checks.
    PRODUCER_GROUP = "PGROUP";
    /// Minimum offset of the queue, added by clients on pull.
    MIN_OFFSET = "MIN_OFFSET";
    /// Maximum offset of the queue, added by clients on pull.
    MAX_OFFSET = "MAX_OFFSET";
    /// Number of times the message was consumed, set when a consumer itself sends to its retry topic.
    RECONSUME_TIME = "RECONSUME_TIME";
    /// Id of the original message of a retried one.
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID";
    /// Region of the broker, added by the broker.
    MSG_REGION = "MSG_REGION";
    /// Whether message tracing is on, added by the broker.
    TRACE_SWITCH = "TRACE_ON";
    /// Unique id of the message.
    UNIQ_KEY = "UNIQ_KEY";
    /// Number of messages in an inner batch.
    INNER_NUM = "INNER_NUM";
    /// First queue offset of an inner batch.
    INNER_BASE = "INNER_BASE";
    /// Seconds during which a half message is not checked.
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS";
    /// Queue offset of the original half message, in a copy that the broker stored because the producer did not
    /// decide.
    TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET";
    /// Number of checks made for a half message.
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES";
    /// The transaction id, equal to the unique id.
    TRANSACTION_ID = "__transactionId__";
    /// Correlates a reply with its request.
    CORRELATION_ID = "CORRELATION_ID";
    /// Client that waits for the reply.
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT";
    /// Time to live of a request, in ms.
    TTL = "TTL";
    /// Time in ms when a reply was pushed to the requester.
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME";
    /// `"reply"` on reply messages.
    MSG_TYPE = "MSG_TYPE";
    /// Cluster of the broker, added by the broker.
    CLUSTER = "CLUSTER";
    /// Receipt handle of a popped message.
    POP_CK = "POP_CK";
    /// Time in ms when the message was first popped.
    FIRST_POP_TIME = "1ST_POP_TIME";
    /// Message group of ordered messages.
    SHARDING_KEY = "__SHARDINGKEY";
    /// Priority of a message in a topic of kind PRIORITY; a larger number goes first.
    PRIORITY = "_SYS_MSG_PRIORITY_";
    /// Lite topic of the message.
    LITE_TOPIC = "__LITE_TOPIC";
    /// Further queues that receive the message (multi-dispatch).
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH";
    /// Queue offsets of the message in those further queues.
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET";
    /// Trace context of a message that was sent by gRPC (`SystemProperties.trace_context`).
    TRACE_CONTEXT = "TRACE_CONTEXT";
    /// Relative delivery delay in seconds.
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC";
    /// Relative delivery delay in milliseconds.
    TIMER_DELAY_MS = "TIMER_DELAY_MS";
    /// Absolute delivery time in epoch milliseconds.
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS";
    /// Delivery time of a stored timed message, epoch milliseconds.
    TIMER_OUT_MS = "TIMER_OUT_MS";
    /// Unique key of the timed message to cancel.
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY";
    /// Time in ms when a timed message was added to the wheel.
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS";
    /// Time in ms when a timed message left the wheel.
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS";
    /// Number of times a timed message was put into the timer queue again.
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES";
    /// Real born host of a message sent through a proxy.
    BORN_HOST = "__BORNHOST";
    /// Real born time in ms of a message sent through a proxy.
    BORN_TIMESTAMP = "BORN_TIMESTAMP";
    /// Checksum of the whole record (`enabledAppendPropCRC`).
    CRC32 = "__CRC32#";
    /// Original topic of a dead letter.
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC";
    /// Id of a dead letter's original message.
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID";
}
