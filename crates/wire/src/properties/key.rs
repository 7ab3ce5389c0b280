//! Well-known property names (`MessageConst`).

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
    };
}

keys! {
    /// Index keys, separated by single spaces. Set by producers.
    KEYS = "KEYS";
    /// The tag, whose hash goes into the queue unit. Set by producers.
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
    /// Producer group, for transaction callbacks.
    PRODUCER_GROUP = "PGROUP";
    /// Minimum offset, put in by clients on pull.
    MIN_OFFSET = "MIN_OFFSET";
    /// Maximum offset, put in by clients on pull.
    MAX_OFFSET = "MAX_OFFSET";
    /// Times consumed, when a consumer itself sends to its retry topic.
    RECONSUME_TIME = "RECONSUME_TIME";
    /// Most times to consume, when a consumer itself sends to its retry topic.
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES";
    /// Id of the first incarnation of a retried message.
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID";
    /// Region of the broker, set by it.
    MSG_REGION = "MSG_REGION";
    /// Whether tracing is on, set by the broker.
    TRACE_SWITCH = "TRACE_ON";
    /// Unique id of the message.
    UNIQ_KEY = "UNIQ_KEY";
    /// Extension of the unique id.
    EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO";
    /// When consumption started, set by clients.
    CONSUME_START_TIME = "CONSUME_START_TIME";
    /// Messages in an inner batch.
    INNER_NUM = "INNER_NUM";
    /// First queue offset of an inner batch.
    INNER_BASE = "INNER_BASE";
    /// Seconds during which a half message is not checked.
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS";
    /// Queue offset of the first half message after a re-put.
    TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET";
    /// Checks done on a half message.
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES";
    /// The transaction id, equal to the unique id.
    TRANSACTION_ID = "__transactionId__";
    /// Client instance.
    INSTANCE_ID = "INSTANCE_ID";
    /// Correlates a reply with its request.
    CORRELATION_ID = "CORRELATION_ID";
    /// Client that waits for the reply.
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT";
    /// Life of a request in milliseconds.
    TTL = "TTL";
    /// Arrival of a reply at the broker.
    ARRIVE_TIME = "ARRIVE_TIME";
    /// When a reply was pushed.
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME";
    /// `"reply"` on replies.
    MSG_TYPE = "MSG_TYPE";
    /// Cluster of the broker, set by it.
    CLUSTER = "CLUSTER";
    /// Receipt of a popped message.
    POP_CK = "POP_CK";
    /// Checkpoint offset of a popped message.
    POP_CK_OFFSET = "POP_CK_OFFSET";
    /// First time a message was popped.
    FIRST_POP_TIME = "1ST_POP_TIME";
    /// Message group of ordered messages.
    SHARDING_KEY = "__SHARDINGKEY";
    /// Queue a proxy forwards to.
    FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID";
    /// Redirection.
    REDIRECT = "REDIRECT";
    /// Light queues a message goes to as well.
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH";
    /// Queue offsets in those light queues.
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET";
    /// Trace context.
    TRACE_CONTEXT = "TRACE_CONTEXT";
    /// Relative delivery delay in seconds.
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC";
    /// Relative delivery delay in milliseconds.
    TIMER_DELAY_MS = "TIMER_DELAY_MS";
    /// Absolute delivery time in epoch milliseconds.
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS";
    /// Delivery time of a stored timer message.
    TIMER_OUT_MS = "TIMER_OUT_MS";
    /// Unique key of a timer message to delete.
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY";
    /// When a timer message was added to the wheel.
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS";
    /// When a timer message left the wheel.
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS";
    /// How often a timer message was put into the timer queue again.
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES";
    /// Real born host behind a proxy.
    BORN_HOST = "__BORNHOST";
    /// Real born time behind a proxy.
    BORN_TIMESTAMP = "BORN_TIMESTAMP";
    /// Checksum of the whole record.
    CRC32 = "__CRC32#";
    /// Topic a dead letter came from.
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC";
    /// Id of the message a dead letter came from.
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID";
}
