//! Figures of lite topics for operators: 200074 to 200079 (`LiteManagerProcessor`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};
use wire::body::{QueryAssignmentResponseBody, SubscriptionGroupConfig};
use wire::codes::response;
use wire::hash::bucket;
use wire::units::QueueOffset;

use super::rules;
use crate::Refusal;
use crate::names::{lite_parts, lite_queue};
use crate::parts::{LiteParts, Runtime, Tables};
use crate::state::GroupRules;
use crate::topics::{Topic, attributes};

/// Most lite topics of a client in an answer.
const NAMES_MAX: i64 = 10_000;

fn illegal(remark: String) -> Refusal {
    Refusal::new(response::INVALID_PARAMETER, remark)
}

/// Finds a parent topic.
fn parent(tables: &Tables, name: &str) -> Result<Arc<Topic>, Refusal> {
    let Some(topic) = tables.topics.find(name) else {
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, format!("Topic [{name}] not exist.")));
    };
    if !is_parent(&topic) {
        return Err(illegal(format!("Topic [{name}] type not match.")));
    }
    Ok(topic)
}

fn is_parent(topic: &Topic) -> bool {
    topic.config.attributes.get(attributes::MESSAGE_TYPE).is_some_and(|kind| kind == attributes::LITE)
}

/// Minutes after which the lite topics of a parent expire; -1 for never.
fn expiration(topic: &Topic) -> i64 {
    topic.config.attributes.get(attributes::LITE_EXPIRATION).and_then(|text| text.parse().ok()).unwrap_or(-1)
}

/// Finds a group.
fn group(tables: &Tables, name: &str) -> Result<Arc<SubscriptionGroupConfig>, Refusal> {
    tables.groups.find(name).ok_or_else(|| {
        Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, format!("Group [{name}] not exist."))
    })
}

/// Finds a lite group, and its parent topic.
fn lite_group(tables: &Tables, runtime: &Runtime, name: &str) -> Result<GroupRules, Refusal> {
    group(tables, name)?;
    rules(tables, runtime, name).ok_or_else(|| illegal(format!("Group [{name}] is not a LITE group.")))
}

/// Lite groups by parent topic.
fn groups_by_parent(tables: &Tables, runtime: &Runtime) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in tables.groups.names() {
        if let Some(rules) = rules(tables, runtime, &name) {
            found.entry(rules.topic.to_string()).or_default().insert(name);
        }
    }
    found
}

/// Store time of a message, milliseconds since the epoch; 0 if the message is gone.
fn store_time(store: &store::Store, name: &str, offset: i64) -> i64 {
    let queue = store.find_queue(name, 0);
    let time = queue.zip(QueueOffset::from_i64(offset));
    time.and_then(|(queue, offset)| store.store_time(&queue, offset).ok().flatten()).unwrap_or(0)
}

/// 200074 `GET_BROKER_LITE_INFO`.
pub(crate) fn broker_info(parts: &LiteParts) -> Value {
    let topics = parts.tables.topics.all().filter(|topic| is_parent(topic));
    let lives: BTreeMap<String, i64> =
        topics.map(|topic| (topic.name().to_owned(), expiration(&topic))).collect();
    let ordered = parts.delivery.pops.in_flight_queues.all();
    let ordered = ordered.iter().filter(|cell| lite_parts(&cell.topic).is_some());
    let (active, with_events) = {
        let tables = parts.tables.lite.tables();
        (tables.active(), tables.with_events())
    };
    json!({
        "storeType": "default",
        "maxLmqNum": parts.runtime.config.light.queues_max,
        "currentLmqNum": parts.tables.light.count(),
        "liteSubscriptionCount": active,
        "orderInfoCount": ordered.filter(|cell| cell.in_flight().order.is_some()).count(),
        "cqTableSize": parts.tables.store.queues().len(),
        "offsetTableSize": parts.tables.offsets.size(),
        "eventMapSize": with_events,
        "topicMeta": lives,
        "groupMeta": groups_by_parent(&parts.tables, &parts.runtime),
    })
}

/// 200075 `GET_PARENT_TOPIC_INFO`.
pub(crate) fn parent_info(tables: &Tables, runtime: &Runtime, name: &str) -> Result<Value, Refusal> {
    let topic = parent(tables, name)?;
    let queues = tables.store.queues();
    let is_of = |queue: &&Arc<store::Queue>| {
        lite_parts(queue.topic()).is_some_and(|(of, _)| of == name) && queue.max().get() > 0
    };
    let mut info = json!({
        "topic": name,
        "ttl": expiration(&topic),
        "lmqNum": tables.light.count(),
        "liteTopicCount": queues.iter().filter(is_of).count(),
    });
    if let Some(groups) = groups_by_parent(tables, runtime).remove(name) {
        info["groups"] = json!(groups);
    }
    Ok(info)
}

/// 200076 `GET_LITE_TOPIC_INFO`.
pub(crate) fn topic_info(tables: &Tables, parent_name: &str, lite_topic: &str) -> Result<Value, Refusal> {
    parent(tables, parent_name)?;
    let name = lite_queue(parent_name, lite_topic);
    let queue = tables.store.find_queue(&name, 0);
    let (min, max) = queue.map_or((0, 0), |queue| (queue.min().to_i64(), queue.max().to_i64()));
    let subscribers: Vec<Value> = {
        let subscribers = tables.lite.tables().subscribers(&name);
        subscribers.iter().map(|(group, client)| json!({ "clientId": **client, "group": **group })).collect()
    };
    Ok(json!({
        "parentTopic": parent_name,
        "liteTopic": lite_topic,
        "subscriber": subscribers,
        "topicOffset": {
            "minOffset": min,
            "maxOffset": max,
            "lastUpdateTimestamp": if max > 0 { store_time(&tables.store, &name, max - 1) } else { 0 },
        },
    }))
}

/// Adds to the figures of a lite topic whether its messages are sent to the broker `own`
/// (`LiteShardingImpl.shardingByLmqName`). `found` has the queues of the parent topic that producers write, on all brokers. Without queues the
/// messages are sent to this broker.
pub(crate) fn sharded(mut info: Value, own: &str, found: &QueryAssignmentResponseBody) -> Value {
    let queues = found.message_queue_assignments.as_deref().unwrap_or_default();
    let count = i32::try_from(queues.len()).unwrap_or(i32::MAX);
    let at = usize::try_from(bucket(info["liteTopic"].as_str().unwrap_or_default(), count));
    let chosen = at.ok().and_then(|at| queues.get(at));
    info["shardingToBroker"] = json!(chosen.is_none_or(|queue| *queue.message_queue.broker_name == *own));
    info
}

/// 200077 `GET_LITE_CLIENT_INFO`.
pub(crate) fn client_info(
    parts: &LiteParts,
    parent_name: &str,
    (group_name, client_id): (&str, &str),
    count_max: i64,
) -> Result<Value, Refusal> {
    parent(&parts.tables, parent_name)?;
    group(&parts.tables, group_name)?;
    if rules(&parts.tables, &parts.runtime, group_name).is_none_or(|rules| *rules.topic != *parent_name) {
        return Err(illegal(format!("Subscription [{group_name}]-[{parent_name}] not match.")));
    }
    let mut info = json!({
        "parentTopic": parent_name,
        "group": group_name,
        "clientId": client_id,
        "lastAccessTime": -1,
        "lastConsumeTime": 0,
        "liteTopicCount": -1,
    });
    let tables = parts.tables.lite.tables();
    if let Some(client) = tables.client(group_name, client_id) {
        let count = usize::try_from(count_max.min(NAMES_MAX)).unwrap_or(0);
        let queues: Vec<&str> = client.queues.iter().map(|name| &**name).take(count).collect();
        info["liteTopicCount"] = json!(client.queues.len());
        info["liteTopicSet"] = json!(queues);
        info["lastAccessTime"] = json!(client.popped_ms);
    }
    Ok(info)
}

/// 200078 `GET_LITE_GROUP_INFO`: lag of a group in a lite topic, or in all.
pub(crate) fn group_info(
    tables: &Tables,
    runtime: &Runtime,
    name: &str,
    lite_topic: &str,
    top: i64,
) -> Result<Value, Refusal> {
    let parent_name = lite_group(tables, runtime, name)?.topic;
    let info = json!({ "group": name, "parentTopic": *parent_name, "liteTopic": lite_topic });
    let Value::Object(mut info) = info else { return Ok(info) };
    let lag = if lite_topic.is_empty() {
        lags(tables, name, &parent_name, top)?
    } else {
        lag(tables, name, &lite_queue(&parent_name, lite_topic))
    };
    if let Value::Object(lag) = lag {
        info.extend(lag);
    }
    Ok(Value::Object(info))
}

/// Lag of a group in a lite queue.
fn lag(tables: &Tables, group: &str, name: &str) -> Value {
    let max = tables.store.find_queue(name, 0).map_or(0, |queue| queue.max().to_i64());
    if max == 0 {
        return json!({ "totalLagCount": -1, "earliestUnconsumedTimestamp": -1 });
    }
    let Some(next) = tables.offsets.committed(group, name, 0) else {
        return json!({ "totalLagCount": 0, "earliestUnconsumedTimestamp": 0 });
    };
    json!({
        "totalLagCount": max - next,
        "earliestUnconsumedTimestamp": store_time(&tables.store, name, next),
        "liteTopicOffsetWrapper": {
            "brokerOffset": max,
            "consumerOffset": next,
            "pullOffset": 0,
            "lastTimestamp": if next > 0 { store_time(&tables.store, name, next - 1) } else { 0 },
        },
    })
}

/// Lags of a group in all lite topics of the parent with an offset of the group.
fn lags(tables: &Tables, group: &str, parent_name: &str, top: i64) -> Result<Value, Refusal> {
    let Some(top) = usize::try_from(top).ok().filter(|top| *top > 0) else {
        return Err(Refusal::error(format!("topK is {top}, expected 1 or more")));
    };
    let mut committed: HashMap<String, i64> = HashMap::new();
    tables.offsets.each_committed(group, |name, _, next| {
        if lite_parts(name).is_some_and(|(of, _)| of == parent_name) {
            committed.insert(name.to_owned(), next);
        }
    });
    let of_queue = |(name, next): (String, i64)| {
        let max = tables.store.find_queue(&name, 0)?.max().to_i64();
        (max > next).then_some((max - next, name, next))
    };
    let mut lags: Vec<(i64, String, i64)> = committed.into_iter().filter_map(of_queue).collect();
    let total: i64 = lags.iter().map(|(count, ..)| count).sum();
    lags.sort_unstable_by(|one, other| (Reverse(one.0), &one.1).cmp(&(Reverse(other.0), &other.1)));
    lags.truncate(top);
    let mut rows: Vec<(i64, Value)> = Vec::new();
    for (count, name, next) in &lags {
        let time = store_time(&tables.store, name, *next);
        let lite_topic = lite_parts(name).map_or("", |(_, lite)| lite);
        let row = json!({ "liteTopic": lite_topic, "lagCount": count, "earliestUnconsumedTimestamp": time });
        rows.push((time, row));
    }
    let by_count: Vec<Value> = rows.iter().map(|(_, row)| row.clone()).collect();
    rows.sort_by_key(|(time, _)| *time);
    Ok(json!({
        "totalLagCount": total,
        "earliestUnconsumedTimestamp": rows.first().map_or(-1, |(time, _)| *time),
        "lagCountTopK": by_count,
        "lagTimestampTopK": rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>(),
    }))
}

/// 200079 `TRIGGER_LITE_DISPATCH`: runs a full dispatch of a client, or of all clients of a group.
pub(crate) fn trigger(parts: &LiteParts, group: &str, client: Option<&str>) -> Result<(), Refusal> {
    let rules = lite_group(&parts.tables, &parts.runtime, group)?;
    let mut tables = parts.tables.lite.tables();
    match client.filter(|_| !rules.wildcard) {
        Some(client) => {
            tables.demand((group.into(), Some(client.into())));
        }
        None => tables.demand_group(group),
    }
    drop(tables);
    parts.tables.lite.wakeup().wake();
    Ok(())
}
