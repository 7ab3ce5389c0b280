//! Checks of names and texts. Each check is a list of rules in the order of RocketMQ's proxy (`TopicValidator`,
//! `GrpcValidator`). The first rule that fails gives code and text.

use grpc::messages::Code;

use crate::failure::{Failure, Result};

/// Longest topic name in characters.
const TOPIC_CHARS_MAX: usize = 127;
/// Longest group name in characters.
const GROUP_CHARS_MAX: usize = 120;
/// Bytes of the longest lite topic; a message group must be shorter.
const MESSAGE_GROUP_BYTES: usize = 64;

/// Topics that no client may name, besides topics that begin with `rmq_sys_`.
const SYSTEM_TOPICS: [&str; 12] = [
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "CHECKPOINT_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
];

/// Properties that belong to the system: no client may set them, and no client sees them.
#[rustfmt::skip] // Many short names.
const RESERVED: [&str; 54] = [
    "TRACE_ON", "MSG_REGION", "KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "ORIGIN_GROUP",
    "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID",
    "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "UNIQ_KEY",
    "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME",
    "TRAN_PREPARED_QUEUE_OFFSET", "DUP_INFO", "EXTEND_UNIQ_INFO", "INSTANCE_ID", "CORRELATION_ID",
    "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE",
    "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS",
    "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY",
    "TIMER_DELAY_LEVEL", "__BORNHOST", "BORN_TIMESTAMP", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID",
    "__CRC32#", "_SYS_MSG_PRIORITY_", "__LITE_TOPIC",
];

/// Rule for a text: its condition, and the text of a failure.
struct Rule {
    fails: fn(&str) -> bool,
    text: fn(&str) -> String,
}

const TOPIC: &[Rule] = &[
    Rule { fails: is_blank, text: |_| "The specified topic is blank".to_owned() },
    Rule {
        fails: |topic| topic.chars().count() > TOPIC_CHARS_MAX,
        text: |_| format!("The specified topic is longer than topic max length {TOPIC_CHARS_MAX}."),
    },
    Rule { fails: has_illegal, text: |topic| illegal("The specified topic", topic) },
    Rule { fails: is_system_topic, text: |_| "cannot access system topic".to_owned() },
];

const GROUP: &[Rule] = &[
    Rule { fails: is_blank, text: |_| "the specified group is blank".to_owned() },
    Rule {
        fails: |group| group.chars().count() > GROUP_CHARS_MAX,
        text: |group| {
            format!("the specified group[{group}] is longer than group max length: {GROUP_CHARS_MAX}.")
        },
    },
    Rule { fails: has_illegal, text: |group| illegal("the specified group", group) },
    Rule {
        fails: |group| group.starts_with(wire::names::SYSTEM_GROUP_PREFIX),
        text: |_| "cannot use system consumer group".to_owned(),
    },
];

const TAG: &[Rule] = &[
    Rule { fails: is_blank, text: |_| "tag cannot be the char sequence of whitespace".to_owned() },
    Rule { fails: |tag| tag.contains('|'), text: |_| "tag cannot contain '|'".to_owned() },
    Rule { fails: has_control, text: |_| "tag cannot contain control character".to_owned() },
];

const KEY: &[Rule] = &[
    Rule { fails: is_blank, text: |_| "key cannot be the char sequence of whitespace".to_owned() },
    Rule { fails: has_control, text: |_| "key cannot contain control character".to_owned() },
];

/// Rules for the id of a message. Unlike in RocketMQ's proxy, control characters are refused, because they separate the
/// properties of a stored message.
const MESSAGE_ID: &[Rule] = &[
    Rule { fails: is_blank, text: |_| "message id cannot be empty".to_owned() },
    Rule { fails: has_control, text: |_| "message id cannot contain control character".to_owned() },
];

const MESSAGE_GROUP: &[Rule] = &[
    Rule { fails: is_blank, text: |_| "message group cannot be the char sequence of whitespace".to_owned() },
    Rule {
        fails: |group| group.len() >= MESSAGE_GROUP_BYTES,
        text: |_| format!("message group exceed the max size {MESSAGE_GROUP_BYTES}"),
    },
    Rule { fails: has_control, text: |_| "message group cannot contain control character".to_owned() },
];

const LITE_TOPIC: &[Rule] = &[
    Rule { fails: is_blank, text: |_| "lite topic cannot be the char sequence of whitespace".to_owned() },
    Rule {
        fails: |topic| topic.len() > MESSAGE_GROUP_BYTES,
        text: |_| format!("lite topic exceed the max size {MESSAGE_GROUP_BYTES}"),
    },
    Rule {
        fails: |topic| !topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
        text: |_| {
            "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)".to_owned()
        },
    },
];

fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn has_illegal(name: &str) -> bool {
    !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%|_-".contains(&byte))
}

fn illegal(what: &str, name: &str) -> String {
    format!("{what}[{name}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
}

fn is_system_topic(topic: &str) -> bool {
    SYSTEM_TOPICS.contains(&topic) || topic.starts_with(wire::names::SYSTEM_TOPIC_PREFIX)
}

fn check(rules: &[Rule], code: Code, text: &str) -> Result<()> {
    match rules.iter().find(|rule| (rule.fails)(text)) {
        Some(rule) => Err(Failure::new(code, (rule.text)(text))),
        None => Ok(()),
    }
}

/// Whether the name of a property belongs to the system.
pub fn is_reserved(key: &str) -> bool {
    RESERVED.contains(&key)
}

/// Checks a topic that a request names: `ILLEGAL_TOPIC`.
pub fn topic(topic: &str) -> Result<()> {
    check(TOPIC, Code::IllegalTopic, topic)
}

/// Checks a consumer group: `ILLEGAL_CONSUMER_GROUP`.
pub fn group(group: &str) -> Result<()> {
    check(GROUP, Code::IllegalConsumerGroup, group)
}

/// Checks a non-empty tag: `ILLEGAL_MESSAGE_TAG`.
pub fn tag(tag: &str) -> Result<()> {
    if tag.is_empty() { Ok(()) } else { check(TAG, Code::IllegalMessageTag, tag) }
}

/// Checks a non-empty key: `ILLEGAL_MESSAGE_KEY`.
pub fn key(key: &str) -> Result<()> {
    if key.is_empty() { Ok(()) } else { check(KEY, Code::IllegalMessageKey, key) }
}

/// Checks the id of a message: `ILLEGAL_MESSAGE_ID`.
pub fn message_id(id: &str) -> Result<()> {
    check(MESSAGE_ID, Code::IllegalMessageId, id)
}

/// Checks a text that the protocol's library writes into a message, and that is stored as a property: `BAD_REQUEST`.
pub fn library_text(what: &str, text: &str) -> Result<()> {
    if has_control(text) {
        return Err(Failure::new(Code::BadRequest, format!("{what} cannot contain control character")));
    }
    Ok(())
}

/// Checks a non-empty message group: `ILLEGAL_MESSAGE_GROUP`.
pub fn message_group(group: &str) -> Result<()> {
    if group.is_empty() { Ok(()) } else { check(MESSAGE_GROUP, Code::IllegalMessageGroup, group) }
}

/// Checks a lite topic: `ILLEGAL_LITE_TOPIC`.
pub fn lite_topic(topic: &str) -> Result<()> {
    check(LITE_TOPIC, Code::IllegalLiteTopic, topic)
}

/// Checks key and value of a user property: `ILLEGAL_MESSAGE_PROPERTY_KEY`.
pub fn user_property(key: &str, value: &str) -> Result<()> {
    let text = if is_reserved(key) {
        format!("property is used by system: {key}")
    } else if has_control(key) {
        "the key of property cannot contain control character".to_owned()
    } else if has_control(value) {
        "the value of property cannot contain control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::new(Code::IllegalMessagePropertyKey, text))
}

/// Whether a value is above a maximum of the settings; 0 and less stand for no maximum (`SendMessageActivity`, `GrpcValidator`).
pub fn exceeds(value: i64, max: i64) -> bool {
    max > 0 && value > max
}

/// Checks an invisible time in milliseconds: `ILLEGAL_INVISIBLE_TIME`.
pub fn invisible(ms: i64, min_ms: i64, max_ms: i64) -> Result<()> {
    let text = match ms {
        small if small < min_ms => format!("the invisibleTime is too small. min is {min_ms}"),
        large if exceeds(large, max_ms) => format!("the invisibleTime is too large. max is {max_ms}"),
        _ => return Ok(()),
    };
    Err(Failure::new(Code::IllegalInvisibleTime, text))
}

#[cfg(test)]
mod tests;
