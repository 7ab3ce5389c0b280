//! Gathers consumer groups: progress, connections, and the report of each member.

use super::{Scope, Watch, masters};
use crate::doctor::bundle::{Broker, Bundle, Connection, Group, Later, Lock, Member, Owned, Progress};
use crate::doctor::checks::refusals::COUNTS;
use crate::message::TOOLS_GROUP;
use crate::request::{Request, body, for_each};
use crate::stats::SILENT_MAX;
use crate::text::version;
use crate::{Error, Session, stats};
use client::{PullRequest, PullStatus, Received};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::body::{
    ConsumeStats, ConsumerConnection, ConsumerRunningInfo, MessageQueue, SubscriptionGroupTable,
};
use wire::codes::{request, response};
use wire::names::SYSTEM_GROUP_PREFIX;

/// Groups of RocketMQ's own beside those with [`SYSTEM_GROUP_PREFIX`] (`MixAll`).
const SYSTEM: [&str; 7] = [
    "TOOLS_CONSUMER",
    "SCHEDULE_CONSUMER",
    "FILTERSRV_CONSUMER",
    "__MONITOR_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PERMISSION",
];
/// Longest age of the last consumed message in milliseconds at which the doctor does not ask for the age of the first
/// waiting message, because the waiting message is younger.
const RECENT_MS: i64 = 3_600_000;
/// Queues that are asked for the first waiting message.
const FIRST_MAX: usize = 256;
/// Locks that a broker is asked for.
const LOCKS_MAX: usize = 2000;

/// Gathers the groups that a master knows.
pub(super) async fn gather(session: &Session, bundle: &Bundle, scope: &Scope) -> Vec<Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for master in masters(bundle) {
        let address = &master.address;
        let table = session.look(address, &Request::new(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await;
        let table = table.and_then(|reply| body::<SubscriptionGroupTable>(address, &reply));
        let mut known: BTreeMap<String, Option<bool>> = table
            .map(|table| {
                let rows = table.subscription_group_table.into_iter();
                rows.map(|(name, config)| (name, Some(config.consume_enable))).collect()
            })
            .unwrap_or_default();
        if let Some(name) = &scope.group {
            known = BTreeMap::from([(name.clone(), known.get(name).copied().flatten())]);
        }
        known.retain(|name, _| !name.starts_with(SYSTEM_GROUP_PREFIX) && !SYSTEM.contains(&name.as_str()));
        let asked = for_each(known.keys(), async |name| {
            (progress(session, address, name).await, connections(session, address, name).await)
        });
        let asked = asked.await;
        for ((name, is_enabled), (progress, connected)) in known.into_iter().zip(asked) {
            let group = groups.entry(name.clone()).or_insert_with(|| Group { name, ..Group::default() });
            group.is_enabled = match (group.is_enabled, is_enabled) {
                (Some(before), Some(now)) => Some(before && now),
                (before, now) => before.or(now),
            };
            group.progress.extend(progress);
            add_connections(address, group, connected);
        }
    }
    let silent = &AtomicUsize::new(0);
    let looks = for_each(groups.values_mut(), async |group| {
        members(session, group, silent).await;
        if is_lagging(group) {
            group.locks = locks(session, bundle, &group.name).await;
        }
    });
    looks.await;
    let old_ms = bundle.taken_at_ms - RECENT_MS;
    let rows = groups.values_mut().flat_map(|group| &mut group.progress);
    for row in
        rows.filter(|row| row.lag() > 0 && row.first_ms.is_none() && row.last_ms < old_ms).take(FIRST_MAX)
    {
        row.first_ms = first_waiting(session, row).await;
    }
    groups.into_values().collect()
}

/// Store time of the first message of a queue that a group has not consumed, ms since the epoch.
/// `None` if no message waits, or if the broker does not let operators read the queue.
async fn first_waiting(session: &Session, row: &Progress) -> Option<i64> {
    first_from(session, &MessageQueue::new(&row.topic, &row.broker, row.queue), row.committed.max(0)).await
}

/// Store time of the first message of a queue from an offset on.
pub(super) async fn first_from(session: &Session, queue: &MessageQueue, offset: i64) -> Option<i64> {
    first_message(session, queue, offset).await.map(|message| message.store_timestamp)
}

/// The first message of a queue from an offset on; `None` if the broker does not let operators read
/// the queue.
pub(super) async fn first_message(
    session: &Session,
    queue: &MessageQueue,
    mut offset: i64,
) -> Option<Received> {
    for _ in 0..2 {
        let pull = PullRequest { messages_max: 1, ..PullRequest::new(TOOLS_GROUP, queue, offset) };
        let pulled = session.client.pull(&pull).await.ok()?;
        if pulled.status == PullStatus::Found {
            return pulled.messages.into_iter().next();
        }
        // The message is gone, or the group has committed nothing: the queue begins later.
        offset = pulled.min_offset.max(pulled.next_offset);
    }
    None
}

/// The answer to `VOSTOK_PAGE` for the table of locks.
#[derive(Deserialize)]
struct Locks {
    rows: Vec<Lock>,
}

/// The queue locks of a group, as the masters report them; `None` if no master reports locks, as masters of RocketMQ.
async fn locks(session: &Session, bundle: &Bundle, group: &str) -> Option<Vec<Lock>> {
    let mut locks: Option<Vec<Lock>> = None;
    for master in masters(bundle) {
        let ask = Request::new(request::VOSTOK_PAGE)
            .with("table", "locks")
            .with("contains", group)
            .with("limit", LOCKS_MAX);
        let Ok(reply) = session.look(&master.address, &ask).await else { continue };
        let Ok(page) = body::<Locks>(&master.address, &reply) else { continue };
        // A group may have its name from another's.
        locks.get_or_insert_default().extend(page.rows.into_iter().filter(|lock| lock.group == group));
    }
    locks
}

/// The progress of a group as a broker reports it; empty if the broker has no offsets of the group.
async fn progress(session: &Session, address: &str, group: &str) -> Vec<Progress> {
    let ask = Request::new(request::GET_CONSUME_STATS).with("consumerGroup", group);
    let stats = session.look(address, &ask).await.and_then(|reply| body::<ConsumeStats>(address, &reply));
    let rows = stats.map(|stats| stats.offset_table).unwrap_or_default().into_iter();
    rows.map(|(queue, offsets)| Progress {
        topic: queue.topic,
        broker: queue.broker_name,
        queue: queue.queue_id,
        max: offsets.broker_offset,
        committed: offsets.consumer_offset,
        pulled: offsets.pull_offset,
        last_ms: offsets.last_timestamp,
        first_ms: offsets.unconsumed_timestamp.filter(|ms| *ms > 0),
        is_done: offsets.unconsumed_timestamp == Some(0),
        later: None,
    })
    .collect()
}

/// The members that are connected to a broker.
async fn connections(session: &Session, address: &str, group: &str) -> Result<ConsumerConnection, Error> {
    let ask = Request::new(request::GET_CONSUMER_CONNECTION_LIST).with("consumerGroup", group);
    body(address, &session.look(address, &ask).await?)
}

/// Adds the connected members that a broker reports.
fn add_connections(address: &str, group: &mut Group, found: Result<ConsumerConnection, Error>) {
    let found = match found {
        Ok(found) => found,
        Err(why) if why.code() == Some(response::CONSUMER_NOT_ONLINE) => {
            group.is_online = group.is_online.or(Some(false));
            return;
        }
        // Another refusal says nothing about the group.
        Err(_) => return,
    };
    group.is_online = Some(group.is_online == Some(true) || !found.connection_set.is_empty());
    group.consume_type = name(&found.consume_type);
    group.model = name(&found.message_model);
    group.connections.extend(found.connection_set.into_iter().map(|connection| Connection {
        broker: address.to_owned(),
        client_id: connection.client_id,
        address: connection.client_addr,
        language: connection.language,
        version: version(connection.version),
    }));
}

/// The name under which an enum value is written.
fn name(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Asks each member once, through a broker that it is connected to. After [`SILENT_MAX`] that did not answer, the others
/// are not asked.
async fn members(session: &Session, group: &mut Group, silent: &AtomicUsize) {
    let mut asked = BTreeSet::new();
    for connection in &group.connections {
        if !asked.insert(connection.client_id.clone()) || silent.load(Ordering::Relaxed) >= SILENT_MAX {
            continue;
        }
        let client_id = connection.client_id.clone();
        let of = (group.name.as_str(), client_id.as_str());
        let info = stats::brief_running_info(session, &connection.broker, of).await;
        let member = match info {
            Ok(info) => member(client_id, info),
            Err(why) => Member { client_id, error: Some(why.to_string()), ..Member::default() },
        };
        silent.fetch_add(usize::from(member.is_silent()), Ordering::Relaxed);
        group.members.push(member);
    }
}

fn member(client_id: String, info: ConsumerRunningInfo) -> Member {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_i64).unwrap_or_default();
    let rate = |value: &Value| value.get("consumeFailedTPS").and_then(Value::as_f64);
    // A queue that the member gave up stays in the table for a moment (`droped`).
    let is_held = |value: &Value| value.get("droped") != Some(&Value::Bool(true));
    Member {
        client_id,
        error: None,
        subscriptions: info
            .subscription_set
            .into_iter()
            .map(|subscription| (subscription.topic, subscription.sub_string))
            .collect(),
        queues: info
            .mq_table
            .into_iter()
            .filter(|(_, value)| is_held(value))
            .map(|(queue, value)| Owned {
                topic: queue.topic,
                broker: queue.broker_name,
                queue: queue.queue_id,
                last_pull_ms: number(&value, "lastPullTimestamp"),
                last_consume_ms: number(&value, "lastConsumeTimestamp"),
                cached: number(&value, "cachedMsgCount"),
            })
            .collect(),
        failed: info
            .status_table
            .iter()
            .filter_map(|(topic, value)| Some((topic.clone(), rate(value)?)))
            .collect(),
        standing: None,
    }
}

/// Whether a second look can show progress: a member is online, and messages wait.
pub(in crate::doctor) fn is_lagging(group: &Group) -> bool {
    group.is_online == Some(true) && group.progress.iter().any(|row| row.lag() > 0)
}

/// Looks a second time at groups with lag, at the stacks of their members and at counts of refused requests, `seconds` later.
/// Meanwhile `watch` reads tables of name servers. Does not wait if nothing can be seen.
pub(crate) async fn look_again(session: &Session, bundle: &mut Bundle, watch: &mut Watch, seconds: u16) {
    let has_refused = |broker: &Broker| COUNTS.iter().any(|name| broker.figure(name) > Some(0.0));
    let is_refusing = bundle.brokers.iter().any(has_refused);
    if !watch.is_needed() && !is_refusing && !bundle.groups.iter().any(is_lagging) {
        return;
    }
    let after_ms = i64::from(seconds) * 1000;
    let dumps = super::stacks::first(session, bundle, &|_| true).await;
    watch.pass(session, seconds).await;
    super::stacks::compare(session, bundle, dumps).await;
    for broker in bundle.brokers.iter_mut().filter(|broker| has_refused(broker)) {
        let Ok(now) = session.client.broker_runtime(&broker.address).await else { continue };
        let is_steady = |name: &&&str| now.get(**name).map(String::as_str) == broker.text(name);
        broker.steady = COUNTS.iter().filter(is_steady).map(|name| (*name).to_owned()).collect();
    }
    let addresses: Vec<String> = masters(bundle).map(|master| master.address.clone()).collect();
    for group in bundle.groups.iter_mut().filter(|group| is_lagging(group)) {
        let place = |row: &Progress| (row.topic.clone(), row.broker.clone(), row.queue);
        let mut rows: BTreeMap<_, &mut Progress> =
            group.progress.iter_mut().map(|row| (place(row), row)).collect();
        for address in &addresses {
            for now in progress(session, address, &group.name).await {
                if let Some(row) = rows.get_mut(&place(&now)) {
                    row.later = Some(Later { after_ms, committed: now.committed });
                }
            }
        }
    }
}
