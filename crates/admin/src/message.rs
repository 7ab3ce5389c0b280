//! Operations on messages: their rows of the table.

mod find;
mod print;
mod send;
mod trace;
mod track;
mod view;

pub(crate) use find::TOOLS_GROUP;
pub(crate) use print::{Printed, topic as messages_of};
pub(crate) use send::{Sent, send_message};

use crate::Argument;
use crate::operation::{Effect, Operation, answer};

const TOPIC: Argument = Argument::place("topic", ("t", "topic"), "name of the topic");
const TAGS: Argument =
    Argument::optional("tags", ("s", "subExpression"), "tags as a consumer subscribes to them: TagA || TagB");
const BEGIN: Argument = Argument::optional(
    "begin",
    ("b", "beginTimestamp"),
    "store time from which on, milliseconds since 1970 or yyyy-MM-dd#HH:mm:ss:SSS in UTC",
);
const END: Argument = Argument::optional("end", ("e", "endTimestamp"), "store time before which");
const BODY: Argument =
    Argument::optional("body", ("d", "printBody"), "false to leave the bodies out of mqadmin's text");
const LIMIT: Argument = Argument::optional("limit", ("", ""), "most messages; 10000 if left out");
const CHARSET: Argument =
    Argument::optional("charset", ("c", "charsetName"), "only UTF-8 is shown; other bytes as U+FFFD");

/// The operations on messages.
pub(crate) const OPERATIONS: [Operation; 8] = [
    Operation {
        noun: "message",
        verb: "get",
        mqadmin: &["queryMsgById"],
        effect: Effect::Look,
        about: "Show a message by its id, and which groups have consumed it",
        arguments: &[
            TOPIC,
            Argument::place("id", ("i", "msgId"), "the broker's or the producer's id of the message"),
        ],
        call: |session, arguments| answer(find::by_id(session, arguments)),
    },
    Operation {
        noun: "message",
        verb: "key",
        mqadmin: &["queryMsgByKey"],
        effect: Effect::Look,
        about: "Find messages by key",
        arguments: &[
            TOPIC,
            Argument::place("key", ("k", "msgKey"), "the key"),
            BEGIN,
            END,
            Argument::optional("max", ("m", "maxNum"), "most messages of a broker; 64 if left out"),
            Argument::optional("type", ("p", "keyType"), "K for keys, T for tags"),
        ],
        call: |session, arguments| answer(find::by_key(session, arguments)),
    },
    Operation {
        noun: "message",
        verb: "unique-key",
        mqadmin: &["queryMsgByUniqueKey"],
        effect: Effect::Look,
        about: "Show messages by the id that their producer made, and which groups have consumed them",
        arguments: &[
            TOPIC,
            Argument::place("id", ("i", "msgId"), "the producer's id of the message"),
            Argument::optional(
                "begin",
                ("s", "startTime"),
                "store time from which on; 36 hours ago if left out",
            ),
            Argument::optional(
                "end",
                ("e", "endTime"),
                "store time up to which; 36 hours from now if left out",
            ),
            Argument::switch("all", ("a", "showAll"), "all messages with the id, not only the first"),
        ],
        call: |session, arguments| answer(find::by_unique_key(session, arguments)),
    },
    Operation {
        noun: "message",
        verb: "offset",
        mqadmin: &["queryMsgByOffset"],
        effect: Effect::Look,
        about: "Show a message by its place in a queue, and which groups have consumed it",
        arguments: &[
            TOPIC,
            Argument::place("broker", ("b", "brokerName"), "name of the broker set"),
            Argument::place("queue", ("i", "queueId"), "id of the queue"),
            Argument::place("offset", ("o", "offset"), "offset in the queue"),
        ],
        call: |session, arguments| answer(find::by_offset(session, arguments)),
    },
    Operation {
        noun: "message",
        verb: "print",
        mqadmin: &["printMsgByQueue"],
        effect: Effect::Look,
        about: "Print the messages of a queue, by tag and store time",
        arguments: &[
            TOPIC,
            Argument::place("broker", ("a", "brokerName"), "name of the broker set"),
            Argument::place("queue", ("i", "queueId"), "id of the queue"),
            CHARSET,
            TAGS,
            BEGIN,
            END,
            Argument::optional("print", ("p", "print msg"), "true for mqadmin to print the messages"),
            BODY,
            Argument::optional(
                "count",
                ("f", "calculate"),
                "true for mqadmin to count the messages of each tag",
            ),
            LIMIT,
        ],
        call: |session, arguments| answer(print::queue(session, arguments)),
    },
    Operation {
        noun: "message",
        verb: "print-topic",
        mqadmin: &["printMsg"],
        effect: Effect::Look,
        about: "Print the messages of all queues of a topic, by tag and store time",
        arguments: &[TOPIC, CHARSET, TAGS, BEGIN, END, BODY, LIMIT],
        call: |session, arguments| answer(print::topic(session, arguments)),
    },
    Operation {
        noun: "message",
        verb: "send",
        mqadmin: &["sendMessage"],
        effect: Effect::Change,
        about: "Send a message to a topic, or to one of its queues",
        arguments: &[
            TOPIC,
            Argument::required("body", ("p", "body"), "content of the message, UTF-8"),
            Argument::optional("keys", ("k", "key"), "keys, separated by blanks"),
            Argument::optional("tags", ("c", "tags"), "its tag"),
            Argument::optional("broker", ("b", "broker"), "name of the broker set of the queue"),
            Argument::optional("queue", ("i", "qid"), "id of the queue, with a broker set"),
            Argument::optional("properties", ("", ""), "more properties: name=value,name=value"),
        ],
        call: |session, arguments| answer(send::send(session, arguments)),
    },
    Operation {
        noun: "message",
        verb: "trace",
        mqadmin: &["queryMsgTraceById"],
        effect: Effect::Look,
        about: "Show who sent a message and who consumed it, as far as clients record traces",
        arguments: &[
            Argument::place("id", ("i", "msgId"), "the producer's id of the message, or one of its keys"),
            Argument::optional(
                "trace-topic",
                ("t", "traceTopic"),
                "topic of the traces; RMQ_SYS_TRACE_TOPIC if left out",
            ),
            Argument::optional("begin", ("b", "beginTimestamp"), BEGIN.help),
            END,
            Argument::optional("max", ("c", "maxNum"), "most messages with traces; 64 if left out"),
        ],
        call: |session, arguments| answer(trace::trace(session, arguments)),
    },
];
