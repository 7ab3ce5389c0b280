//! Bodies of queue assignment by the broker, batch acknowledgement of pops, and direct consumption.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{MessageModel, MessageQueue};
use crate::base64;

/// The body of `QUERY_ASSIGNMENT` (`QueryAssignmentRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryAssignmentBody {
    /// Id of the client that asks.
    pub client_id: String,
    /// Consumer group of the client.
    pub consumer_group: String,
    /// Whether the group consumes in broadcasting or clustering mode.
    pub message_model: MessageModel,
    /// Allocation strategy, `AVG` or `AVG_BY_CIRCLE`.
    pub strategy_name: Option<String>,
    /// Topic name.
    pub topic: String,
}

/// A queue and how to consume it (`MessageQueueAssignment`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueAssignment {
    /// The queue; id -1 for all queues of a broker group.
    pub message_queue: MessageQueue,
    /// `PULL` or `POP`.
    pub mode: String,
}

/// The response to `QUERY_ASSIGNMENT` (`QueryAssignmentResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryAssignmentResponseBody {
    /// The assigned queues; `None` if the broker cannot assign.
    pub message_queue_assignments: Option<Vec<QueueAssignment>>,
}

/// Most offsets read from one entry: a checkpoint counts its messages in a byte, and a pop returns at most 32.
pub const OFFSETS_MAX: usize = 256;

/// Most entries read from one batch of acknowledgements: each takes much more memory than its few bytes in the body.
pub const ACKS_MAX: usize = 16_384;

/// Acknowledgements of one pop (`org.apache.rocketmq.remoting.protocol.body.BatchAck`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchAck {
    /// Base64 of a little-endian bit set: bit n acknowledges the message at start offset + n.
    #[serde(rename = "b")]
    pub bits: String,
    /// Consumer group.
    #[serde(rename = "c")]
    pub consumer_group: String,
    /// Invisible time of the popped messages, ms.
    #[serde(rename = "it")]
    pub invisible_ms: i64,
    /// Time of the pop, ms since the epoch.
    #[serde(rename = "pt")]
    pub pop_time: i64,
    /// Queue id of the messages.
    #[serde(rename = "q")]
    pub queue_id: i32,
    /// Topic of the messages: `0` the normal one, `1` and `2` the retry topics.
    #[serde(rename = "r")]
    pub retry: String,
    /// Queue id of the revive topic.
    #[serde(rename = "rq")]
    pub revive_queue_id: i32,
    /// First queue offset of the pop.
    #[serde(rename = "so")]
    pub start_offset: i64,
    /// Topic name.
    #[serde(rename = "t")]
    pub topic: String,
}

impl BatchAck {
    /// The acknowledged queue offsets in a range, at most [`OFFSETS_MAX`]; empty when the bits are malformed.
    pub fn offsets_in(&self, range: RangeInclusive<i64>) -> Vec<i64> {
        let bytes = base64::decode(&base64::STANDARD, &self.bits).unwrap_or_default();
        let bits = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0).flat_map(|(at, byte)| {
            (0..8).filter(move |bit| byte & 1 << bit != 0).map(move |bit| (at * 8 + bit) as i64)
        });
        let offsets = bits.map(|bit| self.start_offset.saturating_add(bit));
        offsets.filter(|offset| range.contains(offset)).take(OFFSETS_MAX).collect()
    }
}

/// The body of `BATCH_ACK_MESSAGE` (`BatchAckMessageRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchAckBody {
    /// Acknowledgements by pop; at most [`ACKS_MAX`] are read.
    #[serde(deserialize_with = "bounded")]
    pub acks: Vec<BatchAck>,
    /// Name of the broker that served the pops.
    pub broker_name: String,
}

fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BatchAck>, D::Error> {
    struct AckVisitor;
    impl<'de> Visitor<'de> for AckVisitor {
        type Value = Vec<BatchAck>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "at most {ACKS_MAX} acknowledgements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut acks = Vec::new();
            while let Some(ack) = list.next_element()? {
                if acks.len() == ACKS_MAX {
                    return Err(A::Error::invalid_length(ACKS_MAX + 1, &self));
                }
                acks.push(ack);
            }
            Ok(acks)
        }
    }
    deserializer.deserialize_seq(AckVisitor)
}
