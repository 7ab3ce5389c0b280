//! Requests for figures of the broker and the progress of groups: 208, 308, 315, 343, 907 and 22094 (`AdminBrokerProcessor`).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use wire::body::{CorrectionOffsets, HaClientRuntimeInfo, HaConnectionRuntimeInfo, HaRuntimeInfo};

use super::answer::Answer;
use super::codec::{json, strict_json};
use super::incoming::Request;
use crate::admin;
use crate::pages::{self, Page};
use crate::progress::{self, TopicsOfGroup};
use crate::replicas::SlaveProgress;
use crate::{Result, stats};

/// 22094 `VOSTOK_PAGE`.
pub(super) fn page(r: &Request<'_>) -> Result<Answer> {
    let wanted = Page {
        contains: r.text("contains").unwrap_or_default(),
        after: r.text("after").unwrap_or_default(),
        limit: r.number_if("limit")?,
        sort: r.text("sort").unwrap_or("name"),
    };
    pages::page(&r.broker.operator_parts(), r.need("table")?, wanted).map(strict_json)
}

/// 208 `GET_CONSUME_STATS`: the offsets of a group in the topics the request names, or else in all topics the group committed
/// offsets in.
pub(super) fn consume_stats(r: &Request<'_>) -> Result<Answer> {
    let group = r.need("consumerGroup")?;
    let list = r.text("topicList").unwrap_or_default().split(';').map(str::trim);
    let listed: BTreeSet<String> = list.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let topics = match r.word("topic") {
        _ if !listed.is_empty() => TopicsOfGroup::Listed(listed),
        Some(topic) => TopicsOfGroup::One(topic.to_owned()),
        None => TopicsOfGroup::Committed,
    };
    Ok(json(progress::consume_stats(&r.broker.operator_parts(), group, topics)))
}

/// 308 `QUERY_CORRECTION_OFFSET`.
pub(super) fn correction(r: &Request<'_>) -> Result<Answer> {
    let (topic, compared) = (r.need("topic")?, r.text_or_empty("compareGroup")?);
    let filtered = r.text("filterGroups").unwrap_or_default().split(',').collect();
    let correction_offsets = progress::correction(&r.broker.tables, topic, compared, &filtered);
    Ok(json(CorrectionOffsets { correction_offsets }))
}

/// 315 `VIEW_BROKER_STATS_DATA`.
pub(super) fn stats(r: &Request<'_>) -> Result<Answer> {
    let read = stats::view(&r.broker.store, &r.broker.figures, r.need("statsName")?, r.need("statsKey")?)?;
    let span = |span: crate::state::Span| json!({ "avgpt": span.average, "sum": span.sum, "tps": span.tps });
    Ok(strict_json(json!({
        "statsDay": span(read.day), "statsHour": span(read.hour), "statsMinute": span(read.minute),
    })))
}

/// 343 `QUERY_TOPICS_BY_CONSUMER`: the topics a group committed offsets in.
pub(super) fn topics_of_group(r: &Request<'_>) -> Result<Answer> {
    let topics = r.broker.tables.offsets.topics_of(r.need("group")?);
    Ok(strict_json(json!({ "brokerAddr": r.broker.identity.address(), "topicList": topics })))
}

/// 907 `GET_BROKER_HA_STATUS`: positions of the slaves on a master, the own position on a slave. In controller mode the members of
/// the in-sync set count as in sync (`AutoSwitchHAService.getRuntimeInfo`); here only connected members that are not silent.
pub(super) fn ha_status(r: &Request<'_>) -> Result<Answer> {
    let (broker, replicas) = (r.broker, &r.broker.replication.replicas);
    let (end, now_ms, upstream) =
        (broker.store.appended().get(), broker.runtime.now_ms(), &replicas.upstream);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let slave = |slave: Arc<SlaveProgress>| {
        let acknowledged = slave.acknowledged.load(Ordering::Relaxed);
        let gap = end.saturating_sub(acknowledged);
        HaConnectionRuntimeInfo {
            // A listener for both versions of IP shows IPv4 addresses as `::ffff:a.b.c.d`.
            addr: SocketAddr::new(slave.remote.ip().to_canonical(), slave.remote.port()).to_string(),
            diff: number(gap),
            in_sync: admin::is_in_sync(&broker.replication, &broker.runtime, &slave, gap),
            slave_ack_offset: number(acknowledged),
            transfer_from_where: number(slave.next.load(Ordering::Relaxed)),
            transferred_byte_in_second: number(slave.sent.per_second(now_ms)),
        }
    };
    let slaves: Vec<_> = replicas.slaves().into_iter().map(slave).collect();
    let is_slave = broker.replication.role.is_slave();
    Ok(json(HaRuntimeInfo {
        ha_client_runtime_info: HaClientRuntimeInfo {
            activated: replicas.follows(),
            connection_addr: upstream.local.lock().map(|address| address.to_string()),
            last_read_timestamp: upstream.read_ms.load(Ordering::Relaxed),
            last_write_timestamp: upstream.written_ms.load(Ordering::Relaxed),
            master_addr: replicas.master().borrow().ha.clone().filter(|_| is_slave),
            master_flush_offset: 0,
            max_offset: if is_slave { number(end) } else { 0 },
            transferred_byte_in_second: number(upstream.received.per_second(now_ms)),
        },
        in_sync_slave_nums: number(slaves.iter().filter(|slave| slave.in_sync).count() as u64),
        ha_connection_info: slaves,
        master: !is_slave,
        master_commit_log_max_offset: if is_slave { 0 } else { number(end) },
        now_ms: Some(now_ms),
    }))
}
