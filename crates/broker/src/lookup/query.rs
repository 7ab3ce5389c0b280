//! Messages by key, tag and id: requests 12 and 33 (`QueryMessageProcessor`).

use store::{KeyKind, KeyMatch, KeyQuery};
use wire::codes::response;
use wire::frame::Command;
use wire::units::LogOffset;

use crate::broker::Broker;
use crate::{Answer, Refusal};

/// Header field of request 12 that says that the key is a unique key (`MixAll.UNIQUE_MSG_QUERY_FLAG`).
const UNIQUE_QUERY: &str = "_UNIQUE_KEY_QUERY";
/// The `indexType` of tags (`MessageConst.INDEX_TAG_TYPE`).
const TAG_KIND: &str = "T";

/// 12 `QUERY_MESSAGE`: the newest messages that have a key, oldest first, as `DefaultMessageStore.queryMessage` sorts them. Java
/// answers every message with the key's hash; here the keys are compared.
pub(crate) fn query(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let asked: i32 = fields.need_number("maxNum")?;
    let limits = &broker.config.query;
    let is_unique = fields.text(UNIQUE_QUERY) == Some("true");
    let max = if is_unique { limits.unique_max } else { asked }.min(limits.count_max);
    let query = KeyQuery {
        topic: fields.need("topic")?,
        key: fields.need("key")?,
        kind: if fields.text("indexType") == Some(TAG_KIND) { KeyKind::Tag } else { KeyKind::Key },
        max: usize::try_from(max).unwrap_or(0),
        begin_ms: fields.need_number("beginTimestamp")?,
        end_ms: fields.need_number("endTimestamp")?,
    };
    let unread = |error| Refusal::error(format!("the key index cannot be searched: {error}"));
    let mut matches = broker.store.query(&query).map_err(unread)?;
    matches.found.retain(|found| broker.is_visible(found.at + found.record.len() as u64));
    let answer = Answer::success()
        .field("indexLastUpdateTimestamp", matches.indexed_time)
        .field("indexLastUpdatePhyoffset", matches.indexed_offset);
    if matches.found.is_empty() {
        let answer = answer.remark("can not find message, maybe time range not correct");
        return Ok(Answer { code: response::QUERY_NOT_FOUND, ..answer });
    }
    let records: Vec<&[u8]> = matches.found.iter().rev().map(|KeyMatch { record, .. }| &record[..]).collect();
    Ok(answer.body(records.concat()))
}

/// 33 `VIEW_MESSAGE_BY_ID`: one record by its log offset.
pub(crate) fn view(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let offset: i64 = command.fields.need_number("offset")?;
    let mut record = Vec::new();
    LogOffset::from_i64(offset)
        .filter(|at| broker.store.record_at(*at, &mut record).is_ok())
        .filter(|at| broker.is_visible(*at + record.len() as u64))
        .map(|_| Answer::success().body(record))
        .ok_or_else(|| Refusal::error(format!("can not find message by the offset, {offset}")))
}

impl Broker {
    /// Whether consumers may see a record that ends at `end`: under sync flush, whether it is on disk.
    fn is_visible(&self, end: LogOffset) -> bool {
        !self.flushes_before_answer() || end <= self.store.flushed()
    }
}
