//! Counters over the last minute, hour and day (`StatsItem`). Seven samples at ten-second intervals span a minute,
//! seven samples at ten-minute intervals an hour, and 25 samples at one-hour intervals a day.
//!
//! All counters are sampled at the same times, so the times are stored only once. The first sample of a counter is
//! its value before it first changed. Java loses the counts before its first sample. Only changed counters are
//! reported, because a visit of a million topics every ten seconds is too slow. Missed samples of a counter have its
//! former value.

use std::collections::{HashMap, VecDeque};

use super::Name;

/// Milliseconds between two samples of the statistics.
pub(crate) const SAMPLE_MS: i64 = 10_000;

/// Milliseconds between the samples of each window, and their number.
const WINDOWS: [(i64, usize); 3] = [(SAMPLE_MS, 7), (600_000, 7), (3_600_000, 25)];

/// A sample is taken up to this many milliseconds before it is due, because timers are not exact.
const SLACK_MS: i64 = SAMPLE_MS / 2;

/// The change of a counter over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Span {
    pub sum: u64,
    /// Growth of the counter per second of the span.
    pub tps: f64,
    /// Growth of the counter per event of the span.
    pub average: f64,
}

/// The change of a counter over all windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Read {
    pub minute: Span,
    pub hour: Span,
    pub day: Span,
}

/// The value of a counter and its number of events.
type Sample = (u64, u64);

#[derive(Clone, Default)]
struct Counter {
    /// Samples by window; empty while the counter does not change.
    windows: [VecDeque<Sample>; 3],
    last: Sample,
    /// Number of samples of each window when the counter was last brought up to date.
    seen: [u64; 3],
}

impl Counter {
    fn is_still(&self) -> bool {
        self.windows[0].is_empty()
    }

    /// Fills each window with the samples up to its number `taken`, in which the counter did not change. A counter
    /// without a change for a day has no samples any more.
    fn catch_up(&mut self, taken: [u64; 3]) {
        if !self.is_still() {
            for (index, (_, count)) in WINDOWS.into_iter().enumerate() {
                let missed = usize::try_from(taken[index].saturating_sub(self.seen[index])).unwrap_or(count);
                let samples = &mut self.windows[index];
                samples.extend(std::iter::repeat_n(self.last, missed.min(count)));
                samples.drain(..samples.len().saturating_sub(count));
            }
            let (day, full) = (&self.windows[2], WINDOWS[2].1);
            if day.len() == full && day.front() == day.back() {
                self.windows = Default::default();
            }
        }
        self.seen = taken;
    }
}

/// The samples of all counters.
#[derive(Default)]
pub(crate) struct Windows {
    times: [VecDeque<i64>; 3],
    /// Number of samples of each window, the current sample included.
    taken: [u64; 3],
    counters: HashMap<Name, HashMap<String, Counter>>,
    /// Which windows take the current sample.
    due: [bool; 3],
    /// Number of complete samples.
    samples: usize,
}

impl Windows {
    pub(crate) fn is_empty(&self) -> bool {
        self.times[0].is_empty()
    }

    /// Begins a sample of all counters at `now_ms`.
    pub(crate) fn begin(&mut self, now_ms: i64) {
        for (index, (period_ms, count)) in WINDOWS.into_iter().enumerate() {
            let times = &mut self.times[index];
            self.due[index] = times.back().is_none_or(|last| now_ms - last >= period_ms - SLACK_MS);
            if self.due[index] {
                times.push_back(now_ms);
                times.drain(..times.len().saturating_sub(count));
                self.taken[index] += 1;
            }
        }
    }

    /// Records the value of a counter that may have changed. A counter that has never changed is not stored. A
    /// counter that decreased began again, because its topic or group was deleted and re-created.
    pub(crate) fn note(&mut self, name: Name, key: &str, value: u64, events: u64) {
        let counters = self.counters.entry(name).or_default();
        if !counters.contains_key(key) {
            if value == 0 {
                return;
            }
            counters.insert(key.to_owned(), Counter::default());
        }
        let counter = counters.get_mut(key).expect("inserted above when it was missing");
        if value < counter.last.0 {
            *counter = Counter::default();
        }
        counter.catch_up(std::array::from_fn(|index| self.taken[index] - u64::from(self.due[index])));
        let before = std::mem::replace(&mut counter.last, (value, events));
        if counter.is_still() && before.0 == value {
            return;
        }
        for (index, samples) in counter.windows.iter_mut().enumerate() {
            if samples.is_empty() && self.times[index].len() > usize::from(self.due[index]) {
                samples.push_back(before);
            }
            if self.due[index] {
                samples.push_back((value, events));
            }
            samples.drain(..samples.len().saturating_sub(self.times[index].len()));
        }
        counter.seen = self.taken;
    }

    /// Removes the counters of a name whose keys `is_wanted` denies.
    pub(crate) fn retain(&mut self, name: Name, is_wanted: impl Fn(&str) -> bool) {
        self.counters.entry(name).or_default().retain(|key, _| is_wanted(key));
    }

    /// Whether this sample is one of the day's samples, which come once an hour. Then unneeded counters are removed.
    pub(crate) fn begins_hour(&self) -> bool {
        self.due[2]
    }

    /// Drops the samples of all counters that did not change for a day.
    pub(crate) fn forget_still(&mut self) {
        let taken = self.taken;
        self.counters.values_mut().flat_map(HashMap::values_mut).for_each(|counter| counter.catch_up(taken));
    }

    /// Ends a sample. Returns whether it ended a minute.
    pub(crate) fn end(&mut self) -> bool {
        self.samples += 1;
        self.samples.is_multiple_of(WINDOWS[0].1 - 1)
    }

    /// Returns the change of a counter, or `None` without a change within the last day.
    pub(crate) fn read(&self, name: Name, key: &str) -> Option<Read> {
        let mut counter = self.counters.get(&name)?.get(key).filter(|counter| !counter.is_still())?.clone();
        counter.catch_up(self.taken);
        let span = |index: usize| span(&self.times[index], &counter.windows[index]);
        (!counter.is_still()).then(|| Read { minute: span(0), hour: span(1), day: span(2) })
    }
}

fn span(times: &VecDeque<i64>, samples: &VecDeque<Sample>) -> Span {
    let first_time = times.iter().rev().nth(samples.len().saturating_sub(1));
    let (Some(first), Some(last), Some(from), Some(to)) =
        (samples.front(), samples.back(), first_time, times.back())
    else {
        return Span::default();
    };
    let (sum, events) = (last.0.saturating_sub(first.0), last.1.saturating_sub(first.1));
    let ratio = |over: f64| if over > 0.0 { sum as f64 / over } else { 0.0 };
    Span { sum, tps: ratio((to - from) as f64 / 1000.0), average: ratio(events as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name::TopicPutNums;

    /// Samples every ten seconds from time 0 on.
    fn sampled(values: impl IntoIterator<Item = u64>) -> Windows {
        let mut windows = Windows::default();
        for (index, value) in values.into_iter().enumerate() {
            windows.begin(index as i64 * SAMPLE_MS);
            windows.note(NAME, "T", value, value / 2);
            windows.end();
        }
        windows
    }

    /// Samples values as [`sampled`] does, but reports the counter only when it changed.
    fn sampled_changes(values: impl IntoIterator<Item = u64>) -> Windows {
        let (mut windows, mut last) = (Windows::default(), 0);
        for (index, value) in values.into_iter().enumerate() {
            windows.begin(index as i64 * SAMPLE_MS);
            if std::mem::replace(&mut last, value) != value {
                windows.note(NAME, "T", value, value / 2);
            }
            windows.end();
        }
        windows
    }

    #[test]
    fn a_counter_that_is_told_of_only_when_it_changed_reads_the_same() {
        // Steps of all lengths, from samples to more than a day.
        let pauses = [1, 3, 6, 7, 8, 50, 60, 61, 400, 500, 3000, 9300];
        let steps = pauses.iter().enumerate().flat_map(|(step, pause)| vec![step as u64 * 10; *pause]);
        let values: Vec<u64> = steps.collect();
        for end in (0..200).chain((200..values.len()).step_by(97)) {
            let of = |windows: Windows| windows.read(NAME, "T");
            let values = || values[..end].iter().copied();
            assert_eq!(of(sampled_changes(values())), of(sampled(values())), "after {end} samples");
        }
    }

    #[test]
    fn a_counter_that_went_back_begins_again() {
        let windows = sampled([0, 100, 200, 5, 7]);
        assert_eq!(windows.read(NAME, "T").unwrap().minute.sum, 7);
    }

    #[test]
    fn a_minute_is_the_difference_of_seven_samples() {
        let windows = sampled((0..20).map(|index| index * 100));
        let minute = windows.read(NAME, "T").unwrap().minute;
        assert_eq!(minute, Span { sum: 600, tps: 10.0, average: 2.0 });
    }

    #[test]
    fn what_never_moved_is_not_there_and_the_first_move_counts() {
        assert_eq!(sampled([0, 0, 0]).read(NAME, "T"), None);
        let read = sampled([0, 0, 0, 30]).read(NAME, "T").unwrap();
        assert_eq!((read.minute.sum, read.minute.tps), (30, 3.0));
    }

    #[test]
    fn hours_and_days_have_samples_of_their_own() {
        let windows = sampled((0..1000).map(|index| index * 10));
        let read = windows.read(NAME, "T").unwrap();
        // The newest samples of the two windows are numbers 960 and 720.
        assert_eq!((read.hour.sum, read.hour.tps), (3600, 1.0));
        assert_eq!((read.day.sum, read.day.tps), (7200, 1.0));
    }

    #[test]
    fn a_counter_that_stands_still_for_a_day_is_forgotten() {
        let moved_once = |hours: u64| sampled((0..hours * 360).map(|index| index.min(5)));
        assert_eq!(moved_once(24).read(NAME, "T").unwrap().day.sum, 5);
        assert_eq!(moved_once(27).read(NAME, "T"), None);
        let again = sampled((0..27 * 360).map(|index| index.min(5)).chain([5, 8]));
        assert_eq!(again.read(NAME, "T").unwrap().minute.sum, 3, "what it was before does not count again");
    }
}
