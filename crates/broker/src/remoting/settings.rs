//! Requests about settings, 25 and 26, requests to delete old data, 306, 316 and 329, and requests that are answered
//! without effect: 908, 1007 and 2001 to 2004.
//!
//! RocketMQ throttles groups that read old messages (2001 to 2004). Here cold reads run in the disk pool, apart from
//! reads in memory. So no throttle is needed, and the responses say so.

use serde_json::json;
use wire::body::parse_key_values;
use wire::codes::response;
use wire::ha::Epoch;
use wire::settings::SOURCES;

use super::answer::Answer;
use super::codec::strict_json;
use super::incoming::Request;
use crate::{Refusal, Result, admin, retention};

const WITHOUT_EFFECT: &str = "it has no effect: cold reads run apart from hot ones here";

/// 26 `GET_BROKER_CONFIG`: all settings as a properties text.
pub(super) fn all(r: &Request<'_>) -> Result<Answer> {
    let version = wire::json::to_vec(&r.broker.tables.topics.version());
    let config = admin::config(&r.broker.replication, &r.broker.runtime);
    let text = config.to_properties();
    let version = String::from_utf8_lossy(&version);
    Ok(Answer::success().field("version", version).field(SOURCES, config.sources()).body(text.into_bytes()))
}

/// 25 `UPDATE_BROKER_CONFIG`.
pub(super) fn update(r: &Request<'_>) -> Result<()> {
    let unreadable = |_| Refusal::error("string2Properties error");
    let changes = parse_key_values(r.command.body).map_err(unreadable)?;
    let reply = r.late_reply();
    admin::update_config(&r.broker.delivery, &r.broker.runtime, r.peer.remote(), changes, move |notes| {
        let remark = (!notes.is_empty()).then(|| notes.join("; "));
        reply.success(remark.as_deref(), b"");
    })
}

/// 908 `RESET_MASTER_FLUSH_OFFSET`: only a slave keeps the master's flush offset; a master answers with success
/// (`resetMasterFlushOffset`).
pub(super) fn reset_master_flush(r: &Request<'_>) -> Result<Answer> {
    let _: i64 = r.number("masterFlushOffset")?;
    Ok(Answer::success())
}

/// 1007 `GET_BROKER_EPOCH_CACHE`: epochs of this broker's log (`AdminBrokerProcessor.getBrokerEpochCache`). Java adds
/// the end of the last epoch only until its file is loaded anew. Here each epoch ends at the start of the next epoch.
pub(super) fn epochs(r: &Request<'_>) -> Result<Answer> {
    let broker = r.broker;
    if !broker.runtime.config.is_controlled() {
        return Err(Refusal::error("this request only for controllerMode "));
    }
    let end = broker.store.appended();
    let (epochs, own, set_epoch) = {
        let elected = broker.replication.replicas.elected();
        (elected.epochs.clone(), elected.own, elected.in_sync.epoch)
    };
    let list: Vec<_> = epochs
        .entries()
        .iter()
        .map(|entry| {
            json!({
                "epoch": entry.epoch.get(),
                "startOffset": entry.start.get(),
                "endOffset": epochs.end_at(entry.start).unwrap_or(end).get(),
            })
        })
        .collect();
    Ok(strict_json(json!({
        "brokerId": broker.replication.role.id(),
        "brokerName": broker.runtime.config.broker_name,
        "clusterName": broker.runtime.config.broker_cluster_name,
        "epochList": list,
        "maxOffset": end.get(),
        // Fields that RocketMQ does not have, because its master reports no id. `vostok controller rebuild` reads the fields.
        "controllerId": own,
        "syncStateSetEpoch": set_epoch.0,
    })))
}

/// 1008 `NOTIFY_BROKER_ROLE_CHANGED`: a controller reports an election
/// (`AdminBrokerProcessor.notifyBrokerRoleChanged`). A Java broker takes the role that the request names, from any
/// sender. This broker asks the controllers.
pub(super) fn role_changed(r: &Request<'_>) -> Result<Answer> {
    if r.broker.runtime.config.is_controlled() {
        let epoch = r.text("masterEpoch").and_then(|epoch| Epoch::from_i32(epoch.parse().ok()?));
        r.broker.replication.replicas.notify(epoch.unwrap_or(Epoch::ZERO));
    }
    Ok(Answer::success())
}

/// 2001 `UPDATE_COLD_DATA_FLOW_CTR_CONFIG` and 2002 `REMOVE_COLD_DATA_FLOW_CTR_CONFIG`: limits of groups, which are not kept.
pub(super) fn put_bounds(_: &Request<'_>) -> Result<Answer> {
    Ok(Answer::success().remark(WITHOUT_EFFECT))
}

/// 2003 `GET_COLD_DATA_FLOW_CTR_INFO` (`ColdDataCgCtrService.getColdDataFlowCtrInfo`).
pub(super) fn bounds(r: &Request<'_>) -> Result<Answer> {
    let number = |key| r.broker.runtime.config.shown(key).parse::<i64>().unwrap_or_default();
    Ok(strict_json(json!({
        "runtimeTable": {},
        "configTable": {},
        "cgColdReadThreshold": number("cgColdReadThreshold"),
        "globalColdReadThreshold": number("globalColdReadThreshold"),
        "globalAcc": 0,
    })))
}

/// 2004 `SET_COMMITLOG_READ_MODE`: in RocketMQ, mode 0 lets the kernel read ahead in commit log files and mode 1 does not.
pub(super) fn set_read_ahead(r: &Request<'_>) -> Result<Answer> {
    match r.number("READ_AHEAD_MODE")? {
        mode @ (0 | 1) => {
            let remark = format!("set commitlog readahead mode success, mode: {mode}; {WITHOUT_EFFECT}");
            Ok(Answer::success().remark(remark))
        }
        mode => {
            let remark = format!("set commitlog readahead mode param value error: {mode}, expected 0 or 1");
            Err(Refusal::new(response::INVALID_PARAMETER, remark))
        }
    }
}

/// 306 `CLEAN_EXPIRED_CONSUMEQUEUE`.
pub(super) fn clean_expired_queues(r: &Request<'_>) -> Result<Answer> {
    retention::clean_expired_queues(&r.broker.runtime);
    Ok(Answer::success())
}

/// 316 `CLEAN_UNUSED_TOPIC`.
pub(super) fn clean_unused_topics(r: &Request<'_>) -> Result<Answer> {
    retention::clean_unused_topics(&r.broker.runtime);
    Ok(Answer::success())
}

/// 329 `DELETE_EXPIRED_COMMITLOG`.
pub(super) fn delete_expired_log(r: &Request<'_>) -> Result<Answer> {
    retention::delete_expired_log(&r.broker.runtime);
    Ok(Answer::success())
}
