//! The handle with which a producer recalls a timed message (`RecallMessageHandle`): URL-safe base64 of `v1 <topic> <broker>
//! <time> <unique key>`.

use crate::base64::{URL_SAFE, decode, encode};

/// The content of a recall handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallHandle {
    /// Real topic of the message.
    pub topic: String,
    /// Name of the broker that stores the message.
    pub broker_name: String,
    /// A time in ms within the message's slot of the timer wheel, as text.
    pub time: String,
    /// Unique key of the message.
    pub message_id: String,
}

impl RecallHandle {
    /// Parses a handle; `None` when the text is not one. The last letters may lack their padding, as in RocketMQ.
    pub fn decode(text: &str) -> Option<Self> {
        let raw = String::from_utf8(decode(&URL_SAFE, text)?).ok()?;
        let mut parts = raw.split(' ');
        if parts.next() != Some("v1") {
            return None;
        }
        let mut next = || parts.next().map(str::to_owned);
        let handle = Self { topic: next()?, broker_name: next()?, time: next()?, message_id: next()? };
        (!handle.message_id.is_empty()).then_some(handle)
    }

    /// Appends the recall handle of a message.
    pub fn append(out: &mut Vec<u8>, topic: &str, broker_name: &str, time_ms: i64, message_id: &[u8]) {
        let mut raw = format!("v1 {topic} {broker_name} {time_ms} ").into_bytes();
        raw.extend_from_slice(message_id);
        out.extend_from_slice(encode(&URL_SAFE, &raw).as_bytes());
    }
}

#[cfg(test)]
mod tests;
