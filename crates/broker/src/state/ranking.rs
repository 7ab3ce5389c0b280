//! The topics with the most messages.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Topics that are kept when there are twice as many.
const KEPT: usize = if cfg!(test) { 3 } else { 2000 };

/// The topics with the most messages. To find them means to read the ends of all queues, which takes long with a million topics, so
/// it is done once; from then on only topics that grew are looked at.
#[derive(Default)]
pub(crate) struct Ranking(Mutex<Option<Known>>);

/// Invariant: a topic that is not in `messages` has at most `least` messages, or grew since [`Ranking::grew`] was last called.
struct Known {
    /// Messages by topic, as they were when that was last looked at.
    messages: HashMap<String, u64>,
    least: u64,
}

impl Ranking {
    /// The names of `count` topics with the most messages, the largest first. `messages` tells how many messages a topic has now, `None`
    /// when it is gone; `gather` gives the names of the largest topics of all, at least `count` of them. Whoever comes while they are
    /// gathered waits for them.
    pub(crate) fn names(
        &self,
        count: usize,
        messages: impl Fn(&str) -> Option<u64>,
        gather: impl FnOnce() -> Vec<String>,
    ) -> Vec<String> {
        let mut known = self.known();
        let names = known.as_mut().and_then(|known| known.largest(count, &messages));
        names.unwrap_or_else(|| {
            let all: HashMap<_, _> =
                gather().into_iter().filter_map(|name| messages(&name).map(|now| (name, now))).collect();
            let least = all.values().copied().min().unwrap_or_default();
            let known = known.insert(Known { messages: all, least });
            known.names(count)
        })
    }

    /// Whether the topics have been gathered.
    pub(crate) fn is_known(&self) -> bool {
        self.known().is_some()
    }

    /// Tells that a topic got messages; `messages` is called for their number when it matters.
    pub(crate) fn grew(&self, topic: &str, messages: impl FnOnce() -> Option<u64>) {
        if let Some(known) = &mut *self.known()
            && let Some(now) = messages()
        {
            known.note(topic, now);
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// As [`Ranking::names`]; `None` when so many topics are gone that others may belong to the largest ones.
    fn largest(&mut self, count: usize, messages: impl Fn(&str) -> Option<u64>) -> Option<Vec<String>> {
        self.messages.retain(|name, known| messages(name).map(|now| *known = now).is_some());
        let certain = self.messages.values().filter(|messages| **messages >= self.least).count();
        (certain >= count).then(|| self.names(count))
    }

    fn names(&self, count: usize) -> Vec<String> {
        self.ranked().into_iter().take(count).map(|(_, name)| name.clone()).collect()
    }

    /// All topics, the largest first.
    fn ranked(&self) -> Vec<(Reverse<u64>, &String)> {
        let mut ranked: Vec<_> =
            self.messages.iter().map(|(name, messages)| (Reverse(*messages), name)).collect();
        ranked.sort_unstable();
        ranked
    }

    fn note(&mut self, topic: &str, messages: u64) {
        if let Some(known) = self.messages.get_mut(topic) {
            *known = messages;
        } else if messages > self.least {
            self.messages.insert(topic.to_owned(), messages);
        }
        if self.messages.len() >= 2 * KEPT {
            let ranked = self.ranked();
            let Reverse(least) = ranked[KEPT].0;
            self.messages =
                ranked.into_iter().take(KEPT).map(|(Reverse(now), name)| (name.clone(), now)).collect();
            self.least = self.least.max(least);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// A ranking of topics with these messages.
    #[derive(Default)]
    struct Stage {
        ranking: Ranking,
        topics: RefCell<BTreeMap<&'static str, u64>>,
        gathered: RefCell<usize>,
    }

    impl Stage {
        fn of(topics: &[(&'static str, u64)]) -> Self {
            Self { topics: RefCell::new(topics.iter().copied().collect()), ..Self::default() }
        }

        fn grow(&self, topic: &'static str, messages: u64) {
            *self.topics.borrow_mut().entry(topic).or_default() += messages;
            self.ranking.grew(topic, || self.messages(topic));
        }

        fn messages(&self, topic: &str) -> Option<u64> {
            self.topics.borrow().get(topic).copied()
        }

        fn names(&self, count: usize) -> Vec<String> {
            self.ranking.names(count, |topic| self.messages(topic), || self.gather())
        }

        fn gather(&self) -> Vec<String> {
            *self.gathered.borrow_mut() += 1;
            let mut all: Vec<_> =
                self.topics.borrow().iter().map(|(name, now)| (Reverse(*now), *name)).collect();
            all.sort_unstable();
            all.into_iter().take(KEPT).map(|(_, name)| name.to_owned()).collect()
        }
    }

    #[test]
    fn topics_that_grow_find_their_place_without_another_look_at_all() {
        let stage = Stage::of(&[("a", 9), ("b", 7), ("c", 5), ("d", 3), ("e", 1)]);
        stage.grow("e", 1);
        assert_eq!(stage.names(3), ["a", "b", "c"]);
        stage.grow("e", 6);
        stage.grow("d", 1);
        assert_eq!(stage.names(3), ["a", "e", "b"]);
        stage.grow("d", 20);
        stage.grow("new", 6);
        stage.grow("newer", 30);
        assert_eq!(stage.names(3), ["newer", "d", "a"]);
        assert_eq!(*stage.gathered.borrow(), 1);
    }

    #[test]
    fn all_topics_are_looked_at_again_when_too_many_are_gone() {
        let stage = Stage::of(&[("a", 9), ("b", 7), ("c", 5), ("d", 3), ("e", 1)]);
        assert_eq!(stage.names(3), ["a", "b", "c"]);
        stage.topics.borrow_mut().remove("b");
        assert_eq!(stage.names(2), ["a", "c"]);
        assert_eq!(*stage.gathered.borrow(), 1);
        stage.topics.borrow_mut().insert("a", 0);
        assert_eq!(stage.names(2), ["c", "d"], "a was deleted and created again");
        assert_eq!(*stage.gathered.borrow(), 2);
    }

    #[test]
    fn equal_topics_do_not_crowd_each_other_out() {
        let stage = Stage::of(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 1), ("g", 1)]);
        assert_eq!(stage.names(3), ["a", "b", "c"]);
        ["d", "e", "f", "g"].into_iter().for_each(|topic| stage.grow(topic, 1));
        assert_eq!(stage.names(3), ["d", "e", "f"]);
        assert_eq!(*stage.gathered.borrow(), 1);
    }
}
