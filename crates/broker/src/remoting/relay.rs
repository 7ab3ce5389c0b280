//! Operators' requests that the broker passes on to consumers: 223, 307 and 309.

use auth::{ACCESS_KEY, SECURITY_TOKEN, SIGNATURE};
use wire::fields::Fields;

use super::codec::is_plain_key;
use super::incoming::Request;
use crate::Result;
use crate::client_relay::{self, Answered, Consumer};

/// Returns the function that answers the operator.
fn answered(r: &Request<'_>) -> Answered {
    let reply = r.late_reply();
    Box::new(move |answer| reply.answer(answer.code, answer.remark.as_deref(), &answer.body))
}

fn consumer<'a>(r: &Request<'a>) -> Result<Consumer<'a>> {
    Ok(Consumer { group: r.need("consumerGroup")?, client_id: r.text("clientId").unwrap_or_default() })
}

/// Fields with the operator's credentials. A consumer that got them could send the same fields under another request code, because
/// signatures do not cover the code.
const CREDENTIALS: [&str; 3] = [ACCESS_KEY, SIGNATURE, SECURITY_TOKEN];

/// Returns the header fields of a request for a client: all but [`CREDENTIALS`], and fields that no request of RocketMQ
/// has ([`is_plain_key`]).
fn passed_on(fields: &Fields<'_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = fields.iter().map(|(key, value)| (text(key), text(value)));
    all.filter(|(key, _)| !CREDENTIALS.contains(&key.as_str()) && is_plain_key(key)).collect()
}

/// Serves 307 `GET_CONSUMER_RUNNING_INFO`.
pub(super) fn running_info(r: &Request<'_>, _: &mut Vec<u8>) -> Result<()> {
    client_relay::running_info(&r.broker.sessions, &consumer(r)?, passed_on(&r.command.fields), answered(r))
}

/// Serves 309 `CONSUME_MESSAGE_DIRECTLY`.
pub(super) fn consume(r: &Request<'_>, _: &mut Vec<u8>) -> Result<()> {
    let message = (r.need("msgId")?, r.text("topic"));
    client_relay::consume(
        &r.broker.operator_parts(),
        &consumer(r)?,
        message,
        passed_on(&r.command.fields),
        answered(r),
    )
}

/// Serves 223 `INVOKE_BROKER_TO_GET_CONSUMER_STATUS`.
pub(super) fn status(r: &Request<'_>, _: &mut Vec<u8>) -> Result<()> {
    let names = (r.need("topic")?, r.need("group")?);
    let client_id = r.text("clientAddr").map(str::trim).unwrap_or_default();
    client_relay::status(&r.broker.sessions, names, client_id, answered(r))
}

#[cfg(test)]
mod tests {
    use wire::frame::{Command, Encoding, FrameWriter, Head};

    use super::*;

    #[test]
    fn a_consumer_does_not_get_the_operators_credentials() {
        for encoding in [Encoding::Json, Encoding::Binary] {
            let mut bytes = Vec::new();
            FrameWriter::begin(&mut bytes, Head::request(encoding, 307, 1))
                .text("consumerGroup", "g")
                .text("AccessKey", "root")
                .text("Signature", "c2ln")
                .text("SecurityToken", "token")
                .text("jstackEnable", "true")
                .text(r#"a\"key"#, "escaped in JSON")
                .finish(b"");
            let command = Command::decode(&mut bytes).unwrap();
            let found = passed_on(&command.fields);
            let expected = [("consumerGroup", "g"), ("jstackEnable", "true")];
            assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
    }
}
