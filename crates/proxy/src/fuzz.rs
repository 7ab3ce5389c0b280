//! Entry points of a fuzzer: input of strangers, and its processing before a broker gets a request.

use std::net::{Ipv4Addr, SocketAddr};

use broker::api::{Caller, Subject};

use crate::config::Config;
use crate::convert;
use crate::receipt::{Changed, Receipt};
use crate::transaction_id::TransactionId;
use grpc::messages::*;

/// Checks that bytes are a valid request or an error, and that encoding a valid request and decoding it again
/// gives the same request. Returns the request, or `None` for an error.
fn same<M: prost::Message + Default>(data: &[u8]) -> Option<M> {
    let message = M::decode(data).ok()?;
    let bytes = message.encode_to_vec();
    let again = M::decode(&*bytes).map(|again| again.encode_to_vec());
    assert_eq!(again.as_ref(), Ok(&bytes));
    Some(message)
}

/// Decodes requests and encodes them again. Converts the messages of a `SendMessageRequest`, and checks that the converted
/// properties hold the message id.
pub fn messages(data: &[u8]) {
    same::<QueryRouteRequest>(data);
    same::<QueryAssignmentRequest>(data);
    same::<ReceiveMessageRequest>(data);
    same::<AckMessageRequest>(data);
    same::<ForwardMessageToDeadLetterQueueRequest>(data);
    same::<HeartbeatRequest>(data);
    same::<EndTransactionRequest>(data);
    same::<NotifyClientTerminationRequest>(data);
    same::<ChangeInvisibleDurationRequest>(data);
    same::<RecallMessageRequest>(data);
    if let Some(TelemetryCommand { command: Some(Command::Settings(settings)), .. }) = same(data) {
        assert!(settings_json(&settings).is_object());
    }
    let Some(request) = same::<SendMessageRequest>(data) else { return };
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let caller = Caller { remote, version: 0, user: Subject::Off };
    for message in &request.messages {
        if convert::check(&Config::default(), message, 1).is_ok() {
            let outgoing = convert::outgoing(message, &caller, 1);
            let kept = message.system_properties.as_ref().map(|system| system.message_id.as_str());
            let found = wire::properties::get_str(&outgoing.properties, wire::properties::key::UNIQ_KEY);
            assert_eq!(found, kept);
        }
    }
}

/// Parses receipt handles and transaction ids. A valid text is written again as an equivalent text.
pub fn handles(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(receipt) = Receipt::parse(text) {
        let written = receipt.to_string();
        assert_eq!(Receipt::parse(&written).as_ref(), Ok(&receipt));
        let _ = receipt.check(Some("b"), 1);
        let changed = receipt.changed(&Changed { pop_ms: 1, invisible_ms: 2, revive_queue: 3 });
        assert_eq!(Receipt::parse(&changed).map(|it| it.log_offset), Ok(receipt.log_offset));
    }
    if let Some(id) = TransactionId::parse(text) {
        assert_eq!(TransactionId::parse(&id.to_string()), Some(id));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_clients_send_passes() {
        super::handles(b"100 1700000000000 60000 3 2 broker-a 2 105 4711");
        super::handles(b"01-A-7-abc@broker-a");
        super::handles(b"1-110001107-a1107-ab1c0001b1c00011@");
        super::handles(b"\xff");
        super::messages(b"");
        super::messages(b"\x0a\x02\x0a\x00");
        super::messages(b"\x0a\x18\x0a\x03\x12\x01T\x1a\x0b\x1a\x05id\x02TA\x28\x01\x30\x01\x22\x04body");
    }
}
