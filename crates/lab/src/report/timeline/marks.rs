//! The marks on a time axis: events, with rare kinds before frequent ones.

use crate::report::chart::Mark;
use std::collections::BTreeMap;

/// Most marks of a chart; more would hide the lines.
const MARKS_MAX: usize = 24;

/// Share of the axis within which events of the same kind get one mark.
const APART: f64 = 0.06;

/// Whether a kind of event occurs in every repeat, so that the phases show it already.
pub fn is_routine(kind: &str) -> bool {
    ["-start", "-stop", "-stopped", "-started"].iter().any(|end| kind.ends_with(end))
        || ["start", "stop", "warmup", "steady", "before", "during", "drain", "after", "rest"].contains(&kind)
}

/// The marks of an axis of this width. Rare events are placed first, because they would be lost among frequent ones.
pub fn marks(mut events: Vec<Mark>, width: f64) -> Vec<Mark> {
    let room = width * APART;
    events.sort_by(|one, other| one.at.total_cmp(&other.at));
    let mut last: BTreeMap<String, f64> = BTreeMap::new();
    events.retain(|event| {
        let is_new = last.get(&event.name.en).is_none_or(|before| event.at - before >= room);
        if is_new {
            last.insert(event.name.en.clone(), event.at);
        }
        is_new
    });
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    events.iter().for_each(|event| *counts.entry(event.name.en.clone()).or_default() += 1);
    events.sort_by_key(|event| counts.get(&event.name.en).copied());
    events.truncate(MARKS_MAX);
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Text;

    fn mark(at: f64, kind: &str) -> Mark {
        Mark { at, name: Text::same(kind) }
    }

    fn each_second(seconds: std::ops::Range<u32>, kind: &str) -> Vec<Mark> {
        seconds.map(|second| mark(f64::from(second), kind)).collect()
    }

    #[test]
    fn what_comes_late_and_once_is_marked_all_the_same() {
        let mut events = each_second(0..900, "flow-control");
        events.extend(each_second(0..900, "steal"));
        events.push(mark(955.0, "agent-lost"));
        let found = marks(events, 1_000.0);
        assert!(found.len() <= MARKS_MAX, "{found:?}");
        assert_eq!(found[0], mark(955.0, "agent-lost"), "it has the first choice of room for its name");
    }

    #[test]
    fn phases_are_no_events() {
        assert!(is_routine("producers-start") && is_routine("drain") && !is_routine("flow-control"));
        assert_eq!(marks(Vec::new(), 0.0), []);
    }
}
