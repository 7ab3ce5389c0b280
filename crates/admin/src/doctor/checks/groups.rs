//! How far consumer groups are.

use crate::doctor::bundle::{Bundle, Group, Progress};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::text::time;
use std::collections::BTreeMap;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};

const HOUR_MS: i64 = 3_600_000;
/// Hours for which messages are kept unless `fileReservedTime` says otherwise.
const RESERVED_HOURS: i64 = 72;
/// Age of an unconsumed message below which its group counts as moving. A group whose filter selects no message commits an offset
/// at the end of a long poll, after 15 s. Clients save offsets every 5 s.
const MOVING_MS: i64 = 30_000;
/// Share of the time for which messages are kept, in percent, after which a lag is in danger.
const OLD_PERCENT: i64 = 80;
/// Messages in a retry topic from which on a group is said to be in a storm of retries.
const RETRIES: i64 = 1000;
const STATS: &str = "GET_CONSUME_STATS (208)";

pub(super) const CHECKS: &[Check] = checks! {
    "group-offline-with-lag", Critical, offline_with_lag,
        "Nobody of a group is online, and messages wait for it", "progress and connections of groups";
    "group-not-moving", Critical, not_moving,
        "A group is online, messages wait in a queue, and its committed offset did not move between two looks",
        "two looks at the progress of a group with lag (--sample)";
    "group-lag-expires", Critical, lag_expires,
        "The oldest unconsumed messages will be deleted before they are consumed",
        "progress of groups with lag";
    "group-offset-outside", Critical, offset_outside, "A committed offset lies outside of its queue",
        "progress of groups, status of topics";
    "group-dead-letters", Warning, dead_letters,
        "Messages of a group were given up and lie in its dead letter queue", "status of topics";
    "group-retry-storm", Warning, retry_storm, "Many messages of a group wait for another attempt",
        "progress of groups";
    "group-disabled", Warning, disabled, "A group is not allowed to consume, and messages wait for it",
        "settings and progress of groups";
};

/// Progress in queues with messages that wait. Where a group has committed nothing, brokers count from offset 0.
fn lagging(group: &Group) -> impl Iterator<Item = &Progress> {
    group.progress.iter().filter(|row| row.lag() > 0)
}

fn offline_with_lag(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let is_online = group.is_online?;
        let lag: i64 = lagging(group).map(Progress::lag).sum();
        Found::when(!is_online && lag > 0, || {
            let most = lagging(group).max_by_key(|row| row.lag());
            let most =
                most.map(|row| format!(", {} of them in {}", row.lag(), row.title())).unwrap_or_default();
            let topic = lagging(group).next().map_or("", |row| row.topic.as_str());
            let fix = format!(
                "start a member of {0}; if the group is gone: vostok admin offset skip {0} {topic}",
                group.name
            );
            Found::new(&group.name, format!("{lag} messages wait{most}"), STATS, fix)
        })
    })
}

fn not_moving(bundle: &Bundle) -> Look {
    let rows = bundle.groups.iter().filter(|group| group.is_online == Some(true));
    Look::each(rows.flat_map(|group| group.progress.iter().map(move |row| (group, row))), |(group, row)| {
        let later = row.later?;
        let waits_ms = bundle.taken_at_ms - row.first_ms.unwrap_or(row.last_ms);
        Found::when(row.lag() > 0 && later.committed == row.committed && waits_ms > MOVING_MS, || {
            let figure = format!(
                "committed offset {} of {} unchanged for {} s, {} messages wait",
                row.committed,
                row.max,
                later.after_ms / 1000,
                row.lag()
            );
            let fix = format!(
                "vostok doctor queue {}/{} --broker {} -g {}",
                row.topic, row.queue, row.broker, group.name
            );
            Found::new(format!("{} in {}", group.name, row.title()), figure, STATS, fix)
        })
    })
}

/// Hours for which the master of a broker set keeps messages.
fn reserved_hours(bundle: &Bundle, broker: &str) -> i64 {
    let master = bundle.brokers.iter().find(|it| it.name == broker && it.id == 0);
    let setting = master.and_then(|master| master.setting("fileReservedTime"));
    setting.and_then(|text| text.parse().ok()).unwrap_or(RESERVED_HOURS)
}

fn lag_expires(bundle: &Bundle) -> Look {
    let rows = bundle.groups.iter().flat_map(|group| group.progress.iter().map(move |row| (group, row)));
    Look::each(rows, |(group, row)| {
        let limit_ms = reserved_hours(bundle, &row.broker) * HOUR_MS;
        let old_ms = bundle.taken_at_ms - limit_ms / 100 * OLD_PERCENT;
        // What waits is younger than what was consumed last.
        if row.lag() <= 0 || row.last_ms > old_ms {
            return Some(Vec::new());
        }
        let first_ms = row.first_ms?;
        Found::when(first_ms < old_ms, || {
            let figure = format!(
                "the first waiting message is of {}, files are kept for {} h",
                time(first_ms),
                limit_ms / HOUR_MS
            );
            let fix = format!(
                "add members to {}; meanwhile: vostok admin broker set fileReservedTime {} --broker {}",
                group.name,
                limit_ms / HOUR_MS * 2,
                row.broker
            );
            Found::new(format!("{} in {}", group.name, row.title()), figure, STATS, fix)
        })
    })
}

fn offset_outside(bundle: &Bundle) -> Look {
    let rows = bundle.groups.iter().flat_map(|group| group.progress.iter().map(move |row| (group, row)));
    // There are as many rows as groups have queues, so that each must not look through all topics.
    let topics: BTreeMap<&str, _> =
        bundle.topics.iter().map(|topic| (topic.name.as_str(), &topic.queues)).collect();
    Look::each(rows, |(group, row)| {
        let queues = topics.get(row.topic.as_str())?;
        let queue = queues.iter().find(|it| it.broker == row.broker && it.queue == row.queue)?;
        if row.committed <= 0 && queue.min > 0 {
            // Brokers also say 0 of a group that has committed nothing.
            return None;
        }
        // The queue may have grown since, which is no fault.
        let is_outside = row.committed < queue.min || row.committed > queue.max.max(row.max);
        Found::when(is_outside, || {
            let figure = format!("committed {}, the queue has {} to {}", row.committed, queue.min, queue.max);
            let fix = format!(
                "vostok admin offset reset {} {} now --broker {} --queue {} --offset {}",
                group.name,
                row.topic,
                row.broker,
                row.queue,
                row.committed.clamp(queue.min, queue.max)
            );
            Found::new(format!("{} in {}", group.name, row.title()), figure, STATS, fix)
        })
    })
}

fn dead_letters(bundle: &Bundle) -> Look {
    Look::each(&bundle.topics, |topic| {
        let group = match topic.name.strip_prefix(DLQ_PREFIX) {
            Some(group) => group,
            // That no group has dead letters can be told from the list of topics.
            None => return Some(Vec::new()),
        };
        let count: i64 = topic.queues.iter().map(|queue| queue.max - queue.min).sum();
        let last_ms = topic.queues.iter().map(|queue| queue.last_ms).max().unwrap_or_default();
        Found::when(count > 0, || {
            let figure = format!("{count} messages, the last at {}", time(last_ms));
            let fix = format!("look at them: vostok admin message print-topic {} --limit 10", topic.name);
            Found::new(group, figure, "GET_TOPIC_STATS_INFO (202)", fix)
        })
    })
}

fn retry_storm(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let retries = group.progress.iter().filter(|row| row.topic.starts_with(RETRY_PREFIX));
        let lag: i64 = retries.map(Progress::lag).sum();
        (!group.progress.is_empty()).then_some(())?;
        Found::when(lag > RETRIES, || {
            let fix = format!("find out why the listener fails: vostok admin group progress {}", group.name);
            Found::new(&group.name, format!("{lag} messages in {RETRY_PREFIX}{}", group.name), STATS, fix)
        })
    })
}

fn disabled(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let is_enabled = group.is_enabled?;
        let lag: i64 = lagging(group).map(Progress::lag).sum();
        Found::when(!is_enabled && lag > 0, || {
            let fix = format!("vostok admin group create {} --enable true --cluster CLUSTER", group.name);
            let figure = format!("consumeEnable=false, {lag} messages wait");
            Found::new(&group.name, figure, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)", fix)
        })
    })
}
