//! A sample: the rows of all screens, made from the last look and those before.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use serde_json::{Map, json};

use super::look::Look;
use super::rates::{Key, Rates};
use crate::text::time;
use crate::{BrokerRow, GroupQueue, Health, Lag, Member, ProducerRow, QueueStatus};

/// The figures of one moment. Rates are messages per second since the look before.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Sample {
    pub time: String,
    #[serde(skip)]
    pub at_ms: i64,
    /// Health of the cluster by the doctor's last verdict.
    pub health: Health,
    pub in_tps: f64,
    pub out_tps: f64,
    pub lag: i64,
    #[serde(serialize_with = "brokers")]
    pub brokers: Vec<BrokerRow>,
    pub topics: Vec<TopicRow>,
    pub groups: Vec<GroupRow>,
    pub queues: Vec<QueueRow>,
    pub clients: Vec<ClientRow>,
    /// Failures of requests.
    pub errors: Vec<String>,
}

/// Members of a broker in a sample as data.
const BROKER: [&str; 11] = [
    "cluster",
    "broker",
    "id",
    "address",
    "version",
    "in_tps",
    "out_tps",
    "in_today",
    "out_today",
    "disk_ratio",
    "error",
];

fn brokers<S: Serializer>(rows: &[BrokerRow], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter().map(|row| {
        let row = json!(row);
        BROKER.iter().map(|name| ((*name).to_owned(), row[name].clone())).collect::<Map<_, _>>()
    }))
}

impl Sample {
    /// Adds the doctor's last verdict.
    pub fn with(self, health: Health) -> Self {
        Self { health, ..self }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct TopicRow {
    pub topic: String,
    pub queues: usize,
    /// Sum of the maximum offsets of the queues; `None` until the queues were asked.
    pub end: Option<i64>,
    pub in_tps: Option<f64>,
    /// Rate of consumption of all groups.
    pub out_tps: Option<f64>,
    pub groups: usize,
    /// Messages that the groups have not consumed, all together.
    pub lag: i64,
    /// Lag in time of the group that is furthest behind; unknown if it is unknown for any queue.
    #[serde(flatten)]
    pub time_behind: Lag,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct GroupRow {
    pub group: String,
    /// Number of members; `None` while the group was not asked.
    pub members: Option<usize>,
    pub topics: usize,
    pub out_tps: Option<f64>,
    pub lag: i64,
    #[serde(flatten)]
    pub time_behind: Lag,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct QueueRow {
    pub topic: String,
    pub broker: String,
    pub queue: i32,
    pub group: String,
    pub broker_offset: i64,
    pub consumer_offset: i64,
    pub in_tps: Option<f64>,
    pub out_tps: Option<f64>,
    pub lag: i64,
    #[serde(flatten)]
    pub time_behind: Lag,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ClientRow {
    pub kind: &'static str,
    pub group: String,
    pub client_id: String,
    pub address: String,
    pub language: String,
    pub version: String,
}

/// State that is remembered between looks.
#[derive(Default)]
pub(super) struct History {
    rates: Rates,
    /// Queues of topics, and members of groups, that are asked in turn, with the time of the answer.
    ends: BTreeMap<String, (i64, Vec<QueueStatus>)>,
    members: BTreeMap<String, Vec<Member>>,
}

impl History {
    /// Makes a sample of a look.
    pub fn take(&mut self, look: Look) -> Sample {
        let Look { at_ms, brokers, topics, groups, progress, ends, producers, members, errors } = look;
        self.ends.retain(|topic, _| topics.contains(topic));
        self.ends.extend(ends.into_iter().map(|(topic, queues)| (topic, (at_ms, queues))));
        self.members.retain(|group, _| groups.contains(group));
        self.members.extend(members);
        let mut sample = Sample { time: time(at_ms), at_ms, errors, ..Sample::default() };
        sample.brokers = brokers.into_iter().map(|broker| self.broker(at_ms, broker)).collect();
        // Slaves get the same messages once more.
        sample.in_tps = sample.brokers.iter().filter(|row| row.id == 0).map(|row| row.in_tps).sum();
        sample.out_tps = sample.brokers.iter().map(|row| row.out_tps).sum();
        sample.queues = progress.into_iter().map(|row| self.queue(at_ms, row)).collect();
        sample.lag = sample.queues.iter().map(|row| row.lag).sum();
        sample.topics = self.topics(&topics, &sample.queues);
        sample.groups = self.groups(&groups, &sample.queues);
        let consumers = self.members.iter().flat_map(|(group, members)| {
            members.iter().map(move |member| ClientRow::consumer(group, member))
        });
        sample.clients = consumers.chain(producers.into_iter().map(ClientRow::producer)).collect();
        self.rates.forget_old(at_ms);
        sample
    }

    /// A broker with the rates since the last look. At the first look it has the broker's own rates, which are means of
    /// ten seconds.
    fn broker(&mut self, at_ms: i64, mut found: BrokerRow) -> BrokerRow {
        let mut rate = |key: fn(String) -> Key, count| match found.error {
            None => self.rates.take(key(found.address.clone()), at_ms, count),
            Some(_) => None,
        };
        let in_tps = rate(Key::BrokerIn, found.in_today).unwrap_or(found.in_tps);
        let out_tps = rate(Key::BrokerOut, found.out_today).unwrap_or(found.out_tps);
        (found.in_tps, found.out_tps) = (in_tps, out_tps);
        found
    }

    fn queue(&mut self, at_ms: i64, found: GroupQueue) -> QueueRow {
        let GroupQueue { topic, group, broker, queue, broker_offset, consumer_offset, diff, lag, .. } = found;
        let end = Key::End(topic.clone(), broker.clone(), queue);
        let consumed = Key::Consumed(group.clone(), topic.clone(), broker.clone(), queue);
        QueueRow {
            in_tps: self.rates.take(end, at_ms, broker_offset),
            out_tps: self.rates.take(consumed, at_ms, consumer_offset),
            lag: diff.max(0),
            topic,
            broker,
            queue,
            group,
            broker_offset,
            consumer_offset,
            time_behind: lag,
        }
    }

    fn topics(&mut self, names: &BTreeSet<String>, queues: &[QueueRow]) -> Vec<TopicRow> {
        let mut rows: BTreeMap<&str, Vec<&QueueRow>> = BTreeMap::new();
        queues.iter().for_each(|row| rows.entry(&row.topic).or_default().push(row));
        names.iter().map(String::as_str).for_each(|name| _ = rows.entry(name).or_default());
        rows.into_iter().map(|(topic, queues)| self.topic(topic, &queues)).collect()
    }

    /// A topic. Its queues come from the groups that consume it; a topic without groups has the queues of its last
    /// answer.
    fn topic(&mut self, topic: &str, queues: &[&QueueRow]) -> TopicRow {
        let topic = topic.to_owned();
        if queues.is_empty() {
            let Some((at_ms, ends)) = self.ends.get(&topic) else {
                return TopicRow { topic, ..TopicRow::default() };
            };
            let rates = ends.iter().map(|end| {
                let key = Key::End(topic.clone(), end.broker.clone(), end.queue);
                self.rates.take(key, *at_ms, end.max_offset)
            });
            let in_tps = sum(rates);
            let end = Some(ends.iter().map(|end| end.max_offset).sum());
            return TopicRow { queues: ends.len(), end, in_tps, topic, ..TopicRow::default() };
        }
        // Each queue is told once for each group.
        let own: BTreeMap<_, _> = queues.iter().map(|row| ((&row.broker, row.queue), *row)).collect();
        let groups: BTreeSet<_> = queues.iter().map(|row| &row.group).collect();
        let (lag, time_behind) = lag(queues);
        TopicRow {
            topic,
            queues: own.len(),
            end: Some(own.values().map(|row| row.broker_offset).sum()),
            in_tps: sum(own.values().map(|row| row.in_tps)),
            out_tps: sum(queues.iter().map(|row| row.out_tps)),
            groups: groups.len(),
            lag,
            time_behind,
        }
    }

    fn groups(&self, names: &BTreeSet<String>, queues: &[QueueRow]) -> Vec<GroupRow> {
        let mut rows: BTreeMap<&str, Vec<&QueueRow>> =
            names.iter().map(|name| (name.as_str(), Vec::new())).collect();
        queues.iter().for_each(|row| rows.entry(&row.group).or_default().push(row));
        let row = |(group, queues): (&str, Vec<&QueueRow>)| {
            let topics: BTreeSet<_> = queues.iter().map(|row| &row.topic).collect();
            let (lag, time_behind) = lag(&queues);
            GroupRow {
                group: group.to_owned(),
                members: self.members.get(group).map(Vec::len),
                topics: topics.len(),
                out_tps: sum(queues.iter().map(|row| row.out_tps)),
                lag,
                time_behind,
            }
        };
        rows.into_iter().map(row).collect()
    }
}

/// The sum of the rates that are known; `None` when none is.
fn sum(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    rates.flatten().fold(None, |sum, rate| Some(sum.unwrap_or(0.0) + rate))
}

/// The lag of queues in messages, and the largest lag of a queue in time.
fn lag(queues: &[&QueueRow]) -> (i64, Lag) {
    let behind = Lag::largest(queues.iter().map(|row| row.time_behind));
    (queues.iter().map(|row| row.lag).sum(), behind)
}

impl ClientRow {
    fn consumer(group: &str, member: &Member) -> Self {
        let Member { client_id, address, language, version } = member.clone();
        Self { kind: "consumer", group: group.to_owned(), client_id, address, language, version }
    }

    fn producer(row: ProducerRow) -> Self {
        let ProducerRow { group, client_id, address, language, version, .. } = row;
        Self { kind: "producer", group, client_id, address, language, version }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn progress(group: &str, queue: i32, end: i64, done: i64) -> GroupQueue {
        GroupQueue {
            topic: "Orders".into(),
            group: group.into(),
            broker: "broker-a".into(),
            queue,
            broker_offset: end,
            consumer_offset: done,
            diff: end - done,
            lag: Lag { lag_seconds: Some(end - done), lag_is_bound: false },
            ..GroupQueue::default()
        }
    }

    /// A look at a cluster to which `sent` messages were sent, two thirds of them consumed.
    pub(in crate::top) fn look(at_ms: i64, sent: i64) -> Look {
        let broker = |id, address: &str, error: Option<&str>| BrokerRow {
            cluster: "C".into(),
            broker: "broker-a".into(),
            id,
            address: address.into(),
            version: "V5_5_0".into(),
            in_tps: 1.0,
            in_today: sent,
            disk_ratio: 0.25,
            error: error.map(str::to_owned),
            ..BrokerRow::default()
        };
        let member = Member { client_id: "c1".into(), address: "10.0.0.7:5".into(), ..Member::default() };
        let producer = ProducerRow { group: "P".into(), client_id: "p1".into(), ..ProducerRow::default() };
        let end = QueueStatus { broker: "broker-a".into(), max_offset: sent * 2, ..QueueStatus::default() };
        Look {
            at_ms,
            brokers: vec![broker(0, "10.0.0.1:10911", None), broker(1, "10.0.0.2:10911", Some("no answer"))],
            topics: ["Audit", "Never", "Orders"].map(str::to_owned).into(),
            groups: ["Billing", "Idle", "Mail"].map(str::to_owned).into(),
            progress: vec![
                progress("Billing", 0, sent, sent / 3 * 2),
                progress("Billing", 1, sent, sent),
                progress("Mail", 0, sent, sent),
            ],
            ends: [("Audit".to_owned(), vec![end])].into(),
            producers: vec![producer],
            members: [("Billing".to_owned(), vec![member])].into(),
            errors: Vec::new(),
        }
    }

    #[test]
    fn rates_and_lag_come_from_two_looks() {
        let mut history = History::default();
        let first = history.take(look(1000, 300));
        assert_eq!(
            (first.topics[2].in_tps, first.brokers[0].in_tps),
            (None, 1.0),
            "the broker's own at first"
        );
        let sample = history.take(look(3000, 900));
        assert_eq!(sample.brokers[0].in_tps, 300.0);
        assert_eq!((sample.in_tps, sample.lag), (300.0, 300));
        let [audit, never, orders] = &sample.topics[..] else { panic!("{:?}", sample.topics) };
        assert_eq!((audit.end, audit.in_tps, audit.groups), (Some(1800), Some(600.0), 0));
        assert_eq!((never.end, never.in_tps), (None, None), "was not asked yet");
        assert_eq!((orders.queues, orders.groups, orders.end), (2, 2, Some(1800)));
        assert_eq!((orders.in_tps, orders.out_tps), (Some(600.0), Some(800.0)));
        assert_eq!((orders.lag, orders.time_behind.lag_seconds), (300, Some(300)));
        let [billing, idle, _] = &sample.groups[..] else { panic!("{:?}", sample.groups) };
        assert_eq!((billing.members, billing.out_tps, billing.lag), (Some(1), Some(500.0), 300));
        assert_eq!((idle.members, idle.topics, idle.out_tps), (None, 0, None));
        let kinds: Vec<_> = sample.clients.iter().map(|row| (row.kind, row.group.as_str())).collect();
        assert_eq!(kinds, [("consumer", "Billing"), ("producer", "P")]);
    }

    #[test]
    fn a_sample_as_data_has_eleven_members_for_each_broker() {
        let value = json!(History::default().take(look(1000, 300)));
        let [master, slave] = &value["brokers"].as_array().unwrap()[..] else { panic!("{value}") };
        let names: Vec<_> = master.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = BROKER.to_vec();
        expected.sort_unstable_by_key(|name| names.iter().position(|it| it == name));
        assert_eq!(names, expected);
        assert!(master["error"].is_null() && slave["error"] == "no answer");
    }

    #[test]
    fn what_was_asked_in_turn_is_kept_until_it_is_gone() {
        let mut history = History::default();
        history.take(look(1000, 300));
        let without = |at_ms| Look { ends: BTreeMap::new(), members: BTreeMap::new(), ..look(at_ms, 600) };
        let sample = history.take(without(2000));
        assert_eq!((sample.topics[0].end, sample.groups[0].members), (Some(600), Some(1)));
        let mut gone = without(3000);
        gone.topics.remove("Audit");
        history.take(gone);
        assert_eq!(history.take(without(4000)).topics[0].end, None);
    }
}
