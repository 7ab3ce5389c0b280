//! Groups that do not move between the looks of a front that looks again and again. One look alone takes a second look for this.

use super::bundle::{Bundle, Later, Progress, Standing};
use super::gather::{self, Dump};
use crate::Session;
use std::collections::{BTreeMap, BTreeSet};

/// Least time for which an offset must stay the same: members commit every five seconds (`ClientConfig.persistConsumerOffsetInterval`).
const LEAST_MS: i64 = 6000;
/// Time without a movement after which members make the first of two thread dumps, so that the second one can tell soon after
/// [`LEAST_MS`].
const SUSPECT_MS: i64 = 3000;
/// Least time between the two thread dumps of a member: a listener that is slow has another stack by then. Also the time between later
/// dumps of a member, because each takes all stacks of its process.
const APART_MS: i64 = 4000;
/// Queues whose offsets are remembered.
const QUEUES_MAX: usize = 20_000;

/// Offsets and stacks of groups with lag at earlier looks.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// Offset of each queue by group, topic, broker set and queue.
    offsets: BTreeMap<(String, String, String, i32), TrackedOffset>,
    /// Thread dumps by group and member, while the group does not move.
    dumps: BTreeMap<(String, String), Dumps>,
    /// Time of the look with the last dumps by group, while the group does not move.
    dumped_ms: BTreeMap<String, i64>,
}

/// Thread dumps of a member.
#[derive(Debug)]
struct Dumps {
    /// Text of the dump with which later dumps are compared.
    first: String,
    /// Threads that stood at the same place in the first and the last dump.
    standing: Option<Vec<Standing>>,
}

/// Offset of a group in a queue at the last look, and its changes between looks.
#[derive(Clone, Copy, Debug)]
struct TrackedOffset {
    committed: i64,
    /// Time of the look since which the offset has been the same and messages have waited.
    since_ms: i64,
    /// Time of the look that found the last movement, and the messages of the movement.
    moved: Option<(i64, i64)>,
}

impl TrackedOffset {
    /// The entry after another look, at which the group's offset is that of `row`.
    fn at(self, row: &Progress, now_ms: i64) -> Self {
        let (committed, step) = (row.committed, row.committed - self.committed);
        match step {
            0 if row.lag() > 0 => self,
            // Messages that come later have not waited yet.
            0 => Self { since_ms: now_ms, ..self },
            1.. => Self { committed, since_ms: now_ms, moved: Some((now_ms, step)) },
            // The offset was reset.
            _ => Self { committed, since_ms: now_ms, moved: None },
        }
    }

    /// The movement of the offset, in the form of a second look. `None` if the offset has not moved within [`LEAST_MS`]
    /// and messages have waited for less than that.
    fn later(self, now_ms: i64) -> Option<Later> {
        let recent = self.moved.filter(|(at_ms, _)| now_ms - at_ms < LEAST_MS);
        let after_ms = now_ms - self.since_ms;
        // A movement before this look counts as the movement until the next look.
        let committed = self.committed + recent.map_or(0, |(_, step)| step);
        (recent.is_some() || after_ms >= LEAST_MS).then_some(Later { after_ms, committed })
    }
}

impl Standstill {
    /// Adds the movement of groups and the standing threads of listeners to a bundle. Stacks are asked for only while a group with lag
    /// does not move.
    pub async fn compare(&mut self, session: &Session, bundle: &mut Bundle) {
        let still = self.note_offsets(bundle);
        let mut earlier = std::mem::take(&mut self.dumps);
        let wanted = self.take_wanted(bundle, &still);
        let dumps = gather::first_stacks(session, bundle, &|group| wanted.contains(&group)).await;
        for Dump { at, text, .. } in dumps {
            let group = &bundle.groups[at.0];
            let key = (group.name.clone(), group.members[at.1].client_id.clone());
            let first = earlier.remove(&key).map(|dumps| dumps.first);
            if let Some(first) = &first {
                gather::note_standing(bundle, at, first, &text);
            }
            let standing = bundle.groups[at.0].members[at.1].standing.clone();
            let stands = standing.as_ref().is_some_and(|it| !it.is_empty());
            self.dumps.insert(key, Dumps { first: first.filter(|_| stands).unwrap_or(text), standing });
        }
        for group in still.keys() {
            let group = &mut bundle.groups[*group];
            for member in &mut group.members {
                // Without a dump at this look, a member stands where its last dump found it.
                if let Some(dumps) = earlier.get(&(group.name.clone(), member.client_id.clone())) {
                    member.standing.clone_from(&dumps.standing);
                }
            }
        }
        let is_still = |name: &String| still.keys().any(|group| bundle.groups[*group].name == *name);
        self.dumps.extend(earlier.into_iter().filter(|((name, _), _)| is_still(name)));
    }

    /// Returns the places of the groups whose members make thread dumps now, and notes the time.
    fn take_wanted(&mut self, bundle: &Bundle, still: &BTreeMap<usize, i64>) -> BTreeSet<usize> {
        let now_ms = bundle.taken_at_ms;
        let name = |group: &usize| &bundle.groups[*group].name;
        self.dumped_ms.retain(|known, _| still.keys().any(|group| name(group) == known));
        let mut wanted = BTreeSet::new();
        for (group, still_ms) in still {
            let is_due = match self.dumped_ms.get(name(group)) {
                None => true,
                Some(last_ms) => *still_ms >= LEAST_MS && now_ms - last_ms >= APART_MS,
            };
            if is_due {
                self.dumped_ms.insert(name(group).clone(), now_ms);
                wanted.insert(*group);
            }
        }
        wanted
    }

    /// Adds the movement of groups to a bundle. Returns the places of groups with a queue that has not moved for [`SUSPECT_MS`], and the
    /// longest time of a queue.
    fn note_offsets(&mut self, bundle: &mut Bundle) -> BTreeMap<usize, i64> {
        let now_ms = bundle.taken_at_ms;
        let (mut offsets, mut still) = (BTreeMap::new(), BTreeMap::new());
        let groups = bundle.groups.iter_mut().enumerate();
        for (at, group) in groups.filter(|(_, group)| gather::is_lagging(group)) {
            for row in &mut group.progress {
                let key = (group.name.clone(), row.topic.clone(), row.broker.clone(), row.queue);
                let new = TrackedOffset { committed: row.committed, since_ms: now_ms, moved: None };
                let place = self.offsets.get(&key).copied().unwrap_or(new).at(row, now_ms);
                row.later = place.later(now_ms);
                let still_ms = now_ms - place.since_ms;
                if row.lag() > 0 && still_ms >= SUSPECT_MS {
                    let longest: &mut i64 = still.entry(at).or_default();
                    *longest = still_ms.max(*longest);
                }
                if offsets.len() < QUEUES_MAX {
                    offsets.insert(key, place);
                }
            }
        }
        self.offsets = offsets;
        still
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::healthy;
    use super::*;

    /// Seconds and messages of the movement of a queue of 100 messages at a look.
    fn look(standstill: &mut Standstill, seconds: i64, committed: i64) -> Option<(i64, i64)> {
        let mut bundle = healthy();
        bundle.taken_at_ms += seconds * 1000;
        let group = &mut bundle.groups[0];
        // Another queue of the group has lag.
        let other = Progress { queue: 99, max: 9, committed: 1, is_done: false, ..group.progress[0].clone() };
        group.progress.push(other);
        (group.is_online, group.progress[0].committed) = (Some(true), committed);
        (group.progress[0].max, group.progress[0].is_done) = (100, false);
        group.progress[0].later = None;
        standstill.note_offsets(&mut bundle);
        let row = &bundle.groups[0].progress[0];
        row.later.map(|later| (later.after_ms / 1000, later.committed - row.committed))
    }

    #[test]
    fn a_group_stands_still_after_six_seconds_with_the_same_offset() {
        let mut standstill = Standstill::default();
        let mut look = |seconds, committed| look(&mut standstill, seconds, committed);
        assert_eq!(look(0, 5), None, "the first look");
        assert_eq!(look(5, 5), None, "the offset may be committed every five seconds");
        assert_eq!(look(10, 5), Some((10, 0)));
        assert_eq!(look(15, 9), Some((0, 4)), "the group moves");
        assert_eq!(look(17, 9), Some((2, 4)), "looks may be more frequent than commits");
        assert_eq!(look(25, 9), Some((10, 0)));
    }

    /// Looks begin at most two seconds apart while a page is open.
    #[test]
    fn a_group_that_stops_is_dumped_twice_within_ten_seconds() {
        for step_ms in [1500, 1700, 2000] {
            let mut standstill = Standstill::default();
            let mut dumps_ms = Vec::new();
            for look in 0..10 {
                let mut bundle = healthy();
                bundle.taken_at_ms += look * step_ms;
                (bundle.groups[0].is_online, bundle.groups[0].progress[0].later) = (Some(true), None);
                (bundle.groups[0].progress[0].max, bundle.groups[0].progress[0].committed) = (100, 5);
                bundle.groups[0].progress[0].is_done = false;
                let still = standstill.note_offsets(&mut bundle);
                if !standstill.take_wanted(&bundle, &still).is_empty() {
                    dumps_ms.push(look * step_ms);
                }
            }
            assert!(dumps_ms[0] >= SUSPECT_MS && dumps_ms[1] <= 10_000, "{step_ms}: {dumps_ms:?}");
            assert!(dumps_ms.windows(2).all(|pair| pair[1] - pair[0] >= APART_MS), "{step_ms}: {dumps_ms:?}");
        }
    }

    #[test]
    fn a_message_after_a_pause_has_not_waited_during_the_pause() {
        let mut standstill = Standstill::default();
        let mut look = |seconds, committed| look(&mut standstill, seconds, committed);
        assert_eq!([look(0, 100), look(300, 100)], [None; 2]);
        assert_eq!(look(305, 99), None, "the offset was reset");
        assert_eq!(look(310, 99), None);
        assert_eq!(look(311, 99), Some((6, 0)));
        assert_eq!(look(312, 100), Some((0, 1)));
    }
}
