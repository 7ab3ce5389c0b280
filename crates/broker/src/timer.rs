//! Messages for a point in time (`TimerMessageStore`), to the millisecond.
//!
//! A timed send is stored in queue 0 of `rmq_sys_wheel_timer` ([`put`]). One thread ([`clock`]) follows that queue into
//! the files of [`store::timer`], and when a message is due it appends a copy to its real topic. Two more threads keep
//! it from waiting for the disk: [`fetch`] reads what is due in some seconds, [`crate::keep`] makes the files durable.
//!
//! What was answered as recalled is never delivered. A message that cancels another is appended under the gate, which
//! counts it; the clock looks at the count before it reads the queue, and again, under the gate, before it appends what
//! is due. A recall is refused, and not stored, when the gate says that the message's time has come. While recalls wait
//! in the queue it is read, also with `timerStopEnqueue`, which refuses new ones.

mod barrier;
pub(crate) mod clock;
mod deliver;
mod enqueue;
mod fetch;
pub(crate) mod put;
pub(crate) mod recall;
mod timed;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use store::timer::TimerConfig;

/// Settings of timed messages.
#[derive(Clone, Debug)]
pub struct Timers {
    /// `timerWheelEnable`: timed messages are taken and delivered.
    pub enabled: bool,
    /// `timerMaxDelaySec`: longest delay.
    pub delay_max_s: i64,
    /// `timerPrecisionMs`: time of a slot.
    pub precision_ms: i64,
    /// `timerRollWindowSlot`: messages further away are looked at again before they are due.
    pub roll_window_slots: i64,
    /// `timerCongestNumEachSlot`: above it messages of a slot are refused at random, above twice of it always.
    pub congest_num: i32,
    /// `timerFlushIntervalMs`: a crash delivers again what was delivered in this time.
    pub flush_interval_ms: i64,
    /// `mappedFileSizeTimerLog`.
    pub log_file_bytes: u64,
    /// `timerWheelSnapshotFlush`: Java wrote snapshots of the wheel.
    pub snapshots: bool,
    /// `timerStopEnqueue`: stored messages are not added to the wheel.
    pub stop_enqueue: bool,
    /// `timerStopDequeue`: nothing is delivered.
    pub stop_dequeue: bool,
    /// `recallMessageEnable`.
    pub recall: bool,
    /// `allowRecallWhenBrokerNotWriteable`.
    pub recall_when_read_only: bool,
    /// `appendTopicForTimerDeleteKey`: recalls name the topic before the key, as Java 5.3 expects.
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
    /// What the files are opened with. A message that waits longer than half of what the log is kept (`reserved_ms`)
    /// rolls meanwhile, so that its record is never too old to be kept.
    pub(crate) fn files(&self, store: &store::Config, reserved_ms: i64) -> TimerConfig {
        // Java takes what is out of bounds for the most.
        let asked = if self.roll_window_slots < 2 { i64::MAX } else { self.roll_window_slots };
        TimerConfig {
            precision_ms: self.precision_ms,
            log_file_bytes: self.log_file_bytes,
            roll_window_slots: asked.min(self.kept_slots(reserved_ms)),
            snapshots: self.snapshots,
            ..TimerConfig::new(&store.root)
        }
    }

    /// Slots of half the time the log is kept.
    pub(crate) fn kept_slots(&self, reserved_ms: i64) -> i64 {
        (reserved_ms / 2 / self.precision_ms).max(2)
    }
}

/// What decides between cancelling and delivering.
#[derive(Default)]
pub(crate) struct Gate {
    /// Cancelling messages appended.
    pub cancels: u64,
    /// Messages due until then may be delivered.
    pub delivered_ms: i64,
    /// Recalls answered with success lie before this place of the timer queue.
    pub recalled_end: i64,
}

/// What the clock shares with the handlers.
#[derive(Default)]
pub(crate) struct Shared {
    gate: Mutex<Gate>,
    thread: OnceLock<Thread>,
    pub stopping: AtomicBool,
    /// First slot that is not finished.
    pub read_ms: AtomicI64,
    /// Next message of the timer queue to add.
    pub queue_offset: AtomicI64,
    /// Messages that wait.
    pub pending: AtomicI64,
    /// Longest time a message of this life waits before its record is stored again.
    pub window_ms: AtomicI64,
    /// Latest slot that got a message in this life.
    pub last_ms: AtomicI64,
    /// Messages by slot; only with a limit.
    counts: Mutex<BTreeMap<i64, i64>>,
}

impl Shared {
    /// Held while a cancelling message or a delivery is appended.
    pub(crate) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<i64, i64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the clock look at once.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }
}

#[cfg(test)]
mod tests;
