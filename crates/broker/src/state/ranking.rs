//! The topics with the most messages.

use std::cmp::Reverse;
use std::collections::HashMap;

use parking_lot::Mutex;

/// Number of topics that a search returns. The list may grow to twice that number. The number is larger than a page,
/// so that some topics may be deleted.
const KEPT: usize = if cfg!(test) { 3 } else { 4000 };

/// Topics with the most messages. A search for them reads the ends of all queues, which takes long with a million
/// topics. So they are gathered once, and again when many of them are gone. After that only grown topics are
/// examined.
#[derive(Default)]
pub(crate) struct Ranking {
    state: Mutex<State>,
    /// Lock for gathering the topics, so that a single thread does it.
    gathering: Mutex<()>,
}

#[derive(Default)]
struct State {
    known: Option<RankedTopics>,
    /// Topics that grew while topics are gathered.
    grown: Option<Vec<String>>,
}

/// Invariant: a topic that is not in `messages` has at most `least` messages, or grew since [`Ranking::grew`] was last called.
struct RankedTopics {
    /// Number of messages by topic, as of the last check of the topic.
    messages: HashMap<String, u64>,
    least: u64,
}

impl Ranking {
    /// Returns the names of `count` topics with the most messages, the largest first. `messages` returns the number
    /// of a topic's messages, or `None` for a removed topic. `gather` returns the names of that many largest topics.
    /// Callers wait while the topics are gathered.
    pub(crate) fn names(
        &self,
        count: usize,
        messages: impl Fn(&str) -> Option<u64>,
        gather: impl FnOnce(usize) -> Vec<String>,
    ) -> Vec<String> {
        if let Some(names) = self.state.lock().largest(count, &messages) {
            return names;
        }
        let _gathering = self.gathering.lock();
        if let Some(names) = self.state.lock().largest(count, &messages) {
            return names;
        }
        self.state.lock().grown = Some(Vec::new());
        let with_messages = |name: String| messages(&name).map(|now| (name, now));
        let all: HashMap<_, _> = gather(KEPT).into_iter().filter_map(with_messages).collect();
        let least = all.values().copied().min().unwrap_or_default();
        let mut known = RankedTopics { messages: all, least };
        let mut state = self.state.lock();
        for (topic, now) in state.grown.take().into_iter().flatten().filter_map(with_messages) {
            known.note(&topic, now);
        }
        let names = known.names(count);
        state.known = Some(known);
        names
    }

    /// Whether the topics have been gathered.
    pub(crate) fn is_known(&self) -> bool {
        self.state.lock().known.is_some()
    }

    /// Records that a topic got messages. `messages` returns their number and is called only if needed.
    pub(crate) fn grew(&self, topic: &str, messages: impl FnOnce() -> Option<u64>) {
        let mut state = self.state.lock();
        if let Some(grown) = &mut state.grown {
            grown.push(topic.to_owned());
        }
        if let Some(known) = &mut state.known
            && let Some(now) = messages()
        {
            known.note(topic, now);
        }
    }
}

impl State {
    /// Returns the names as [`Ranking::names`] does, or `None` if the topics have not been gathered. Also `None` if
    /// so many topics are gone that others may belong to the largest.
    fn largest(&mut self, count: usize, messages: impl Fn(&str) -> Option<u64>) -> Option<Vec<String>> {
        self.known.as_mut()?.largest(count, messages)
    }
}

impl RankedTopics {
    /// Returns the names as [`Ranking::names`] does, or `None` if so many topics are gone that others may belong to
    /// the largest.
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
            self.ranking.names(count, |topic| self.messages(topic), |count| self.gather(count))
        }

        fn gather(&self, count: usize) -> Vec<String> {
            *self.gathered.borrow_mut() += 1;
            let mut all: Vec<_> =
                self.topics.borrow().iter().map(|(name, now)| (Reverse(*now), *name)).collect();
            all.sort_unstable();
            all.into_iter().take(count).map(|(_, name)| name.to_owned()).collect()
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

    #[test]
    fn a_topic_that_grows_while_topics_are_gathered_is_not_missed_and_waits_for_nobody() {
        let stage = Stage::of(&[("a", 9), ("b", 7), ("c", 5), ("d", 3)]);
        let names = stage.ranking.names(
            2,
            |topic| stage.messages(topic),
            |count| {
                let names = stage.gather(count);
                stage.grow("d", 5);
                names
            },
        );
        assert_eq!(names, ["a", "d"]);
    }
}
