//! Pop consumption: the records of the revive topic, and two configuration files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Extra;

/// A checkpoint: the messages of one queue that one pop returned, the body of a `ck` record
/// (`org.apache.rocketmq.store.pop.PopCheckPoint`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Bit n is set when message n is acknowledged.
    #[serde(rename = "bm", alias = "bitMap")]
    pub acked: i32,
    /// The broker that served the pop.
    #[serde(rename = "bn", alias = "brokerName")]
    pub broker_name: String,
    /// Consumer group.
    #[serde(rename = "c", alias = "cid", alias = "cId")]
    pub group: String,
    /// Offsets of the messages, counted from the first one; empty from old brokers, then they are consecutive.
    #[serde(rename = "d", alias = "queueOffsetDiff", skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<i32>,
    /// How long the messages stay invisible, milliseconds.
    #[serde(rename = "it", alias = "invisibleTime")]
    pub invisible_ms: i64,
    /// Number of messages.
    #[serde(rename = "n", alias = "num")]
    pub count: u8,
    /// When they were popped, milliseconds since 1970.
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_ms: i64,
    /// Their queue.
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    /// Derived; readers compute it.
    #[serde(rename = "reviveTime")]
    pub revive_ms: i64,
    /// Derived: offset of the record itself in the revive queue; zero as stored.
    #[serde(rename = "ro", alias = "reviveOffset")]
    pub revive_offset: i64,
    /// How often the checkpoint was put off because a message could not be put into the retry topic.
    #[serde(rename = "rp", alias = "rePutTimes", skip_serializing_if = "Option::is_none")]
    pub put_off: Option<String>,
    /// Where the pop began to read.
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    /// Topic the messages lie in.
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
}

impl Checkpoint {
    /// When the messages are visible again.
    #[must_use]
    pub fn revive_ms(&self) -> i64 {
        self.pop_ms.saturating_add(self.invisible_ms)
    }

    /// Number of a message; `None` when it is not one of them (`PopCheckPoint.indexOfAck`).
    #[must_use]
    pub fn index_of(&self, offset: i64) -> Option<usize> {
        let diff = offset.checked_sub(self.start_offset)?;
        if self.diffs.is_empty() {
            return (0..i64::from(self.count)).contains(&diff).then_some(diff as usize);
        }
        self.diffs.iter().position(|known| i64::from(*known) == diff)
    }

    /// Offset of message `index`.
    #[must_use]
    pub fn offset(&self, index: usize) -> i64 {
        let diff = self.diffs.get(index).map_or(index as i64, |diff| i64::from(*diff));
        self.start_offset.saturating_add(diff)
    }

    /// Whether message `index` is acknowledged.
    #[must_use]
    pub fn is_acked(&self, index: usize) -> bool {
        index < 32 && self.acked & (1 << index) != 0
    }

    /// Acknowledges message `index`.
    pub fn ack(&mut self, index: usize) {
        if index < 32 {
            self.acked |= 1 << index;
        }
    }

    /// Whether all messages are acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        (0..usize::from(self.count)).all(|index| self.is_acked(index))
    }
}

/// Acknowledgements, the body of an `ack` or `bAck` record (`AckMsg`, `BatchAckMsg` of `org.apache.rocketmq.store.pop`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Acks {
    /// Offset of the acknowledged message; -1 when `offsets` has them.
    #[serde(rename = "ao", alias = "ackOffset")]
    pub offset: i64,
    /// Offsets of a `bAck`.
    #[serde(rename = "aol", alias = "ackOffsetList", skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<i64>,
    /// The broker that served the pop; empty means this one.
    #[serde(rename = "bn", alias = "brokerName")]
    pub broker_name: String,
    /// Consumer group.
    #[serde(rename = "c", alias = "consumerGroup")]
    pub group: String,
    /// When they were popped, milliseconds since 1970.
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_ms: i64,
    /// Their queue.
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    /// Where the pop began to read.
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    /// Topic the messages lie in.
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
}

impl Acks {
    /// All acknowledged offsets.
    pub fn all(&self) -> impl Iterator<Item = i64> + '_ {
        let single = self.offsets.is_empty().then_some(self.offset);
        self.offsets.iter().copied().chain(single)
    }
}

/// How a group consumes a topic: the body of `SET_MESSAGE_REQUEST_MODE` and an entry of `messageRequestMode.json`
/// (`SetMessageRequestModeRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestMode {
    /// Consumer group.
    pub consumer_group: String,
    /// `PULL` or `POP`.
    pub mode: String,
    /// With pop: of how many further clients a client also gets the queues.
    pub pop_share_queue_num: i32,
    /// Topic name.
    pub topic: String,
}

/// The file `messageRequestMode.json` (`MessageRequestModeManager`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestModeTable {
    /// Modes by group by topic.
    pub message_request_mode_map: BTreeMap<String, BTreeMap<String, RequestMode>>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The messages of one queue that were popped in order last (`ConsumerOrderInfoManager.OrderInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderState {
    /// The client's id of the pop; a repeated one gets the same messages.
    #[serde(rename = "a")]
    pub attempt_id: Option<String>,
    /// Bit n is set when message n is acknowledged.
    #[serde(rename = "cm")]
    pub acked: i64,
    /// How long the messages stay invisible, milliseconds.
    #[serde(rename = "i")]
    pub invisible_ms: Option<i64>,
    /// When they were popped.
    #[serde(rename = "l")]
    pub used_ms: i64,
    /// Offsets: the first one, and the others counted from it.
    #[serde(rename = "o")]
    pub offsets: Vec<i64>,
    /// How often messages were delivered before, by offset.
    #[serde(rename = "oc")]
    pub counts: Option<BTreeMap<i64, i32>>,
    /// When messages are visible whose time was changed, by offset.
    #[serde(rename = "ot")]
    pub visible_ms: Option<BTreeMap<i64, i64>>,
    /// When they were popped, which names the pop in handles.
    #[serde(rename = "popTime")]
    pub pop_ms: i64,
}

/// The file `consumerOrderInfo.json` (`ConsumerOrderInfoManager`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderTable {
    /// States by queue by `topic@group`.
    pub table: BTreeMap<String, BTreeMap<i32, OrderState>>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}
