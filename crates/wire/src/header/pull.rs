//! Headers of a pull and of its response (`PullMessageRequestHeader`, `PullMessageResponseHeader`).

use crate::fields::{FieldError, Fields, number, text};
use crate::frame::FrameWriter;

/// Bits of a pull request's `sysFlag` (`PullSysFlag`).
pub mod pull_flag {
    /// Commit `commitOffset` for the group.
    pub const COMMIT_OFFSET: i32 = 1;
    /// Suspend the request while there is nothing to return (long polling).
    pub const SUSPEND: i32 = 2;
    /// Use the subscription in the header instead of the heartbeat's.
    pub const SUBSCRIPTION: i32 = 4;
}

/// Header of requests 11 (`PULL_MESSAGE`) and 361 (`LITE_PULL_MESSAGE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullHeader<'a> {
    /// Consumer group.
    pub consumer_group: &'a str,
    /// Topic to pull from.
    pub topic: &'a str,
    /// Queue id to pull from.
    pub queue_id: i32,
    /// First requested queue offset.
    pub queue_offset: i64,
    /// Most messages to return.
    pub max_messages: i32,
    /// Bits of [`pull_flag`].
    pub sys_flag: i32,
    /// Offset to commit when [`pull_flag::COMMIT_OFFSET`] is set.
    pub commit_offset: i64,
    /// Longest suspension of the request, ms.
    pub suspend_timeout_ms: i64,
    /// Filter expression.
    pub subscription: &'a str,
    /// Version of the subscription.
    pub sub_version: i64,
    /// `TAG` or `SQL92`; empty means `TAG`.
    pub expression_type: &'a str,
    /// Most bytes to return, if stated.
    pub max_bytes: Option<i32>,
}

impl<'a> PullHeader<'a> {
    /// Reads the header.
    pub fn decode(fields: &Fields<'a>) -> Result<Self, FieldError> {
        let mut header = Self::default();
        let mut seen = 0_u8;
        for (key, value) in fields.iter() {
            let bit = header.set(key, value)?;
            seen |= bit;
        }
        // Java's broker serves pulls without the other fields, though its class requires three more of them.
        const REQUIRED: [&str; 6] =
            ["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"];
        match REQUIRED.get(seen.trailing_ones() as usize) {
            Some(missing) => Err(FieldError::Missing(missing)),
            None => Ok(header),
        }
    }

    /// Stores one header field. Returns the bit of a required field, or 0 for other fields.
    fn set(&mut self, key: &[u8], value: &'a [u8]) -> Result<u8, FieldError> {
        let position = match key {
            b"consumerGroup" => {
                self.consumer_group = text("consumerGroup", value)?;
                0
            }
            b"topic" => {
                self.topic = text("topic", value)?;
                1
            }
            b"queueId" => {
                self.queue_id = number("queueId", value)?;
                2
            }
            b"queueOffset" => {
                self.queue_offset = number("queueOffset", value)?;
                3
            }
            b"maxMsgNums" => {
                self.max_messages = number("maxMsgNums", value)?;
                4
            }
            b"sysFlag" => {
                self.sys_flag = number("sysFlag", value)?;
                5
            }
            _ => return self.set_optional(key, value).map(|()| 0),
        };
        Ok(1 << position)
    }

    fn set_optional(&mut self, key: &[u8], value: &'a [u8]) -> Result<(), FieldError> {
        match key {
            b"commitOffset" => self.commit_offset = number("commitOffset", value)?,
            b"suspendTimeoutMillis" => self.suspend_timeout_ms = number("suspendTimeoutMillis", value)?,
            b"subVersion" => self.sub_version = number("subVersion", value)?,
            b"subscription" => self.subscription = text("subscription", value)?,
            b"expressionType" => self.expression_type = text("expressionType", value)?,
            b"maxMsgBytes" => self.max_bytes = Some(number("maxMsgBytes", value)?),
            _ => {}
        }
        Ok(())
    }

    /// Writes the header.
    pub fn write<'b>(&self, writer: FrameWriter<'b>) -> FrameWriter<'b> {
        let mut writer = writer
            .text("consumerGroup", self.consumer_group)
            .text("topic", self.topic)
            .number("queueId", self.queue_id)
            .number("queueOffset", self.queue_offset)
            .number("maxMsgNums", self.max_messages)
            .number("sysFlag", self.sys_flag)
            .number("commitOffset", self.commit_offset)
            .number("suspendTimeoutMillis", self.suspend_timeout_ms)
            .number("subVersion", self.sub_version);
        if self.sys_flag & pull_flag::SUBSCRIPTION != 0 {
            writer = writer.text("subscription", self.subscription);
        }
        if !self.expression_type.is_empty() {
            writer = writer.text("expressionType", self.expression_type);
        }
        writer
    }
}

/// Header of every response to a pull; RocketMQ's client reads the first four fields without a null check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullResponseHeader {
    /// Id of the broker to pull from next.
    pub suggest_broker_id: i64,
    /// Queue offset to pull from next.
    pub next_offset: i64,
    /// Minimum offset of the queue.
    pub min_offset: i64,
    /// Maximum offset of the queue, which the next message will get.
    pub max_offset: i64,
    /// Unit flags of the topic; see `TopicConfig::topic_sys_flag`.
    pub topic_sys_flag: i32,
    /// Flags of the group; see `SubscriptionGroupConfig::group_sys_flag`.
    pub group_sys_flag: i32,
}

impl PullResponseHeader {
    /// Reads the header.
    pub fn decode(fields: &Fields<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            suggest_broker_id: fields.need_number("suggestWhichBrokerId")?,
            next_offset: fields.need_number("nextBeginOffset")?,
            min_offset: fields.need_number("minOffset")?,
            max_offset: fields.need_number("maxOffset")?,
            topic_sys_flag: fields.number_or("topicSysFlag", 0)?,
            group_sys_flag: fields.number_or("groupSysFlag", 0)?,
        })
    }

    /// Writes the header.
    pub fn write<'b>(&self, writer: FrameWriter<'b>) -> FrameWriter<'b> {
        writer
            .number("suggestWhichBrokerId", self.suggest_broker_id)
            .number("nextBeginOffset", self.next_offset)
            .number("minOffset", self.min_offset)
            .number("maxOffset", self.max_offset)
            .number("topicSysFlag", self.topic_sys_flag)
            .number("groupSysFlag", self.group_sys_flag)
    }
}
