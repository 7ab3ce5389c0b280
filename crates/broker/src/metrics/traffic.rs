//! Metrics of stored, delivered and dead messages.

use std::collections::BTreeMap;

use super::catalogue::{
    DEAD_LETTERS, MESSAGE_SIZE, MESSAGES_IN, MESSAGES_OUT, THROUGHPUT_IN, THROUGHPUT_OUT,
};
use super::exposition::Exposition;
use super::labels::{flag, is_system, shown_topic};
use crate::names;
use crate::parts::{Figures, Tables};
use crate::state::Name;
use crate::topics::{MessageKind, SIZE_BOUNDS, SentOfKind};

pub(super) fn write(tables: &Tables, figures: &Figures, text: &mut Exposition) {
    stored(tables, figures, text);
    delivered(tables, text);
    given_up(figures, text);
}

/// Writes the messages of producers, by topic and kind, without retry and dead letter topics.
fn stored(tables: &Tables, figures: &Figures, text: &mut Exposition) {
    let topics = figures.stats.topics_sent_to();
    let mut rows: Vec<([&str; 3], SentOfKind)> = Vec::new();
    for name in &topics {
        if names::is_retry_topic(name) || names::is_dlq_topic(name) {
            continue;
        }
        let Some(topic) = tables.topics.find(name) else { continue };
        let mut sums = [const { None::<SentOfKind> }; MessageKind::NAMES.len()];
        topic.each_opened(|queue| {
            queue
                .sent
                .by_kind()
                .for_each(|(kind, counts)| sums[kind as usize].get_or_insert_default().add(&counts));
        });
        let is_system = flag(names::is_system_topic(name));
        let kinds = MessageKind::NAMES.iter().zip(sums);
        rows.extend(kinds.filter_map(|((_, kind), sum)| Some(([name, *kind, is_system], sum?))));
    }
    rows.sort_unstable_by_key(|(labels, _)| *labels);
    // Side by side in memory, because each of them is read for several metrics.
    let names: String = rows.iter().map(|(labels, _)| labels[0]).collect();
    let mut rest = names.as_str();
    for ([name, ..], _) in &mut rows {
        (*name, rest) = rest.split_at(name.len());
    }
    for (metric, figure) in [
        (&MESSAGES_IN, (|sent| sent.messages()) as fn(&SentOfKind) -> u64),
        (&THROUGHPUT_IN, |sent| sent.bytes),
    ] {
        let mut family = text.family(metric);
        rows.iter().for_each(|(labels, sent)| family.value(labels, figure(sent) as f64));
        family.end();
    }
    let mut family = text.family(&MESSAGE_SIZE);
    for (labels, sent) in &rows {
        family.histogram(labels, &SIZE_BOUNDS, &sent.sizes, sent.bytes as f64);
    }
    family.end_histogram(&SIZE_BOUNDS);
}

/// Writes the messages delivered to groups, by topic and group. A message that a group pops again counts for its
/// original topic.
fn delivered(tables: &Tables, text: &mut Exposition) {
    let mut sums: BTreeMap<(String, String, bool), (u64, u64)> = BTreeMap::new();
    for (key, delivered) in tables.offsets.delivered() {
        let Some((topic, group)) = key.split_once('@').filter(|_| delivered.messages > 0) else { continue };
        let is_retry = names::is_retry_topic(topic) || names::is_dlq_topic(topic);
        let key = (shown_topic(topic, group).to_owned(), group.to_owned(), is_retry);
        let (messages, bytes) = sums.entry(key).or_default();
        *messages += delivered.messages;
        *bytes += delivered.bytes;
    }
    for (metric, figure) in
        [(&MESSAGES_OUT, (|sum| sum.0) as fn(&(u64, u64)) -> u64), (&THROUGHPUT_OUT, |sum| sum.1)]
    {
        let mut family = text.family(metric);
        for ((topic, group, is_retry), sum) in &sums {
            let labels = [topic.as_str(), group.as_str(), flag(is_system(topic, group)), flag(*is_retry)];
            family.value(&labels, figure(sum) as f64);
        }
        family.end();
    }
}

/// Writes the messages in dead letter topics.
fn given_up(figures: &Figures, text: &mut Exposition) {
    let events = figures.stats.events(|_| true);
    let counts: BTreeMap<String, u64> = events
        .into_iter()
        .filter(|((name, _), _)| *name == Name::DeadLetters)
        .map(|((_, key), count)| (key, count))
        .collect();
    let mut family = text.family(&DEAD_LETTERS);
    for (key, count) in counts {
        let Some((topic, group)) = key.split_once('@') else { continue };
        family.value(&[group, topic, flag(is_system(topic, group))], count as f64);
    }
    family.end();
}
