//! Settings of timed messages.

use store::timer::TimerConfig;

use super::value::{DAY_MS, INT_MAX, INT_MIN};

/// The values of `timerPrecisionMs` that Java accepts.
const PRECISIONS: [(&str, i64); 4] = [("1000", 1000), ("500", 500), ("200", 200), ("100", 100)];

wire::settings! {
    /// Settings of timed messages.
    #[derive(Clone, Debug)]
    pub struct Timers {
        "timerWheelEnable" Restart enabled: bool = true, "messages for a point in time are taken and delivered";
        "timerMaxDelaySec" Live delay_max_s: i64 = 259_200, [0..=i64::MAX / 1000], "longest time a message may wait, in seconds";
        "timerPrecisionMs" Restart precision_ms: i64 = 1000, [PRECISIONS], "milliseconds of a slot of the timer wheel; must stay as it is for the life of a store";
        "timerRollWindowSlot" Restart roll_window_slots: i64 = 172_800, [INT_MIN..=INT_MAX], "messages further away than so many slots are looked at again before they are due";
        "timerCongestNumEachSlot" Restart congest_num: i32 = i32::MAX, [0..=INT_MAX], "messages of one slot above which some are refused, above twice of it all; 2147483647 is no limit";
        "timerFlushIntervalMs" Restart flush_interval_ms: i64 = 1000, [1..=DAY_MS], "milliseconds between writes of the timer's files; a crash delivers again what was delivered in between";
        "mappedFileSizeTimerLog" Restart log_file_bytes: u64 = 100 << 20, [68..=1 << 31], "bytes of a timer log file of a new store; the files of an existing store keep their size";
        "timerWheelSnapshotFlush" Restart snapshots: bool = false, "the newest snapshot of the timer wheel counts, as Java writes them with this setting";
        "timerStopEnqueue" Live stop_enqueue: bool = false, "messages for a point in time are stored and not added to the wheel";
        "timerStopDequeue" Live stop_dequeue: bool = false, "messages for a point in time are not delivered";
        "recallMessageEnable" Live recall: bool = false, "producers may take back messages for a point in time";
        "allowRecallWhenBrokerNotWriteable" Live recall_when_read_only: bool = true, "recalls are served while brokerPermission forbids writing";
        "appendTopicForTimerDeleteKey" Live recall_names_topic: bool = false, "a recall names the topic before the key of the message, as Java 5.3 reads it";
    }
}

impl Timers {
    /// Returns the configuration of the timer's files. `reserved_ms` is the retention of the commit log in
    /// milliseconds. A message that waits longer than half of it is rolled, which means stored again, so that its
    /// record is not deleted before it is due.
    pub(crate) fn files(&self, store: &store::Config, reserved_ms: i64) -> TimerConfig {
        // Like Java, a number that is out of bounds stands for the largest one.
        let asked = if self.roll_window_slots < 2 { i64::MAX } else { self.roll_window_slots };
        TimerConfig {
            precision_ms: self.precision_ms,
            log_file_bytes: self.log_file_bytes,
            roll_window_slots: asked.min(self.kept_slots(reserved_ms)),
            snapshots: self.snapshots,
            ..TimerConfig::new(&store.root)
        }
    }

    /// Number of slots in half the time the commit log is kept (`reserved_ms`, in milliseconds).
    pub(crate) fn kept_slots(&self, reserved_ms: i64) -> i64 {
        (reserved_ms / 2 / self.precision_ms).max(2)
    }
}
