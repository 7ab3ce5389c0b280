//! Attributes of topics: which there are, and how requests write them (`AttributeParser`, `TopicAttributes`).

use wire::codes::response;

use crate::attributes::{Attribute, Values, changeable, fixed};
use crate::change::Alterations;
use crate::{Refusal, Result};

/// Name of the attribute for the kind of index the topic's queues have: `SimpleCQ` or `BatchCQ`.
pub(crate) const QUEUE_TYPE: &str = "queue.type";
/// Value of `queue.type` for topics in which a record may hold many messages.
pub(crate) const BATCHED: &str = "BatchCQ";
/// Name of the attribute for the cleanup of old messages: `DELETE` or `COMPACTION`.
pub(crate) const CLEANUP_POLICY: &str = "cleanup.policy";
/// Name of the attribute for the kind of messages in the topic.
pub(crate) const MESSAGE_TYPE: &str = "message.type";
/// The value of `message.type` for topics whose queues stand for priorities.
pub(crate) const PRIORITY: &str = "PRIORITY";

/// The value of `message.type` for parents of lite topics.
pub(crate) const LITE: &str = "LITE";
/// Name of the attribute for the minutes after which a lite topic without messages expires.
pub(crate) const LITE_EXPIRATION: &str = "lite.topic.expiration";

const MESSAGE_TYPES: &[&str] =
    &["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", PRIORITY, LITE, "MIXED"];

/// The attributes that a topic may have.
pub(super) const ATTRIBUTES: [Attribute; 5] = [
    fixed(QUEUE_TYPE, Values::OneOf(&[BATCHED, "SimpleCQ"])),
    fixed(CLEANUP_POLICY, Values::OneOf(&["DELETE", "COMPACTION"])),
    changeable(MESSAGE_TYPE, Values::OneOf(MESSAGE_TYPES)),
    changeable("reserve.time", Values::Numbers(-1..=i64::MAX)),
    changeable(LITE_EXPIRATION, Values::Numbers(-1..=i64::MAX)),
];

/// Parses changes of attributes in the form `+name=value,-name`.
pub(crate) fn parse(text: &str) -> Result<Alterations> {
    let words = text.split(',').filter(|word| !word.trim().is_empty());
    let alteration = |word: &str| match word.split_once('=') {
        Some((name, value)) if name.starts_with('+') && !value.contains('=') && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        None if word.starts_with('-') => Ok((word.to_owned(), String::new())),
        _ => Err(Refusal::error(format!(
            "kv string format wrong. expected +name=value or -name, found {word}"
        ))),
    };
    let alterations = words.map(alteration).collect::<Result<Alterations, _>>()?;
    let is_mixed = |(name, value): &(String, String)| name[1..] == *MESSAGE_TYPE && value == "MIXED";
    if alterations.iter().any(is_mixed) {
        let remark = "MIXED message type is not supported.";
        return Err(Refusal::new(response::INVALID_PARAMETER, remark));
    }
    Ok(alterations)
}

#[cfg(test)]
mod tests;
