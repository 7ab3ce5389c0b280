//! Operations on messages: their rows of the table.

mod again;
mod consume;
mod due;
mod find;
mod half;
mod newest;
mod print;
mod send;
mod send_time;
mod trace;
mod track;
mod transactions;
mod view;

pub(crate) use again::copy_of;
pub(crate) use due::delay_ms;
pub use due::{DueCount, Waiting};
pub(crate) use find::TOOLS_GROUP;
pub use newest::Newest;
pub(crate) use print::{QueueMessages, topic as messages_of};
pub(crate) use send::{Sent, send_message};
pub(crate) use send_time::to_clusters;
pub use trace::TraceEvent;
pub use track::Track;
pub use transactions::{Transaction, TransactionState, Transactions};
pub use view::{MessageView, MessagesByKey};

use crate::Argument;
use crate::arguments::{CLUSTER, COUNT, TEST_SIZE, optional, place, required, switch};
use crate::operation::{Operation, operations};

const SIZE: Argument = optional("size", ("s", "messageSize"), "bytes of a message; 128 if left out");
const TOPIC: Argument = place("topic", ("t", "topic"), "name of the topic");
const TAGS: Argument =
    optional("tags", ("s", "subExpression"), "tags as a consumer subscribes to them: TagA || TagB");
const BEGIN: Argument = optional("begin", ("b", "beginTimestamp"), "store time from which on");
const END: Argument = optional("end", ("e", "endTimestamp"), "store time before which");
const BODY: Argument =
    optional("body", ("d", "printBody"), "false to leave the bodies out of mqadmin's text");
const LIMIT: Argument = optional("limit", ("", ""), "most messages; 10000 if left out");
const CHARSET: Argument =
    optional("charset", ("c", "charsetName"), "only UTF-8 is shown; other bytes as U+FFFD");

/// The operations on messages.
pub(crate) const OPERATIONS: &[Operation] = operations! { "message":
    "consume-directly", Change, ["queryMsgById", "queryMsgByUniqueKey"],
        "Let a member of a group consume a message now, whatever the group's offsets are",
        [TOPIC, place("id", ("i", "msgId"), "the broker's or the producer's id of the message"),
         required("group", ("g", "consumerGroup"), "name of the consumer group"),
         required("client", ("d", "clientId"), "id of the member")], again::consume;
    "resend", Change, ["queryMsgById"], "Send a stored message to its topic again",
        [TOPIC, place("id", ("i", "msgId"), "the broker's or the producer's id of the message"),
         required("again", ("s", "sendMessage"), "true to send it")], again::resend;
    "get", Look, ["queryMsgById"], "Show a message by its id, and which groups have consumed it",
        [TOPIC, place("id", ("i", "msgId"), "the broker's or the producer's id of the message")], find::by_id;
    "key", Look, ["queryMsgByKey"], "Find messages by key",
        [TOPIC, place("key", ("k", "msgKey"), "the key"), BEGIN, END,
         optional("max", ("m", "maxNum"), "most messages of a broker; 64 if left out"),
         optional("type", ("p", "keyType"), "K for keys, T for tags"), CLUSTER], find::by_key;
    "unique-key", Look, ["queryMsgByUniqueKey"],
        "Show messages by the id that their producer made, and which groups have consumed them",
        [TOPIC, place("id", ("i", "msgId"), "the producer's id of the message"),
         optional("begin", ("s", "startTime"), "store time from which on; 36 hours ago if left out"),
         optional("end", ("e", "endTime"), "store time up to which; 36 hours from now if left out"),
         switch("all", ("a", "showAll"), "all messages with the id, not only the first"), CLUSTER], find::by_unique_key;
    "offset", Look, ["queryMsgByOffset"],
        "Show a message by its place in a queue, and which groups have consumed it",
        [TOPIC, place("broker", ("b", "brokerName"), "name of the broker set"),
         place("queue", ("i", "queueId"), "id of the queue"),
         place("offset", ("o", "offset"), "offset in the queue")], find::by_offset;
    "newest", Look, [], "Show the messages of a topic, the newest first",
        [TOPIC, optional("begin", ("", ""), BEGIN.help),
         optional("end", ("", ""), "store time up to which"),
         optional("skip", ("", ""), "messages of that last millisecond that are left out"),
         optional("limit", ("", ""), "most messages; 50 if left out")], newest::newest;
    "transactions", Look, [],
        "Show transactions with state, age, checks and producer group, a row for each: undecided first, newest first",
        [optional("limit", ("", ""), "half messages of a broker that are read, the newest; 1000 if left out")],
        transactions::transactions;
    "due", Look, [], "Show how many delayed and timed messages wait in each broker, and when they are due",
        [], |session, _| due::due(session);
    "print", Look, ["printMsgByQueue"], "Print the messages of a queue, by tag and store time",
        [TOPIC, place("broker", ("a", "brokerName"), "name of the broker set"),
         place("queue", ("i", "queueId"), "id of the queue"), CHARSET, TAGS, BEGIN, END,
         optional("print", ("p", "print msg"), "true for mqadmin to print the messages"), BODY,
         optional("count", ("f", "calculate"), "true for mqadmin to count the messages of each tag"),
         LIMIT], print::queue;
    "print-topic", Look, ["printMsg"], "Print the messages of all queues of a topic, by tag and store time",
        [TOPIC, CHARSET, TAGS, BEGIN, END, BODY, LIMIT], print::topic;
    "send", Change, ["sendMessage"], "Send a message to a topic, or to one of its queues",
        [TOPIC, required("body", ("p", "body"), "content of the message, UTF-8"),
         optional("keys", ("k", "key"), "keys, separated by blanks"),
         optional("tags", ("c", "tags"), "its tag"),
         optional("broker", ("b", "broker"), "name of the broker set of the queue"),
         optional("queue", ("i", "qid"), "id of the queue, with a broker set"),
         optional("properties", ("", ""), "more properties: name=value,name=value")], send::send;
    "consume", Look, ["consumeMessage"], "Print the oldest messages of a topic or a queue; no offset moves",
        [TOPIC, optional("broker", ("b", "brokerName"), "name of the broker set of the queue"),
         optional("queue", ("i", "queueId"), "id of the queue, with a broker set"),
         optional("offset", ("o", "offset"), "offset in the queue from which on"),
         optional("group", ("g", "consumerGroup"), "taken for compatibility, without effect"),
         optional("begin", ("s", "beginTimestamp"), "store time from which on"),
         optional("end", ("e", "endTimestamp"), "store time before which"),
         optional("count", ("c", "MessageNumber"), "most messages; 128 if left out")], consume::consume;
    "dump-compaction", Look, ["dumpCompactionLog"], "Print the messages of a file of the compaction log",
        [place("file", ("f", "file"), "the file")], consume::dump;
    "send-broker", Change, ["sendMsgStatus"], "Send messages to the topic named as a broker set, and time each",
        [place("broker", ("b", "brokerName"), "name of the broker set"), SIZE,
         optional("count", ("c", "count"), "messages; 50 if left out")], send_time::to_broker;
    "send-time", Change, ["checkMsgSendRT"], "Send messages to the queues of a topic in turn, and time each",
        [TOPIC, COUNT, TEST_SIZE], send_time::to_topic;
    "trace", Look, ["queryMsgTraceById"],
        "Show who sent a message and who consumed it, as far as clients record traces",
        [place("id", ("i", "msgId"), "the producer's id of the message, or one of its keys"),
         optional("trace-topic", ("t", "traceTopic"), "topic of the traces; RMQ_SYS_TRACE_TOPIC if left out"),
         BEGIN, END,
         optional("max", ("c", "maxNum"), "most messages with traces; 64 if left out")], trace::trace;
    "check-half", Change, [], "Let the producer be asked again about a half message that the broker gave up",
        [TOPIC, place("id", ("", ""), "the broker's id of the message in TRANS_CHECK_MAX_TIME_TOPIC")], half::resume;
};
