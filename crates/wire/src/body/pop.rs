//! Pop consumption: the records of the revive topic, and two configuration files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Extra;

/// Checkpoint of a pop: the messages that the pop returned from one queue, as the body of a `ck` record
/// (`org.apache.rocketmq.store.pop.PopCheckPoint`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Bit set of the acknowledged messages: bit n for message n.
    #[serde(rename = "bm", alias = "bitMap")]
    pub acked: i32,
    /// Name of the broker that served the pop.
    #[serde(rename = "bn", alias = "brokerName")]
    pub broker_name: String,
    /// Consumer group.
    #[serde(rename = "c", alias = "cid", alias = "cId")]
    pub group: String,
    /// Queue offset of each message, relative to the first message. Empty from old brokers, whose messages have
    /// consecutive offsets.
    #[serde(rename = "d", alias = "queueOffsetDiff", skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<i32>,
    /// Invisible time of the messages, ms.
    #[serde(rename = "it", alias = "invisibleTime")]
    pub invisible_ms: i64,
    /// Number of messages.
    #[serde(rename = "n", alias = "num")]
    pub count: u8,
    /// Time of the pop, ms since the epoch.
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_ms: i64,
    /// Queue id of the messages.
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    /// Time at which the messages become visible again, ms since the epoch. Derived: readers compute it.
    #[serde(rename = "reviveTime")]
    pub revive_ms: i64,
    /// Queue offset of the checkpoint itself in the revive queue. Derived: zero in stored records.
    #[serde(rename = "ro", alias = "reviveOffset")]
    pub revive_offset: i64,
    /// Number of times the checkpoint was rewritten because a message could not be put into the retry topic.
    #[serde(rename = "rp", alias = "rePutTimes", skip_serializing_if = "Option::is_none")]
    pub put_off: Option<String>,
    /// First queue offset of the pop.
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    /// Topic in which the messages are stored.
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
}

impl Checkpoint {
    /// Time at which the messages become visible again, ms since the epoch.
    pub fn revive_ms(&self) -> i64 {
        self.pop_ms.saturating_add(self.invisible_ms)
    }

    /// Index of the message at a queue offset; `None` when the pop did not return it (`PopCheckPoint.indexOfAck`).
    pub fn index_of(&self, offset: i64) -> Option<usize> {
        let diff = offset.checked_sub(self.start_offset)?;
        if self.diffs.is_empty() {
            return (0..i64::from(self.count)).contains(&diff).then_some(diff as usize);
        }
        self.diffs.iter().position(|known| i64::from(*known) == diff)
    }

    /// Queue offset of message `index`.
    pub fn offset(&self, index: usize) -> i64 {
        let diff = self.diffs.get(index).map_or(index as i64, |diff| i64::from(*diff));
        self.start_offset.saturating_add(diff)
    }

    /// Whether message `index` is acknowledged.
    pub fn is_acked(&self, index: usize) -> bool {
        index < 32 && self.acked & (1 << index) != 0
    }

    /// Marks message `index` as acknowledged.
    pub fn ack(&mut self, index: usize) {
        if index < 32 {
            self.acked |= 1 << index;
        }
    }

    /// Whether all messages are acknowledged.
    pub fn is_done(&self) -> bool {
        (0..usize::from(self.count)).all(|index| self.is_acked(index))
    }
}

/// Acknowledgements: the body of an `ack` or `bAck` record (`AckMsg`, `BatchAckMsg` of `org.apache.rocketmq.store.pop`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Acks {
    /// Queue offset of the acknowledged message; -1 when `offsets` is used.
    #[serde(rename = "ao", alias = "ackOffset")]
    pub offset: i64,
    /// Queue offsets of the messages acknowledged by a `bAck` record.
    #[serde(rename = "aol", alias = "ackOffsetList", skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<i64>,
    /// Name of the broker that served the pop; empty means the broker that stores the record.
    #[serde(rename = "bn", alias = "brokerName")]
    pub broker_name: String,
    /// Consumer group.
    #[serde(rename = "c", alias = "consumerGroup")]
    pub group: String,
    /// Time of the pop, ms since the epoch.
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_ms: i64,
    /// Queue id of the messages.
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    /// First queue offset of the pop.
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    /// Topic in which the messages are stored.
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
}

impl Acks {
    /// The queue offsets of all acknowledged messages.
    pub fn all(&self) -> impl Iterator<Item = i64> + '_ {
        let single = self.offsets.is_empty().then_some(self.offset);
        self.offsets.iter().copied().chain(single)
    }
}

/// Consumption mode of a group in a topic: the body of `SET_MESSAGE_REQUEST_MODE` and an entry of
/// `messageRequestMode.json` (`SetMessageRequestModeRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestMode {
    /// Consumer group.
    pub consumer_group: String,
    /// `PULL` or `POP`.
    pub mode: String,
    /// Number of other clients whose queues a client shares with `POP`.
    pub pop_share_queue_num: i32,
    /// Topic name.
    pub topic: String,
}

/// The file `messageRequestMode.json` (`MessageRequestModeManager`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestModeTable {
    /// Modes by topic and group.
    pub message_request_mode_map: BTreeMap<String, BTreeMap<String, RequestMode>>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The messages of one queue in the last ordered pop (`ConsumerOrderInfoManager.OrderInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderState {
    /// The client's id of the pop; a repeated pop with the same id gets the same messages.
    #[serde(rename = "a")]
    pub attempt_id: Option<String>,
    /// Bit set of the acknowledged messages: bit n for message n.
    #[serde(rename = "cm")]
    pub acked: i64,
    /// Invisible time of the messages, ms.
    #[serde(rename = "i")]
    pub invisible_ms: Option<i64>,
    /// Time of the last pop, ms since the epoch. A state that was not used for long is dropped from the file.
    #[serde(rename = "l")]
    pub used_ms: i64,
    /// Queue offsets: the first offset, and later offsets relative to it.
    #[serde(rename = "o")]
    pub offsets: Vec<i64>,
    /// Delivery count of messages by queue offset.
    #[serde(rename = "oc")]
    pub counts: Option<BTreeMap<i64, i32>>,
    /// Time in ms since the epoch at which a message with a changed invisible time becomes visible, by queue offset.
    #[serde(rename = "ot")]
    pub visible_ms: Option<BTreeMap<i64, i64>>,
    /// Time of the pop, ms since the epoch. An acknowledgement applies to this state only if its receipt handle has
    /// the same time.
    #[serde(rename = "popTime")]
    pub pop_ms: i64,
}

/// The file `consumerOrderInfo.json` (`ConsumerOrderInfoManager`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderTable {
    /// State by `topic@group` and queue id.
    pub table: BTreeMap<String, BTreeMap<i32, OrderState>>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}
