//! Permission checks for a message that a request names by its log offset, and for further topics that a
//! message names. RocketMQ checks only the topic that the request names, if any. It serves the message at
//! that log offset, whatever its topic, and ignores further topics. With `authorizationStrict`, the topic of
//! the message itself counts, and so do the further topics.

use std::borrow::Cow;

use auth::audit::Origin;
use auth::{Action, Actions, Permission, Request, Resource};
use wire::codes::request;
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::LogOffset;

use crate::caller::Caller;
use crate::parts::{Runtime, Sessions};
use crate::{Result, names};

/// Refuses a request for the message at `at` when its caller may do none of `actions` on the message's topic.
/// A log offset without a message is not refused here. May wait for the disk, only with
/// `authorizationStrict`.
///
/// # Errors
/// `NO_PERMISSION` with RocketMQ's text.
pub(crate) fn authorize(
    store: &store::Store,
    sessions: &Sessions,
    runtime: &Runtime,
    (caller, request): (&Caller, Request<'_>),
    at: LogOffset,
    actions: Actions,
) -> Result<()> {
    if !is_strict(sessions) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    if store.record_at(at, &mut bytes).is_err() {
        return Ok(());
    }
    let Ok(record) = RecordView::parse(&bytes) else { return Ok(()) };
    let topic = topic_of(&record);
    decide(sessions, runtime, (caller, request), vec![Permission::new(Resource::topic(&topic), actions)])
}

/// Refuses a message if its sender may not send to a topic in its `INNER_MULTI_DISPATCH`.
///
/// # Errors
/// `NO_PERMISSION` with RocketMQ's text.
pub(crate) fn publish<'a>(
    sessions: &Sessions,
    runtime: &Runtime,
    caller: &Caller,
    topics: impl Iterator<Item = &'a str>,
) -> Result<()> {
    if !is_strict(sessions) {
        return Ok(());
    }
    let publishes = Actions::of(&[Action::Pub]);
    let needs = topics.map(|topic| Permission::new(Resource::topic(topic), publishes)).collect();
    decide(sessions, runtime, (caller, Request::Code(request::SEND_MESSAGE_V2)), needs)
}

fn is_strict(sessions: &Sessions) -> bool {
    let auth = sessions.gate.auth();
    auth.is_authorizing() && auth.settings().is_strict
}

fn decide(
    sessions: &Sessions,
    runtime: &Runtime,
    (caller, request): (&Caller, Request<'_>),
    needs: Vec<Permission<'_>>,
) -> Result<()> {
    let origin = Origin::new(caller.remote, 0);
    let auth = sessions.gate.auth();
    Ok(auth.authorize(runtime.now_ms(), (&caller.user, request), origin, || Ok(needs))?)
}

/// The topic that a message was sent to. The broker's own topics hold messages that wait for their real topic.
fn topic_of<'a>(record: &RecordView<'a>) -> Cow<'a, str> {
    let stored = String::from_utf8_lossy(record.topic());
    let waits = names::is_system_topic(&stored);
    let real = waits.then(|| properties::get_str(record.properties(), key::REAL_TOPIC)).flatten();
    real.map_or(stored, Cow::Borrowed)
}
