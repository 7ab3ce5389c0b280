//! Live figures: a sample of all brokers each second while a page is open, every ten seconds otherwise; rates of topics a few at
//! a time; the doctor's verdict.

use crate::answers::now_ms;
use crate::history::{History, Kind, Point};
use admin::{BrokerRow, Diagnosis, Health};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// Time for which one look at the overview counts as watching, ms.
const WATCH_MS: i64 = 15_000;
/// Topics of one request to brokers that tell how many messages each topic has.
pub(crate) const TOPICS_COUNTED: usize = 1000;
/// Topics of other brokers whose rates are asked for in ten seconds.
const TOPICS_AT_ONCE: usize = 20;
/// Most topics whose rates are remembered: the topics with the most messages per second.
const TOPICS_MAX: usize = 200;
/// Age in ms from which on the rate of a topic is not shown. While a page is open, the console samples 1000 topics of Vostok's brokers
/// in 20 s, and 20 topics of other brokers in 10 s. So the rates of 180,000 topics of Vostok, or of 7200 others, stay below this age.
const TOPIC_MS_MAX: i64 = 3_600_000;

/// Live figures.
#[derive(Default)]
pub(crate) struct Live {
    state: Mutex<State>,
    /// Time of the last look of a visitor, ms since the epoch.
    watched_ms: AtomicI64,
    /// Whether a visitor wants the doctor to look now.
    is_wanted: AtomicBool,
}

#[derive(Default)]
struct State {
    history: History,
    sample: Sample,
    /// Counters of brokers by address when they answered last.
    counters: HashMap<String, Counters>,
    /// Topics by name: when their rate was looked at, and their messages per second then.
    topics: BTreeMap<String, (i64, f64)>,
    /// The last topic that was asked for in this round.
    cursor: Option<String>,
    /// Messages ever stored in each topic of the page after the cursor, from the first of two looks, and the time of
    /// that look in ms since the epoch.
    counts: Option<(i64, HashMap<String, i64>)>,
    doctor: Option<Arc<Diagnosis>>,
}

/// The figures of one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    pub at_ms: i64,
    pub at: String,
    pub in_tps: f64,
    pub out_tps: f64,
    /// Rows of `cluster list`, with rates of the last second.
    pub brokers: Vec<BrokerRow>,
    /// The ten topics with the most messages per second when each was last looked at.
    pub topics: Vec<BusyTopic>,
    /// Why there are no figures.
    pub error: Option<String>,
}

/// A topic with its rate when it was last looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BusyTopic {
    pub topic: String,
    pub in_tps: f64,
    pub time: String,
    /// Time of the look, ms since the epoch.
    #[serde(skip)]
    pub at_ms: i64,
}

impl Sample {
    /// Whether a broker refuses the console.
    pub fn is_refused(&self) -> bool {
        let errors = self.brokers.iter().filter_map(|row| row.error.as_deref());
        errors.chain(self.error.as_deref()).any(|error| error.contains("NO_PERMISSION"))
    }
}

impl Live {
    /// The last figures. The caller counts as a visitor that watches.
    pub fn sample(&self) -> Sample {
        self.watch();
        self.sample_unwatched()
    }

    /// Notes that a visitor looks at the figures.
    pub fn watch(&self) {
        self.watched_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// The last figures for the console itself, which does not count as watching.
    pub fn sample_unwatched(&self) -> Sample {
        self.state.lock().expect("short section").sample.clone()
    }

    /// The past of an object after a time, in one of three resolutions.
    pub fn history(&self, object: (Kind, &str), ring: usize, since_ms: i64) -> Vec<Point> {
        self.state.lock().expect("short section").history.points(object, ring, (since_ms, now_ms()))
    }

    /// Notes that a visitor looks at an object, which is sampled each second from now on.
    pub fn open(&self, kind: Kind, name: &str) {
        self.state.lock().expect("short section").history.open(kind, name, now_ms());
    }

    /// Topics or groups that are to be sampled each second.
    pub fn watched(&self, kind: Kind) -> Vec<String> {
        self.state.lock().expect("short section").history.watched(kind, now_ms())
    }

    /// Adds a sample of an object to its past, with a value for each figure of its kind.
    pub fn add(&self, (kind, name): (Kind, &str), at_ms: i64, values: &[Option<f64>]) {
        self.state.lock().expect("short section").history.add(kind, name, at_ms, values);
    }

    /// Names of the busiest topics, at most `count`.
    pub fn busiest_topics(&self, count: usize) -> Vec<String> {
        let state = self.state.lock().expect("short section");
        let mut topics: Vec<_> = state.topics.iter().collect();
        topics.sort_by(|(_, one), (_, other)| other.1.total_cmp(&one.1));
        topics.into_iter().take(count).map(|(name, _)| name.clone()).collect()
    }

    /// Messages stored per second in a topic when it was last looked at.
    pub fn topic_rate(&self, name: &str) -> Option<f64> {
        self.state.lock().expect("short section").topics.get(name).map(|(_, tps)| *tps)
    }

    /// Returns the address of a broker from its address, or from the name of its broker set, which stands for the
    /// master.
    pub fn broker_address(&self, name: &str) -> Option<String> {
        let state = self.state.lock().expect("short section");
        let is_meant = |row: &&BrokerRow| row.address == name || row.broker == name && row.id == 0;
        state.sample.brokers.iter().find(is_meant).map(|row| row.address.clone())
    }

    /// The doctor's last verdict.
    pub fn doctor(&self) -> Option<Arc<Diagnosis>> {
        self.state.lock().expect("short section").doctor.clone()
    }

    /// Sets the doctor's verdict.
    pub fn take_verdict(&self, verdict: Diagnosis) {
        self.state.lock().expect("short section").doctor = Some(Arc::new(verdict));
    }

    /// Health of the cluster by the doctor's last verdict.
    pub fn health(&self) -> Health {
        let state = self.state.lock().expect("short section");
        state.doctor.as_ref().map(|doctor| doctor.health).unwrap_or_default()
    }

    /// Makes the doctor look as soon as possible.
    pub fn want_verdict(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Returns whether a visitor has asked for a verdict since the last call, and resets that.
    pub fn take_wish(&self) -> bool {
        self.is_wanted.swap(false, Ordering::Relaxed)
    }

    /// Whether a visitor looks at the figures.
    pub fn is_watched(&self) -> bool {
        now_ms() - self.watched_ms.load(Ordering::Relaxed) < WATCH_MS
    }

    /// Takes over the rows of `cluster list`, or the error.
    pub fn take(&self, now_ms: i64, answer: Result<Vec<BrokerRow>, String>) {
        let mut state = self.state.lock().expect("short section");
        let mut sample = Sample { at_ms: now_ms, at: admin::time(now_ms), ..Sample::default() };
        match answer {
            Err(why) => sample.error = Some(why),
            Ok(brokers) => {
                sample.brokers = brokers;
                state.take_brokers(now_ms, &mut sample.brokers);
                // Slaves get the same messages once more.
                sample.in_tps = sample.brokers.iter().filter(|row| row.id == 0).map(|row| row.in_tps).sum();
                sample.out_tps = sample.brokers.iter().map(|row| row.out_tps).sum();
                let Sample { in_tps, out_tps, .. } = sample;
                state.history.add(Kind::Cluster, "", now_ms, &[Some(in_tps), Some(out_tps)]);
                // Rows must not change places each second, as they would by rate.
                let place = |row: &BrokerRow| (row.cluster.clone(), row.broker.clone(), row.id);
                sample.brokers.sort_by_cached_key(place);
            }
        }
        sample.topics = state.busiest(now_ms);
        state.sample = sample;
    }

    /// Takes over the page of topics after the cursor, each with the number of messages ever stored, which brokers of
    /// Vostok tell. The growth between two looks at a page gives the rates of its topics. Of brokers without these
    /// numbers, returns the topics whose rates the caller must ask for.
    pub fn next_topics(&self, now_ms: i64, page: &[(String, Option<i64>)]) -> Vec<String> {
        let mut state = self.state.lock().expect("short section");
        let name = |row: &(String, Option<i64>)| row.0.clone();
        let counts: Option<HashMap<String, i64>> = page.iter().map(|row| Some((name(row), row.1?))).collect();
        let Some(counts) = counts else {
            let next: Vec<String> = page.iter().take(TOPICS_AT_ONCE).map(name).collect();
            state.cursor = next.last().filter(|_| page.len() > TOPICS_AT_ONCE).cloned();
            return next;
        };
        let is_whole = state.cursor.is_none() && page.len() < TOPICS_COUNTED;
        if let Some((before_ms, before)) = state.counts.take() {
            let seconds = (now_ms - before_ms).max(1) as f64 / 1000.0;
            for (topic, count) in &counts {
                let stored = before.get(topic).map_or(0, |before| count - before);
                state.take_topic(now_ms, topic, (stored.max(0) as f64 / seconds * 10.0).round() / 10.0);
            }
            if !is_whole {
                state.cursor = page.last().map(name).filter(|_| page.len() >= TOPICS_COUNTED);
                return Vec::new();
            }
        }
        state.counts = Some((now_ms, counts));
        Vec::new()
    }

    /// Name after which the next page of topics begins. A round begins after `&`, because the names of retry topics and
    /// dead letter topics begin with `%`, which sorts before all other names.
    pub fn cursor(&self) -> String {
        self.state.lock().expect("short section").cursor.clone().unwrap_or_else(|| "&".to_owned())
    }

    /// Takes over the messages per second of a topic.
    pub fn take_topic(&self, now_ms: i64, topic: &str, tps: f64) {
        self.state.lock().expect("short section").take_topic(now_ms, topic, tps);
    }
}

impl State {
    fn take_topic(&mut self, now_ms: i64, topic: &str, tps: f64) {
        self.history.add(Kind::Topic, topic, now_ms, &[Some(tps), None]);
        self.topics.remove(topic);
        if tps > 0.0 {
            self.topics.insert(topic.to_owned(), (now_ms, tps));
        }
        if self.topics.len() > TOPICS_MAX {
            let least = self.topics.iter().min_by(|one, other| one.1.1.total_cmp(&other.1.1));
            let least = least.map(|(name, _)| name.clone());
            self.topics.retain(|name, _| Some(name) != least.as_ref());
        }
    }

    /// The ten topics with the most messages per second, with the time at which each was looked at.
    fn busiest(&mut self, now_ms: i64) -> Vec<BusyTopic> {
        self.topics.retain(|_, (at_ms, _)| now_ms - *at_ms < TOPIC_MS_MAX);
        let mut topics: Vec<_> = self.topics.iter().collect();
        topics.sort_by(|(_, one), (_, other)| other.1.total_cmp(&one.1));
        let topics = topics.into_iter().take(10);
        topics
            .map(|(topic, (at_ms, in_tps))| BusyTopic {
                topic: topic.clone(),
                in_tps: *in_tps,
                time: admin::time(*at_ms),
                at_ms: *at_ms,
            })
            .collect()
    }

    /// Replaces the rates of brokers by the rates since the sample before, and adds them to the history.
    fn take_brokers(&mut self, now_ms: i64, brokers: &mut [BrokerRow]) {
        let known = std::mem::take(&mut self.counters);
        for row in brokers {
            let before = known.get(&row.address).copied();
            // The row of a broker that did not answer has 0: against that the next sample would count the whole day.
            let counters = if row.error.is_none() { Some(Counters::of(row, now_ms)) } else { before };
            if let (Some(before), Some(counters)) = (before, counters) {
                refresh(row, before, counters);
            }
            if row.error.is_none() {
                let refused =
                    before.zip(counters).and_then(|(before, now)| now.rate(before, |it| it.refused));
                let disk = Some(row.disk_ratio * 100.0);
                let values = [Some(row.in_tps), Some(row.out_tps), refused, row.put_p99_ms, disk];
                self.history.add(Kind::Broker, &row.address, now_ms, &values);
            }
            self.counters.extend(counters.map(|counters| (row.address.clone(), counters)));
        }
    }
}

/// The counters of a broker that answered.
#[derive(Clone, Copy)]
struct Counters {
    at_ms: i64,
    stored: i64,
    delivered: i64,
    /// Requests that the broker refused since it started.
    refused: i64,
}

impl Counters {
    fn of(row: &BrokerRow, at_ms: i64) -> Self {
        Self { at_ms, stored: row.in_today, delivered: row.out_today, refused: row.refused }
    }

    fn rate(self, before: Self, count: impl Fn(Self) -> i64) -> Option<f64> {
        let seconds = (self.at_ms - before.at_ms) as f64 / 1000.0;
        // Counters that went back, as at midnight or after a start, say nothing.
        let grown = (count(self) - count(before)) as f64;
        (seconds > 0.0 && grown >= 0.0).then(|| (grown / seconds * 10.0).round() / 10.0)
    }
}

/// Replaces the rates of a broker, which are means of 10 s, by the rates since the sample before.
fn refresh(row: &mut BrokerRow, before: Counters, now: Counters) {
    if let Some(rate) = now.rate(before, |it| it.stored).filter(|_| now.stored > 0) {
        row.in_tps = rate;
    }
    if let Some(rate) = now.rate(before, |it| it.delivered).filter(|_| now.delivered > 0) {
        row.out_tps = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(id: i64, count: i64) -> BrokerRow {
        let mut row = BrokerRow::default();
        (row.broker, row.id, row.address) = ("a".to_owned(), id, format!("h:{id}"));
        (row.in_tps, row.in_today) = (1.0, count);
        row
    }

    fn page(count: usize, messages: Option<i64>) -> Vec<(String, Option<i64>)> {
        (0..count).map(|number| (format!("T{number:04}"), messages)).collect()
    }

    #[test]
    fn rates_are_those_since_the_sample_before() {
        let live = Live::default();
        live.take(1000, Ok(vec![told(0, 100), told(1, 100)]));
        assert_eq!(live.sample().in_tps, 1.0);
        live.take(3000, Ok(vec![told(0, 300), told(1, 300)]));
        assert_eq!(live.sample().in_tps, 100.0, "without the slave's");
        // Midnight.
        live.take(4000, Ok(vec![told(0, 5), told(1, 5)]));
        assert_eq!(live.sample().in_tps, 1.0);
        live.take(5000, Err("gone".to_owned()));
        assert_eq!(live.sample().error.as_deref(), Some("gone"));
    }

    #[test]
    fn a_broker_that_missed_a_sample_has_the_rate_since_its_last_answer() {
        let live = Live::default();
        live.take(1000, Ok(vec![told(0, 1_000_000)]));
        let mut silent = told(0, 0);
        (silent.in_tps, silent.error) = (0.0, Some("no answer".to_owned()));
        live.take(2000, Ok(vec![silent.clone()]));
        assert_eq!(live.sample().in_tps, 0.0);
        live.take(3000, Ok(vec![told(0, 1_000_200)]));
        assert_eq!(live.sample().in_tps, 100.0);
        let other = Live::default();
        other.take(1000, Ok(vec![silent]));
        other.take(2000, Ok(vec![told(0, 1_000_000)]));
        assert_eq!(other.sample().in_tps, 1.0, "without an answer before, the broker's own mean counts");
    }

    #[test]
    fn brokers_keep_their_order_when_their_rates_change() {
        let live = Live::default();
        let row = |(broker, id, in_tps): (&str, i64, f64)| {
            let mut row = told(id, 0);
            (row.broker, row.in_tps, row.address) = (broker.to_owned(), in_tps, format!("{broker}:{id}"));
            row
        };
        for rates in
            [[("b", 0, 9.0), ("a", 1, 3.0), ("a", 0, 5.0)], [("a", 1, 8.0), ("a", 0, 1.0), ("b", 0, 2.0)]]
        {
            live.take(1000, Ok(rates.map(row).into()));
            let names: Vec<_> = live.sample().brokers.iter().map(|row| row.address.clone()).collect();
            assert_eq!(names, ["a:0", "a:1", "b:0"]);
        }
    }

    #[test]
    fn brokers_have_a_past() {
        let live = Live::default();
        let at_ms = now_ms() / 1000 * 1000;
        for (second, refused) in [(0, 5), (1, 7)] {
            let mut row = told(0, 100 * second);
            (row.refused, row.put_p99_ms, row.disk_ratio) = (refused, Some(0.5), 0.25);
            live.take(at_ms - 2000 + second * 1000, Ok(vec![row]));
        }
        let past = live.history((Kind::Broker, "h:0"), 0, 0);
        assert_eq!(past.len(), 2);
        assert_eq!(past[1].values, [100.0, 0.0, 2.0, 0.5, 25.0]);
        assert!(past[0].values[2].is_nan(), "the first count says nothing");
        assert_eq!(live.broker_address("a").as_deref(), Some("h:0"));
        assert_eq!((live.broker_address("h:0").as_deref(), live.broker_address("b")), (Some("h:0"), None));
    }

    #[test]
    fn topics_are_asked_in_turn_and_bounded() {
        let live = Live::default();
        let all = page(30, None);
        assert_eq!(live.cursor(), "&");
        assert_eq!(live.next_topics(1, &all).len(), TOPICS_AT_ONCE);
        assert_eq!(live.cursor(), "T0019");
        assert_eq!(live.next_topics(1, &all[TOPICS_AT_ONCE..]).len(), 10);
        assert_eq!(live.cursor(), "&", "the next round begins");
        (0..300).for_each(|number| live.take_topic(1, &format!("T{number}"), f64::from(number) + 0.5));
        live.take(1, Ok(vec![]));
        let sample = live.sample();
        assert_eq!((sample.topics.len(), sample.topics[0].topic.as_str()), (10, "T299"));
        assert_eq!(live.state.lock().unwrap().topics.len(), TOPICS_MAX);
    }

    #[test]
    fn old_rates_of_topics_are_not_shown() {
        let live = Live::default();
        live.take_topic(1000, "stopped", 9.0);
        live.take_topic(TOPIC_MS_MAX, "goes on", 1.0);
        let busiest = |now_ms| {
            live.take(now_ms, Ok(vec![]));
            live.sample().topics.iter().map(|row| row.topic.clone()).collect::<Vec<_>>()
        };
        assert_eq!(busiest(TOPIC_MS_MAX), ["stopped", "goes on"]);
        assert_eq!(busiest(TOPIC_MS_MAX + 1000), ["goes on"]);
    }

    #[test]
    fn rates_of_topics_come_from_two_looks_at_their_counts() {
        let live = Live::default();
        let told = |count: i64| vec![("A".to_owned(), Some(count)), ("B".to_owned(), Some(7))];
        let busiest = |live: &Live| {
            live.take(1, Ok(vec![]));
            live.sample().topics
        };
        assert!(live.next_topics(1000, &told(100)).is_empty() && busiest(&live).is_empty());
        live.next_topics(3000, &told(150));
        let time = "1970-01-01T00:00:03.000Z".to_owned();
        assert_eq!(busiest(&live), [BusyTopic { topic: "A".to_owned(), in_tps: 25.0, time, at_ms: 3000 }]);
        live.next_topics(5000, &told(150));
        assert!(busiest(&live).is_empty(), "nothing came since");
        live.next_topics(7000, &page(TOPICS_COUNTED, Some(1)));
        assert_eq!(live.cursor(), "T0999", "the page was looked at twice");
    }
}
