//! Requests about offsets of groups: 14, 15, 43, 222 and 314 (`ConsumerManageProcessor`, `AdminBrokerProcessor`), and 22097.
//!
//! In controller mode the responses of 14, 15, 222 and 314 wait until the slaves of the in-sync set have the offsets,
//! so that no offset decreases after an election. One-way commits do not wait.

use wire::body::TableChanges;
use wire::codes::{Language, response};
use wire::ha::BrokerId;

use super::answer::Answer;
use super::codec::{done, json};
use super::incoming::Request;
use super::sink::ANSWER_BYTES;
use crate::offsets::{self, CommitOffset, Generation, ONLY_RAISES, QueryOffset, ResetOffset};
use crate::progress::{self, CloneOffsets};
use crate::state::TableVersions;
use crate::table_changes::{self, Question};
use crate::{Refusal, Result, admin, offset_reset};

/// 14 `QUERY_CONSUMER_OFFSET`.
pub(super) fn query(r: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let asked = QueryOffset {
        group: r.text_or_empty("consumerGroup")?,
        topic: r.need("topic")?,
        queue_id: r.number("queueId")?,
        zero_if_missing: r.flag_or("setZeroIfNotFound", true),
    };
    let is_young = |topic: &str, queue_id| r.broker.tables.is_young(topic, queue_id);
    let offset = offsets::query(&r.broker.tables.offsets, &asked, is_young)?;
    let generation = || r.broker.tables.offsets.generation_of(asked.group, asked.topic, asked.queue_id);
    when_copied(r, generation, Answer::success().field("offset", offset), out)
}

/// 15 `UPDATE_CONSUMER_OFFSET`.
pub(super) fn commit(r: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let broker = r.broker;
    let is_handed_over = r.flag_or(ONLY_RAISES, false);
    let wanted = CommitOffset {
        group: r.text_or_empty("consumerGroup")?,
        topic: r.need("topic")?,
        queue_id: r.number_if("queueId")?,
        offset: r.number_if("commitOffset")?,
        only_raises: r.is_late || is_handed_over,
        begins_group: is_handed_over,
    };
    let group_exists = |group: &str| match is_handed_over {
        // The group may have begun at the slave that acted for this master.
        true => Ok(broker.tables.group(&broker.runtime.config, group)?.is_some()),
        false => Ok(broker.tables.groups.find(group).is_some()),
    };
    let queues = |topic: &str| {
        let config = &broker.tables.topic(topic)?.config;
        Some(config.read_queue_nums.max(config.write_queue_nums))
    };
    let is_stored = |topic: &str, queue| broker.store.find_queue(topic, queue).is_some();
    let answer = match offsets::commit(&broker.tables.offsets, &wanted, group_exists, queues, is_stored)? {
        true => Answer::success(),
        false => Answer::success().remark("Offset has been previously reset"),
    };
    let generation = || {
        wanted
            .queue_id
            .map_or(0, |queue| broker.tables.offsets.generation_of(wanted.group, wanted.topic, queue))
    };
    when_copied(r, generation, answer, out)
}

/// 222 `INVOKE_BROKER_TO_RESET_OFFSET`.
pub(super) fn reset(r: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let (group, topic) = (r.need("group")?, r.need("topic")?);
    let queue_id = Some(r.number_or("queueId", -1)?).filter(|id| *id >= 0);
    let wanted = ResetOffset {
        group,
        topic,
        queue_id,
        timestamp_ms: r.number_or("timestamp", 0)?,
        offset: Some(r.number_or("offset", -1)?).filter(|offset| *offset != -1),
        only_backwards: !r.flag_or("isForce", false),
        for_cpp: r.command.language == Some(Language::Cpp),
    };
    let answer = offset_reset::reset(&r.broker.operator_parts(), &wanted).map(json)?;
    when_copied(r, || r.broker.tables.offsets.newest(), answer, out)
}

/// 314 `CLONE_GROUP_OFFSET`. The source group is required if its members must be found.
pub(super) fn copy(r: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let is_offline = r.flag_or("offline", false);
    let wanted = CloneOffsets {
        source: if is_offline { r.text_or_empty("srcGroup")? } else { r.need("srcGroup")? },
        target: r.need("destGroup")?,
        topic: r.word("topic"),
        is_offline,
    };
    let answer = progress::clone_offsets(&r.broker.operator_parts(), &wanted).map(done)?;
    when_copied(r, || r.broker.tables.offsets.newest(), answer, out)
}

/// 43 `GET_ALL_CONSUMER_OFFSET`. Queue ids are quoted, because a Java slave cannot read past bare ones in a member it does not
/// know (`pullOffsetTable`).
pub(super) fn all(r: &Request<'_>) -> Result<Answer> {
    let table = r.broker.tables.offsets.table();
    Ok(Answer::success().body(wire::json::to_vec_as(&table, wire::json::Dialect::Standard)))
}

/// 45 `GET_ALL_DELAY_OFFSET`, which only slaves send.
pub(super) fn delays(r: &Request<'_>) -> Result<Answer> {
    r.note_slave();
    Ok(json(admin::delay_offsets(&r.broker.delivery, &r.broker.runtime)))
}

/// Answers now, or once the slaves of the in-sync set have the offsets up to a generation. The generation is
/// determined only in controller mode, and for a request that expects an answer.
fn when_copied(
    r: &Request<'_>,
    generation: impl FnOnce() -> Generation,
    answer: Answer,
    out: &mut Vec<u8>,
) -> Result<()> {
    let lacking = || {
        let wanted = table_changes::offsets_up_to(generation());
        (!table_changes::are_copied(&r.broker.replication, &r.broker.runtime, &wanted)).then_some(wanted)
    };
    let may_wait = r.broker.runtime.config.is_controlled() && !r.command.is_one_way();
    let Some(wanted) = may_wait.then(lacking).flatten() else {
        answer.write(r.command, out);
        return Ok(());
    };
    let charge = r.peer.charge(size_of::<Answer>() + ANSWER_BYTES);
    let (broker, reply) = (r.broker.clone(), r.late_reply());
    r.broker.sessions.client_calls.spawn(move || async move {
        let outcome = table_changes::wait(&broker.replication, &broker.runtime, wanted).await;
        reply.give(&outcome.map_or_else(Answer::from, |()| answer));
        drop(charge);
    })
}

/// 22097 `VOSTOK_TABLE_CHANGES`: a slave asks for the changes in the tables after its versions, or for the next part
/// of the changes. The response's body has the changes ([`TableChanges`]), and its fields the present versions.
pub(super) fn changes(r: &Request<'_>, _: &mut Vec<u8>) -> Result<()> {
    let slave = BrokerId::from_i64(r.number("brokerId")?).ok_or_else(|| {
        Refusal::new(response::INVALID_PARAMETER, "brokerId is negative, expected the id of a slave")
    })?;
    let has = TableVersions {
        offsets: r.number("offsets")?,
        topics: r.number("topics")?,
        groups: r.number("groups")?,
    };
    let question = Question { slave, has, after: r.text("after").map(str::to_owned) };
    r.note_slave();
    let (reply, charge) = (r.late_reply(), r.peer.charge(ANSWER_BYTES));
    table_changes::changes_for(&r.broker.metadata_parts(), question, move |changes| {
        reply.give(&changes.map_or_else(Answer::from, changed));
        drop(charge);
    })
}

fn changed((versions, changes): (TableVersions, TableChanges)) -> Answer {
    let answer = Answer::success().field("offsets", versions.offsets).field("topics", versions.topics);
    answer.field("groups", versions.groups).body(wire::json::to_vec(&changes))
}
