//! `SendMessageRequestHeader`, its V2 form with abbreviated names, and the response.

use crate::codes::request;
use crate::fields::{FieldError, Fields, boolean, number, text};
use crate::frame::FrameWriter;

/// Header of the requests 10, 310, 320, 324 and 325 (`SEND_MESSAGE`, `SEND_MESSAGE_V2`, `SEND_BATCH_MESSAGE`,
/// `SEND_REPLY_MESSAGE`, `SEND_REPLY_MESSAGE_V2`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendHeader<'a> {
    /// Producer group.
    pub producer_group: &'a str,
    /// Topic to send to.
    pub topic: &'a str,
    /// Topic whose configuration is the template of a missing topic.
    pub default_topic: &'a str,
    /// Most queues of a topic created by this request.
    pub default_topic_queue_nums: i32,
    /// Queue id; when negative the broker chooses a queue.
    pub queue_id: i32,
    /// `sysFlag` bits of the record.
    pub sys_flag: i32,
    /// The client's clock, ms since the epoch.
    pub born_timestamp: i64,
    /// The user-defined flag.
    pub flag: i32,
    /// Properties string as received; it is stored byte for byte.
    pub properties: &'a [u8],
    /// Number of times the message was consumed before.
    pub reconsume_times: i32,
    /// Unit mode of the producer.
    pub unit_mode: bool,
    /// Most times that the message may be consumed, if the client states it.
    pub max_reconsume_times: Option<i32>,
    /// Whether the body is a client batch.
    pub batch: bool,
    /// Name of the broker that the client addresses.
    pub broker_name: &'a str,
}

/// Names of the first fields in the long and the abbreviated form; a field's index is its bit.
const FIRST: [[&str; 8]; 2] = [
    [
        "producerGroup",
        "topic",
        "defaultTopic",
        "defaultTopicQueueNums",
        "queueId",
        "sysFlag",
        "bornTimestamp",
        "flag",
    ],
    ["a", "b", "c", "d", "e", "f", "g", "h"],
];
/// Bits of fields that Java's class requires but its broker does not need: producer group, default topic and its
/// number of queues.
const NOT_NEEDED: u8 = 0b0000_1101;

impl<'a> SendHeader<'a> {
    /// Decodes the header of a send request; `code` decides between long and abbreviated names.
    pub fn decode(code: i32, fields: &Fields<'a>) -> Result<Self, FieldError> {
        let short = !matches!(code, request::SEND_MESSAGE | request::SEND_REPLY_MESSAGE);
        let mut header = Self::default();
        let mut seen = NOT_NEEDED;
        for (key, value) in fields.iter() {
            let position = if short { short_position(key) } else { long_position(key) };
            let Some(position) = position else { continue };
            if position < 8 {
                seen |= 1 << position;
            }
            header.set(position, value)?;
        }
        if seen != u8::MAX {
            return Err(FieldError::Missing(FIRST[usize::from(short)][seen.trailing_ones() as usize]));
        }
        Ok(header)
    }

    fn set(&mut self, position: u8, value: &'a [u8]) -> Result<(), FieldError> {
        match position {
            0 => self.producer_group = text("producerGroup", value)?,
            1 => self.topic = text("topic", value)?,
            2 => self.default_topic = text("defaultTopic", value)?,
            3 => self.default_topic_queue_nums = number("defaultTopicQueueNums", value)?,
            4 => self.queue_id = number("queueId", value)?,
            5 => self.sys_flag = number("sysFlag", value)?,
            6 => self.born_timestamp = number("bornTimestamp", value)?,
            7 => self.flag = number("flag", value)?,
            8 => self.properties = value,
            9 => self.reconsume_times = number("reconsumeTimes", value)?,
            10 => self.unit_mode = boolean(value),
            11 => self.max_reconsume_times = Some(number("maxReconsumeTimes", value)?),
            12 => self.batch = boolean(value),
            _ => self.broker_name = text("bname", value)?,
        }
        Ok(())
    }

    /// Writes the header with abbreviated names (requests 310, 320 and 325).
    pub fn write<'b>(&self, writer: FrameWriter<'b>) -> FrameWriter<'b> {
        let mut writer = writer
            .text("a", self.producer_group)
            .text("b", self.topic)
            .text("c", self.default_topic)
            .number("d", self.default_topic_queue_nums)
            .number("e", self.queue_id)
            .number("f", self.sys_flag)
            .number("g", self.born_timestamp)
            .number("h", self.flag);
        if !self.properties.is_empty() {
            writer = writer.bytes("i", self.properties);
        }
        writer = writer.number("j", self.reconsume_times).flag("k", self.unit_mode);
        if let Some(times) = self.max_reconsume_times {
            writer = writer.number("l", times);
        }
        writer = writer.flag("m", self.batch);
        if self.broker_name.is_empty() { writer } else { writer.text("n", self.broker_name) }
    }
}

fn short_position(key: &[u8]) -> Option<u8> {
    match key {
        [letter @ b'a'..=b'n'] => Some(letter - b'a'),
        _ => None,
    }
}

fn long_position(key: &[u8]) -> Option<u8> {
    Some(match key {
        b"producerGroup" => 0,
        b"topic" => 1,
        b"defaultTopic" => 2,
        b"defaultTopicQueueNums" => 3,
        b"queueId" => 4,
        b"sysFlag" => 5,
        b"bornTimestamp" => 6,
        b"flag" => 7,
        b"properties" => 8,
        b"reconsumeTimes" => 9,
        b"unitMode" => 10,
        b"maxReconsumeTimes" => 11,
        b"batch" => 12,
        b"bname" => 13,
        _ => return None,
    })
}

/// Header of the response to a send (`SendMessageResponseHeader`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendResponseHeader<'a> {
    /// Offset message id, or a comma-separated list of them for a batch.
    pub message_id: &'a str,
    /// Queue id of the message.
    pub queue_id: i32,
    /// Queue offset of the message, or of the first message in a batch.
    pub queue_offset: i64,
    /// `UNIQ_KEY` of the message.
    pub transaction_id: Option<&'a str>,
}

impl<'a> SendResponseHeader<'a> {
    /// Reads the header of a successful response.
    pub fn decode(fields: &Fields<'a>) -> Result<Self, FieldError> {
        Ok(Self {
            message_id: fields.need("msgId")?,
            queue_id: fields.need_number("queueId")?,
            queue_offset: fields.need_number("queueOffset")?,
            transaction_id: fields.text("transactionId"),
        })
    }

    /// Writes the header.
    pub fn write<'b>(&self, writer: FrameWriter<'b>) -> FrameWriter<'b> {
        writer
            .text("msgId", self.message_id)
            .number("queueId", self.queue_id)
            .number("queueOffset", self.queue_offset)
            .maybe("transactionId", self.transaction_id)
    }
}
