//! Receipt handles: the broker's handle and, as a ninth field, where the message's record begins in the log.

use std::fmt::{Display, Formatter};

use broker::api::{Caller, Invisible, PoppedMessage};
use grpc::messages::Code;
use wire::pop::Handle;

use crate::failure::{Failure, Result};

/// A receipt handle as clients carry it; Java proxies read the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt<'a> {
    pub handle: Handle<'a>,
    pub queue_id: i32,
    pub offset: i64,
    /// Log offset of the record. -1 if the handle does not contain it.
    pub log_offset: i64,
}

/// A popped message, with the broker and the lite topic that it came from.
#[derive(Clone, Copy)]
pub struct PopRef<'a> {
    /// Name of the broker that the message is on.
    pub broker: &'a str,
    pub message: PoppedMessage<'a>,
    /// The lite topic that the message was popped from; empty for none.
    pub lite_topic: &'a str,
}

/// A change of the invisible time of a message (`ChangeInvisibleTimeRequestHeader`).
#[derive(Clone, Copy)]
pub struct ChangeInvisibleTime<'a> {
    pub held: PopRef<'a>,
    pub invisible_ms: i64,
    /// Whether the delivery of a message of a lite topic is not to count.
    pub suspend: bool,
}

/// Result of changing the invisible time, for a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub pop_ms: i64,
    pub invisible_ms: i64,
    pub revive_queue: i32,
}

impl From<Invisible> for Changed {
    fn from(Invisible { pop_ms, invisible_ms, revive_queue, .. }: Invisible) -> Self {
        Self { pop_ms, invisible_ms, revive_queue }
    }
}

impl<'a> Receipt<'a> {
    /// Parses a handle.
    ///
    /// # Errors
    /// `INVALID_RECEIPT_HANDLE` for a text that is no handle: clients repeat their request for ever with any other code.
    pub fn parse(text: &'a str) -> Result<Self> {
        let invalid = || Failure::new(Code::InvalidReceiptHandle, "receipt handle is invalid");
        let handle = Handle::parse(text).ok_or_else(invalid)?;
        let (Some(queue_id), Some(offset)) = (handle.queue_id, handle.offset) else { return Err(invalid()) };
        let log_offset = match text.split(' ').nth(8) {
            Some(field) => field.parse().map_err(|_| invalid())?,
            None => -1,
        };
        Ok(Self { handle, queue_id, offset, log_offset })
    }

    /// Checks that the message is still invisible. If `only` names the only broker, checks that the handle is from
    /// it.
    ///
    /// # Errors
    /// `INVALID_RECEIPT_HANDLE` otherwise.
    pub fn check(&self, only: Option<&str>, now_ms: i64) -> Result<()> {
        let Handle { broker_name, .. } = self.handle;
        if self.visible_ms() <= now_ms {
            return Err(Failure::new(Code::InvalidReceiptHandle, "receipt handle is expired"));
        }
        if only.is_some_and(|only| only != broker_name) {
            return Err(broker_missing(broker_name));
        }
        Ok(())
    }

    /// When the message becomes visible again.
    pub fn visible_ms(&self) -> i64 {
        self.handle.pop_ms.saturating_add(self.handle.invisible_ms)
    }

    /// The message for the broker, which is stored in `topic`; `named` is its group and the text of the handle.
    pub fn popped<'b>(
        &self,
        caller: &'b Caller,
        topic: &'b str,
        named: (&'b str, &'b str),
    ) -> PoppedMessage<'b> {
        let (group, handle) = named;
        PoppedMessage { caller, group, topic, queue_id: self.queue_id, offset: self.offset, handle }
    }

    /// The handle after a change of the invisible time. It keeps the log offset of the message, which a later
    /// move to the dead letter topic needs.
    pub fn changed(&self, changed: &Changed) -> String {
        let handle = Handle {
            start_offset: self.offset,
            pop_ms: changed.pop_ms,
            invisible_ms: changed.invisible_ms,
            revive_queue: changed.revive_queue,
            ..self.handle
        };
        Receipt { handle, ..*self }.to_string()
    }

    /// The topic that the message is stored in.
    pub fn topic(&self, topic: &str, group: &str) -> String {
        self.handle.kind.topic(topic, group)
    }
}

/// Makes the failure for a handle of a missing broker.
pub fn broker_missing(broker: &str) -> Failure {
    Failure::new(Code::InvalidReceiptHandle, format!("cannot find broker {broker}"))
}

impl Display for Receipt<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.handle, self.log_offset)
    }
}

#[cfg(test)]
mod tests;
