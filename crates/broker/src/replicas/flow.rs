//! Throughput of a connection between brokers (`FlowMonitor`).

use parking_lot::Mutex;

/// Length in milliseconds of the windows in which bytes are counted.
const WINDOW_MS: i64 = 1000;

/// Counts bytes by windows of a second.
#[derive(Debug, Default)]
pub(crate) struct Flow(Mutex<Window>);

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// When the window began, in milliseconds since 1970.
    since_ms: i64,
    bytes: u64,
    /// Bytes per second of the window before.
    before: u64,
}

impl Window {
    /// Returns the window at `now_ms`: this window, or the next if it is over.
    fn at(self, now_ms: i64) -> Self {
        let elapsed_ms = now_ms - self.since_ms;
        if (0..WINDOW_MS).contains(&elapsed_ms) {
            return self;
        }
        let per_second = u128::from(self.bytes) * 1000 / u128::from(elapsed_ms.unsigned_abs().max(1));
        Self { since_ms: now_ms, bytes: 0, before: u64::try_from(per_second).unwrap_or(u64::MAX) }
    }
}

impl Flow {
    /// Counts bytes that flowed at `now_ms`.
    pub(crate) fn add(&self, bytes: u64, now_ms: i64) {
        let mut window = self.0.lock();
        *window = window.at(now_ms);
        window.bytes += bytes;
    }

    /// Bytes per second in the last window that is over.
    pub(crate) fn per_second(&self, now_ms: i64) -> u64 {
        let window = *self.0.lock();
        window.at(now_ms).before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_that_of_the_last_second_and_falls_when_nothing_flows() {
        let flow = Flow::default();
        assert_eq!(flow.per_second(5_000), 0);
        for at_ms in [5_000, 5_500] {
            flow.add(1_000, at_ms);
        }
        assert_eq!(flow.per_second(5_900), 0, "the first second is not over");
        assert_eq!(flow.per_second(6_000), 2_000);
        flow.add(300, 6_000);
        assert_eq!(flow.per_second(6_500), 2_000);
        assert_eq!(flow.per_second(9_000), 100, "three seconds have brought 300 bytes");
    }
}
