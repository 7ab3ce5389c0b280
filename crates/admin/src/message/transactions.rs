//! Transactions: the half messages of brokers, joined with their copies and decisions.

use super::find::TOOLS_GROUP;
use crate::operation::Typed;
use crate::request::{Request, for_each, number};
use crate::text::time;
use crate::{Arguments, Error, Session};
use client::{PullRequest, Received};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use wire::body::MessageQueue;
use wire::codes::{request, response};
use wire::names::{CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC};
use wire::properties::key;

/// Half messages of a broker that are read unless the operator says how many.
const LIMIT: i64 = 1000;
/// Decisions of a broker that are read at most, the newest. Each may be about several half messages.
const DECISIONS_MAX: i64 = 4000;
/// Group whose offset is the position before which all half messages are decided (`TransactionalMessageUtil.buildConsumerGroup`).
const GROUP: &str = "CID_RMQ_SYS_TRANS";

/// State of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransactionState {
    /// The producer has not decided; the broker asks.
    Undecided,
    /// The broker asked as often as it may, and asks no more.
    GivenUp,
    /// The producer committed the message or rolled it back.
    Decided,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transaction {
    /// Id that the producer gave the message.
    pub message_id: String,
    /// State.
    pub state: TransactionState,
    /// Topic for which the message is meant.
    pub topic: String,
    /// Tag.
    pub tags: Option<String>,
    /// Keys.
    pub keys: Option<String>,
    /// Group of the producer.
    pub producer_group: String,
    /// Number of times that the broker asked the producer.
    pub checks: i64,
    /// Time at which the producer sent the message.
    pub born_time: String,
    /// The time in ms since the epoch.
    #[serde(skip)]
    pub born_ms: i64,
    /// Age in seconds.
    pub age_seconds: i64,
    /// Name of the broker set.
    pub broker: String,
    /// Topic in which the newest copy is stored.
    pub stored_in: &'static str,
    /// Broker's id of the newest copy.
    pub offset_id: String,
}

/// Transactions of all brokers.
#[derive(Clone, Serialize)]
pub struct Transactions {
    /// The transactions: undecided, given up, then decided, in each the newest first.
    pub transactions: Vec<Transaction>,
    /// The failures of brokers that gave no answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl Typed for Transactions {}

/// Half messages of a broker, with their states.
#[derive(Default)]
struct Halves {
    halves: Vec<Received>,
    given_up: Vec<Received>,
    /// Queue offsets of half messages that are decided or have a newer copy.
    decided: BTreeSet<i64>,
    /// Queue offset before which all half messages are decided.
    done: i64,
}

pub(super) async fn transactions(session: &Session, arguments: &Arguments) -> Result<Transactions, Error> {
    let limit = arguments.parse("limit")?.unwrap_or(LIMIT);
    let mut masters = session.members(None).await?;
    masters.retain(|member| member.id == 0);
    let outcomes = for_each(masters, |member| async move {
        let halves = read(session, &member.name, &member.address, limit).await?;
        Ok(joined(&member.name, session.now_ms, halves))
    });
    let (rows, failures) = crate::request::split(outcomes.await)?;
    let mut transactions: Vec<Transaction> = rows.into_iter().flatten().collect();
    transactions.sort_by_key(|row| (row.state, std::cmp::Reverse(row.born_ms)));
    Ok(Transactions { transactions, failures: session.note(failures) })
}

async fn read(session: &Session, name: &str, address: &str, limit: i64) -> Result<Halves, Error> {
    let half = MessageQueue::new(HALF_TOPIC, name, 0);
    let ask = Request::new(request::QUERY_CONSUMER_OFFSET)
        .with("consumerGroup", GROUP)
        .with("topic", HALF_TOPIC)
        .with("queueId", 0)
        .with("setZeroIfNotFound", false);
    let done = match session.look(address, &ask).await {
        Ok(reply) => number(address, &reply, "offset")?,
        Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => 0,
        Err(error) => return Err(error),
    };
    let halves = last_of(session, &half, limit).await?;
    let ops = last_of(session, &MessageQueue::new(OP_HALF_TOPIC, name, 0), DECISIONS_MAX).await?;
    let given_up = last_of(session, &MessageQueue::new(CHECK_MAX_TIME_TOPIC, name, 0), limit).await?;
    // The body of a decision lists queue offsets of half messages (`TransactionalMessageServiceImpl.fillOpRemoveMap`).
    let decided = ops.iter().flat_map(|op| {
        let text = String::from_utf8_lossy(&op.body);
        text.split(',').filter_map(|offset| offset.trim().parse().ok()).collect::<Vec<i64>>()
    });
    Ok(Halves { halves, given_up, decided: decided.collect(), done })
}

/// The last messages of a queue in their order; none of a queue that no message was stored in.
async fn last_of(session: &Session, queue: &MessageQueue, limit: i64) -> Result<Vec<Received>, Error> {
    let is_missing = |error: &client::Error| {
        matches!(error, client::Error::NoBroker(_)) || error.code() == Some(response::TOPIC_NOT_EXIST)
    };
    let range = async {
        let end = session.client.max_offset(queue).await?;
        Ok((session.client.min_offset(queue).await?.max(end - limit), end))
    };
    let (mut offset, end) = match range.await {
        Ok(range) => range,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut messages = Vec::new();
    while offset < end {
        let pulled = session.client.pull(&PullRequest::new(TOOLS_GROUP, queue, offset)).await?;
        messages.extend(pulled.messages);
        if pulled.next_offset <= offset {
            break;
        }
        offset = pulled.next_offset;
    }
    Ok(messages)
}

/// A row for each transaction of a broker. Each check stores the half message once more, with the same id.
fn joined(broker: &str, now_ms: i64, halves: Halves) -> Vec<Transaction> {
    let Halves { halves, given_up, decided, done } = halves;
    let mut rows: BTreeMap<String, Transaction> = BTreeMap::new();
    let copies = halves.iter().map(|copy| {
        let is_decided = copy.queue_offset < done || decided.contains(&copy.queue_offset);
        let state = if is_decided { TransactionState::Decided } else { TransactionState::Undecided };
        (copy, state, HALF_TOPIC)
    });
    // A message that was given up and asked about again is among the half messages once more.
    let given_up = given_up.iter().map(|copy| (copy, TransactionState::GivenUp, CHECK_MAX_TIME_TOPIC));
    let mut copies: Vec<_> = copies.chain(given_up).collect();
    copies.sort_by_key(|(copy, ..)| copy.log_offset);
    for (copy, state, stored_in) in copies {
        let property = |name: &str| copy.property(name).map(str::to_owned);
        let message_id = property(key::UNIQ_KEY).unwrap_or_else(|| copy.message_id());
        let before = rows.get(&message_id);
        let born_ms = before.map_or(copy.born_timestamp, |row| row.born_ms.min(copy.born_timestamp));
        let checks = property(key::TRANSACTION_CHECK_TIMES).and_then(|text| text.parse().ok());
        let row = Transaction {
            message_id: message_id.clone(),
            state,
            topic: property(key::REAL_TOPIC).unwrap_or_default(),
            tags: copy.tag().map(str::to_owned),
            keys: property(key::KEYS),
            producer_group: property(key::PRODUCER_GROUP).unwrap_or_default(),
            checks: checks.unwrap_or_default(),
            born_time: time(born_ms),
            born_ms,
            age_seconds: (now_ms - born_ms).max(0) / 1000,
            broker: broker.to_owned(),
            stored_in,
            offset_id: copy.offset_id(),
        };
        rows.insert(message_id, row);
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::record;

    /// A copy of a half message at a place in the log.
    fn copy(id: &str, checks: &str, log_offset: usize, queue_offset: i64) -> Received {
        let properties = format!("UNIQ_KEY\u{1}{id}\u{2}REAL_TOPIC\u{1}T\u{2}PGROUP\u{1}P\u{2}{checks}");
        let host = "127.0.0.1:1".parse().unwrap();
        let fields = record::RecordFields {
            topic: HALF_TOPIC,
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1000,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"b",
            properties: properties.as_bytes(),
            crc_property: false,
        };
        let mut bytes = Vec::new();
        record::encode(&fields, &mut bytes).unwrap();
        let received = Received::decode(&bytes).unwrap();
        Received { log_offset: i64::try_from(log_offset).unwrap(), queue_offset, ..received }
    }

    #[test]
    fn copies_of_a_half_message_are_one_transaction() {
        let halves = Halves {
            halves: vec![
                copy("old", "", 1, 3),
                copy("open", "", 2, 4),
                copy("committed", "", 3, 5),
                copy("open", "TRANSACTION_CHECK_TIMES\u{1}1\u{2}", 4, 6),
                copy("open", "TRANSACTION_CHECK_TIMES\u{1}2\u{2}", 6, 7),
                copy("lost", "TRANSACTION_CHECK_TIMES\u{1}15\u{2}", 7, 8),
            ],
            given_up: vec![copy("lost", "TRANSACTION_CHECK_TIMES\u{1}15\u{2}", 8, 0)],
            decided: [5, 6, 8].into(),
            done: 5,
        };
        let rows = joined("a", 61_000, halves);
        let short: Vec<_> = rows.iter().map(|row| (row.message_id.as_str(), row.state, row.checks)).collect();
        let expected = [
            ("committed", TransactionState::Decided, 0),
            ("lost", TransactionState::GivenUp, 15),
            ("old", TransactionState::Decided, 0),
            ("open", TransactionState::Undecided, 2),
        ];
        assert_eq!(short, expected);
        assert_eq!(
            (rows[0].age_seconds, rows[0].producer_group.as_str(), rows[0].topic.as_str()),
            (60, "P", "T")
        );
    }
}
