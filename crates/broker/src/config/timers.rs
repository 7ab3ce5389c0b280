//! Settings of timed messages.

use store::timer::TimerConfig;

/// Settings of timed messages.
#[derive(Clone, Debug)]
pub struct Timers {
    /// `timerWheelEnable`: timed messages are accepted and delivered.
    pub enabled: bool,
    /// `timerMaxDelaySec`: longest delay a message may have, in seconds.
    pub delay_max_s: i64,
    /// `timerPrecisionMs`: time span of a slot of the timer wheel, in milliseconds.
    pub precision_ms: i64,
    /// `timerRollWindowSlot`: a message due more slots ahead than this goes to an earlier slot and is stored again (rolled) then.
    pub roll_window_slots: i64,
    /// `timerCongestNumEachSlot`: number of messages in a slot above which further messages are refused at random. At
    /// twice the number all are refused.
    pub congest_num: i32,
    /// `timerFlushIntervalMs`: interval between saves of the timer's files. After a crash, messages that were delivered since the
    /// last save are delivered again.
    pub flush_interval_ms: i64,
    /// `mappedFileSizeTimerLog`: size of a file of the timer log, in bytes.
    pub log_file_bytes: u64,
    /// `timerWheelSnapshotFlush`: Java saved the wheel in snapshots, of which the newest is loaded instead of the plain file.
    pub snapshots: bool,
    /// `timerStopEnqueue`: stored timed messages are not added to the wheel.
    pub stop_enqueue: bool,
    /// `timerStopDequeue`: timed messages are not delivered.
    pub stop_dequeue: bool,
    /// `recallMessageEnable`: producers may recall timed messages.
    pub recall: bool,
    /// `allowRecallWhenBrokerNotWriteable`: recalls are accepted although the broker is not writable.
    pub recall_when_read_only: bool,
    /// `appendTopicForTimerDeleteKey`: the key in a cancelling message is preceded by the topic, as Java 5.3 expects.
    pub recall_names_topic: bool,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            enabled: true,
            delay_max_s: 259_200,
            precision_ms: 1000,
            roll_window_slots: 172_800,
            congest_num: i32::MAX,
            flush_interval_ms: 1000,
            log_file_bytes: 100 << 20,
            snapshots: false,
            stop_enqueue: false,
            stop_dequeue: false,
            recall: false,
            recall_when_read_only: true,
            recall_names_topic: false,
        }
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
