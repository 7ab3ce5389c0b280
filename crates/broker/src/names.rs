//! Names of topics and groups: what is legal, what is derived, what the system keeps for itself
//! (`TopicValidator`, `Validators`, `MixAll`).

use wire::codes::response;

use crate::Refusal;

/// Longest name of an ordinary topic.
pub const TOPIC_LENGTH_MAX: usize = 127;
/// Longest name of a retry or dead letter topic.
pub const DERIVED_TOPIC_LENGTH_MAX: usize = 255;
/// Longest name of a group.
pub const GROUP_LENGTH_MAX: usize = 120;
/// Longest client id, in bytes; Java makes them of an address, a process id and a name.
pub const CLIENT_ID_BYTES_MAX: usize = 1024;

/// Begins the name of a group's retry topic.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Begins the name of a group's dead letter topic.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Begins the names of topics the broker keeps for itself.
pub const SYSTEM_TOPIC_PREFIX: &str = "rmq_sys_";
/// Begins the names of groups the broker keeps for itself.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";

/// The template of topics created by their first message.
pub const DEFAULT_TOPIC: &str = "TBW102";
/// Where delayed messages wait, one queue per level.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Topic of Java's benchmark scripts.
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
/// Topic of self tests.
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
/// Where offset corrections were announced.
pub const OFFSET_MOVED_TOPIC: &str = "OFFSET_MOVED_EVENT";
/// Where clients write message traces unless told otherwise.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Undecided transaction messages.
pub const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Decisions about transaction messages.
pub const OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Transaction messages nobody decided.
pub const CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// Messages that wait for a point in time.
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";
/// Begins the name of the topic checkpoints of pops are delivered to; the cluster's name follows.
pub const REVIVE_PREFIX: &str = "rmq_sys_REVIVE_LOG_";
const CHECKPOINT_TOPIC: &str = "CHECKPOINT_TOPIC";

/// Groups that exist at start (`SubscriptionGroupManager.init`).
pub const SYSTEM_GROUPS: [&str; 8] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// Topics only the broker itself writes to.
const UNSENDABLE: [&str; 6] =
    [SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC];

/// Refuses what is not a topic name. Allocates only to refuse.
///
/// # Errors
/// Code 29 with Java's remark (`TopicValidator.validateTopic`).
pub fn check_topic(topic: &str) -> Result<(), Refusal> {
    if is_blank(topic) {
        return Err(illegal("The specified topic is blank.".to_owned()));
    }
    if !is_legal(topic) {
        let rule = "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
        return Err(illegal(format!("The specified topic: {}, {rule}", short(topic))));
    }
    if is_retry_topic(topic) || is_dlq_topic(topic) {
        if topic.len() > DERIVED_TOPIC_LENGTH_MAX {
            let rule = format!("and it's longer than topic max length: {DERIVED_TOPIC_LENGTH_MAX}");
            return Err(illegal(format!(
                "The specified topic is DLQ or Retry topic: {}, {rule}",
                short(topic)
            )));
        }
    } else if topic.len() > TOPIC_LENGTH_MAX {
        let rule = format!("is longer than topic max length: {TOPIC_LENGTH_MAX}");
        return Err(illegal(format!("The specified topic: {}, {rule}", short(topic))));
    }
    Ok(())
}

/// Refuses what is not a group name. Allocates only to refuse.
///
/// # Errors
/// Code 29 with Java's remark (`TopicValidator.validateGroup`).
pub fn check_group(group: &str) -> Result<(), Refusal> {
    if is_blank(group) {
        return Err(illegal("The specified group is blank.".to_owned()));
    }
    if !is_legal(group) {
        let rule = "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
        return Err(illegal(format!("The specified group: {}, {rule}", short(group))));
    }
    if group.len() > GROUP_LENGTH_MAX {
        let rule = format!("is longer than group max length: {GROUP_LENGTH_MAX}");
        return Err(illegal(format!("The specified group: {}, {rule}", short(group))));
    }
    Ok(())
}

/// A text that is kept for as long as a client is connected must not be longer than `bytes_max`.
pub fn check_length(what: &str, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(Refusal::error(format!("the {what} is {} bytes long, expected at most {bytes_max}", text.len())))
}

/// The topic that failed messages of a group come back through (`MixAll.getRetryTopic`).
pub fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// The topic that messages a group gave up end in (`MixAll.getDLQTopic`).
pub fn dlq_topic(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// Failed messages of a group come back through it.
pub fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

/// Messages a group gave up end in it.
pub fn is_dlq_topic(topic: &str) -> bool {
    topic.starts_with(DLQ_PREFIX)
}

/// The broker keeps it for itself or for tools (`TopicValidator.isSystemTopic`).
pub fn is_system_topic(topic: &str) -> bool {
    topic.starts_with(SYSTEM_TOPIC_PREFIX)
        || [DEFAULT_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC].contains(&topic)
        || UNSENDABLE.contains(&topic)
}

/// Clients may not send to it (`TopicValidator.isNotAllowedSendTopic`).
pub fn is_forbidden_to_send(topic: &str) -> bool {
    UNSENDABLE.contains(&topic)
}

/// The broker keeps it for itself; created whatever the configuration says (`MixAll.isSysConsumerGroup`).
pub fn is_system_group(group: &str) -> bool {
    group.starts_with(SYSTEM_GROUP_PREFIX)
}

fn is_blank(name: &str) -> bool {
    name.chars().all(char::is_whitespace)
}

fn is_legal(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-'))
}

/// A name as remarks show it: a hostile one may be as long as a frame.
fn short(name: &str) -> &str {
    let end = name.char_indices().nth(2 * DERIVED_TOPIC_LENGTH_MAX).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

fn illegal(remark: String) -> Refusal {
    Refusal::new(response::INVALID_PARAMETER, remark)
}

#[cfg(test)]
mod tests;
