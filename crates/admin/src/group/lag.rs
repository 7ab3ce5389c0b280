//! Reasons for the lag of a group: the state of each queue, the rates of its topics, and the time that members need.

use super::owners::{Owners, QueueOwner};
use super::settings;
use crate::operation::Typed;
use crate::request::for_each;
use crate::text::{time, version};
use crate::topic::sum;
use crate::{Arguments, Error, Lag, Session, stats};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wire::body::{ConsumerRunningInfo, MessageQueue, OffsetWrapper};
use wire::names::RETRY_PREFIX;

/// Time without a pull, or without a message for the listener, after which a queue stands still, ms
/// (`ConsumerRunningInfo.analyzeProcessQueue`).
const STILL_MS: i64 = 60_000;
/// Messages of a queue that a client holds before it stops pulling (`DefaultMQPushConsumer.pullThresholdForQueue`).
const HELD_MAX: i64 = 1000;

/// State of a queue of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueState {
    /// All messages are consumed.
    Consumed,
    /// The owner pulls and consumes.
    Consuming,
    /// No member has the queue.
    NoOwner,
    /// No member that answered has the queue.
    OwnerUnknown,
    /// The owner consumes in order and does not hold the lock of the queue.
    NotLocked,
    /// The owner has not pulled for a minute.
    NotPulled,
    /// The owner holds messages and has given none to the listener for a minute.
    ListenerStands,
    /// The owner holds as many messages as it may, and waits for the listener before it pulls.
    Full,
}

/// A queue of a group.
#[derive(Clone, Serialize)]
pub struct LagQueue {
    /// Name of the topic.
    pub topic: String,
    /// Name of the broker set.
    pub broker: String,
    /// Id of the queue.
    pub queue: i32,
    /// State of the queue.
    pub state: QueueState,
    /// The member that has the queue.
    #[serde(flatten)]
    pub owner: QueueOwner,
    /// Committed offset of the group.
    pub consumer_offset: i64,
    /// Maximum offset of the queue.
    pub broker_offset: i64,
    /// Messages that the group has not consumed.
    pub diff: i64,
    /// Age of the first message that the group has not consumed.
    #[serde(flatten)]
    pub lag: Lag,
    /// Messages that were pulled and are not consumed.
    pub inflight: i64,
    /// Messages that the owner holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<i64>,
    /// Whether an owner that consumes in order holds the lock of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<bool>,
    /// Time of the owner's last pull; empty if unknown.
    pub last_pull: String,
    /// Time at which the owner last gave a message to the listener; empty if unknown.
    pub last_consume: String,
}

/// Rates of a topic that a group consumes, of the last minute.
#[derive(Clone, Serialize)]
pub struct LagTopic {
    /// Name of the topic.
    pub topic: String,
    /// Messages stored per second.
    pub in_tps: f64,
    /// Messages that the group got per second.
    pub out_tps: f64,
}

/// The times of a member in a topic (`ConsumeStatus`).
#[derive(Clone, Serialize)]
pub struct LagMember {
    /// Id of the member.
    pub client_id: String,
    /// Address of the member.
    pub address: String,
    /// Language of the client.
    pub language: String,
    /// Version of the client.
    pub version: String,
    /// Name of the topic; empty if the member tells of none.
    pub topic: String,
    /// Threads that call the listener.
    pub threads: Option<i64>,
    /// Mean time of a call of the listener, ms.
    pub listener_ms: Option<f64>,
    /// Mean time of a pull, ms.
    pub pull_ms: Option<f64>,
    /// Messages pulled per second.
    pub pull_tps: Option<f64>,
    /// Messages consumed per second.
    pub ok_tps: Option<f64>,
    /// Messages per second for which the listener failed.
    pub failed_tps: Option<f64>,
    /// Messages of the last hour for which the listener failed.
    pub failed_hour: Option<i64>,
    /// Whether the member answered, or cannot report a status.
    pub answered: bool,
}

/// Kind of a reason for lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// The settings of the group forbid it to consume.
    Disabled,
    /// No member is online.
    Offline,
    /// Members subscribe to different topics or tags.
    DifferentSubscriptions,
    /// Queues have no owner.
    NoOwner,
    /// Queues of ordered members are not locked.
    NotLocked,
    /// Owners hold messages, and their listeners take none.
    ListenerStands,
    /// Owners do not pull.
    NotPulled,
    /// Listeners fail.
    ListenerFails,
    /// Owners wait for their listeners before they pull.
    Full,
    /// More messages are stored than the group consumes.
    MoreStored,
    /// Members did not answer.
    Silent,
}

/// A reason for lag.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LagCause {
    /// Kind of the reason.
    pub cause: CauseKind,
    /// Queues or members that the reason is about; for rates messages per second.
    pub count: f64,
    /// All queues or members; for rates the messages per second to compare with.
    pub of: f64,
}

/// The lag of a group and its reasons.
#[derive(Clone, Serialize)]
pub struct GroupLag {
    /// Name of the group.
    pub group: String,
    /// Messages that the group has not consumed.
    pub diff_total: i64,
    /// Age of the first message that the group has not consumed.
    #[serde(flatten)]
    pub lag: Lag,
    /// Messages consumed per second, as brokers count them.
    pub consume_tps: f64,
    /// Reasons for the lag; empty if nothing is wrong.
    pub causes: Vec<LagCause>,
    /// Queues of the group, the largest lag first.
    pub queues: Vec<LagQueue>,
    /// Topics of the group.
    pub topics: Vec<LagTopic>,
    /// Members of the group, with a row for each topic.
    pub members: Vec<LagMember>,
    /// The failures of brokers that gave no answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl Typed for GroupLag {}

/// Asks brokers for the progress of a group and members for their state.
pub(super) async fn lag(session: &Session, arguments: &Arguments) -> Result<GroupLag, Error> {
    let group = arguments.need("group")?;
    let (stats, failures) = stats::consume_stats_in(session, (group, None), arguments).await?;
    let owners = Owners::ask(session, group).await;
    let mut queues: Vec<LagQueue> = stats
        .offset_table
        .iter()
        .map(|(queue, offsets)| queue_of(session.now_ms, queue, offsets, &owners))
        .collect();
    queues.sort_by_key(|row| std::cmp::Reverse((row.lag.lag_seconds, row.diff)));
    let names: BTreeSet<&str> = queues.iter().map(|row| row.topic.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with(RETRY_PREFIX)).collect();
    let topics = for_each(names, |topic| topic_of(session, group, topic)).await;
    let members: Vec<LagMember> =
        owners.members.iter().flat_map(|it| members_of(it, !owners.is_silent(it))).collect();
    let lag = Lag::largest(queues.iter().map(|row| row.lag));
    let diff_total = queues.iter().map(|row| row.diff.max(0)).sum();
    // The settings of all groups are read for it, so only where something waits.
    let is_disabled = diff_total > 0
        && settings::config(session, arguments).await.is_ok_and(|found| settings::is_disabled(&found));
    let mut causes = if diff_total > 0 { causes(&owners, (&queues, &topics, &members)) } else { Vec::new() };
    if is_disabled {
        causes.insert(0, LagCause { cause: CauseKind::Disabled, count: 1.0, of: 1.0 });
    }
    let (group, failures) = (group.to_owned(), session.note(failures));
    let consume_tps = stats.consume_tps;
    Ok(GroupLag { group, diff_total, lag, consume_tps, causes, queues, topics, members, failures })
}

async fn topic_of(session: &Session, group: &str, topic: &str) -> LagTopic {
    let brokers = session.brokers_of(topic).await.unwrap_or_default();
    let (in_tps, _) = sum(session, &brokers, "TOPIC_PUT_NUMS", topic).await;
    let (out_tps, _) = sum(session, &brokers, "GROUP_GET_NUMS", &format!("{topic}@{group}")).await;
    LagTopic { topic: topic.to_owned(), in_tps, out_tps }
}

fn queue_of(now_ms: i64, queue: &MessageQueue, offsets: &OffsetWrapper, owners: &Owners) -> LagQueue {
    let owner = owners.of(queue);
    let of_owner = owners.members.iter().find_map(|(member, info)| {
        let info = info.as_ref().filter(|_| owner.client_id.as_deref() == Some(&member.client_id))?;
        Some((info, info.mq_table.get(queue)?))
    });
    let number = |name: &str| of_owner.and_then(|(_, state)| state[name].as_i64());
    let is_ordered = of_owner.is_some_and(|(info, _)| {
        info.properties.get("PROP_CONSUMEORDERLY").is_some_and(|text| text == "true")
    });
    let diff = offsets.broker_offset - offsets.consumer_offset;
    LagQueue {
        topic: queue.topic.clone(),
        broker: queue.broker_name.clone(),
        queue: queue.queue_id,
        state: state(now_ms, diff, &owner, of_owner),
        consumer_offset: offsets.consumer_offset,
        broker_offset: offsets.broker_offset,
        diff,
        lag: Lag::of(offsets, now_ms),
        inflight: offsets.pull_offset - offsets.consumer_offset,
        held: number("cachedMsgCount"),
        locked: of_owner.filter(|_| is_ordered).and_then(|(_, state)| state["locked"].as_bool()),
        last_pull: time(number("lastPullTimestamp").unwrap_or_default()),
        last_consume: time(number("lastConsumeTimestamp").unwrap_or_default()),
        owner,
    }
}

/// The state of a queue, from the owner's report about itself and the queue (`ProcessQueueInfo`).
fn state(
    now_ms: i64,
    diff: i64,
    owner: &QueueOwner,
    of_owner: Option<(&ConsumerRunningInfo, &Value)>,
) -> QueueState {
    if diff <= 0 {
        return QueueState::Consumed;
    }
    if owner.client_id.is_none() {
        return if owner.owner_unknown { QueueState::OwnerUnknown } else { QueueState::NoOwner };
    }
    // Members that pop tell nothing of a queue that they could be judged by.
    let Some((info, held)) = of_owner else { return QueueState::Consuming };
    let property = |name: &str| info.properties.get(name).map(String::as_str);
    let number = |name: &str| held[name].as_i64().unwrap_or_default();
    let is_still = |name: &str| number(name) > 0 && now_ms - number(name) > STILL_MS;
    let held_max = property("pullThresholdForQueue").and_then(|text| text.parse().ok()).unwrap_or(HELD_MAX);
    let count = number("cachedMsgCount");
    if property("PROP_CONSUMEORDERLY") == Some("true") && held["locked"] == Value::Bool(false) {
        QueueState::NotLocked
    } else if count > 0 && is_still("lastConsumeTimestamp") {
        QueueState::ListenerStands
    } else if count >= held_max {
        QueueState::Full
    } else if count == 0 && is_still("lastPullTimestamp") {
        QueueState::NotPulled
    } else {
        QueueState::Consuming
    }
}

/// The rows of a member, a row for each topic with times in the member's report.
fn members_of(
    (member, info): &(wire::body::Connection, Option<ConsumerRunningInfo>),
    answered: bool,
) -> Vec<LagMember> {
    let none = BTreeMap::new();
    let statuses = info.as_ref().map_or(&none, |info| &info.status_table);
    let threads = info.as_ref().and_then(|info| info.properties.get("PROP_THREADPOOL_CORE_SIZE"));
    let row = |topic: &str, status: &Value| LagMember {
        client_id: member.client_id.clone(),
        address: member.client_addr.clone(),
        language: member.language.clone(),
        version: version(member.version),
        topic: topic.to_owned(),
        threads: threads.and_then(|text| text.parse().ok()),
        listener_ms: status["consumeRT"].as_f64(),
        pull_ms: status["pullRT"].as_f64(),
        pull_tps: status["pullTPS"].as_f64(),
        ok_tps: status["consumeOKTPS"].as_f64(),
        failed_tps: status["consumeFailedTPS"].as_f64(),
        failed_hour: status["consumeFailedMsgs"].as_i64(),
        answered,
    };
    let rows: Vec<_> = statuses
        .iter()
        .filter(|(topic, _)| !topic.starts_with(RETRY_PREFIX))
        .map(|(topic, status)| row(topic, status))
        .collect();
    if rows.is_empty() { vec![row("", &Value::Null)] } else { rows }
}

fn causes(
    owners: &Owners,
    (queues, topics, members): (&[LagQueue], &[LagTopic], &[LagMember]),
) -> Vec<LagCause> {
    let mut causes = Vec::new();
    let mut add = |cause, count: f64, of: f64| {
        if count > 0.0 {
            causes.push(LagCause { cause, count, of });
        }
    };
    let count = |number: usize| u32::try_from(number).map_or(f64::MAX, f64::from);
    let is_offline = owners.members.is_empty() && owners.is_complete;
    add(CauseKind::Offline, f64::from(is_offline), 1.0);
    let wants = owners.members.iter().filter_map(|(_, info)| {
        let wants = info.as_ref()?.subscription_set.iter();
        Some(wants.map(|it| (it.topic.as_str(), it.sub_string.as_str())).collect::<BTreeSet<_>>())
    });
    let wants: BTreeSet<_> = wants.collect();
    let members_all = count(owners.members.len());
    add(
        CauseKind::DifferentSubscriptions,
        if wants.len() > 1 { count(wants.len()) } else { 0.0 },
        members_all,
    );
    let states = [
        (CauseKind::NoOwner, QueueState::NoOwner),
        (CauseKind::NotLocked, QueueState::NotLocked),
        (CauseKind::ListenerStands, QueueState::ListenerStands),
        (CauseKind::NotPulled, QueueState::NotPulled),
        (CauseKind::Full, QueueState::Full),
    ];
    for (cause, state) in states.into_iter().filter(|(cause, _)| !is_offline || *cause != CauseKind::NoOwner)
    {
        let found = queues.iter().filter(|row| row.state == state).count();
        add(cause, count(found), count(queues.len()));
    }
    let rate = |value: fn(&LagMember) -> Option<f64>| members.iter().filter_map(value).sum::<f64>();
    let (failed, ok) = (rate(|member| member.failed_tps), rate(|member| member.ok_tps));
    add(CauseKind::ListenerFails, failed, failed + ok);
    for topic in topics.iter().filter(|topic| !is_offline && topic.in_tps > topic.out_tps * 1.05 + 0.1) {
        add(CauseKind::MoreStored, topic.in_tps, topic.out_tps);
    }
    let silent = owners.members.iter().filter(|it| owners.is_silent(it)).count();
    add(CauseKind::Silent, count(silent), members_all);
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Received, ServerAnswer, with_cluster};
    use serde_json::json;
    use wire::body::{Connection, ConsumeStats, ConsumerConnection};
    use wire::codes::{request, response};

    /// The time of a session of [`crate::testing`].
    const NOW_MS: i64 = 1_000_000;

    fn queue(id: i32) -> MessageQueue {
        MessageQueue::new("T", "a", id)
    }

    /// A group with six messages left in queue 0, whose only member says `held` of the queue.
    fn group_with(held: Option<Value>, properties: &[(&str, &str)], failed_tps: f64) -> Value {
        let properties: BTreeMap<String, String> =
            properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let answers = move |_: &str, asked: &Received| match asked.code {
            request::GET_CONSUME_STATS => {
                let offsets =
                    OffsetWrapper { broker_offset: 10, consumer_offset: 4, ..OffsetWrapper::default() };
                let offset_table = [(queue(0), offsets)].into();
                ServerAnswer::body(&ConsumeStats { offset_table, ..ConsumeStats::default() })
            }
            request::GET_CONSUMER_CONNECTION_LIST => {
                let member = Connection { client_id: "c".to_owned(), ..Connection::default() };
                ServerAnswer::body(&ConsumerConnection {
                    connection_set: vec![member],
                    ..ConsumerConnection::default()
                })
            }
            request::GET_CONSUMER_RUNNING_INFO if properties.contains_key("refused") => {
                ServerAnswer::refused_because(response::SYSTEM_ERROR, "not supported by clients of gRPC")
            }
            request::GET_CONSUMER_RUNNING_INFO => ServerAnswer::body(&ConsumerRunningInfo {
                mq_table: held.clone().into_iter().map(|held| (queue(0), held)).collect(),
                properties: properties.clone(),
                status_table: [(
                    "T".to_owned(),
                    json!({"consumeRT": 20.0, "consumeOKTPS": 1.0, "consumeFailedTPS": failed_tps}),
                )]
                .into(),
                ..ConsumerRunningInfo::default()
            }),
            _ => ServerAnswer::bytes(b"{}".to_vec()),
        };
        with_cluster(&["a"], answers, async |session: &Session| {
            let mut arguments = Arguments::default();
            arguments.set("group", "G");
            serde_json::to_value(lag(session, &arguments).await.unwrap()).unwrap()
        })
    }

    #[test]
    fn the_state_of_a_queue_is_what_keeps_its_owner() {
        let at = |ago_ms: i64| NOW_MS - ago_ms;
        let check = |held: Option<Value>, properties: &[(&str, &str)], expected: &str| {
            let shown = group_with(held, properties, 0.0);
            assert_eq!(shown["queues"][0]["state"], expected, "{shown}");
            assert_eq!(shown["queues"][0]["diff"], 6);
            let is_cause = !matches!(expected, "consuming" | "owner-unknown");
            assert_eq!(shown["causes"].as_array().unwrap().len(), usize::from(is_cause), "{shown}");
        };
        check(None, &[], "no-owner");
        check(None, &[("PROP_CONSUME_TYPE", "CONSUME_ACTIVELY")], "owner-unknown");
        let ordered = [("PROP_CONSUMEORDERLY", "true")];
        check(Some(json!({"locked": false, "lastPullTimestamp": at(1)})), &ordered, "not-locked");
        check(
            Some(json!({"cachedMsgCount": 3, "lastConsumeTimestamp": at(STILL_MS + 1)})),
            &[],
            "listener-stands",
        );
        check(Some(json!({"cachedMsgCount": 0, "lastPullTimestamp": at(STILL_MS + 1)})), &[], "not-pulled");
        let full = json!({"cachedMsgCount": 16, "lastConsumeTimestamp": at(5), "lastPullTimestamp": at(5)});
        check(Some(full.clone()), &[("pullThresholdForQueue", "16")], "full");
        check(Some(full), &[], "consuming");
    }

    #[test]
    fn a_listener_that_fails_is_a_cause() {
        let shown = group_with(Some(json!({"lastPullTimestamp": NOW_MS})), &[], 3.0);
        assert_eq!(shown["causes"], json!([{"cause": "listener-fails", "count": 3.0, "of": 4.0}]), "{shown}");
        assert_eq!(shown["members"][0]["listener_ms"], 20.0, "{shown}");
    }

    #[test]
    fn a_member_that_cannot_report_a_status_is_not_silent() {
        let shown = group_with(None, &[("refused", "")], 0.0);
        assert_eq!(
            (&shown["causes"], &shown["members"][0]["answered"]),
            (&json!([]), &json!(true)),
            "{shown}"
        );
        assert_eq!(shown["queues"][0]["state"], "owner-unknown", "{shown}");
    }
}
