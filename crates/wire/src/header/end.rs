//! `EndTransactionRequestHeader`: a producer commits or rolls back its half message.

use crate::frame::FrameWriter;
use crate::record::sys_flag;

/// A producer's decision about a half message, the header field `commitOrRollback` (`MessageSysFlag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The message is delivered to consumers.
    Commit,
    /// The message is discarded.
    Rollback,
    /// The producer does not know yet; the broker checks again later.
    Unknown,
}

impl Decision {
    /// The number in the header field.
    pub fn flag(self) -> i32 {
        match self {
            Self::Commit => sys_flag::TRANSACTION_COMMIT,
            Self::Rollback => sys_flag::TRANSACTION_ROLLBACK,
            Self::Unknown => 0,
        }
    }
}

/// Header of request 37 (`END_TRANSACTION`).
#[derive(Clone, Copy, Debug)]
pub struct EndTransaction<'a> {
    /// Producer group of the half message.
    pub producer_group: &'a str,
    /// Real topic of the message; not written when empty.
    pub topic: &'a str,
    /// Queue offset of the half message (`tranStateTableOffset`).
    pub queue_offset: i64,
    /// Log position of the half message (`commitLogOffset`).
    pub log_offset: i64,
    /// The producer's decision.
    pub decision: Decision,
    /// Whether this answers a check by the broker.
    pub from_check: bool,
    /// Unique key of the message.
    pub message_id: &'a str,
    /// Transaction id of the message.
    pub transaction_id: &'a str,
}

impl EndTransaction<'_> {
    /// Writes the header.
    pub fn write<'b>(&self, writer: FrameWriter<'b>) -> FrameWriter<'b> {
        let writer = if self.topic.is_empty() { writer } else { writer.text("topic", self.topic) };
        writer
            .text("producerGroup", self.producer_group)
            .number("tranStateTableOffset", self.queue_offset)
            .number("commitLogOffset", self.log_offset)
            .number("commitOrRollback", self.decision.flag())
            .flag("fromTransactionCheck", self.from_check)
            .text("msgId", self.message_id)
            .text("transactionId", self.transaction_id)
    }
}
