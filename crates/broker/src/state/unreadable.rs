//! Patience with an unreadable message that holds up later messages. Pure.

use store::ReadError;

use crate::refusal::PutError;

/// Milliseconds after which an unreadable message is skipped, so that it no longer holds up later messages.
const PATIENCE_MS: i64 = 60_000;
/// The time between two attempts counts for at most this many milliseconds, since the clock may have been set.
const STEP_MAX_MS: i64 = 10_000;

/// Time since which delivery of a queue's first message fails.
#[derive(Debug, Default)]
pub(crate) struct UnreadableSince {
    /// The position of the message that failed last, and the time of that in milliseconds since the epoch.
    last: Option<(i64, i64)>,
    waited_ms: i64,
}

impl UnreadableSince {
    /// Whether the message at position `head`, which just failed, is tried again before it is skipped. It is always
    /// tried again if the log or a table cannot be written, or an index is being rebuilt, because later messages
    /// would fail as well.
    pub(crate) fn holds(&mut self, head: i64, error: &PutError, now_ms: i64) -> bool {
        match error {
            PutError::Append(_) | PutError::Topic(_) | PutError::Read(ReadError::Rebuilding { .. }) => true,
            PutError::Read(ReadError::Io(_)) => self.lasts(head, now_ms),
            PutError::Push(_)
            | PutError::Read(ReadError::Range { .. } | ReadError::Record { .. } | ReadError::Damaged(_)) => {
                false
            }
        }
    }

    fn lasts(&mut self, head: i64, now_ms: i64) -> bool {
        match self.last.replace((head, now_ms)) {
            Some((before, last_ms)) if before == head => {
                self.waited_ms += (now_ms - last_ms).clamp(0, STEP_MAX_MS);
            }
            _ => self.waited_ms = 0,
        }
        self.waited_ms < PATIENCE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_holds_for_a_minute_whatever_the_clock_does() {
        let io = PutError::Read(ReadError::Io(std::io::Error::other("bad sector")));
        let mut patience = UnreadableSince::default();
        assert!(patience.holds(7, &io, 0));
        assert!(patience.holds(7, &io, 3_600_000), "set forward: this counts for ten seconds");
        assert!(patience.holds(7, &io, 0), "set back: this counts for nothing");
        assert!((1..=49).all(|second| patience.holds(7, &io, second * 1000)));
        assert!(!patience.holds(7, &io, 50_000));
        assert!(patience.holds(8, &io, 51_000), "the next one has a minute of its own");
        let rebuilding = ReadError::Rebuilding { topic: "T".to_owned(), queue_id: 0 };
        let rebuilding = PutError::Read(rebuilding);
        assert!((0..100).all(|minute| patience.holds(8, &rebuilding, minute * 60_000)));
        let damaged = PutError::Read(ReadError::Damaged(Vec::new()));
        assert!(!patience.holds(8, &damaged, 0));
    }
}
