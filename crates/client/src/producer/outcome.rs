//! The result of a send.

use super::prepare::SendDraft;
use crate::Error;
use crate::remote::accept;
use net::Response;
use wire::body::MessageQueue;
use wire::codes::response;

/// Durability of a stored message (`SendStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStatus {
    /// Stored as the broker's flush and replication modes promise.
    Stored,
    /// Stored, but the flush did not finish in time.
    FlushDiskTimeout,
    /// Stored, but no slave replicated it in time.
    FlushSlaveTimeout,
    /// Stored, but no slave is available.
    SlaveNotAvailable,
}

/// Result of a send whose message was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendOutcome {
    /// Durability of the stored message.
    pub status: SendStatus,
    /// Unique key of the message. Keys of a batch are separated by commas.
    pub message_id: String,
    /// Id that the broker gave the message: its address and the offset in its commit log.
    pub offset_id: String,
    /// Queue in which the message is stored.
    pub queue: MessageQueue,
    /// Offset in the queue; for a batch that of the first message.
    pub queue_offset: i64,
    /// Id of the transaction, if the broker returned one.
    pub transaction_id: Option<String>,
    /// Handle for [`super::Producer::recall`]; only for timed messages.
    pub recall_handle: Option<String>,
}

impl SendOutcome {
    pub(super) fn read(
        address: &str,
        queue: &MessageQueue,
        prepared: &SendDraft,
        reply: Response,
    ) -> Result<Self, Error> {
        let (status, code) = match reply.code {
            response::FLUSH_DISK_TIMEOUT => (SendStatus::FlushDiskTimeout, response::SUCCESS),
            response::FLUSH_SLAVE_TIMEOUT => (SendStatus::FlushSlaveTimeout, response::SUCCESS),
            response::SLAVE_NOT_AVAILABLE => (SendStatus::SlaveNotAvailable, response::SUCCESS),
            code => (SendStatus::Stored, code),
        };
        let reply = accept(address, Response { code, ..reply })?;
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
