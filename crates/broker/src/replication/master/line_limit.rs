//! Limit of log lines of a kind that any host can cause by connecting to the port for slaves.

/// Shortest time between two lines in milliseconds.
const LINE_INTERVAL_MS: u64 = 10_000;

/// Limit of log lines of one kind, which counts the events since the last line.
#[derive(Default)]
pub(super) struct LineLimit {
    count: u64,
    /// Time from which on the next line may be written, on the clock of [`Self::note`].
    line_ms: u64,
}

impl LineLimit {
    /// Counts an event. Returns the number of events since the last line if a line may be written at `now_ms`.
    pub(super) fn note(&mut self, now_ms: u64) -> Option<u64> {
        self.count += 1;
        if now_ms < self.line_ms {
            return None;
        }
        self.line_ms = now_ms + LINE_INTERVAL_MS;
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_often_it_happened_since_the_one_before() {
        let mut limit = LineLimit::default();
        let told = [0, 1, 9_999, 10_000, 10_001, 30_000].map(|now_ms| limit.note(now_ms));
        assert_eq!(told, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
