//! Messages by id, key and place.

use super::track::tracks;
use super::view::{ByKey, ByUniqueKey, View};
use crate::text::parse_time;
use crate::{Arguments, Error, Session};
use client::{MessageQuery, PullRequest, PullStatus, Received};
use wire::body::MessageQueue;
use wire::id::OffsetId;

/// Group in whose name messages are read (`MixAll.TOOLS_CONSUMER_GROUP`).
pub(crate) const TOOLS_GROUP: &str = "TOOLS_CONSUMER";
/// Half of the window in which a message is sought by its producer's id unless the operator says another.
const WINDOW_MS: i64 = 36 * 3_600_000;

/// A time that an argument names; `default` when it was not given.
pub(super) fn time_of(arguments: &Arguments, name: &str, default: i64) -> Result<i64, Error> {
    let Some(text) = arguments.get(name) else { return Ok(default) };
    parse_time(text.trim()).ok_or_else(|| {
        Error::Usage(format!("expected {name} as milliseconds or yyyy-MM-dd#HH:mm:ss:SSS, found {text}"))
    })
}

async fn tracked(session: &Session, message: &Received) -> Result<View, Error> {
    let tracks = tracks(session, message).await?;
    Ok(View::new(message).with_tracks(tracks))
}

fn missing(what: &str) -> Error {
    Error::NotFound(format!("no message with {what} was found"))
}

/// Asks each broker of a topic.
pub(super) async fn query(session: &Session, query: &MessageQuery<'_>) -> Result<Vec<Received>, Error> {
    query_in(session, query, &Arguments::default()).await
}

/// As [`query`], each broker of one cluster alone if the arguments name one.
async fn query_in(
    session: &Session,
    query: &MessageQuery<'_>,
    arguments: &Arguments,
) -> Result<Vec<Received>, Error> {
    let mut found = Vec::new();
    for (name, address) in session.brokers_in(query.topic, arguments).await? {
        found.extend(session.client.query_messages(&address, &name, query).await?);
    }
    Ok(found)
}

pub(super) async fn by_id(session: &Session, arguments: &Arguments) -> Result<View, Error> {
    let message = find(session, arguments.need("topic")?, arguments.need("id")?.trim()).await?;
    tracked(session, &message).await
}

/// A message by the id that its broker gave it, or its producer.
pub(super) async fn find(session: &Session, topic: &str, id: &str) -> Result<Received, Error> {
    if let Some(OffsetId { store_host, log_offset }) = OffsetId::parse(id) {
        let address = store_host.to_string();
        if let Ok(message) = session.client.view_message(&address, topic, log_offset.to_i64()).await {
            return Ok(message);
        }
    }
    let found = query(session, &MessageQuery { is_unique: true, ..MessageQuery::new(topic, id) }).await?;
    found.into_iter().next().ok_or_else(|| missing(&format!("the id {id}")))
}

pub(super) async fn by_unique_key(session: &Session, arguments: &Arguments) -> Result<ByUniqueKey, Error> {
    let (topic, id) = (arguments.need("topic")?, arguments.need("id")?.trim());
    let begin_ms = time_of(arguments, "begin", session.now_ms - WINDOW_MS)?;
    let end_ms = time_of(arguments, "end", session.now_ms + WINDOW_MS)?;
    let ask = MessageQuery { is_unique: true, begin_ms, end_ms, max: 32, ..MessageQuery::new(topic, id) };
    let found = query_in(session, &ask, arguments).await?;
    if found.is_empty() {
        return Err(missing(&format!("the id {id}")));
    }
    let count = if arguments.is_on("all") { found.len() } else { 1 };
    let mut views = Vec::new();
    for message in found.iter().take(count) {
        views.push(tracked(session, message).await?);
    }
    Ok(ByUniqueKey(views))
}

pub(super) async fn by_key(session: &Session, arguments: &Arguments) -> Result<ByKey, Error> {
    let (topic, key) = (arguments.need("topic")?, arguments.need("key")?.trim());
    let plain = MessageQuery::new(topic, key);
    let ask = MessageQuery {
        begin_ms: time_of(arguments, "begin", plain.begin_ms)?,
        end_ms: time_of(arguments, "end", plain.end_ms)?,
        max: arguments.parse("max")?.unwrap_or(plain.max),
        kind: arguments.get("type"),
        ..plain
    };
    let found = query_in(session, &ask, arguments).await?;
    if found.is_empty() {
        return Err(missing(&format!("the key {key}")));
    }
    Ok(ByKey(found.iter().map(View::new).collect()))
}

pub(super) async fn by_offset(session: &Session, arguments: &Arguments) -> Result<View, Error> {
    let number = |name: &'static str| arguments.parse::<i64>(name).map(Option::unwrap_or_default);
    let (offset, id) = (number("offset")?, arguments.parse("queue")?.unwrap_or_default());
    let queue = MessageQueue::new(arguments.need("topic")?, arguments.need("broker")?, id);
    let pull = PullRequest { messages_max: 1, ..PullRequest::new(TOOLS_GROUP, &queue, offset) };
    let pulled = session.client.pull(&pull).await?;
    let found = pulled.messages.iter().find(|message| message.queue_offset == offset);
    match found.filter(|_| pulled.status == PullStatus::Found) {
        Some(message) => {
            let view = tracked(session, message).await?;
            Ok(view.with_bounds(pulled.min_offset, pulled.max_offset))
        }
        None => Err(missing(&format!("the offset {offset} in queue {id}"))),
    }
}
