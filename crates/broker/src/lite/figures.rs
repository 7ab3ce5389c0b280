//! Figures of lite topics for operators: 200074 to 200079 (`LiteManagerProcessor`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};
use wire::body::SubscriptionGroupConfig;
use wire::codes::response;
use wire::units::QueueOffset;

use super::rules;
use crate::Refusal;
use crate::broker::Broker;
use crate::names::{lite_parts, lite_queue};
use crate::state::GroupRules;
use crate::topics::{Topic, attributes};

/// Most lite topics of a client in an answer.
const NAMES_MAX: i64 = 10_000;

fn illegal(remark: String) -> Refusal {
    Refusal::new(response::INVALID_PARAMETER, remark)
}

/// Finds a parent topic.
fn parent(broker: &Broker, name: &str) -> Result<Arc<Topic>, Refusal> {
    let Some(topic) = broker.tables.topics.find(name) else {
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
fn group(broker: &Broker, name: &str) -> Result<Arc<SubscriptionGroupConfig>, Refusal> {
    broker.tables.groups.find(name).ok_or_else(|| {
        Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, format!("Group [{name}] not exist."))
    })
}

/// Finds a lite group, and its parent topic.
fn lite_group(broker: &Broker, name: &str) -> Result<GroupRules, Refusal> {
    group(broker, name)?;
    rules(broker, name).ok_or_else(|| illegal(format!("Group [{name}] is not a LITE group.")))
}

/// Lite groups by parent topic.
fn groups_by_parent(broker: &Broker) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in broker.tables.groups.names() {
        if let Some(rules) = rules(broker, &name) {
            found.entry(rules.topic.to_string()).or_default().insert(name);
        }
    }
    found
}

/// Store time of a message, milliseconds since the epoch; 0 if the message is gone.
fn store_time(broker: &Broker, name: &str, offset: i64) -> i64 {
    let queue = broker.store.find_queue(name, 0);
    let time = queue.zip(QueueOffset::from_i64(offset));
    time.and_then(|(queue, offset)| broker.store.store_time(&queue, offset).ok().flatten()).unwrap_or(0)
}

/// 200074 `GET_BROKER_LITE_INFO`.
pub(crate) fn broker_info(broker: &Broker) -> Value {
    let topics = broker.tables.topics.all().filter(|topic| is_parent(topic));
    let lives: BTreeMap<String, i64> =
        topics.map(|topic| (topic.name().to_owned(), expiration(&topic))).collect();
    let ordered = broker.delivery.pops.in_flight_queues.all();
    let ordered = ordered.iter().filter(|cell| lite_parts(&cell.topic).is_some());
    let (active, with_events) = {
        let tables = broker.tables.lite.tables();
        (tables.active(), tables.with_events())
    };
    json!({
        "storeType": "default",
        "maxLmqNum": broker.runtime.config.light.queues_max,
        "currentLmqNum": broker.tables.light.count(),
        "liteSubscriptionCount": active,
        "orderInfoCount": ordered.filter(|cell| cell.in_flight().order.is_some()).count(),
        "cqTableSize": broker.store.queues().len(),
        "offsetTableSize": broker.tables.offsets.size(),
        "eventMapSize": with_events,
        "topicMeta": lives,
        "groupMeta": groups_by_parent(broker),
    })
}

/// 200075 `GET_PARENT_TOPIC_INFO`.
pub(crate) fn parent_info(broker: &Broker, name: &str) -> Result<Value, Refusal> {
    let topic = parent(broker, name)?;
    let queues = broker.store.queues();
    let is_of = |queue: &&Arc<store::Queue>| {
        lite_parts(queue.topic()).is_some_and(|(of, _)| of == name) && queue.max().get() > 0
    };
    let mut info = json!({
        "topic": name,
        "ttl": expiration(&topic),
        "lmqNum": broker.tables.light.count(),
        "liteTopicCount": queues.iter().filter(is_of).count(),
    });
    if let Some(groups) = groups_by_parent(broker).remove(name) {
        info["groups"] = json!(groups);
    }
    Ok(info)
}

/// 200076 `GET_LITE_TOPIC_INFO`.
pub(crate) fn topic_info(broker: &Broker, parent_name: &str, lite_topic: &str) -> Result<Value, Refusal> {
    parent(broker, parent_name)?;
    let name = lite_queue(parent_name, lite_topic);
    let queue = broker.store.find_queue(&name, 0);
    let (min, max) = queue.map_or((0, 0), |queue| (queue.min().to_i64(), queue.max().to_i64()));
    let subscribers: Vec<Value> = {
        let subscribers = broker.tables.lite.tables().subscribers(&name);
        subscribers.iter().map(|(group, client)| json!({ "clientId": **client, "group": **group })).collect()
    };
    Ok(json!({
        "parentTopic": parent_name,
        "liteTopic": lite_topic,
        "subscriber": subscribers,
        "topicOffset": {
            "minOffset": min,
            "maxOffset": max,
            "lastUpdateTimestamp": if max > 0 { store_time(broker, &name, max - 1) } else { 0 },
        },
        "shardingToBroker": true,
    }))
}

/// 200077 `GET_LITE_CLIENT_INFO`.
pub(crate) fn client_info(
    broker: &Broker,
    parent_name: &str,
    (group_name, client_id): (&str, &str),
    count_max: i64,
) -> Result<Value, Refusal> {
    parent(broker, parent_name)?;
    group(broker, group_name)?;
    if rules(broker, group_name).is_none_or(|rules| *rules.topic != *parent_name) {
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
    let tables = broker.tables.lite.tables();
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
pub(crate) fn group_info(broker: &Broker, name: &str, lite_topic: &str, top: i64) -> Result<Value, Refusal> {
    let parent_name = lite_group(broker, name)?.topic;
    let info = json!({ "group": name, "parentTopic": *parent_name, "liteTopic": lite_topic });
    let Value::Object(mut info) = info else { return Ok(info) };
    let lag = if lite_topic.is_empty() {
        lags(broker, name, &parent_name, top)?
    } else {
        lag(broker, name, &lite_queue(&parent_name, lite_topic))
    };
    if let Value::Object(lag) = lag {
        info.extend(lag);
    }
    Ok(Value::Object(info))
}

/// Lag of a group in a lite queue.
fn lag(broker: &Broker, group: &str, name: &str) -> Value {
    let max = broker.store.find_queue(name, 0).map_or(0, |queue| queue.max().to_i64());
    if max == 0 {
        return json!({ "totalLagCount": -1, "earliestUnconsumedTimestamp": -1 });
    }
    let Some(next) = broker.tables.offsets.committed(group, name, 0) else {
        return json!({ "totalLagCount": 0, "earliestUnconsumedTimestamp": 0 });
    };
    json!({
        "totalLagCount": max - next,
        "earliestUnconsumedTimestamp": store_time(broker, name, next),
        "liteTopicOffsetWrapper": {
            "brokerOffset": max,
            "consumerOffset": next,
            "pullOffset": 0,
            "lastTimestamp": if next > 0 { store_time(broker, name, next - 1) } else { 0 },
        },
    })
}

/// Lags of a group in all lite topics of the parent with an offset of the group.
fn lags(broker: &Broker, group: &str, parent_name: &str, top: i64) -> Result<Value, Refusal> {
    let Some(top) = usize::try_from(top).ok().filter(|top| *top > 0) else {
        return Err(Refusal::error(format!("topK is {top}, expected 1 or more")));
    };
    let mut committed: HashMap<String, i64> = HashMap::new();
    broker.tables.offsets.each_committed(group, |name, _, next| {
        if lite_parts(name).is_some_and(|(of, _)| of == parent_name) {
            committed.insert(name.to_owned(), next);
        }
    });
    let of_queue = |(name, next): (String, i64)| {
        let max = broker.store.find_queue(&name, 0)?.max().to_i64();
        (max > next).then_some((max - next, name, next))
    };
    let mut lags: Vec<(i64, String, i64)> = committed.into_iter().filter_map(of_queue).collect();
    let total: i64 = lags.iter().map(|(count, ..)| count).sum();
    lags.sort_unstable_by(|one, other| (Reverse(one.0), &one.1).cmp(&(Reverse(other.0), &other.1)));
    lags.truncate(top);
    let mut rows: Vec<(i64, Value)> = Vec::new();
    for (count, name, next) in &lags {
        let time = store_time(broker, name, *next);
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
pub(crate) fn trigger(broker: &Broker, group: &str, client: Option<&str>) -> Result<(), Refusal> {
    let rules = lite_group(broker, group)?;
    let mut tables = broker.tables.lite.tables();
    match client.filter(|_| !rules.wildcard) {
        Some(client) => {
            tables.demand((group.into(), Some(client.into())));
        }
        None => tables.demand_group(group),
    }
    drop(tables);
    broker.tables.lite.wakeup().wake();
    Ok(())
}
