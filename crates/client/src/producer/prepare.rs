//! Prepares messages for sending: validates them, gives them unique keys, compresses and encodes them.

use super::ProducerConfig;
use crate::calendar::month_ms;
use crate::request::REPLY;
use crate::{Error, Message, compress};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use wire::codes::request;
use wire::id::UniqKeys;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};
use wire::properties::{self, PROPERTIES_BYTES_MAX, key};
use wire::record::sys_flag;

/// Longest topic name in bytes (`Validators.TOPIC_MAX_LENGTH`).
const TOPIC_BYTES_MAX: usize = 127;

/// Makes unique keys (`MessageClientIDSetter`).
pub(super) struct KeyGenerator {
    keys: UniqKeys,
    counter: AtomicU16,
}

impl KeyGenerator {
    pub fn new(ip: IpAddr, seed: u64) -> Self {
        let process = std::process::id() as u16;
        Self { keys: UniqKeys::new(ip, process, seed as u32), counter: AtomicU16::new(0) }
    }

    /// Makes the next key. Keys are unique while fewer than 65,536 are made per millisecond.
    pub fn next(&self, now_ms: i64) -> String {
        let mut out = Vec::with_capacity(56);
        let counter = self.counter.fetch_add(1, Relaxed);
        self.keys.append_to(&mut out, month_ms(now_ms.unsigned_abs()), counter);
        String::from_utf8(out).expect("hexadecimal digits")
    }
}

/// A send request without its queue.
#[derive(Debug)]
pub(super) struct SendDraft {
    pub code: i32,
    pub message_id: String,
    pub body: Vec<u8>,
    pub properties: Vec<u8>,
    pub sys_flag: i32,
    pub flag: i32,
    pub born_ms: i64,
}

impl SendDraft {
    pub fn single(
        message: &Message,
        config: &ProducerConfig,
        keys: &KeyGenerator,
        now_ms: i64,
    ) -> Result<Self, Error> {
        check(message, config)?;
        let (message_id, properties) = properties_of(message, keys, now_ms)?;
        let (body, mut sys_flag) = match config.compress {
            Some(how) if message.body.len() >= how.over => {
                (compress(how.kind, how.level, &message.body)?, sys_flag::compressed_with(how.kind))
            }
            _ => (message.body.clone(), 0),
        };
        if message.properties.get(key::TRANSACTION_PREPARED).is_some_and(|value| value == "true") {
            sys_flag |= sys_flag::TRANSACTION_PREPARED;
        }
        let is_reply = message.properties.get(key::MSG_TYPE).is_some_and(|kind| kind == REPLY);
        let code = if is_reply { request::SEND_REPLY_MESSAGE_V2 } else { request::SEND_MESSAGE_V2 };
        let flag = message.flag;
        Ok(Self { code, message_id, body, properties, sys_flag, flag, born_ms: now_ms })
    }

    pub fn batch(
        messages: &[Message],
        config: &ProducerConfig,
        keys: &KeyGenerator,
        now_ms: i64,
    ) -> Result<Self, Error> {
        let first = messages
            .first()
            .ok_or_else(|| Error::Illegal("a batch needs at least one message".to_owned()))?;
        let mut body = Vec::new();
        let mut ids = Vec::with_capacity(messages.len());
        for message in messages {
            check(message, config)?;
            check_member(message, first)?;
            let (id, properties) = properties_of(message, keys, now_ms)?;
            let entry =
                wire::batch::Entry { flag: message.flag, body: &message.body, properties: &properties };
            wire::batch::append(&mut body, &entry).map_err(|error| Error::Illegal(error.to_string()))?;
            ids.push(id);
        }
        if body.len() > config.body_bytes_max {
            let text =
                format!("the batch is {} bytes long, the limit is {}", body.len(), config.body_bytes_max);
            return Err(Error::Illegal(text));
        }
        let code = request::SEND_BATCH_MESSAGE;
        let message_id = ids.join(",");
        Ok(Self { code, message_id, body, properties: Vec::new(), sys_flag: 0, flag: 0, born_ms: now_ms })
    }
}

fn check(message: &Message, config: &ProducerConfig) -> Result<(), Error> {
    let illegal = |text: String| Err(Error::Illegal(text));
    let topic = &message.topic;
    let legal = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'%' | b'|' | b'_' | b'-');
    if topic.is_empty() || !topic.bytes().all(legal) {
        return illegal(format!("topic {topic:?} is not made of letters, digits and %|_-"));
    }
    if topic.len() > TOPIC_BYTES_MAX && !topic.starts_with(RETRY_PREFIX) && !topic.starts_with(DLQ_PREFIX) {
        return illegal(format!(
            "topic {topic} is {} characters long, the limit is {TOPIC_BYTES_MAX}",
            topic.len()
        ));
    }
    if message.body.is_empty() {
        return illegal("the message body is empty".to_owned());
    }
    if message.body.len() > config.body_bytes_max {
        let limit = config.body_bytes_max;
        return illegal(format!(
            "the message body is {} bytes long, the limit is {limit}",
            message.body.len()
        ));
    }
    Ok(())
}

/// Checks the properties that the messages of a batch must share (`MessageBatch.generateFromList`).
fn check_member(message: &Message, first: &Message) -> Result<(), Error> {
    let illegal = |text: &str| Err(Error::Illegal(text.to_owned()));
    if message.topic != first.topic {
        return illegal("the messages of a batch must have the same topic");
    }
    if message.topic.starts_with(RETRY_PREFIX) {
        return illegal("a batch cannot go to a retry topic");
    }
    let delays = [key::DELAY, "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"];
    if delays.iter().any(|name| message.properties.contains_key(*name)) {
        return illegal("the messages of a batch cannot be delayed");
    }
    let wait = |message: &Message| message.properties.get(key::WAIT_STORE_MSG_OK).cloned();
    if wait(message) != wait(first) {
        return illegal("the messages of a batch must all wait for the store, or none");
    }
    Ok(())
}

/// The unique key and the properties string of a message.
fn properties_of(message: &Message, keys: &KeyGenerator, now_ms: i64) -> Result<(String, Vec<u8>), Error> {
    let mut all: BTreeMap<&str, &str> =
        message.properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if let Some((name, value)) = all.iter().find(|(name, value)| is_split(name) || value.contains('\u{2}')) {
        return Err(Error::Illegal(format!(
            "property {name:?} with value {value:?} holds a separator character"
        )));
    }
    let made;
    let id = match all.get(key::UNIQ_KEY) {
        Some(id) => (*id).to_owned(),
        None => {
            made = keys.next(now_ms);
            all.insert(key::UNIQ_KEY, &made);
            made.clone()
        }
    };
    all.entry(key::WAIT_STORE_MSG_OK).or_insert("true");
    let mut out = Vec::with_capacity(128);
    all.iter().for_each(|(name, value)| properties::append(&mut out, name, value.as_bytes()));
    if out.len() > PROPERTIES_BYTES_MAX {
        let text =
            format!("the properties are {} bytes long, the limit is {PROPERTIES_BYTES_MAX}", out.len());
        return Err(Error::Illegal(text));
    }
    Ok((id, out))
}

/// Whether a property name contains a separator of the stored properties, so that readers would split it.
fn is_split(name: &str) -> bool {
    name.contains(['\u{1}', '\u{2}'])
}
