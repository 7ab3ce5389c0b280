//! Messages for a point in time (`TimerMessageStore`), to the millisecond.
//!
//! A timed send is stored in queue 0 of `rmq_sys_wheel_timer` ([`put`]). One thread ([`clock`]) follows that queue into
//! the files of [`store::timer`], and when a message is due it appends a copy to its real topic. Two more threads keep
//! it from waiting for the disk: [`fetch`] reads what is due in some seconds, [`crate::keep`] makes the files durable.
//!
//! What was answered as recalled is never delivered. A message that cancels another is appended under the gate, which
//! counts it; the clock looks at the count before it reads the queue, and again, under the gate, before it appends what
//! is due. A recall is refused when the gate says that the message's time has come.

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

use store::timer::{TimerConfig, wheel_time};

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
        let kept_slots = (reserved_ms / 2 / self.precision_ms).max(2);
        // Java takes what is out of bounds for the most.
        let asked = if self.roll_window_slots < 2 { i64::MAX } else { self.roll_window_slots };
        TimerConfig {
            precision_ms: self.precision_ms,
            log_file_bytes: self.log_file_bytes,
            roll_window_slots: asked.min(kept_slots),
            snapshots: self.snapshots,
            ..TimerConfig::new(&store.root)
        }
    }
}

/// What decides between cancelling and delivering.
#[derive(Default)]
pub(crate) struct Gate {
    /// Cancelling messages appended.
    pub cancels: u64,
    /// What may be delivered.
    pub delivered: Delivered,
}

/// Until when timed messages may have been delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// Those due until then, by the clock as it is.
    pub until_ms: i64,
    /// By the clock before it was set back.
    before_ms: i64,
    /// How often it was set back, as far as handles can tell.
    set_backs: i64,
}

impl Delivered {
    /// The clock was set back. What is taken from now on and due until `before_ms` has not been delivered.
    fn set_back(&mut self, now_ms: i64, precision_ms: i64) {
        self.before_ms = self.before_ms.max(self.until_ms);
        self.until_ms = self.until_ms.min(now_ms);
        self.set_backs = (self.set_backs + 1) % precision_ms;
    }

    /// The time in the handle of a message taken now: in its slot, and as far behind the first moment it may be due as the
    /// clock was set back often.
    pub(crate) fn handle_ms(self, out_ms: i64) -> i64 {
        out_ms + 1 + self.set_backs
    }

    /// Whether the message of a handle with this time may be among them.
    pub(crate) fn includes(self, handle_ms: i64, precision_ms: i64) -> bool {
        let out_ms = wheel_time(handle_ms, precision_ms);
        let was_taken_since = handle_ms == self.handle_ms(out_ms);
        let until_ms = if was_taken_since { self.until_ms } else { self.until_ms.max(self.before_ms) };
        out_ms < until_ms
    }
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
