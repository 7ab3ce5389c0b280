//! The lag of groups, in messages and in time, at their last looks.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// Most groups that are remembered. The groups with the fewest unconsumed messages are forgotten.
pub(crate) const GROUPS_MAX: usize = 500;

/// Lag of a group at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    pub at_ms: i64,
    pub messages: i64,
    /// Age of the first message that the group has not consumed.
    pub time_behind: admin::Lag,
}

impl Lag {
    /// A group that has consumed everything.
    fn nothing(at_ms: i64) -> Self {
        Self { at_ms, messages: 0, time_behind: admin::Lag::NOTHING }
    }
}

/// The lag of groups when they were last looked at.
#[derive(Debug, Default)]
pub(crate) struct Lags(Mutex<BTreeMap<String, Lag>>);

impl Lags {
    /// Takes over rows of groups or of their queues: name of the group, unconsumed messages, age of the first of them.
    /// Returns the lag of all groups that are known now.
    ///
    /// A remembered group without a row is not behind if the rows contain every group that is behind (`is_whole`). Otherwise the
    /// lag of that group is unknown and is not returned.
    pub fn take<'a>(
        &self,
        now_ms: i64,
        rows: impl IntoIterator<Item = (&'a str, i64, admin::Lag)>,
        is_whole: bool,
    ) -> Vec<(String, Lag)> {
        let mut found: BTreeMap<String, Lag> = BTreeMap::new();
        for (group, messages, time_behind) in rows {
            let lag = found.entry(group.to_owned()).or_insert(Lag::nothing(now_ms));
            lag.messages += messages.max(0);
            if messages > 0 {
                lag.time_behind = admin::Lag::largest([lag.time_behind, time_behind]);
            }
        }
        let mut groups = self.0.lock().expect("short section");
        for group in groups.keys().filter(|_| is_whole) {
            found.entry(group.clone()).or_insert(Lag::nothing(now_ms));
        }
        groups.extend(found.iter().map(|(group, lag)| (group.clone(), *lag)));
        while groups.len() > GROUPS_MAX {
            let least = groups.iter().min_by_key(|(_, lag)| lag.messages);
            let Some(least) = least.map(|(group, _)| group.clone()) else { break };
            groups.remove(&least);
        }
        found.into_iter().collect()
    }

    /// The groups that were furthest behind in time at the last look. Groups with an unknown time come first: they may have consumed
    /// nothing, or only messages that have expired.
    pub fn oldest_readers(&self, most: usize) -> Vec<(String, Lag)> {
        let groups = self.0.lock().expect("short section");
        let last = groups.iter().map(|(group, lag)| (group.clone(), *lag));
        let mut last: Vec<_> = last.filter(|(_, lag)| lag.messages > 0).collect();
        last.sort_by_key(|(_, lag)| std::cmp::Reverse(lag.time_behind.lag_seconds.unwrap_or(i64::MAX)));
        last.truncate(most);
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<'a>(rows: &[(&'a str, i64, Option<i64>)]) -> Vec<(&'a str, i64, admin::Lag)> {
        let lag = |lag_seconds| admin::Lag { lag_seconds, lag_is_bound: false };
        rows.iter().map(|(group, messages, seconds)| (*group, *messages, lag(*seconds))).collect()
    }

    fn exact(seconds: i64) -> admin::Lag {
        admin::Lag { lag_seconds: Some(seconds), lag_is_bound: false }
    }

    #[test]
    fn a_group_is_as_far_behind_as_its_slowest_queue() {
        let lags = Lags::default();
        let now_ms = admin::parse_time("2026-01-31T12:00:00.000Z").unwrap();
        let (old, new) = (Some(60), Some(1));
        let rows = told(&[("g", 5, new), ("g", 2, old), ("g", 0, Some(999)), ("well", 0, new)]);
        let behind = Lag { at_ms: now_ms, messages: 7, time_behind: exact(60) };
        let well = ("well".to_owned(), Lag::nothing(now_ms));
        assert_eq!(lags.take(now_ms, rows, true), [("g".to_owned(), behind), well]);
        assert_eq!(lags.oldest_readers(9), [("g".to_owned(), behind)]);
        assert!(lags.take(now_ms + 30_000, [], false).is_empty(), "the lag is not known");
        assert_eq!(lags.oldest_readers(9), [("g".to_owned(), behind)]);
        let later = Lag::nothing(now_ms + 60_000);
        let whole = lags.take(now_ms + 60_000, [], true);
        assert_eq!(whole, ["g", "well"].map(|group| (group.to_owned(), later)));
        assert!(lags.oldest_readers(9).is_empty(), "everything is consumed");
    }

    #[test]
    fn a_group_whose_lag_is_not_known_comes_before_the_others() {
        let lags = Lags::default();
        let old = Some(3600);
        let rows = told(&[("slow", 9, old), ("never", 5, None), ("partly", 1, old), ("partly", 1, None)]);
        lags.take(1, rows, true);
        let readers =
            lags.oldest_readers(9).into_iter().map(|(group, lag)| (group, lag.time_behind.lag_seconds));
        let expected = [("never", None), ("partly", None), ("slow", Some(3600))];
        assert_eq!(readers.collect::<Vec<_>>(), expected.map(|(group, seconds)| (group.to_owned(), seconds)));
    }

    #[test]
    fn groups_are_bounded() {
        let lags = Lags::default();
        let names: Vec<String> = (0..600).map(|number| format!("g{number}")).collect();
        let rows: Vec<_> = (1..).zip(&names).map(|(diff, name)| (name.as_str(), diff, None)).collect();
        lags.take(1000, told(&rows), false);
        let readers = lags.oldest_readers(1000);
        assert_eq!(readers.len(), GROUPS_MAX);
        assert!(readers.iter().all(|(_, lag)| lag.messages > 100));
    }
}
