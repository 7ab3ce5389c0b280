//! Whole tables for slaves and tools, and requests about replication: 43, 45, 305, 907, 908 and 1007.

use std::collections::BTreeSet;

use serde_json::json;
use wire::body::DelayOffsetTable;
use wire::frame::Command;
use wire::json;

use crate::broker::Broker;
use crate::topics::system_topic_names;
use crate::{Answer, Refusal, names};

/// 43 `GET_ALL_CONSUMER_OFFSET`: the offsets of all groups.
pub(crate) fn consumer_offsets(broker: &Broker) -> Result<Answer, Refusal> {
    Ok(Answer::success().body(json::to_vec(&broker.offsets.table())))
}

/// 45 `GET_ALL_DELAY_OFFSET`: the delivery positions of all delay levels.
pub(crate) fn delay_offsets(broker: &Broker) -> Result<Answer, Refusal> {
    let levels = (1..=broker.delay_levels()).map(|level| (level, broker.schedule.offset(level)));
    let offset_table = levels.filter(|(_, offset)| *offset > 0).collect();
    let table = DelayOffsetTable { offset_table, ..DelayOffsetTable::default() };
    Ok(Answer::success().body(json::to_vec(&table)))
}

/// 305 `GET_SYSTEM_TOPIC_LIST_FROM_BROKER`: the topics that users do not create.
pub(crate) fn system_topics(broker: &Broker) -> Result<Answer, Refusal> {
    let mut list: BTreeSet<String> = system_topic_names(broker).into_iter().collect();
    let all = broker.topics.all();
    list.extend(
        all.iter().map(|topic| topic.name()).filter(|name| names::is_system_topic(name)).map(str::to_owned),
    );
    Ok(Answer::success().body(json!({ "topicList": list }).to_string().into_bytes()))
}

/// 907 `GET_BROKER_HA_STATUS`: a master without slaves, because replication is not served.
pub(crate) fn replication(broker: &Broker) -> Result<Answer, Refusal> {
    let body = json!({
        "haClientRuntimeInfo": {
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "maxOffset": 0,
            "transferredByteInSecond": 0,
        },
        "haConnectionInfo": [],
        "inSyncSlaveNums": 0,
        "master": true,
        "masterCommitLogMaxOffset": broker.store.appended().get(),
    });
    Ok(Answer::success().body(body.to_string().into_bytes()))
}

/// 1007 `GET_BROKER_EPOCH_CACHE`: the epochs of a replicated log, of which there are none.
pub(crate) fn epochs() -> Result<Answer, Refusal> {
    Err(Refusal::error("this request only for controllerMode "))
}

/// 908 `RESET_MASTER_FLUSH_OFFSET`: only a slave keeps the master's flush offset; a master answers with success
/// (`resetMasterFlushOffset`).
pub(crate) fn reset_master_flush(command: &Command<'_>) -> Result<Answer, Refusal> {
    let _: i64 = command.fields.need_number("masterFlushOffset")?;
    Ok(Answer::success())
}
