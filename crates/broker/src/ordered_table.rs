//! Table by name with fast lookup and names in order, a part at a time. With a million topics, a sort or copy of all
//! names for each page is too slow. The names are adjacent in memory, so that a search for a text reads sequentially
//! and follows no pointers.

use std::collections::HashMap;
use std::ops::Range;

/// Most entries of a block.
const BLOCK: usize = if cfg!(test) { 3 } else { 256 };

/// Values by name. `found` and `blocks` each have a copy of a value, so values are handles such as an [`Arc`](std::sync::Arc).
pub(crate) struct OrderedTable<V> {
    found: HashMap<Box<str>, V>,
    /// Invariant: the entries of `found` in the order of names. No block is empty.
    blocks: Vec<Block<V>>,
}

/// Adjacent entries of the table.
struct Block<V> {
    /// Names of the entries, without separators.
    names: String,
    /// Range of each name in `names`.
    spans: Vec<Range<usize>>,
    values: Vec<V>,
}

impl<V> Default for OrderedTable<V> {
    fn default() -> Self {
        Self { found: HashMap::new(), blocks: Vec::new() }
    }
}

impl<V: Clone> OrderedTable<V> {
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.found.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Adds an entry, or replaces the entry with that name.
    pub(crate) fn insert(&mut self, name: &str, value: V) {
        self.found.insert(name.into(), value.clone());
        let at = self.block_of(name);
        let Some(block) = self.blocks.get_mut(at) else {
            let mut block = Block { names: String::new(), spans: Vec::new(), values: Vec::new() };
            block.insert(0, name, value);
            return self.blocks.push(block);
        };
        match block.place(name) {
            Ok(index) => block.values[index] = value,
            Err(index) => {
                block.insert(index, name, value);
                if block.values.len() > BLOCK {
                    // Names that come in order fill block after block.
                    let from = if index == BLOCK { BLOCK } else { BLOCK / 2 };
                    let rest = block.split_off(from);
                    self.blocks.insert(at + 1, rest);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.found.remove(name);
        let at = self.block_of(name);
        let Some(block) = self.blocks.get_mut(at) else { return };
        if let Ok(index) = block.place(name) {
            block.remove(index);
            if block.values.is_empty() {
                self.blocks.remove(at);
            }
        }
    }

    /// All entries, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.blocks.iter().flat_map(Block::iter)
    }

    /// Returns the entries whose names are greater than `name`, sorted by name.
    pub(crate) fn after(&self, name: &str) -> impl Iterator<Item = (&str, &V)> {
        let (at, index) = self.behind(name);
        self.blocks[at..].iter().flat_map(Block::iter).skip(index)
    }

    /// Calls `each` with the names greater than `name` that contain `text`, in order. Stops when `each` returns false
    /// or `count` names were examined. Returns the last examined name if there were `count` names.
    pub(crate) fn search(
        &self,
        name: &str,
        text: &str,
        count: usize,
        mut each: impl FnMut(&str) -> bool,
    ) -> Option<&str> {
        let (at, mut first) = self.behind(name);
        let mut left = count;
        for block in &self.blocks[at..] {
            let end = block.values.len().min(first + left);
            if !block.search(first..end, text, &mut each) {
                return None;
            }
            left -= end - first;
            if left == 0 {
                return end.checked_sub(1).map(|last| block.name(last));
            }
            first = 0;
        }
        None
    }

    /// Returns the block that has the name, or would have it.
    fn block_of(&self, name: &str) -> usize {
        self.blocks.partition_point(|block| block.name(0) <= name).saturating_sub(1)
    }

    /// Index of the block, and index within the block, of the first name that is greater than `name`. The
    /// second index may be the end of the block.
    fn behind(&self, name: &str) -> (usize, usize) {
        let at = self.block_of(name);
        let place = self.blocks.get(at).map(|block| block.place(name));
        (at, place.map_or(0, |place| place.map_or_else(|index| index, |index| index + 1)))
    }
}

impl<V> Block<V> {
    fn name(&self, index: usize) -> &str {
        &self.names[self.spans[index].clone()]
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.spans.iter().map(|span| &self.names[span.clone()]).zip(&self.values)
    }

    /// Index of a name in the block, or the index at which to insert it.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.spans.binary_search_by(|span| self.names[span.clone()].cmp(name))
    }

    fn insert(&mut self, index: usize, name: &str, value: V) {
        let begin = index.checked_sub(1).map_or(0, |before| self.spans[before].end);
        self.names.insert_str(begin, name);
        for span in &mut self.spans[index..] {
            *span = span.start + name.len()..span.end + name.len();
        }
        self.spans.insert(index, begin..begin + name.len());
        self.values.insert(index, value);
    }

    fn remove(&mut self, index: usize) {
        let gone = self.spans.remove(index);
        for span in &mut self.spans[index..] {
            *span = span.start - gone.len()..span.end - gone.len();
        }
        self.names.replace_range(gone, "");
        self.values.remove(index);
    }

    /// Divides the block. Returns the entries from index `from` on.
    fn split_off(&mut self, from: usize) -> Self {
        let begin = self.spans[from].start;
        let spans = self.spans.split_off(from).into_iter().map(|span| span.start - begin..span.end - begin);
        let rest = Self {
            names: self.names.split_off(begin),
            spans: spans.collect(),
            values: self.values.split_off(from),
        };
        self.names.shrink_to_fit();
        self.spans.shrink_to_fit();
        self.values.shrink_to_fit();
        rest
    }

    /// Calls `each` with the names at these indexes that contain `text`, until it returns false. Returns
    /// whether it never returned false.
    fn search(&self, places: Range<usize>, text: &str, each: &mut impl FnMut(&str) -> bool) -> bool {
        let spans = &self.spans[places];
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return true };
        if text.is_empty() {
            return spans.iter().all(|span| each(&self.names[span.clone()]));
        }
        let mut begin = first.start;
        while let Some(found) = self.names[begin..last.end].find(text) {
            let found = begin + found;
            let span = &spans[spans.partition_point(|span| span.end <= found)];
            // A text may also begin in one name and end in the next, which is no match. A later one in the first would be as long.
            if found + text.len() <= span.end && !each(&self.names[span.clone()]) {
                return false;
            }
            begin = span.end;
        }
        true
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
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_read_in_order_whatever_happened_before() {
        let mut table: OrderedTable<i32> =
            ["b", "d", "a", "c"].into_iter().zip(1..).map(|(name, value)| (name.to_owned(), value)).collect();
        table.insert("b", 7);
        ["d", "d", "e"].into_iter().for_each(|name| table.remove(name));
        assert_eq!(table.iter().collect::<Vec<_>>(), [("a", &3), ("b", &7), ("c", &4)]);
        assert_eq!((table.len(), table.after("b").count(), table.get("b")), (3, 1, Some(&7)));
    }

    #[test]
    fn a_text_that_begins_in_one_name_and_ends_in_the_next_is_no_match() {
        let names = ["aab", "abé", "éab", "bba"].map(|name| (name.to_owned(), ()));
        let table: OrderedTable<()> = names.into_iter().collect();
        assert_eq!(found(&table, "", "ba", 9), (vec!["bba".to_owned()], None));
        assert_eq!(found(&table, "", "é", 9).0, ["abé", "éab"]);
        assert_eq!(
            found(&table, "", "ab", 3),
            (vec!["aab".to_owned(), "abé".to_owned()], Some("bba".to_owned()))
        );
    }

    fn found<V: Clone>(
        table: &OrderedTable<V>,
        after: &str,
        text: &str,
        count: usize,
    ) -> (Vec<String>, Option<String>) {
        let mut names = Vec::new();
        let last = table.search(after, text, count, |name| {
            names.push(name.to_owned());
            true
        });
        (names, last.map(str::to_owned))
    }

    proptest! {
        /// A sorted map is the model.
        #[test]
        fn it_is_a_sorted_map(
            steps in prop::collection::vec(("[abé]{0,4}", any::<bool>()), 0..60),
            after in "[abé]{0,3}",
            text in "[abé]{0,2}",
            count in 1..9_usize,
        ) {
            let (mut table, mut model) = (OrderedTable::default(), BTreeMap::new());
            for (number, (name, is_added)) in steps.into_iter().enumerate() {
                if is_added {
                    table.insert(&name, number);
                    model.insert(name, number);
                } else {
                    table.remove(&name);
                    model.remove(&name);
                }
            }
            let pairs = |(name, value): (&String, &usize)| (name.clone(), *value);
            let all: Vec<_> = table.iter().map(|(name, value)| (name.to_owned(), *value)).collect();
            prop_assert_eq!(&all, &model.iter().map(pairs).collect::<Vec<_>>());
            prop_assert!(all.iter().all(|(name, value)| table.get(name) == Some(value)) && table.len() == all.len());
            let behind = || model.range::<str, _>((Bound::Excluded(&*after), Bound::Unbounded));
            let told: Vec<_> = table.after(&after).map(|(name, value)| (name.to_owned(), *value)).collect();
            prop_assert_eq!(told, behind().map(pairs).collect::<Vec<_>>());
            let names: Vec<String> = behind().take(count).map(|(name, _)| name.clone()).collect();
            let last = names.last().filter(|_| names.len() == count).cloned();
            let matches = names.into_iter().filter(|name| name.contains(&text)).collect();
            prop_assert_eq!(found(&table, &after, &text, count), (matches, last));
        }
    }
}
