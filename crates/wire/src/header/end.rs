//! `EndTransactionRequestHeader`: a producer says what becomes of its half message.

use crate::frame::FrameWriter;
use crate::record::sys_flag;

/// What becomes of a half message, as `commitOrRollback` says it (`MessageSysFlag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Consumers shall see it.
    Commit,
    /// Nobody shall ever see it.
    Rollback,
    /// It is not known yet; the broker asks later.
    Unknown,
}

impl Decision {
    /// The number on the wire.
    #[must_use]
    pub fn flag(self) -> i32 {
        match self {
            Self::Commit => sys_flag::TRANSACTION_COMMIT,
            Self::Rollback => sys_flag::TRANSACTION_ROLLBACK,
            Self::Unknown => 0,
        }
    }
}

/// Header of request 37.
#[derive(Clone, Copy, Debug)]
pub struct EndTransaction<'a> {
    /// Producer group of the half message.
    pub producer_group: &'a str,
    /// Topic the message is for; empty is left out.
    pub topic: &'a str,
    /// The half message's number in its queue.
    pub queue_offset: i64,
    /// Its position in the log.
    pub log_offset: i64,
    /// What becomes of it.
    pub decision: Decision,
    /// This answers a check-back.
    pub from_check: bool,
    /// Its unique key.
    pub message_id: &'a str,
    /// Its transaction.
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
