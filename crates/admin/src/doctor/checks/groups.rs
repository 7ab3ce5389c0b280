//! Progress of consumer groups.

use crate::command_line::quoted;
use crate::doctor::bilingual::{Phrase, Text, text};
use crate::doctor::bundle::{Bundle, Group, Progress};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::Fix;
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

const PROGRESS: Phrase = Phrase("progress of groups");
const TOPICS: Phrase = Phrase("status of topics");

pub(super) const CHECKS: &[Check] = checks! {
    "group-offline-with-lag", Critical, offline_with_lag,
        "Nobody of a group is online, and messages wait for it", Phrase("progress and connections of groups");
    "group-not-moving", Critical, not_moving,
        "A group is online, messages wait in a queue, and its committed offset did not move between two looks",
        Phrase("two looks at the progress of a group with lag (--sample)");
    "group-lag-expires", Critical, lag_expires,
        "The oldest unconsumed messages will be deleted before they are consumed",
        Phrase("progress of groups with lag");
    "group-offset-outside", Critical, offset_outside,
        "A committed offset lies outside of its queue", Phrase("progress of groups, status of topics");
    "group-dead-letters", Warning, dead_letters,
        "Messages of a group were given up and lie in its dead letter queue", TOPICS;
    "group-retry-storm", Warning, retry_storm, "Many messages of a group wait for another attempt", PROGRESS;
    "group-disabled", Warning, disabled,
        "A group is not allowed to consume, and messages wait for it", Phrase("settings and progress of groups");
};

/// Progress in queues with messages that wait. Where a group has committed nothing, brokers count from offset 0.
fn lagging(group: &Group) -> impl Iterator<Item = &Progress> {
    group.progress.iter().filter(|row| row.lag() > 0)
}

fn queue_title(group: &Group, row: &Progress) -> Text {
    text!("{group} in {queue}", group = &group.name, queue = row.title())
}

/// The operation that shows how far a group is.
fn progress_fix(group: &str) -> Fix {
    Fix::new("group", "progress", &[("group", group)])
}

fn offline_with_lag(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let is_online = group.is_online?;
        let lag: i64 = lagging(group).map(Progress::lag).sum();
        Found::when(!is_online && lag > 0, || {
            let name = &group.name;
            let figure = match lagging(group).max_by_key(|row| row.lag()) {
                Some(row) if row.lag() < lag => {
                    let (most, queue) = (row.lag(), row.title());
                    text!("{lag} messages wait, {most} of them in {queue}", lag, most, queue)
                }
                row => {
                    let queue = row.map(Progress::title).unwrap_or_default();
                    text!("{lag} messages wait in {queue}", lag, queue)
                }
            };
            let advice =
                text!("start a member of {name}; if nobody needs the group any more, delete it", name);
            Found::new(name, figure, STATS, advice).fix(progress_fix(name)).of_group(name)
        })
    })
}

fn not_moving(bundle: &Bundle) -> Look {
    let rows = bundle.groups.iter().filter(|group| group.is_online == Some(true));
    Look::each(rows.flat_map(|group| group.progress.iter().map(move |row| (group, row))), |(group, row)| {
        let later = row.later?;
        let waits_ms = bundle.taken_at_ms - row.first_ms.unwrap_or(row.last_ms);
        Found::when(row.lag() > 0 && later.committed == row.committed && waits_ms > MOVING_MS, || {
            let figure = text!(
                "committed offset {committed} of {max} unchanged for {seconds} s, {lag} messages wait",
                committed = row.committed,
                max = row.max,
                seconds = later.after_ms / 1000,
                lag = row.lag()
            );
            let advice = text!(
                "follow the messages through the queue: vostok doctor queue {queue} --broker {broker} -g {name}",
                queue = quoted(&format!("{}/{}", row.topic, row.queue)),
                broker = quoted(&row.broker),
                name = quoted(&group.name)
            );
            let fix = Fix::new("client", "consumers", &[("group", &group.name)]);
            Found::new(queue_title(group, row), figure, STATS, advice)
                .fix(fix)
                .of_group(&group.name)
                .of_set(&row.broker)
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
            let (first, hours) = (time(first_ms), limit_ms / HOUR_MS);
            let figure =
                text!("the first waiting message is of {first}, files are kept for {hours} h", first, hours);
            let (name, longer) = (&group.name, (hours * 2).to_string());
            let advice = text!("add members to {name}; meanwhile keep messages for longer", name);
            let given = [("key", "fileReservedTime"), ("value", longer.as_str()), ("broker", &row.broker)];
            Found::new(queue_title(group, row), figure, STATS, advice)
                .fix(Fix::new("broker", "set", &given))
                .of_group(name)
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
            let (committed, min, max) = (row.committed, queue.min, queue.max);
            let figure = text!("committed {committed}, the queue has {min} to {max}", committed, min, max);
            let advice =
                text!("set the offset to the nearest end of the queue, which skips no message that is left");
            let (queue, nearest) = (row.queue.to_string(), committed.clamp(min, max).to_string());
            let given = [
                ("group", group.name.as_str()),
                ("topic", &row.topic),
                ("time", "now"),
                ("broker", &row.broker),
                ("queue", &queue),
                ("offset", &nearest),
            ];
            Found::new(queue_title(group, row), figure, STATS, advice)
                .fix(Fix::new("offset", "reset", &given))
                .of_group(&group.name)
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
            let figure = text!("{count} messages, the last at {last}", count, last = time(last_ms));
            let advice = text!(
                "mend what the listener fails on, then send the messages again or delete the dead letter topic"
            );
            Found::new(group, figure, "GET_TOPIC_STATS_INFO (202)", advice)
                .fix(Fix::new("dlq", "list", &[("group", group)]))
                .of_group(group)
        })
    })
}

fn retry_storm(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let retries = group.progress.iter().filter(|row| row.topic.starts_with(RETRY_PREFIX));
        let lag: i64 = retries.map(Progress::lag).sum();
        (!group.progress.is_empty()).then_some(())?;
        Found::when(lag > RETRIES, || {
            let name = &group.name;
            let figure = text!("{lag} messages in {RETRY_PREFIX}{name}", lag, RETRY_PREFIX, name);
            let advice = text!("find in the log of the members why the listener fails");
            Found::new(name, figure, STATS, advice).fix(progress_fix(name)).of_group(name)
        })
    })
}

fn disabled(bundle: &Bundle) -> Look {
    Look::each(&bundle.groups, |group| {
        let is_enabled = group.is_enabled?;
        let lag: i64 = lagging(group).map(Progress::lag).sum();
        Found::when(!is_enabled && lag > 0, || {
            let name = &group.name;
            let figure = text!("consumeEnable=false, {lag} messages wait", lag);
            let advice = text!(
                "set consumeEnable=true with the other settings of the group, if the group should consume"
            );
            Found::new(name, figure, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)", advice)
                .fix(Fix::new("group", "config", &[("group", name)]))
                .of_group(name)
        })
    })
}
