//! May a caller reach the message that it names by a place in the log? RocketMQ checks the topic that the request names, if it
//! names one, and takes whatever message is at the place. With `authorizationStrict` the topic of the message itself counts.

use std::borrow::Cow;

use auth::audit::Origin;
use auth::{Actions, Request, Resource};
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::LogOffset;

use crate::broker::Broker;
use crate::caller::Caller;
use crate::gate::{Need, Verified};
use crate::{Refusal, names};

/// Refuses a request for the message at `at` when its caller may do none of `actions` on the message's topic. A place without a
/// message is not refused here. May wait for the disk, only with `authorizationStrict`.
///
/// # Errors
/// `NO_PERMISSION` with RocketMQ's text.
pub(crate) fn authorize(
    broker: &Broker,
    (caller, request): (&Caller, Request<'_>),
    at: LogOffset,
    actions: Actions,
) -> Result<(), Refusal> {
    let gate = &broker.gate;
    if !gate.is_authorizing() || !gate.auth().settings().is_strict {
        return Ok(());
    }
    let mut bytes = Vec::new();
    if broker.store.record_at(at, &mut bytes).is_err() {
        return Ok(());
    }
    let Ok(record) = RecordView::parse(&bytes) else { return Ok(()) };
    let topic = topic_of(&record);
    let need = Need::new(Resource::topic(&topic), actions);
    let verified = Verified::User(caller.user.clone());
    // The line of the audit log has no connection: the request may have been kept since it came.
    let origin = Origin { address: caller.remote.ip().to_canonical(), connection: 0 };
    let decided = gate.authorize(broker.now_ms(), (verified, request), origin, &[need]);
    decided.map(drop).map_err(|denied| denied.error.into())
}

/// The topic that a message was sent to. The broker's own topics hold messages that wait for their real topic.
fn topic_of<'a>(record: &RecordView<'a>) -> Cow<'a, str> {
    let stored = String::from_utf8_lossy(record.topic());
    let waits = names::is_system_topic(&stored);
    let real = waits.then(|| properties::get_str(record.properties(), key::REAL_TOPIC)).flatten();
    real.map_or(stored, Cow::Borrowed)
}
