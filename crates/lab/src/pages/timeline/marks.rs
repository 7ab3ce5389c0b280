//! What is marked on an axis of time: what happened, before what only says where one is.

use std::collections::BTreeMap;

/// Most marks in a chart; more would hide the lines.
const MARKS_MAX: usize = 40;

/// Most of them that are events; the others have what is left.
const EVENTS_MAX: usize = 28;

/// Share of the axis that a label takes.
const LABEL_ROOM: f64 = 0.06;

/// A moment and what is written there.
pub type Mark = (f64, String);

/// Events that every cell has.
pub fn is_routine(kind: &str) -> bool {
    ["-start", "-stop", "-stopped", "-started"].iter().any(|end| kind.ends_with(end))
        || ["start", "stop", "warmup", "steady"].contains(&kind)
}

/// The marks of an axis so wide, in order of time. Events come first, the kinds before all that came seldom; others,
/// such as the numbers of cells, have the marks and the room that are left.
pub fn marks(events: Vec<Mark>, others: Vec<Mark>, width: f64) -> Vec<Mark> {
    let room = width * LABEL_ROOM;
    let mut marks = seldom_first(apart(events, room));
    marks.truncate(EVENTS_MAX);
    let every = others.len().div_ceil(MARKS_MAX - marks.len()).max(1);
    marks.extend(others.into_iter().step_by(every));
    label(&mut marks, room);
    marks.sort_by(|one, other| one.0.total_cmp(&other.0));
    marks
}

/// Leaves out what comes again where the label of the same still stands.
fn apart(mut events: Vec<Mark>, room: f64) -> Vec<Mark> {
    events.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut last: BTreeMap<String, f64> = BTreeMap::new();
    events.retain(|(at, kind)| {
        let is_new = last.get(kind).is_none_or(|before| at - before >= room);
        if is_new {
            last.insert(kind.clone(), *at);
        }
        is_new
    });
    events
}

/// What came seldom would be lost among what comes all the time.
fn seldom_first(mut events: Vec<Mark>) -> Vec<Mark> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    events.iter().for_each(|(_, kind)| *counts.entry(kind.clone()).or_default() += 1);
    events.sort_by_key(|(_, kind)| counts.get(kind).copied());
    events
}

/// Leaves out what is written at marks that stand too close to an earlier one of the list that has its words.
fn label(marks: &mut [Mark], room: f64) {
    let mut written: Vec<f64> = Vec::new();
    for (at, label) in marks {
        if written.iter().any(|other| (*at - other).abs() < room) {
            label.clear();
        } else {
            written.push(*at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_second(seconds: std::ops::Range<u32>, kind: &str) -> Vec<Mark> {
        seconds.map(|second| (f64::from(second), kind.to_owned())).collect()
    }

    fn cells(count: u32) -> Vec<Mark> {
        (0..count).map(|cell| (f64::from(cell) * 10.0, format!("#{}", cell + 1))).collect()
    }

    fn written(marks: &[Mark]) -> Vec<&str> {
        marks.iter().map(|(_, label)| label.as_str()).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn what_comes_late_and_once_is_marked_all_the_same() {
        let mut events = each_second(0..900, "flow-control");
        events.extend(each_second(0..900, "steal"));
        events.push((955.0, "agent-lost".to_owned()));
        let found = marks(events, cells(100), 1_000.0);
        assert!(found.len() <= MARKS_MAX, "{found:?}");
        assert!(written(&found).contains(&"agent-lost"), "{found:?}");
        assert!(found.is_sorted_by(|one, other| one.0 <= other.0), "{found:?}");
    }

    #[test]
    fn of_many_cells_some_are_marked_up_to_the_last() {
        let found = marks(Vec::new(), cells(100), 1_000.0);
        assert_eq!((found.len(), found.last().map(|(at, _)| *at)), (34, Some(990.0)));
    }

    #[test]
    fn words_of_events_go_before_numbers_of_cells() {
        let found = marks(vec![(12.0, "agent-lost".to_owned())], cells(10), 100.0);
        assert_eq!(found.len(), 11);
        assert_eq!(written(&found)[..3], ["#1", "agent-lost", "#3"], "{found:?}");
    }

    #[test]
    fn where_nothing_happened_cells_have_all_marks() {
        assert_eq!(marks(Vec::new(), cells(40), 400.0).len(), 40);
        assert_eq!(marks(Vec::new(), cells(41), 410.0).len(), 21);
        assert_eq!(marks(Vec::new(), Vec::new(), 0.0), []);
    }
}
