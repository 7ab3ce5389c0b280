//! What is kept of the past of groups: how many messages each was behind, and for how long, once a minute.

use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

/// Points of a group: six hours.
const POINTS_MAX: usize = 360;
/// Groups that are remembered; those with the fewest messages to read are forgotten.
pub(crate) const GROUPS_MAX: usize = 500;

/// How far a group was behind at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Lag {
    pub at_ms: i64,
    pub messages: i64,
    /// Age of the first message that the group has not consumed.
    #[serde(flatten)]
    pub time_behind: admin::Lag,
}

impl Lag {
    /// A group that has consumed everything.
    fn nothing(at_ms: i64) -> Self {
        Self { at_ms, messages: 0, time_behind: admin::Lag::NOTHING }
    }
}

/// The past of groups.
#[derive(Debug, Default)]
pub(crate) struct Lags(Mutex<BTreeMap<String, VecDeque<Lag>>>);

impl Lags {
    /// Adds what was told of groups (`group names`, `lag`) or of their queues (`broker progress`, `diff`). A group of which nothing
    /// is told is not behind if `is_whole`, if all groups that are behind are told of; otherwise the group has no point.
    pub fn add<'a>(&self, now_ms: i64, rows: impl Iterator<Item = &'a Value>, is_whole: bool) {
        let mut found: BTreeMap<&str, Lag> = BTreeMap::new();
        for row in rows {
            let group = row["group"].as_str().unwrap_or_default();
            let lag = found.entry(group).or_insert(Lag::nothing(now_ms));
            let messages = row["diff"].as_i64().or(row["lag"].as_i64()).unwrap_or_default().max(0);
            lag.messages += messages;
            if messages > 0 {
                let of_row = admin::Lag::deserialize(row).unwrap_or_default();
                lag.time_behind = admin::Lag::largest([lag.time_behind, of_row]);
            }
        }
        let mut groups = self.0.lock().expect("short section");
        for (group, points) in groups.iter_mut().filter(|_| is_whole) {
            if !found.contains_key(group.as_str()) {
                points.push_back(Lag::nothing(now_ms));
                points.drain(..points.len().saturating_sub(POINTS_MAX));
            }
        }
        for (group, lag) in found {
            // Groups that were never behind need no memory.
            if lag.messages > 0 || groups.contains_key(group) {
                let points = groups.entry(group.to_owned()).or_default();
                points.push_back(lag);
                if points.len() > POINTS_MAX {
                    points.pop_front();
                }
            }
        }
        while groups.len() > GROUPS_MAX {
            let least = groups.iter().min_by_key(|(_, points)| points.back().map(|lag| lag.messages));
            let Some(least) = least.map(|(group, _)| group.clone()) else { break };
            groups.remove(&least);
        }
    }

    /// The groups that were furthest behind in time when they were last looked at. Those of which the time is not known come first:
    /// they may have consumed nothing, or only what has expired.
    pub fn oldest_readers(&self, most: usize) -> Vec<(String, Lag)> {
        let groups = self.0.lock().expect("short section");
        let last = groups.iter().filter_map(|(group, points)| Some((group.clone(), *points.back()?)));
        let mut last: Vec<_> = last.filter(|(_, lag)| lag.messages > 0).collect();
        last.sort_by_key(|(_, lag)| std::cmp::Reverse(lag.time_behind.lag_seconds.unwrap_or(i64::MAX)));
        last.truncate(most);
        last
    }

    /// The past of a group, the oldest first.
    pub fn of(&self, group: &str) -> Vec<Lag> {
        let groups = self.0.lock().expect("short section");
        groups.get(group).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(rows: &[(&str, i64, Option<i64>)]) -> Vec<Value> {
        let row = |(group, diff, seconds): &(&str, i64, Option<i64>)| json!({"group": group, "diff": diff, "lag_seconds": seconds});
        rows.iter().map(row).collect()
    }

    fn exact(seconds: i64) -> admin::Lag {
        admin::Lag { lag_seconds: Some(seconds), lag_is_bound: false }
    }

    #[test]
    fn a_group_is_as_far_behind_as_its_slowest_queue() {
        let lags = Lags::default();
        let now_ms = admin::parse_time("2026-01-31T12:00:00.000Z").unwrap();
        let (old, new) = (Some(60), Some(1));
        lags.add(
            now_ms,
            told(&[("g", 5, new), ("g", 2, old), ("g", 0, Some(999)), ("well", 0, new)]).iter(),
            true,
        );
        assert_eq!(lags.of("g"), [Lag { at_ms: now_ms, messages: 7, time_behind: exact(60) }]);
        assert!(lags.of("well").is_empty(), "a group that was never behind");
        assert_eq!(lags.oldest_readers(9), [("g".to_owned(), lags.of("g")[0])]);
        lags.add(now_ms + 30_000, [].iter(), false);
        assert_eq!(lags.of("g").len(), 1, "nobody knows");
        lags.add(now_ms + 60_000, [].iter(), true);
        assert!(lags.oldest_readers(9).is_empty(), "everything is consumed");
        assert_eq!(lags.of("g")[1], Lag::nothing(now_ms + 60_000));
        let of_group = json!({"group": "g", "members": 1, "topics": 2, "lag": 7, "lag_seconds": old});
        lags.add(now_ms, [of_group].iter(), true);
        assert_eq!(lags.of("g")[2], lags.of("g")[0], "a master may tell of groups, not of queues");
    }

    #[test]
    fn a_group_whose_lag_is_not_known_comes_before_the_others() {
        let lags = Lags::default();
        let now_ms = admin::parse_time("2026-01-31T12:00:00.000Z").unwrap();
        let old = Some(3600);
        lags.add(
            now_ms,
            told(&[("slow", 9, old), ("never", 5, None), ("partly", 1, old), ("partly", 1, None)]).iter(),
            true,
        );
        assert_eq!(
            lags.of("never"),
            [Lag { at_ms: now_ms, messages: 5, time_behind: admin::Lag::default() }]
        );
        let readers =
            lags.oldest_readers(9).into_iter().map(|(group, lag)| (group, lag.time_behind.lag_seconds));
        let expected = [("never", None), ("partly", None), ("slow", Some(3600))];
        assert_eq!(readers.collect::<Vec<_>>(), expected.map(|(group, seconds)| (group.to_owned(), seconds)));
    }

    #[test]
    fn points_and_groups_are_bounded() {
        let lags = Lags::default();
        for minute in 0..400 {
            lags.add(minute, told(&[("g", 100_000, None)]).iter(), true);
        }
        assert_eq!((lags.of("g").len(), lags.of("g")[0].at_ms), (POINTS_MAX, 40));
        let names: Vec<String> = (0..600).map(|number| format!("g{number}")).collect();
        let rows: Vec<_> = (1..).zip(&names).map(|(diff, name)| (name.as_str(), diff, None)).collect();
        lags.add(1000, told(&rows).iter(), false);
        assert!(!lags.of("g").is_empty() && lags.of("g0").is_empty() && !lags.of("g599").is_empty());
    }
}
