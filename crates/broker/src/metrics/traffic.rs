//! Messages stored and delivered, and those given up.

use std::collections::BTreeMap;

use super::catalogue::{
    DEAD_LETTERS, MESSAGE_SIZE, MESSAGES_IN, MESSAGES_OUT, THROUGHPUT_IN, THROUGHPUT_OUT,
};
use super::exposition::Exposition;
use super::labels::{flag, is_system, shown_topic};
use crate::broker::Broker;
use crate::names;
use crate::state::Name;
use crate::topics::{MessageKind, SIZE_BOUNDS, SentOfKind};

pub(super) fn write(broker: &Broker, text: &mut Exposition) {
    stored(broker, text);
    delivered(broker, text);
    given_up(broker, text);
}

/// What producers sent, by topic and kind, without retry and dead letter topics.
fn stored(broker: &Broker, text: &mut Exposition) {
    let mut sums: BTreeMap<(String, usize), SentOfKind> = BTreeMap::new();
    for topic in broker.topics.all() {
        if names::is_retry_topic(topic.name()) || names::is_dlq_topic(topic.name()) {
            continue;
        }
        for (_, queue) in topic.opened() {
            for (kind, counts) in queue.sent.by_kind() {
                sums.entry((topic.name().to_owned(), kind as usize)).or_default().add(&counts);
            }
        }
    }
    let labels = |(topic, kind): &(String, usize)| {
        let topic = topic.clone();
        let is_system = flag(names::is_system_topic(&topic));
        (topic, MessageKind::NAMES[*kind].1, is_system)
    };
    for (metric, figure) in [
        (&MESSAGES_IN, (|sent| sent.messages()) as fn(&SentOfKind) -> u64),
        (&THROUGHPUT_IN, |sent| sent.bytes),
    ] {
        let mut family = text.family(metric);
        for (key, sent) in &sums {
            let (topic, kind, is_system) = labels(key);
            family.value(&[&topic, kind, is_system], figure(sent) as f64);
        }
        family.end();
    }
    let mut family = text.family(&MESSAGE_SIZE);
    for (key, sent) in &sums {
        let (topic, kind, is_system) = labels(key);
        family.histogram(&[&topic, kind, is_system], &SIZE_BOUNDS, &sent.sizes, sent.bytes as f64);
    }
    family.end_histogram(&SIZE_BOUNDS);
}

/// What groups got, by topic and group. What a group pops again counts for the topic it came from.
fn delivered(broker: &Broker, text: &mut Exposition) {
    let mut sums: BTreeMap<(String, String, bool), (u64, u64)> = BTreeMap::new();
    for (key, delivered) in broker.offsets.delivered() {
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

/// What went to dead letter topics.
fn given_up(broker: &Broker, text: &mut Exposition) {
    let events = broker.stats.events(|_| true);
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
