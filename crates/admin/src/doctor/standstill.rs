//! Groups that do not move between the looks of a front that looks again and again. One look alone takes a second look for this.

use super::bundle::{Bundle, Later};
use super::gather::{self, Dump};
use crate::Session;
use std::collections::BTreeMap;

/// Least time for which an offset must stay the same: members commit every five seconds (`ClientConfig.persistConsumerOffsetInterval`).
const LEAST_MS: i64 = 6000;
/// Queues whose offsets are remembered.
const QUEUES_MAX: usize = 20_000;

/// Offsets and stacks of groups with lag at earlier looks.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// Offset of each queue by group, topic, broker set and queue, with the time of the look that first found this offset.
    offsets: BTreeMap<(String, String, String, i32), (i64, i64)>,
    /// Thread dumps of the last look by group and member.
    dumps: BTreeMap<(String, String), String>,
}

impl Standstill {
    /// Adds the movement of groups and the standing threads of listeners to a bundle. Stacks are asked for only while a group with lag
    /// does not move.
    pub async fn compare(&mut self, session: &Session, bundle: &mut Bundle) {
        self.note_offsets(bundle);
        let is_still = |group: usize| {
            let mut rows = bundle.groups[group].progress.iter();
            rows.any(|row| row.lag() > 0 && row.later.is_some_and(|later| later.committed == row.committed))
        };
        let dumps = gather::first_stacks(session, bundle, &is_still).await;
        let mut earlier = std::mem::take(&mut self.dumps);
        for Dump { at, text, .. } in dumps {
            let group = &bundle.groups[at.0];
            let key = (group.name.clone(), group.members[at.1].client_id.clone());
            if let Some(first) = earlier.remove(&key) {
                gather::note_standing(bundle, at, &first, &text);
            }
            self.dumps.insert(key, text);
        }
    }

    fn note_offsets(&mut self, bundle: &mut Bundle) {
        let now_ms = bundle.taken_at_ms;
        let mut offsets = BTreeMap::new();
        for group in bundle.groups.iter_mut().filter(|group| gather::is_lagging(group)) {
            for row in &mut group.progress {
                let key = (group.name.clone(), row.topic.clone(), row.broker.clone(), row.queue);
                let (since_ms, committed) =
                    self.offsets.get(&key).copied().unwrap_or((now_ms, row.committed));
                let (after_ms, moved) = (now_ms - since_ms, row.committed - committed);
                // A movement since the look before counts as the movement until the next look.
                if moved > 0 || after_ms >= LEAST_MS {
                    row.later = Some(Later { after_ms, committed: row.committed + moved.max(0) });
                }
                if offsets.len() < QUEUES_MAX {
                    offsets.insert(key, (if moved == 0 { since_ms } else { now_ms }, row.committed));
                }
            }
        }
        self.offsets = offsets;
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::healthy;
    use super::*;

    #[test]
    fn a_group_stands_still_after_six_seconds_with_the_same_offset() {
        let mut standstill = Standstill::default();
        let mut look = |seconds: i64, committed: i64| {
            let mut bundle = healthy();
            bundle.taken_at_ms += seconds * 1000;
            let group = &mut bundle.groups[0];
            (group.is_online, group.progress[0].committed) = (Some(true), committed);
            (group.progress[0].max, group.progress[0].is_done) = (100, false);
            group.progress[0].later = None;
            standstill.note_offsets(&mut bundle);
            let row = &bundle.groups[0].progress[0];
            row.later.map(|later| (later.after_ms, later.committed - row.committed))
        };
        assert_eq!(look(0, 5), None, "the first look");
        assert_eq!(look(5, 5), None, "the offset may be committed every five seconds");
        assert_eq!(look(10, 5), Some((10_000, 0)));
        assert_eq!(look(15, 9), Some((15_000, 4)), "the group moves");
        assert_eq!(look(20, 9), None);
        assert_eq!(look(25, 9), Some((10_000, 0)));
    }
}
