//! Letting a broker ask again about a half message that it gave up.

use super::find::find;
use crate::operation::Typed;
use crate::request::Request;
use crate::{Arguments, Error, Session};
use serde::Serialize;
use wire::codes::request;

/// A message that brokers are to ask about again.
#[derive(Serialize)]
pub(super) struct Resumed {
    broker: String,
    message_id: String,
}

impl Typed for Resumed {}

/// Puts a message of `TRANS_CHECK_MAX_TIME_TOPIC` back among the undecided ones
/// (`AdminBrokerProcessor.resumeCheckHalfMessage`).
pub(super) async fn resume(session: &Session, arguments: &Arguments) -> Result<Resumed, Error> {
    let message = find(session, arguments.need("topic")?, arguments.need("id")?.trim()).await?;
    let (broker, message_id) = (message.store_host.to_string(), message.offset_id());
    let ask = Request::new(request::RESUME_CHECK_HALF_MESSAGE)
        .with("topic", arguments.need("topic")?)
        .with("msgId", &message_id);
    session.change(&broker, &ask).await?;
    Ok(Resumed { broker, message_id })
}
