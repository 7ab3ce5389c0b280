//! Names of topics and groups: which are legal, how retry and dead letter topics are named, and which are reserved for the
//! system (`TopicValidator`, `Validators`, `MixAll`).

use wire::codes::response;

use crate::{Refusal, Result};

/// Longest name of an ordinary topic, in bytes.
pub const TOPIC_LENGTH_MAX: usize = 127;
/// Longest name of a retry or dead letter topic, in bytes.
pub const DERIVED_TOPIC_LENGTH_MAX: usize = 255;
/// Longest name of a group, in bytes.
pub const GROUP_LENGTH_MAX: usize = 120;
/// Longest client id, in bytes. Java's clients build theirs from an address, a process id and a name.
pub const CLIENT_ID_BYTES_MAX: usize = 1024;

pub use wire::names::*;

/// The beginning of the names of light queues, and of groups that read only light queues (`MixAll.LMQ_PREFIX`).
const LIGHT_PREFIX: &str = "%LMQ%";

const CHECKPOINT_TOPIC: &str = "CHECKPOINT_TOPIC";

/// Groups that every broker creates when it starts (`SubscriptionGroupManager.init`).
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

/// Topics that clients may not send to.
const UNSENDABLE: [&str; 6] =
    [SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC];

/// Whether the name is that of a light queue, or of a group that reads only light queues.
pub fn is_light(name: &str) -> bool {
    name.starts_with(LIGHT_PREFIX)
}

/// Parent topic and lite topic of a light queue `%LMQ%$parent$lite`; `None` for any other name (`LiteUtil`).
pub fn lite_parts(name: &str) -> Option<(&str, &str)> {
    let (parent, lite) = name.strip_prefix(LIGHT_PREFIX)?.strip_prefix('$')?.split_once('$')?;
    (!parent.is_empty() && !lite.is_empty() && !lite.contains('$')).then_some((parent, lite))
}

/// Name of the light queue of a lite topic (`LiteUtil.toLmqName`); `None` for a lite topic that can have no queue.
pub fn lite_name(parent: &str, lite_topic: &str) -> Option<String> {
    let name = lite_queue(parent, lite_topic);
    let is_legal = lite_parts(&name).is_some() && is_legal(parent) && is_legal(lite_topic);
    (is_legal && name.len() <= DERIVED_TOPIC_LENGTH_MAX).then_some(name)
}

/// Name of the light queue of a lite topic, unchecked.
pub fn lite_queue(parent: &str, lite_topic: &str) -> String {
    format!("{LIGHT_PREFIX}${parent}${lite_topic}")
}

/// Checks that `topic` is a legal topic name. Allocates only for an illegal name.
///
/// # Errors
/// Code 29 with Java's remark (`TopicValidator.validateTopic`).
pub fn check_topic(topic: &str) -> Result<()> {
    check_not_blank(topic)?;
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

/// Checks that a topic is named at all.
///
/// # Errors
/// Code 29 with Java's remark.
pub fn check_not_blank(topic: &str) -> Result<()> {
    if is_blank(topic) {
        return Err(illegal("The specified topic is blank.".to_owned()));
    }
    Ok(())
}

/// Checks that `group` is a legal group name. Allocates only for an illegal name.
///
/// # Errors
/// Code 29 with Java's remark (`TopicValidator.validateGroup`).
pub fn check_group(group: &str) -> Result<()> {
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

/// Checks that a text from a client is no longer than `bytes_max`. Used for texts that are kept while the client is connected.
pub fn check_length(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(Refusal::error(format!("the {what} is {} bytes long, expected at most {bytes_max}", text.len())))
}

/// The retry topic of a group, through which messages that its consumers failed to process are delivered again
/// (`MixAll.getRetryTopic`).
pub fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// The dead letter topic of a group, which gets the messages that failed as often as allowed (`MixAll.getDLQTopic`).
pub fn dlq_topic(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// Whether the topic is the retry topic of a group.
pub fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

/// Whether the topic is the dead letter topic of a group.
pub fn is_dlq_topic(topic: &str) -> bool {
    topic.starts_with(DLQ_PREFIX)
}

/// Whether the topic is reserved for the broker itself or for tools (`TopicValidator.isSystemTopic`).
pub fn is_system_topic(topic: &str) -> bool {
    topic.starts_with(SYSTEM_TOPIC_PREFIX)
        || [DEFAULT_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC].contains(&topic)
        || UNSENDABLE.contains(&topic)
}

/// Whether clients may not send to the topic (`TopicValidator.isNotAllowedSendTopic`).
pub fn is_forbidden_to_send(topic: &str) -> bool {
    UNSENDABLE.contains(&topic)
}

/// Whether the group is a system group, which is created on first use under any configuration
/// (`MixAll.isSysConsumerGroup`).
pub fn is_system_group(group: &str) -> bool {
    group.starts_with(SYSTEM_GROUP_PREFIX)
}

fn is_blank(name: &str) -> bool {
    name.chars().all(char::is_whitespace)
}

fn is_legal(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-'))
}

/// Shortens a name for a remark, because a hostile client may send a name as long as a frame.
fn short(name: &str) -> &str {
    let end = name.char_indices().nth(2 * DERIVED_TOPIC_LENGTH_MAX).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

fn illegal(remark: String) -> Refusal {
    Refusal::new(response::INVALID_PARAMETER, remark)
}

#[cfg(test)]
mod tests;
