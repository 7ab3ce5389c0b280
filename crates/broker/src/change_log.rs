//! Names of a table that changed lately, for readers with an older copy of the table.

use std::collections::VecDeque;

/// Number of changes kept. A reader that is further behind gets the whole table.
pub(crate) const CHANGES_KEPT: usize = 4096;

/// The last changes of a table: the generation that each led to, and the name of the entry.
#[derive(Default)]
pub(crate) struct ChangeLog(VecDeque<(u64, String)>);

impl ChangeLog {
    /// Adds the names whose change led to `generation`.
    pub(crate) fn add(&mut self, generation: u64, names: impl Iterator<Item = String>) {
        self.0.extend(names.map(|name| (generation, name)));
        let surplus = self.0.len().saturating_sub(CHANGES_KEPT);
        self.0.drain(..surplus);
    }

    /// Forgets all changes, so that every reader gets the whole table.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the sorted names that changed after the generation `copied`, if the table is at `present`.
    /// Returns `None` if the list of changes does not reach back that far.
    pub(crate) fn after(&self, copied: u64, present: u64) -> Option<Vec<String>> {
        let first = self.0.front().map_or(u64::MAX, |(first, _)| *first);
        if copied != present && copied + 1 < first {
            return None;
        }
        let changed = self.0.iter().filter(|(changed, _)| *changed > copied);
        let mut names: Vec<String> = changed.map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        Some(names)
    }
}
