//! Seals: a field that Vostok's own callers sign with a request. RocketMQ's signature covers the values of fields and the body
//! alone. So a recorded request can be sent again at any time, to any server and with any code. A seal names code, receiver and
//! time, and no two seals are equal. Servers that do not know seals sign and ignore the field like any other.

use std::fmt;

use crate::codes::request;

/// Name of the field.
pub const SEAL: &str = "vostokSeal";

/// The content of a seal, as text `code;time;nonce;receiver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal<'a> {
    /// Code of the request.
    pub code: i32,
    /// Time of the caller's clock, in milliseconds since 1970.
    pub time_ms: i64,
    /// Text that no other seal has.
    pub nonce: &'a str,
    /// Address of the server, as dialed by the caller.
    pub receiver: &'a str,
}

impl<'a> Seal<'a> {
    /// Parses a seal; `None` for another text.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(4, ';');
        let (code, time) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let nonce = parts.next().filter(|nonce| (1..=64).contains(&nonce.len()))?;
        Some(Self { code, time_ms: time, nonce, receiver: parts.next()? })
    }
}

impl fmt::Display for Seal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};{};{};{}", self.code, self.time_ms, self.nonce, self.receiver)
    }
}

/// Whether callers seal requests of a code: all requests except on the path of messages, and except requests with which brokers
/// register and fetch tables. Clocks of brokers differ for a while after a clock is adjusted. Such a difference must not remove a
/// broker from the routes.
pub const fn is_sealed(code: i32) -> bool {
    !matches!(
        code,
        request::SEND_MESSAGE
            | request::SEND_MESSAGE_V2
            | request::SEND_BATCH_MESSAGE
            | request::PULL_MESSAGE
            | request::LITE_PULL_MESSAGE
            | request::QUERY_CONSUMER_OFFSET
            | request::UPDATE_CONSUMER_OFFSET
            | request::CONSUMER_SEND_MSG_BACK
            | request::END_TRANSACTION
            | request::HEART_BEAT
            | request::POP_MESSAGE
            | request::POP_LITE_MESSAGE
            | request::PEEK_MESSAGE
            | request::ACK_MESSAGE
            | request::BATCH_ACK_MESSAGE
            | request::CHANGE_MESSAGE_INVISIBLETIME
            | request::NOTIFICATION
            | request::POLLING_INFO
            | request::GET_ROUTEINFO_BY_TOPIC
            | request::REGISTER_BROKER
            | request::UNREGISTER_BROKER
            | request::REGISTER_TOPIC_IN_NAMESRV
            | request::QUERY_DATA_VERSION
            | request::BROKER_HEARTBEAT
            | request::GET_BROKER_MEMBER_GROUP
            | request::EXCHANGE_BROKER_HA_INFO
            | request::GET_ALL_TOPIC_CONFIG
            | request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            | request::GET_ALL_CONSUMER_OFFSET
            | request::GET_ALL_DELAY_OFFSET
            | request::GET_ALL_MESSAGE_REQUEST_MODE
            | request::GET_TIMER_CHECK_POINT
            | request::VOSTOK_TABLE_CHANGES
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_read_as_it_was_written() {
        let seal = Seal { code: 3005, time_ms: 7, nonce: "ab", receiver: "[::1]:10911" };
        assert_eq!(Seal::parse(&seal.to_string()), Some(seal));
        for text in ["", "1;2;3", "x;2;a;b", "1;x;a;b", "1;2;;b"] {
            assert_eq!(Seal::parse(text), None, "{text}");
        }
        assert_eq!(Seal::parse(&format!("1;2;{};b", "n".repeat(65))), None);
    }
}
