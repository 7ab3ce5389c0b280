//! Transaction ids, which contain the position of the half message. So a decision finds the half message while it
//! exists, even after a restart. Clients do not interpret the id.

use std::fmt::{Display, Formatter};

use wire::units::{LogOffset, QueueOffset};

/// Transaction id: `<message id>-<queue offset of the half message>-<its log offset>@<broker>`, the numbers in
/// hexadecimal. Names of brokers are like those of topics, so they have no `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionId<'a> {
    pub message_id: &'a str,
    pub half_offset: QueueOffset,
    pub log_offset: LogOffset,
    /// Name of the broker that stores the half message.
    pub broker: &'a str,
}

impl<'a> TransactionId<'a> {
    /// Parses an id; `None` when the text is not one.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (text, broker) = text.rsplit_once('@')?;
        let mut parts = text.rsplitn(3, '-');
        let mut number = || i64::from_str_radix(parts.next()?, 16).ok();
        let (log_offset, half_offset) = (LogOffset::from_i64(number()?)?, QueueOffset::from_i64(number()?)?);
        Some(Self { message_id: parts.next()?, half_offset, log_offset, broker })
    }
}

impl Display for TransactionId<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { message_id, half_offset, log_offset, broker } = self;
        write!(out, "{message_id}-{:x}-{:x}@{broker}", half_offset.get(), log_offset.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_where_the_half_message_is() {
        let (half_offset, log_offset) = (QueueOffset::new(7), LogOffset::new(0xabc));
        let id = TransactionId { message_id: "01-A", half_offset, log_offset, broker: "broker-a" };
        assert_eq!(id.to_string(), "01-A-7-abc@broker-a");
        assert_eq!(TransactionId::parse("01-A-7-abc@broker-a"), Some(id));
        let (largest, larger) = ("a-7-7fffffffffffffff@b", "a-7-8000000000000000@b");
        assert!(TransactionId::parse(largest).is_some());
        for text in ["", "01A", "a-b", "a-x-1", "01-A-7-abc", "a-x-1@b", larger, "a-ffffffffffffffff-1@b"] {
            assert_eq!(TransactionId::parse(text), None, "{text}");
        }
    }
}
