//! Messages by id, key and place.

use super::track::tracks;
use super::view::{ByUniqueKey, MessagesByKey, View};
use crate::request::{for_each, split};
use crate::{Arguments, Error, Session};
use client::{MessageQuery, PullRequest, PullStatus, Received};
use wire::body::MessageQueue;
use wire::id::OffsetId;

/// Group in whose name messages are read (`MixAll.TOOLS_CONSUMER_GROUP`).
pub(crate) const TOOLS_GROUP: &str = "TOOLS_CONSUMER";
/// Half of the time window in which a message is sought by its producer's id, unless the operator gives another window.
const WINDOW_MS: i64 = 36 * 3_600_000;

/// A message with the groups that have consumed it, as far as these are known.
async fn tracked(session: &Session, message: &Received) -> View {
    let view = View::new(message);
    match tracks(session, message).await {
        Ok(tracks) => view.with_tracks(tracks),
        Err(why) => view.without_tracks(session.note(vec![why]).join("; ")),
    }
}

fn missing(what: &str) -> Error {
    Error::NotFound(format!("no message with {what} was found"))
}

/// Returns the messages that the brokers of a topic found, and the failures of the other brokers.
///
/// # Errors
/// The first failure when no broker found a message, because one that did not answer may have it.
pub(super) async fn query(session: &Session, query: &MessageQuery<'_>) -> Result<Found, Error> {
    query_in(session, query, &Arguments::default()).await
}

/// Messages that were found, and the failures of brokers that did not answer.
type Found = (Vec<Received>, Vec<Error>);

/// Queries like [`query`], but each broker of one cluster alone if the arguments name a cluster.
async fn query_in(
    session: &Session,
    query: &MessageQuery<'_>,
    arguments: &Arguments,
) -> Result<Found, Error> {
    let brokers = session.brokers_in(query.topic, arguments).await?;
    let outcomes = for_each(brokers, |(name, address)| async move {
        session.client.query_messages(&address, &name, query).await.map_err(Error::from)
    });
    let (found, mut failures) = split(outcomes.await)?;
    let found: Vec<Received> = found.into_iter().flatten().collect();
    if found.is_empty() && !failures.is_empty() {
        return Err(failures.swap_remove(0));
    }
    Ok((found, failures))
}

pub(super) async fn by_id(session: &Session, arguments: &Arguments) -> Result<View, Error> {
    let message = find(session, arguments.need("topic")?, arguments.need("id")?.trim()).await?;
    Ok(tracked(session, &message).await)
}

/// A message by the id that its broker gave it, or its producer.
pub(super) async fn find(session: &Session, topic: &str, id: &str) -> Result<Received, Error> {
    if let Some(OffsetId { store_host, log_offset }) = OffsetId::parse(id) {
        let address = store_host.to_string();
        if let Ok(message) = session.client.view_message(&address, topic, log_offset.to_i64()).await {
            return Ok(message);
        }
    }
    let ask = MessageQuery { is_unique: true, ..MessageQuery::new(topic, id) };
    // What other brokers would have said does not matter once the message is found.
    let (found, _) = query(session, &ask).await?;
    found.into_iter().next().ok_or_else(|| missing(&format!("the id {id}")))
}

pub(super) async fn by_unique_key(session: &Session, arguments: &Arguments) -> Result<ByUniqueKey, Error> {
    let (topic, id) = (arguments.need("topic")?, arguments.need("id")?.trim());
    let begin_ms = session.time(arguments, "begin")?.unwrap_or(session.now_ms - WINDOW_MS);
    let end_ms = session.time(arguments, "end")?.unwrap_or(session.now_ms + WINDOW_MS);
    let ask = MessageQuery { is_unique: true, begin_ms, end_ms, max: 32, ..MessageQuery::new(topic, id) };
    let (found, failures) = query_in(session, &ask, arguments).await?;
    if found.is_empty() {
        return Err(missing(&format!("the id {id}")));
    }
    let count = if arguments.is_on("all") { found.len() } else { 1 };
    if arguments.is_on("all") {
        session.note(failures);
    }
    let mut views = Vec::new();
    for message in found.iter().take(count) {
        views.push(tracked(session, message).await);
    }
    Ok(ByUniqueKey(views))
}

pub(super) async fn by_key(session: &Session, arguments: &Arguments) -> Result<MessagesByKey, Error> {
    let (topic, key) = (arguments.need("topic")?, arguments.need("key")?.trim());
    let plain = MessageQuery::new(topic, key);
    let ask = MessageQuery {
        begin_ms: session.time(arguments, "begin")?.unwrap_or(plain.begin_ms),
        end_ms: session.time(arguments, "end")?.unwrap_or(plain.end_ms),
        max: arguments.parse("max")?.unwrap_or(plain.max),
        kind: arguments.get("type"),
        ..plain
    };
    let (found, failures) = query_in(session, &ask, arguments).await?;
    if found.is_empty() {
        return Err(missing(&format!("the key {key}")));
    }
    session.note(failures);
    Ok(MessagesByKey(found.iter().map(View::new).collect()))
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
            let view = tracked(session, message).await;
            Ok(view.with_bounds(pulled.min_offset, pulled.max_offset))
        }
        None => Err(missing(&format!("the offset {offset} in queue {id}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Answer;
    use crate::testing::{Received, ServerAnswer, with_cluster};
    use wire::body::GroupList;
    use wire::codes::{request, response};
    use wire::record;

    /// A stored message of the topic T.
    fn stored() -> Vec<u8> {
        let host = "127.0.0.1:10911".parse().unwrap();
        let fields = record::RecordFields {
            topic: "T",
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"text",
            properties: b"",
            crc_property: false,
        };
        let mut bytes = Vec::new();
        record::encode(&fields, &mut bytes).unwrap();
        bytes
    }

    /// Answers of the brokers a and b, where a does not answer. `has_message` says whether b has the message.
    fn answers(has_message: bool) -> impl Fn(&str, &Received) -> Option<ServerAnswer> {
        move |broker, asked| match (broker, asked.code) {
            ("b", request::QUERY_MESSAGE) if has_message => ServerAnswer::bytes(stored()),
            ("b", request::QUERY_MESSAGE) => ServerAnswer::refused(response::QUERY_NOT_FOUND),
            ("b", request::QUERY_TOPIC_CONSUME_BY_WHO) => {
                ServerAnswer::body(&GroupList { group_list: vec!["G".to_owned()] })
            }
            ("b", _) => ServerAnswer::refused(response::CONSUMER_NOT_ONLINE),
            _ => None,
        }
    }

    fn given() -> Arguments {
        let mut arguments = Arguments::default();
        [("topic", "T"), ("key", "k"), ("id", "k")]
            .iter()
            .for_each(|(name, value)| arguments.set(name, *value));
        arguments
    }

    #[test]
    fn a_broker_that_does_not_answer_hides_no_message_of_the_others() {
        with_cluster(&["a", "b"], answers(true), async |session: &Session| {
            assert_eq!(by_key(session, &given()).await.unwrap().0.len(), 1);
            assert_eq!(session.take_failures().len(), 1, "the operator learns of a");
            let view = by_id(session, &given()).await.unwrap().value();
            assert_eq!((&view["tracks"][0]["group"], session.failures().len()), (&"G".into(), 0));
        });
    }

    #[test]
    fn a_message_that_a_silent_broker_may_have_is_not_said_to_be_missing() {
        with_cluster(&["a", "b"], answers(false), async |session: &Session| {
            let refused = by_key(session, &given()).await.map(drop).unwrap_err();
            assert!(!matches!(refused, Error::NotFound(_)), "{refused}");
        });
    }

    #[test]
    fn a_message_is_shown_even_if_nobody_knows_who_consumed_it() {
        let answers = |_: &str, asked: &Received| match asked.code {
            request::QUERY_MESSAGE => ServerAnswer::bytes(stored()),
            _ => None,
        };
        with_cluster(&["a"], answers, async |session: &Session| {
            let view = by_id(session, &given()).await.unwrap();
            assert!(view.value()["tracks_error"].is_string());
            assert_eq!(session.failures().len(), 1);
            let text = Answer::mqadmin(&view, &given());
            assert!(text.ends_with("text\n") && !text.contains("No Consumer"), "{text}");
        });
    }
}
