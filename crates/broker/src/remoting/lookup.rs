//! Requests for offsets and messages: 12, 29 to 33, 303 and 321 (`QueryMessageProcessor`, `AdminBrokerProcessor`).

use auth::{Action, Actions};
use serde_json::{Value, json};
use store::{Boundary, KeyKind, KeyQuery};
use wire::codes::response;
use wire::units::LogOffset;

use super::answer::Answer;
use super::codec::strict_json;
use super::incoming::Request;
use crate::clients::Subscription;
use crate::lookup::{self, QueueRange, SearchOffset, TimeSpan};
use crate::{Refusal, Result, message_access};

/// Header field of request 12 that marks the key as a unique key (`MixAll.UNIQUE_MSG_QUERY_FLAG`).
const UNIQUE_QUERY: &str = "_UNIQUE_KEY_QUERY";
/// The `indexType` of tags (`MessageConst.INDEX_TAG_TYPE`).
const TAG_KIND: &str = "T";

/// 12 `QUERY_MESSAGE`.
pub(super) fn query(r: &Request<'_>) -> Result<Answer> {
    let count: i32 = r.number("maxNum")?;
    let query = KeyQuery {
        topic: r.need("topic")?,
        key: r.need("key")?,
        kind: if r.text("indexType") == Some(TAG_KIND) { KeyKind::Tag } else { KeyKind::Key },
        max: usize::try_from(count).unwrap_or(0),
        begin_ms: r.number("beginTimestamp")?,
        end_ms: r.number("endTimestamp")?,
    };
    let is_unique = r.text(UNIQUE_QUERY) == Some("true");
    let matches = lookup::query(&r.broker.replication, &r.broker.runtime, query, is_unique)?;
    let answer = Answer::success()
        .field("indexLastUpdateTimestamp", matches.indexed_time)
        .field("indexLastUpdatePhyoffset", matches.indexed_offset);
    if matches.found.is_empty() {
        let answer = answer.remark("can not find message, maybe time range not correct");
        return Ok(Answer { code: response::QUERY_NOT_FOUND, ..answer });
    }
    let records: Vec<&[u8]> = matches.found.iter().rev().map(|found| &found.record[..]).collect();
    Ok(answer.body(records.concat()))
}

/// 29 `SEARCH_OFFSET_BY_TIMESTAMP`.
pub(super) fn search(r: &Request<'_>) -> Result<Answer> {
    let is_upper = r.text("boundaryType").is_some_and(|kind| kind.eq_ignore_ascii_case("UPPER"));
    let wanted = SearchOffset {
        topic: r.need("topic")?,
        queue_id: r.number("queueId")?,
        timestamp_ms: r.number("timestamp")?,
        boundary: if is_upper { Boundary::Upper } else { Boundary::Lower },
    };
    let (tables, replication) = (&r.broker.tables, &r.broker.replication);
    let offset = match r.text("liteTopic").filter(|name| !name.is_empty()) {
        Some(lite_topic) => lookup::search_lite(tables, replication, lite_topic, &wanted)?,
        None => lookup::search(tables, replication, &wanted)?,
    };
    Ok(Answer::success().field("offset", offset))
}

/// 30 `GET_MAX_OFFSET`.
pub(super) fn max_offset(r: &Request<'_>) -> Result<Answer> {
    let offset =
        lookup::max_offset(&r.broker.tables, &r.broker.replication, r.need("topic")?, r.number("queueId")?);
    Ok(Answer::success().field("offset", offset))
}

/// 31 `GET_MIN_OFFSET`.
pub(super) fn min_offset(r: &Request<'_>) -> Result<Answer> {
    let offset = lookup::min_offset(&r.broker.tables, r.need("topic")?, r.number("queueId")?);
    Ok(Answer::success().field("offset", offset))
}

/// 32 `GET_EARLIEST_MSG_STORETIME`: -1 for a queue without messages.
pub(super) fn earliest_time(r: &Request<'_>) -> Result<Answer> {
    let time_ms = lookup::earliest_time(&r.broker.tables, r.need("topic")?, r.number("queueId")?);
    Ok(Answer::success().field("timestamp", time_ms.unwrap_or(-1)))
}

/// 33 `VIEW_MESSAGE_BY_ID`: a record by its log offset.
pub(super) fn view(r: &Request<'_>) -> Result<Answer> {
    let offset: i64 = r.number("offset")?;
    let missing = || Refusal::error(format!("can not find message by the offset, {offset}"));
    let at = LogOffset::from_i64(offset).ok_or_else(missing)?;
    let request = auth::Request::Code(r.command.code);
    message_access::authorize(
        &r.broker.store,
        &r.broker.sessions,
        &r.broker.runtime,
        (r.caller, request),
        at,
        Actions::of(&[Action::Get]),
    )?;
    let record = lookup::record(&r.broker.replication, at);
    Ok(Answer::success().body(record.ok_or_else(missing)?))
}

/// 303 `QUERY_CONSUME_TIME_SPAN`: -1 for times of messages that are not there.
pub(super) fn time_spans(r: &Request<'_>) -> Result<Answer> {
    let spans =
        lookup::consume_time_span(&r.broker.operator_parts(), r.need("topic")?, r.text_or_empty("group")?)?;
    let span = |span: TimeSpan| {
        json!({
            "consumeTimeStamp": span.consumed_ms.unwrap_or(-1),
            "delayTime": span.delay_ms,
            "maxTimeStamp": span.last_ms.unwrap_or(-1),
            "messageQueue": span.queue,
            "minTimeStamp": span.first_ms.unwrap_or(-1),
        })
    };
    let spans: Vec<Value> = spans.into_iter().map(span).collect();
    Ok(strict_json(json!({ "consumeTimeSpanSet": spans })))
}

/// 321 `QUERY_CONSUME_QUEUE`.
pub(super) fn units(r: &Request<'_>) -> Result<Answer> {
    let (topic, queue_id, first) = (r.need("topic")?, r.number_or("queueId", 0)?, r.number_or("index", 0)?);
    let range = QueueRange { topic, queue_id, first, count: r.number_or("count", 0)? };
    let found = lookup::consume_queue(&r.broker.tables, &r.broker.replication, &range)?;
    let Some(units) = found.units else {
        return Ok(Answer::success().remark(format!("Index {first} of {queue_id}@{topic} is not exist!")));
    };
    let mut body = json!({ "maxQueueIndex": found.end, "minQueueIndex": found.min });
    if let Some(group) = r.text("consumerGroup") {
        match r.broker.sessions.clients.subscription(group, topic) {
            Some(found) => {
                body["filterData"] = filter_data(group, &found).into();
                body["subscriptionData"] = json!(found.data());
            }
            None => body["filterData"] = format!("{group}@{topic} is not online!").into(),
        }
    }
    let data = units.iter().map(|unit| {
        json!({
            "eval": false,
            "physicOffset": unit.log_offset.get(),
            "physicSize": unit.size,
            "tagsCode": unit.tags_code,
        })
    });
    body["queueData"] = data.collect();
    Ok(strict_json(body))
}

/// The filter of a group as the text that Java writes (`ConsumerFilterData`): `null` for tags. Java's also has a Bloom filter, which is
/// not made here, and when the filter was made.
fn filter_data(group: &str, subscription: &Subscription) -> String {
    if subscription.is_tag() {
        return "null".to_owned();
    }
    let data = subscription.data();
    let filter = json!({
        "clientVersion": data.sub_version,
        "consumerGroup": group,
        "dead": false,
        "deadTime": 0,
        "expression": data.sub_string,
        "expressionType": data.expression_type,
        "topic": data.topic,
    });
    format!("{filter:#}")
}
