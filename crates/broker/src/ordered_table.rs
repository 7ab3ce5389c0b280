//! A table by name whose entries are found at once and whose names can be read in order, a part at a time: with a million topics
//! nobody may sort or copy all of them to show a page.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Values by name. They are in it twice, so they are handles such as an [`Arc`].
pub(crate) struct OrderedTable<V> {
    found: HashMap<Arc<str>, V>,
    /// Invariant: the entries of `found`.
    ordered: BTreeMap<Arc<str>, V>,
}

impl<V> Default for OrderedTable<V> {
    fn default() -> Self {
        Self { found: HashMap::new(), ordered: BTreeMap::new() }
    }
}

impl<V: Clone> OrderedTable<V> {
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.found.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Adds an entry, or replaces the one of the same name.
    pub(crate) fn insert(&mut self, name: &str, value: V) {
        if let (Some(found), Some(ordered)) = (self.found.get_mut(name), self.ordered.get_mut(name)) {
            *found = value.clone();
            *ordered = value;
            return;
        }
        let name: Arc<str> = name.into();
        self.ordered.insert(name.clone(), value.clone());
        self.found.insert(name, value);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.ordered.remove(name);
        self.found.remove(name);
    }

    /// All entries, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.ordered.iter().map(|(name, value)| (&**name, value))
    }

    /// The entries whose names are greater than `name`, sorted by name.
    pub(crate) fn after(&self, name: &str) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.ordered.range::<str, _>((Bound::Excluded(name), Bound::Unbounded))
    }

    /// At most `count` names greater than `name`, sorted.
    pub(crate) fn names_after(&self, name: &str, count: usize) -> Vec<Arc<str>> {
        self.after(name).take(count).map(|(name, _)| name.clone()).collect()
    }
}

impl<V: Clone> FromIterator<(String, V)> for OrderedTable<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(entries: I) -> Self {
        let mut table = Self::default();
        entries.into_iter().for_each(|(name, value)| table.insert(&name, value));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_order_whatever_happened_before() {
        let mut table: OrderedTable<i32> =
            ["b", "d", "a", "c"].into_iter().zip(1..).map(|(name, value)| (name.to_owned(), value)).collect();
        table.insert("b", 7);
        ["d", "d", "e"].into_iter().for_each(|name| table.remove(name));
        assert_eq!(table.iter().collect::<Vec<_>>(), [("a", &3), ("b", &7), ("c", &4)]);
        let after = |name, count| table.names_after(name, count).join(" ");
        assert_eq!([after("a", 9), after("bb", 9), after("", 2)], ["b c", "c", "a b"]);
        assert_eq!((table.len(), table.after("b").count(), table.get("b")), (3, 1, Some(&7)));
    }
}
