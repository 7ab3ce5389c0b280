//! Requests about offsets of groups: 14, 15, 222 and 314 (`ConsumerManageProcessor`, `AdminBrokerProcessor`).

use wire::codes::Language;

use super::answer::Answer;
use super::codec::{done, json};
use super::incoming::Request;
use crate::offsets::{self, CommitOffset, QueryOffset, ResetOffset};
use crate::progress::{self, CloneOffsets};
use crate::{Refusal, lookup};

/// 14 `QUERY_CONSUMER_OFFSET`.
pub(super) fn query(r: &Request<'_>) -> Result<Answer, Refusal> {
    let asked = QueryOffset {
        group: r.need("consumerGroup")?,
        topic: r.need("topic")?,
        queue_id: r.number("queueId")?,
        zero_if_missing: r.flag_or("setZeroIfNotFound", true),
    };
    let is_young = |topic: &str, queue_id| r.broker.is_young(topic, queue_id);
    let offset = offsets::query(&r.broker.offsets, &asked, is_young)?;
    Ok(Answer::success().field("offset", offset))
}

/// 15 `UPDATE_CONSUMER_OFFSET`.
pub(super) fn commit(r: &Request<'_>) -> Result<Answer, Refusal> {
    let broker = r.broker;
    let wanted = CommitOffset {
        group: r.need("consumerGroup")?,
        topic: r.need("topic")?,
        queue_id: r.number_if("queueId")?,
        offset: r.number_if("commitOffset")?,
    };
    let group_exists = |group: &str| Ok(broker.group(group)?.is_some());
    let queues = |topic: &str| {
        let config = &broker.topic(topic)?.config;
        Some(config.read_queue_nums.max(config.write_queue_nums))
    };
    match offsets::commit(&broker.offsets, &wanted, group_exists, queues)? {
        true => Ok(Answer::success()),
        false => Ok(Answer::success().remark("Offset has been previously reset")),
    }
}

/// 222 `INVOKE_BROKER_TO_RESET_OFFSET`.
pub(super) fn reset(r: &Request<'_>) -> Result<Answer, Refusal> {
    let (group, topic) = (r.need("group")?, r.need("topic")?);
    let queue_id = Some(r.number_or("queueId", -1)?).filter(|id| *id >= 0);
    let wanted = ResetOffset {
        group,
        topic,
        queue_id,
        timestamp_ms: r.number("timestamp")?,
        offset: Some(r.number_or("offset", -1)?).filter(|offset| *offset != -1),
        only_backwards: !r.flag_or("isForce", false),
        for_cpp: r.command.language == Some(Language::Cpp),
    };
    lookup::reset(r.broker, &wanted).map(json)
}

/// 314 `CLONE_GROUP_OFFSET`.
pub(super) fn copy(r: &Request<'_>) -> Result<Answer, Refusal> {
    let wanted = CloneOffsets {
        source: r.need("srcGroup")?,
        target: r.need("destGroup")?,
        topic: r.word("topic"),
        is_offline: r.flag_or("offline", false),
    };
    progress::clone_offsets(r.broker, &wanted).map(done)
}

/// 43 `GET_ALL_CONSUMER_OFFSET`. Queue ids are quoted, because a Java slave cannot read past bare ones in a member it does not
/// know (`pullOffsetTable`).
pub(super) fn all(r: &Request<'_>) -> Result<Answer, Refusal> {
    let table = r.broker.offsets.table();
    Ok(Answer::success().body(wire::json::to_vec_as(&table, wire::json::Dialect::Standard)))
}
