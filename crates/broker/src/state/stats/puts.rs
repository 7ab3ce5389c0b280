//! Durations of storing messages (`StoreStatsService.incPutMessageEntireTime`): from the staging of a read batch's
//! requests until they are stored as the flush mode requires. All messages that are stored together count with the
//! same time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Ends in microseconds of the ranges in which puts are counted. They include the ends of all [`RANGES`].
const ENDS_US: [u64; 20] = [
    50,
    100,
    200,
    500,
    1000,
    2000,
    5000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    3_000_000,
    4_000_000,
    5_000_000,
    10_000_000,
    u64::MAX,
];

/// The ranges that tools know, with their ends in microseconds; Java counts in whole milliseconds.
const RANGES: [(&str, u64); 13] = [
    ("<=0ms", 1000),
    ("0~10ms", 10_000),
    ("10~50ms", 50_000),
    ("50~100ms", 100_000),
    ("100~200ms", 200_000),
    ("200~500ms", 500_000),
    ("500ms~1s", 1_000_000),
    ("1~2s", 2_000_000),
    ("2~3s", 3_000_000),
    ("3~4s", 4_000_000),
    ("4~5s", 5_000_000),
    ("5~10s", 10_000_000),
    ("10s~", u64::MAX),
];

type Counts = [u64; ENDS_US.len()];

/// The number of puts by duration, and the longest put and read since the start.
#[derive(Default)]
pub(crate) struct Puts {
    /// Counts of the current minute.
    counts: [AtomicU64; ENDS_US.len()],
    /// Counts of the last complete minute.
    minute: Mutex<Counts>,
    longest_us: AtomicU64,
    longest_get_us: AtomicU64,
}

impl Puts {
    /// Counts messages that were stored together.
    pub(crate) fn took(&self, time: Duration, messages: usize) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1);
        let range = ENDS_US.partition_point(|end| *end <= us);
        self.counts[range].fetch_add(messages as u64, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Records the duration of reading the messages of a request.
    pub(crate) fn get_took(&self, time: Duration) {
        self.longest_get_us.fetch_max(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Ends the current minute.
    pub(crate) fn end_minute(&self) {
        let counts = self.counts.each_ref().map(|count| count.swap(0, Ordering::Relaxed));
        *self.minute.lock() = counts;
    }

    /// The entries of the broker's runtime status.
    pub(crate) fn runtime_entries(&self) -> [(&'static str, String); 5] {
        let counts = *self.minute.lock();
        let longest_ms = |us: &AtomicU64| (us.load(Ordering::Relaxed) / 1000).to_string();
        [
            ("putMessageDistributeTime", distribution(&counts)),
            ("putLatency99", format!("{:.2}", percentile_us(&counts, 0.99) / 1000.0)),
            ("putLatency999", format!("{:.2}", percentile_us(&counts, 0.999) / 1000.0)),
            ("putMessageEntireTimeMax", longest_ms(&self.longest_us)),
            ("getMessageEntireTimeMax", longest_ms(&self.longest_get_us)),
        ]
    }
}

fn distribution(counts: &Counts) -> String {
    let mut left = ENDS_US.iter().zip(counts).peekable();
    let mut text = String::new();
    for (name, range_end) in RANGES {
        let mut sum = 0;
        while let Some((_, count)) = left.next_if(|(end, _)| **end <= range_end) {
            sum += count;
        }
        text.push_str(&format!("[{name}]:{sum} "));
    }
    text
}

/// A percentile of the put durations in microseconds, with puts taken as evenly distributed within each range
/// (`StoreStatsService.findPutMessageEntireTimePX`). `share` is from 0 to 1.
fn percentile_us(counts: &Counts, share: f64) -> f64 {
    let wanted = counts.iter().sum::<u64>() as f64 * share;
    let (mut passed, mut begin) = (0.0, 0);
    for (end, count) in ENDS_US.into_iter().zip(counts) {
        if *count > 0 && passed + *count as f64 >= wanted {
            if end == u64::MAX {
                return begin as f64;
            }
            return begin as f64 + (end - begin) as f64 * (wanted - passed) / *count as f64;
        }
        passed += *count as f64;
        begin = end;
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_are_counted_in_the_ranges_of_java_by_whole_minutes() {
        let puts = Puts::default();
        for (us, messages) in [(0, 5), (999, 1), (1000, 2), (9999, 3), (10_000, 4), (15_000_000, 7)] {
            puts.took(Duration::from_micros(us), messages);
        }
        puts.get_took(Duration::from_millis(12));
        let text = |puts: &Puts, key: &str| {
            puts.runtime_entries().into_iter().find(|(name, _)| *name == key).unwrap().1
        };
        let empty = RANGES.map(|(name, _)| format!("[{name}]:0 ")).concat();
        assert_eq!(text(&puts, "putMessageDistributeTime"), empty, "the minute is not over");
        puts.end_minute();
        let counted = text(&puts, "putMessageDistributeTime");
        assert!(counted.starts_with("[<=0ms]:6 [0~10ms]:5 [10~50ms]:4 [50~100ms]:0 "), "{counted}");
        assert!(counted.ends_with("[5~10s]:0 [10s~]:7 "), "{counted}");
        assert_eq!(text(&puts, "putMessageEntireTimeMax"), "15000");
        assert_eq!(text(&puts, "getMessageEntireTimeMax"), "12");
        puts.end_minute();
        assert_eq!(text(&puts, "putMessageDistributeTime"), empty);
    }

    #[test]
    fn percentiles_lie_in_the_range_of_the_put_they_name() {
        let puts = Puts::default();
        puts.took(Duration::from_micros(70), 990);
        puts.took(Duration::from_micros(15_000), 10);
        puts.end_minute();
        let counts = *puts.minute.lock();
        assert_eq!(percentile_us(&counts, 0.99), 100.0);
        assert!((10_000.0..20_000.0).contains(&percentile_us(&counts, 0.999)));
        assert_eq!(percentile_us(&[0; ENDS_US.len()], 0.99), 0.0);
    }

    #[test]
    fn every_range_ends_where_one_that_is_counted_ends() {
        assert!(RANGES.iter().all(|(_, end)| ENDS_US.contains(end)));
    }
}
