//! Entries of a group by topic. A group of lite topics has hundreds of thousands of them. Such a table is split by hash
//! value, so that neither its growth nor a look at all entries holds the lock for long.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Offsets, Topic};

/// Most entries of an unsplit table.
const UNSPLIT_MAX: usize = if cfg!(test) { 2 } else { 2048 };
/// Parts of a split table.
const PARTS: usize = 128;

/// Offsets and counts of a group in a topic.
pub(super) type Entry = Arc<Mutex<Topic>>;

/// Entries of a part of a table.
pub(super) type Part = HashMap<Arc<str>, Entry>;

/// Entries of a group by topic.
#[derive(Default)]
pub(super) struct Topics {
    /// Empty, a single part, or [`PARTS`] parts.
    parts: Vec<Part>,
    hasher: RandomState,
}

impl Topics {
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashMap::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(HashMap::is_empty)
    }

    pub(super) fn get(&self, topic: &str) -> Option<&Entry> {
        self.parts.get(self.part_of(topic))?.get(topic)
    }

    /// Finds an entry, or makes it.
    pub(super) fn make(&mut self, topic: Arc<str>) -> Entry {
        if self.parts.is_empty() {
            self.parts.push(HashMap::new());
        } else if self.parts.len() == 1 && self.parts[0].len() >= UNSPLIT_MAX {
            let unsplit = std::mem::take(&mut self.parts[0]);
            self.parts.resize_with(PARTS, HashMap::new);
            for (topic, entry) in unsplit {
                let part = self.part_of(&topic);
                self.parts[part].insert(topic, entry);
            }
        }
        let part = self.part_of(&topic);
        self.parts[part].entry(topic).or_default().clone()
    }

    pub(super) fn remove(&mut self, topic: &str) -> Option<Entry> {
        let part = self.part_of(topic);
        self.parts.get_mut(part)?.remove(topic)
    }

    /// Removes and returns the entries of topics for which `goes` returns true.
    pub(super) fn extract(&mut self, goes: impl Fn(&str) -> bool) -> impl Iterator<Item = Entry> {
        let parts = self.parts.iter_mut();
        parts.flat_map(move |part| {
            part.extract_if(|topic, _| goes(topic)).map(|(_, entry)| entry).collect::<Vec<_>>()
        })
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.parts.into_iter().flat_map(HashMap::into_values)
    }

    fn part_of(&self, topic: &str) -> usize {
        match self.parts.len() {
            0 | 1 => 0,
            parts => (self.hasher.hash_one(topic) % parts as u64) as usize,
        }
    }
}

impl Offsets {
    /// Visits the entries of a group, or of all groups, in parts. The table is locked for one part at a time. An entry
    /// may be visited twice. An entry that is made meanwhile may be missed.
    pub(super) fn each_part(&self, group: Option<&str>, mut visit: impl FnMut(&str, &Part)) {
        let names: Vec<String> = match group {
            Some(group) => vec![group.to_owned()],
            None => self.groups.read().keys().cloned().collect(),
        };
        for group in &names {
            let mut index = 0;
            while self.with_part(group, index, |part| visit(group, part)).is_some() {
                index += 1;
            }
        }
    }

    /// Visits a part of the entries of a group while the table is locked.
    pub(super) fn with_part<R>(
        &self,
        group: &str,
        index: usize,
        visit: impl FnOnce(&Part) -> R,
    ) -> Option<R> {
        self.groups.read().get(group)?.parts.get(index).map(visit)
    }
}
