//! The topics with the most messages.

use std::sync::{Mutex, PoisonError};

/// Time for which an order of topics is used again, ms.
const RANKED_MS: i64 = 10_000;

/// The names of the topics with the most messages, the largest first, and when they were gathered. To gather them means to read the
/// ends of all queues, which takes long with a million topics.
#[derive(Default)]
pub(crate) struct Ranking(Mutex<Option<(i64, Vec<String>)>>);

impl Ranking {
    /// The names, at most ten seconds old; `gather` gives the present ones. Whoever comes while they are gathered waits for them.
    pub(crate) fn names(&self, now_ms: i64, gather: impl FnOnce() -> Vec<String>) -> Vec<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at_ms, names)) = &*known
            && (0..RANKED_MS).contains(&(now_ms - at_ms))
        {
            return names.clone();
        }
        known.insert((now_ms, gather())).1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_gathered_again_after_ten_seconds_and_when_the_clock_went_back() {
        let ranking = Ranking::default();
        let at = |now_ms, name: &str| ranking.names(now_ms, || vec![name.to_owned()]).remove(0);
        assert_eq!([at(5, "a"), at(10_004, "b"), at(10_005, "c"), at(9000, "d")], ["a", "a", "c", "d"]);
    }
}
