//! A round of `startMonitoring` over all groups: lag, differing subscriptions and queues that stand still.
//! `MonitorService` logs its findings; this operation prints them.

use crate::connection::verdict;
use crate::operation::Written;
use crate::{Error, Lag, Session, stats};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::names::RETRY_PREFIX;

pub(super) async fn monitor(session: &Session) -> Result<Written, Error> {
    let (mut rows, mut text) = (Vec::new(), String::new());
    for topic in stats::topics(session).await? {
        let Some(group) = topic.strip_prefix(RETRY_PREFIX) else { continue };
        // A group without members or offsets has no fault of a member.
        let Ok(broker) = stats::broker_of_group(session, group, None).await else { continue };
        let Ok(members) = stats::consumer_connection(session, group, Some(&broker)).await else { continue };
        let Ok(progress) = stats::consume_stats(session, group, None).await else { continue };
        let mut lags: BTreeMap<&str, (i64, i64, Lag)> = BTreeMap::new();
        for (queue, offsets) in &progress.offset_table {
            let lag = offsets.broker_offset - offsets.consumer_offset;
            let (total, most, longest) = lags.entry(&queue.topic).or_insert((0, 0, Lag::NOTHING));
            (*total, *most) = (*total + lag, lag.max(*most));
            *longest = Lag::largest([*longest, Lag::of(offsets, session.now_ms)]);
        }
        for (topic, (total, most, longest)) in lags {
            let delay = longest.lag_seconds.map_or(-1, |seconds| seconds * 1000);
            let _ = writeln!(
                text,
                "[MONITOR] reportUndoneMsgs: UndoneMsgs [consumerGroup={group}, topic={topic}, undoneMsgsTotal={total}, \
                 undoneMsgsSingleMQ={most}, undoneMsgsDelayTimeMills={delay}]"
            );
            rows.push(json!({"group": group, "topic": topic, "lag": total, "queue_lag_max": most, "lag_seconds": longest.lag_seconds, "lag_is_bound": longest.lag_is_bound}));
        }
        let mut infos = BTreeMap::new();
        for member in members.connection_set {
            if let Ok(info) = stats::running_info(session, &broker, (group, &member.client_id), false).await {
                infos.insert(member.client_id, info);
            }
        }
        let found = verdict(&infos, session.now_ms);
        for line in found
            .lines()
            .filter(|line| line.starts_with("WARN") || line.contains(" can't ") || line.contains("unlock"))
        {
            let _ = writeln!(
                text,
                "[MONITOR]  [NOTIFY] reportConsumerRunningInfo: ConsumerGroup: {group}, {line}"
            );
            rows.push(json!({"group": group, "finding": line}));
        }
    }
    Ok(Written::new(rows, text))
}
