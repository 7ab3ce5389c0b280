//! A message of the protocol as the broker takes it: checks in the order of `SendMessageActivity`, then properties and flags.

use broker::api::Caller;
use grpc::messages::{Code, Encoding, Message, MessageType, SystemProperties, name};
use wire::properties::{self, key};
use wire::record::sys_flag;

use super::stored::LITE_TOPIC;
use super::type_name;
use crate::checks;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// The type of a message by its stored properties (`TopicMessageType.parseFromMessageProperty`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageKind(pub MessageType);

impl MessageKind {
    pub fn of(stored: &[u8]) -> Self {
        let timers = [key::DELAY, key::TIMER_DELIVER_MS, key::TIMER_DELAY_SEC, key::TIMER_DELAY_MS];
        let [prepared, sharding, priority, lite] = properties::get_all(
            stored,
            [key::TRANSACTION_PREPARED, key::SHARDING_KEY, key::PRIORITY, LITE_TOPIC],
        );
        Self(match () {
            () if prepared == Some(b"true") => MessageType::Transaction,
            () if properties::get_all(stored, timers).iter().any(Option::is_some) => MessageType::Delay,
            () if sharding.is_some() => MessageType::Fifo,
            () if priority.is_some() => MessageType::Priority,
            () if lite.is_some() => MessageType::Lite,
            () => MessageType::Normal,
        })
    }

    /// Checks the message against its topic's attribute `message.type`; `None` when there is no such topic.
    ///
    /// # Errors
    /// `MESSAGE_PROPERTY_CONFLICT_WITH_TYPE` when they differ.
    pub fn check(self, attribute: Option<&str>) -> Result<()> {
        let (expected, actual) = (attribute.unwrap_or("UNSPECIFIED"), type_name(self.0));
        if expected == "MIXED" || expected == actual {
            return Ok(());
        }
        let text = format!(
            "TopicMessageType validate failed, the expected type is {expected}, but actual type is {actual}"
        );
        Err(Failure::new(Code::MessagePropertyConflictWithType, text))
    }
}

/// Parts of a message that the broker stores beside its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub properties: Vec<u8>,
    pub sys_flag: i32,
    pub born_ms: i64,
}

/// Checks a message in the order of `SendMessageActivity`; the first check that fails counts.
///
/// # Errors
/// The failure of the first check that fails.
pub fn check(config: &Config, message: &Message, now_ms: i64) -> Result<()> {
    let none = SystemProperties::default();
    let system = message.system_properties.as_ref().unwrap_or(&none);
    if message.body.is_empty() && config.checks_empty_body {
        return Err(Failure::new(Code::MessageBodyEmpty, "message body cannot be empty"));
    }
    if checks::exceeds(i64::try_from(message.body.len()).unwrap_or(i64::MAX), config.body_bytes_max) {
        let text = format!("message body cannot exceed the max {}", config.body_bytes_max);
        return Err(Failure::new(Code::MessageBodyTooLarge, text));
    }
    check_properties(config, message, system)?;
    checks::message_id(&system.message_id)?;
    checks::library_text("born host", &system.born_host)?;
    checks::library_text("trace context", system.trace_context.as_deref().unwrap_or_default())?;
    let recovery_ms = system.orphaned_transaction_recovery_duration.map_or(0, |duration| duration.ms());
    if is_transaction(system) && checks::exceeds(recovery_ms, config.recovery_s_max.saturating_mul(1000)) {
        let text = format!(
            "the max transaction recovery time of message is too large, max is {}",
            config.recovery_s_max
        );
        return Err(Failure::new(Code::BadRequest, text));
    }
    let delay_ms = system.delivery_timestamp.map_or(0, |time| time.ms().saturating_sub(now_ms));
    if checks::exceeds(delay_ms, config.delay_ms_max) {
        let text = format!("the max delay time of message is too large, max is {}", config.delay_ms_max);
        return Err(Failure::new(Code::IllegalDeliveryTime, text));
    }
    checks::message_group(system.message_group.as_deref().unwrap_or_default())?;
    system.lite_topic.as_deref().map_or(Ok(()), checks::lite_topic)
}

fn check_properties(config: &Config, message: &Message, system: &SystemProperties) -> Result<()> {
    let too_large = |text| Err(Failure::new(Code::MessagePropertiesTooLarge, text));
    if message.user_properties.len() > config.properties_max {
        return too_large(format!("too many user properties, max is {}", config.properties_max));
    }
    let mut bytes = 0;
    for (key, value) in &message.user_properties {
        checks::user_property(key, value)?;
        bytes += key.len() + value.len();
    }
    let tag = system.tag.as_deref().unwrap_or_default();
    checks::tag(tag)?;
    for key in &system.keys {
        checks::key(key)?;
        bytes += key.len();
    }
    if bytes + tag.len() > config.properties_bytes_max {
        let max = config.properties_bytes_max;
        return too_large(format!("the total size of user property is too large, max is {max}"));
    }
    Ok(())
}

fn is_transaction(system: &SystemProperties) -> bool {
    system.message_type == MessageType::Transaction as i32
}

/// Room in bytes for the properties that are not the user's, as large as they mostly are.
const SYSTEM_BYTES: usize = 384;

/// Properties and flags of a message that passed [`check`].
pub fn outgoing(message: &Message, caller: &Caller, now_ms: i64) -> Outgoing {
    let none = SystemProperties::default();
    let system = message.system_properties.as_ref().unwrap_or(&none);
    let user_bytes: usize =
        message.user_properties.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
    let mut out = Vec::with_capacity(user_bytes + SYSTEM_BYTES);
    for (key, value) in &message.user_properties {
        properties::append(&mut out, key, value.as_bytes());
    }
    let mut put = |name: &str, value: &str| properties::append(&mut out, name, value.as_bytes());
    put(key::TAGS, system.tag.as_deref().unwrap_or_default());
    put(key::KEYS, &system.keys.join(" "));
    put(key::UNIQ_KEY, &system.message_id);
    let mut flag = 0;
    if is_transaction(system) {
        put(key::TRANSACTION_PREPARED, "true");
        flag |= sys_flag::TRANSACTION_PREPARED;
        if let Some(duration) = system.orphaned_transaction_recovery_duration {
            put(key::CHECK_IMMUNITY_TIME_IN_SECONDS, &duration.seconds.to_string());
        }
    }
    if let Some(time) = system.delivery_timestamp {
        put(key::TIMER_DELIVER_MS, &time.ms().to_string());
    }
    if let Some(priority) = system.priority {
        put(key::PRIORITY, &priority.to_string());
    }
    if let Some(attempt) = system.delivery_attempt {
        put(key::RECONSUME_TIME, &attempt.to_string());
    }
    put(key::SHARDING_KEY, system.message_group.as_deref().unwrap_or_default());
    put(LITE_TOPIC, system.lite_topic.as_deref().unwrap_or_default());
    put(key::TRACE_CONTEXT, system.trace_context.as_deref().unwrap_or_default());
    let peer = caller.remote.ip().to_string();
    put(key::BORN_HOST, if system.born_host.trim().is_empty() { &peer } else { &system.born_host });
    let born_ms = system.born_timestamp.map_or(now_ms, |time| time.ms());
    put(key::BORN_TIMESTAMP, &born_ms.to_string());
    put(key::PRODUCER_GROUP, name(&message.topic));
    if system.body_encoding == Encoding::Gzip as i32 {
        flag |= sys_flag::COMPRESSED;
    }
    Outgoing { properties: out, sys_flag: flag, born_ms }
}
