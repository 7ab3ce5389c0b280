//! Due times after the clock was set back. Store times never decrease, so they are ahead of the clock until it has
//! caught up. Pure.

/// The time at which the clock was found to be behind the store times of a queue.
#[derive(Debug, Default)]
pub(crate) struct ClockSetBack {
    /// When the clock was found to be behind, in milliseconds since the epoch, and the end of the queue at that moment. Messages before
    /// that end were stored earlier.
    seen: Option<(i64, i64)>,
}

impl ClockSetBack {
    /// Returns the latest time by the present clock at which a message can have been stored whose store time is ahead
    /// of the clock. `offset` is the queue offset of the message, and `max` is the end of the queue.
    pub(crate) fn stored_ms(&mut self, offset: i64, max: i64, now_ms: i64) -> i64 {
        match self.seen {
            Some((seen_ms, end)) if offset < end && seen_ms <= now_ms => seen_ms,
            _ => self.seen.insert((now_ms, max)).0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_there_has_the_time_it_was_seen() {
        let mut set_back = ClockSetBack::default();
        assert_eq!(set_back.stored_ms(3, 10, 1000), 1000);
        assert_eq!(set_back.stored_ms(3, 11, 1500), 1000);
        assert_eq!(set_back.stored_ms(9, 12, 2000), 1000);
        assert_eq!(set_back.stored_ms(10, 12, 2500), 2500, "it came later");
        assert_eq!(set_back.stored_ms(11, 12, 700), 700, "set back once more");
    }
}
