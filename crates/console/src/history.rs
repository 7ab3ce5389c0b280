//! The past of the cluster, topics, groups and brokers: each second for 10 minutes, means of 10 s for 6 hours and of 5 minutes for
//! 7 days, in memory.
//!
//! Bounds: [`Kind::objects_max`] objects of a kind, and [`RINGS`] points of each object. A full history takes at most 24 MiB. Only the
//! cluster, brokers and objects whose pages are open are sampled each second. Where there is no room, the least busy object that no
//! visitor has opened in the last hour is dropped.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Length of a step in seconds and the number of steps, of each resolution.
const RINGS: [(u32, usize); 3] = [(1, 600), (10, 2160), (300, 2016)];
/// Time for which an object that a visitor opened is sampled each second, ms.
const WATCHED_MS: i64 = 15_000;
/// Time for which an object that a visitor opened is not dropped, ms.
const OPENED_MS: i64 = 3_600_000;
/// Objects of a kind that count as opened; the earliest opened one is forgotten first.
const OPENED_MAX: usize = 32;
/// Time constant of the decaying mean by which objects count as busy, ms.
const BUSY_MS: f64 = 3_600_000.0;

/// Kind of an object whose past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The whole cluster, without a name.
    Cluster,
    /// A topic, by name.
    Topic,
    /// A consumer group, by name.
    Group,
    /// A broker, by address.
    Broker,
}

impl Kind {
    /// Names of the figures in the order of a sample. An object is as busy as its first figure is large.
    pub fn figures(self) -> &'static [&'static str] {
        match self {
            Self::Cluster | Self::Topic => &["in_tps", "out_tps"],
            Self::Group => &["lag", "lag_seconds", "consumed_tps", "retried_tps"],
            Self::Broker => &["in_tps", "out_tps", "refused_tps", "put_p99_ms", "disk_percent"],
        }
    }

    /// Objects of this kind at most.
    fn objects_max(self) -> usize {
        match self {
            Self::Cluster => 1,
            Self::Topic | Self::Group => 100,
            Self::Broker => 64,
        }
    }
}

/// The past of all objects.
#[derive(Debug, Default)]
pub(crate) struct History {
    objects: BTreeMap<(Kind, String), Object>,
    /// Time at which a visitor opened an object last, ms since the epoch.
    opened: HashMap<(Kind, String), i64>,
}

impl History {
    /// Adds a sample, with a value for each figure of the kind; `None` for a figure that is unknown.
    pub fn add(&mut self, kind: Kind, name: &str, at_ms: i64, values: &[Option<f64>]) {
        let values: Vec<f32> =
            values.iter().map(|value| value.map_or(f32::NAN, |value| value as f32)).collect();
        debug_assert_eq!(values.len(), kind.figures().len());
        let key = (kind, name.to_owned());
        let first = values.first().copied().filter(|value| value.is_finite()).unwrap_or_default();
        if !self.objects.contains_key(&key) && !self.makes_room(&key, at_ms, first) {
            return;
        }
        let object = self.objects.entry(key).or_default();
        if let Some(busy) = values.first().filter(|value| value.is_finite()) {
            object.count_busy(at_ms, *busy);
        }
        for (ring, steps) in object.rings.iter_mut().zip(RINGS) {
            ring.add(steps, at_ms, &values);
        }
    }

    /// Makes room for a new object, and returns whether there is room. A less busy object is dropped if necessary. An
    /// object that does nothing gets no room unless a visitor opened it.
    fn makes_room(&mut self, key: &(Kind, String), now_ms: i64, value: f32) -> bool {
        let is_opened =
            |key: &(Kind, String)| self.opened.get(key).is_some_and(|at_ms| now_ms - at_ms < OPENED_MS);
        let is_wanted = is_opened(key) || !matches!(key.0, Kind::Topic | Kind::Group);
        if value <= 0.0 && !is_wanted {
            return false;
        }
        let of_kind = self.objects.iter().filter(|((kind, _), _)| *kind == key.0);
        if of_kind.clone().count() < key.0.objects_max() {
            return true;
        }
        let others = of_kind.filter(|(other, _)| !is_opened(other));
        let least =
            others.min_by(|(_, one), (_, other)| one.busy_at(now_ms).total_cmp(&other.busy_at(now_ms)));
        let Some(least) = least.filter(|(_, object)| is_wanted || object.busy_at(now_ms) < value) else {
            return false;
        };
        let least = least.0.clone();
        self.objects.remove(&least);
        true
    }

    /// Notes that a visitor looks at an object.
    pub fn open(&mut self, kind: Kind, name: &str, now_ms: i64) {
        self.opened.insert((kind, name.to_owned()), now_ms);
        while self.opened.keys().filter(|(other, _)| *other == kind).count() > OPENED_MAX {
            let of_kind = self.opened.iter().filter(|((other, _), _)| *other == kind);
            let Some(earliest) = of_kind.min_by_key(|(_, at_ms)| **at_ms).map(|(key, _)| key.clone()) else {
                return;
            };
            self.opened.remove(&earliest);
        }
    }

    /// Names of the objects of a kind that visitors look at now.
    pub fn watched(&self, kind: Kind, now_ms: i64) -> Vec<String> {
        let watched =
            self.opened.iter().filter(|((other, _), at_ms)| *other == kind && now_ms - **at_ms < WATCHED_MS);
        watched.map(|((_, name), _)| name.clone()).collect()
    }

    /// The points of an object after `since_ms`, the oldest first: `ring` 0 for seconds, 1 for 10 s, 2 for 5 minutes.
    pub fn points(
        &self,
        (kind, name): (Kind, &str),
        ring: usize,
        (since_ms, now_ms): (i64, i64),
    ) -> Vec<Point> {
        let ring = ring.min(RINGS.len() - 1);
        let (step_s, max) = RINGS[ring];
        let since_ms = since_ms.max(now_ms - i64::from(step_s) * 1000 * max as i64 - 1);
        let object = self.objects.get(&(kind, name.to_owned()));
        let points = object.map(|object| object.rings[ring].points(kind.figures().len())).unwrap_or_default();
        points.into_iter().filter(|point| point.at_ms > since_ms).collect()
    }

    /// Bytes of all points that are allocated.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let rings = self.objects.values().flat_map(|object| &object.rings);
        rings.map(|ring| ring.at_s.capacity() * 4 + ring.values.capacity() * 4).sum()
    }
}

/// The figures of an object at a time; NaN for an unknown figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// Begin of the step, ms since the epoch.
    pub at_ms: i64,
    pub values: Vec<f32>,
}

impl Point {
    /// The point as data, with `at_ms` and the names of the figures; null for an unknown figure.
    pub fn data(&self, kind: Kind) -> Value {
        let rounded = |value: f32| (f64::from(value) * 1000.0).round() / 1000.0;
        let figures = kind.figures().iter().zip(&self.values);
        let figures = figures.map(|(name, value)| ((*name).to_owned(), Value::from(rounded(*value))));
        let at = ("at_ms".to_owned(), Value::from(self.at_ms));
        Value::Object([at].into_iter().chain(figures).collect::<Map<_, _>>())
    }
}

#[derive(Debug, Default)]
struct Object {
    rings: [Ring; 3],
    /// Mean of the first figure over the last hour or so, and when it was computed.
    busy: f32,
    at_ms: i64,
}

impl Object {
    fn count_busy(&mut self, at_ms: i64, value: f32) {
        let share = if self.at_ms == 0 { 1.0 } else { 1.0 - decay(at_ms - self.at_ms) };
        self.busy += (value - self.busy) * share;
        self.at_ms = at_ms;
    }

    fn busy_at(&self, now_ms: i64) -> f32 {
        self.busy * decay(now_ms - self.at_ms)
    }
}

fn decay(ms: i64) -> f32 {
    (-(ms.max(0) as f64) / BUSY_MS).exp() as f32
}

/// The points of one resolution.
#[derive(Debug, Default)]
struct Ring {
    /// Begin of each step, seconds since the epoch.
    at_s: VecDeque<u32>,
    /// Values of all steps, one step after the other.
    values: VecDeque<f32>,
    /// The step that is not over: its begin, sums of known values, and the number of known values.
    open_s: u32,
    sums: Vec<(f64, u32)>,
}

impl Ring {
    fn add(&mut self, (step_s, max): (u32, usize), at_ms: i64, values: &[f32]) {
        let at_s = u32::try_from(at_ms / 1000).unwrap_or(u32::MAX);
        let begin_s = at_s - at_s % step_s;
        if begin_s != self.open_s || self.sums.is_empty() {
            self.close(max);
            self.open_s = begin_s;
            self.sums = vec![(0.0, 0); values.len()];
        }
        let oldest_s = begin_s.saturating_sub(step_s.saturating_mul(u32::try_from(max).unwrap_or(u32::MAX)));
        while self.at_s.len() > max || self.at_s.front().is_some_and(|at_s| *at_s < oldest_s) {
            self.at_s.pop_front();
            self.values.drain(..values.len());
        }
        for ((sum, count), value) in self.sums.iter_mut().zip(values).filter(|(_, value)| value.is_finite()) {
            *sum += f64::from(*value);
            *count += 1;
        }
    }

    /// Ends the open step. Memory grows by an eighth of the most points, because doubling would waste half of it.
    fn close(&mut self, max: usize) {
        if self.sums.is_empty() {
            return;
        }
        if self.at_s.len() == self.at_s.capacity() {
            self.at_s.reserve_exact(max / 8 + 1);
            self.values.reserve_exact((max / 8 + 1) * self.sums.len());
        }
        self.at_s.push_back(self.open_s);
        self.values.extend(means(&self.sums));
    }

    fn points(&self, width: usize) -> Vec<Point> {
        let point = |at_s: u32, values: Vec<f32>| Point { at_ms: i64::from(at_s) * 1000, values };
        let closed = self.at_s.iter().enumerate().map(|(place, at_s)| {
            point(*at_s, self.values.range(place * width..(place + 1) * width).copied().collect())
        });
        let open = (!self.sums.is_empty()).then(|| point(self.open_s, means(&self.sums).collect()));
        closed.chain(open).collect()
    }
}

fn means(sums: &[(f64, u32)]) -> impl Iterator<Item = f32> + '_ {
    sums.iter().map(|(sum, count)| if *count == 0 { f32::NAN } else { (sum / f64::from(*count)) as f32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(history: &History, ring: usize, now_ms: i64) -> Vec<Point> {
        history.points((Kind::Cluster, ""), ring, (-1, now_ms))
    }

    #[test]
    fn the_past_is_averaged_and_bounded() {
        let mut history = History::default();
        for second in 0..2000 {
            let rate = f64::from(second);
            history.add(Kind::Cluster, "", i64::from(second) * 1000, &[Some(rate), Some(2.0 * rate)]);
        }
        let now_ms = 1_999_000;
        let seconds = points(&history, 0, now_ms);
        assert_eq!((seconds.len(), seconds[0].at_ms), (601, 1_399_000));
        let since = history.points((Kind::Cluster, ""), 0, (1_997_000, now_ms));
        assert_eq!(since.iter().map(|point| point.at_ms).collect::<Vec<_>>(), [1_998_000, 1_999_000]);
        let tens = points(&history, 1, now_ms);
        assert_eq!(tens[1], Point { at_ms: 10_000, values: vec![14.5, 29.0] });
        assert_eq!((tens.len(), points(&history, 2, now_ms).len()), (200, 7));
        assert!(points(&history, 0, now_ms + 3_600_000).is_empty());
    }

    #[test]
    fn a_figure_that_is_unknown_is_not_zero() {
        let mut history = History::default();
        let mut add = |at_ms, out| history.add(Kind::Cluster, "", at_ms, &[Some(1.0), out]);
        add(10_000, None);
        add(11_000, Some(8.0));
        add(12_000, None);
        let seconds: Vec<Value> =
            points(&history, 0, 12_000).iter().map(|it| it.data(Kind::Cluster)).collect();
        let point =
            |at_ms: i64, out: Option<f64>| serde_json::json!({"at_ms": at_ms, "in_tps": 1.0, "out_tps": out});
        assert_eq!(seconds, [point(10_000, None), point(11_000, Some(8.0)), point(12_000, None)]);
        assert_eq!(points(&history, 1, 12_000)[0].values, [1.0, 8.0], "the mean of what is known");
    }

    #[test]
    fn a_full_history_keeps_its_bound() {
        let (mut history, mut bytes) = (History::default(), 0);
        for kind in [Kind::Cluster, Kind::Topic, Kind::Group, Kind::Broker] {
            let values = vec![Some(1.0); kind.figures().len()];
            let before = history.bytes();
            let mut at_ms = 0;
            for (step_s, steps) in [(300, 2100), (10, 2200), (1, 650)] {
                for _ in 0..steps {
                    at_ms += step_s * 1000;
                    history.add(kind, "full", at_ms, &values);
                }
            }
            let full = &history.objects[&(kind, "full".to_owned())];
            let counts: Vec<usize> = full.rings.iter().map(|ring| ring.at_s.len()).collect();
            assert!((599..=601).contains(&counts[0]) && (2159..=2161).contains(&counts[1]), "{counts:?}");
            bytes += (history.bytes() - before) * kind.objects_max();
            for number in 0..kind.objects_max() + 10 {
                history.add(kind, &number.to_string(), at_ms, &values);
            }
            let count = history.objects.keys().filter(|(other, _)| *other == kind).count();
            assert_eq!(count, kind.objects_max(), "{kind:?}");
        }
        assert!(bytes < 24 << 20, "{bytes}");
    }

    #[test]
    fn the_least_busy_object_makes_room_unless_it_is_open() {
        let mut history = History::default();
        let add = |history: &mut History, name: &str, rate: f64| {
            history.add(Kind::Topic, name, 1000, &[Some(rate), None])
        };
        let has =
            |history: &History, name: &str| history.objects.contains_key(&(Kind::Topic, name.to_owned()));
        add(&mut history, "idle", 0.0);
        assert!(!has(&history, "idle"), "no memory for what does nothing");
        history.open(Kind::Topic, "opened", 1000);
        add(&mut history, "opened", 0.0);
        for number in 1..Kind::Topic.objects_max() {
            add(&mut history, &format!("T{number}"), number as f64 + 1.0);
        }
        add(&mut history, "slow", 1.0);
        assert!(!has(&history, "slow") && has(&history, "T1"));
        add(&mut history, "fast", 1e6);
        assert!(has(&history, "fast") && has(&history, "opened") && !has(&history, "T1"));
    }

    #[test]
    fn open_objects_are_bounded() {
        let mut history = History::default();
        for number in 0..100 {
            history.open(Kind::Group, &format!("g{number}"), number);
        }
        assert_eq!(history.opened.len(), OPENED_MAX);
        let mut watched = history.watched(Kind::Group, WATCHED_MS + 97);
        watched.sort_unstable();
        assert_eq!(watched, ["g98", "g99"]);
        assert!(history.watched(Kind::Topic, 99).is_empty());
    }
}
