//! What became of a send.

use super::prepare::Prepared;
use crate::Error;
use crate::remote::accept;
use net::Reply;
use wire::body::MessageQueue;
use wire::codes::response;

/// How well a message is stored (`SendStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStatus {
    /// As the broker's mode promises.
    Stored,
    /// Stored, but not flushed in time.
    FlushDiskTimeout,
    /// Stored, but not on a slave in time.
    FlushSlaveTimeout,
    /// Stored, but there is no slave.
    SlaveNotAvailable,
}

/// A send that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendOutcome {
    /// How well.
    pub status: SendStatus,
    /// Id the producer gave the message; ids separated by commas for a batch.
    pub message_id: String,
    /// Id the broker gave it: its address and position.
    pub offset_id: String,
    /// Queue it went to.
    pub queue: MessageQueue,
    /// Number in the queue, of the first message for a batch.
    pub queue_offset: i64,
    /// Id of its transaction, if the broker says so.
    pub transaction_id: Option<String>,
    /// What a message for a point in time is taken back with.
    pub recall_handle: Option<String>,
}

impl SendOutcome {
    pub(super) fn read(
        address: &str,
        queue: &MessageQueue,
        prepared: &Prepared,
        reply: Reply,
    ) -> Result<Self, Error> {
        let (status, code) = match reply.code {
            response::FLUSH_DISK_TIMEOUT => (SendStatus::FlushDiskTimeout, response::SUCCESS),
            response::FLUSH_SLAVE_TIMEOUT => (SendStatus::FlushSlaveTimeout, response::SUCCESS),
            response::SLAVE_NOT_AVAILABLE => (SendStatus::SlaveNotAvailable, response::SUCCESS),
            code => (SendStatus::Stored, code),
        };
        let reply = accept(address, Reply { code, ..reply })?;
        let field = |name: &str| {
            reply.text(name).ok_or_else(|| Error::Answer {
                address: address.to_owned(),
                why: format!("the answer to a send has no {name}"),
            })
        };
        let number = |name: &str| {
            let text = field(name)?;
            text.parse::<i64>().map_err(|_| Error::Answer {
                address: address.to_owned(),
                why: format!("expected a number as {name}, found {text:?}"),
            })
        };
        let queue_id = i32::try_from(number("queueId")?).unwrap_or(queue.queue_id);
        Ok(Self {
            status,
            message_id: reply.text("batchUniqId").unwrap_or(&prepared.message_id).to_owned(),
            offset_id: field("msgId")?.to_owned(),
            queue: MessageQueue { queue_id, ..queue.clone() },
            queue_offset: number("queueOffset")?,
            transaction_id: reply.text("transactionId").map(str::to_owned),
            recall_handle: reply.text("recallHandle").map(str::to_owned),
        })
    }
}
