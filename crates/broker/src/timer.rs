//! Timed messages, delivered at a point in time that is exact to the millisecond (`TimerMessageStore`).
//!
//! A timed send is stored in queue 0 of `rmq_sys_wheel_timer`, the timer queue ([`put`]). The timer thread ([`scheduler`]) reads
//! that queue, adds the messages to the files of [`store::timer`], and appends a copy of each message to its real topic when
//! it is due. Two more threads keep the timer thread from waiting for the disk: [`fetch`] reads what is due in some seconds,
//! and the position writer ([`crate::position_writer`]) makes the files durable.
//!
//! A message whose recall was answered with success is never delivered. A recall stores a message that cancels the other. It
//! is appended, and counted, under the lock of [`Gate`]. The timer thread reads that count before it reads the timer queue,
//! and again, under the lock, before it appends the messages that are due. A recall is refused, and nothing is stored, when
//! the gate says that the message's time has come. While recalls wait in the timer queue, it is read even with
//! `timerStopEnqueue`, which refuses new recalls.

mod barrier;
mod deliver;
mod enqueue;
mod fetch;
pub(crate) mod put;
pub(crate) mod recall;
pub(crate) mod scheduler;
mod timed;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use store::timer::TimerConfig;

/// Settings of timed messages.
#[derive(Clone, Debug)]
pub struct Timers {
    /// `timerWheelEnable`: timed messages are accepted and delivered.
    pub enabled: bool,
    /// `timerMaxDelaySec`: longest delay a message may have, in seconds.
    pub delay_max_s: i64,
    /// `timerPrecisionMs`: time span of one slot of the timer wheel, in milliseconds.
    pub precision_ms: i64,
    /// `timerRollWindowSlot`: a message due more slots ahead than this goes to an earlier slot and is stored again (rolled) then.
    pub roll_window_slots: i64,
    /// `timerCongestNumEachSlot`: with more messages in a slot than this, further ones are refused at random; with twice as many,
    /// all are refused.
    pub congest_num: i32,
    /// `timerFlushIntervalMs`: interval between saves of the timer's files. After a crash, messages that were delivered since the
    /// last save are delivered again.
    pub flush_interval_ms: i64,
    /// `mappedFileSizeTimerLog`: size of one file of the timer log, in bytes.
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
    /// The configuration of the timer's files. A message that waits longer than half the time the commit log is kept
    /// (`reserved_ms`, in milliseconds) is rolled, that is stored again, so that its record is not deleted before it is due.
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

/// What decides whether a recall comes in time. Its lock is held while a cancelling message or a delivery is appended.
#[derive(Default)]
pub(crate) struct Gate {
    /// Number of cancelling messages that were appended since the broker started.
    pub cancels: u64,
    /// Messages due until this time (milliseconds since the epoch) may have been delivered.
    pub delivered_ms: i64,
    /// The cancelling messages of all recalls that were answered with success lie before this offset of the timer queue.
    pub recalled_end: i64,
}

/// What the timer thread shares with the request handlers.
#[derive(Default)]
pub(crate) struct Shared {
    gate: Mutex<Gate>,
    thread: OnceLock<Thread>,
    pub stopping: AtomicBool,
    /// Start of the first slot that is not completely delivered, in milliseconds since the epoch.
    pub read_ms: AtomicI64,
    /// Offset in the timer queue of the next message to add to the wheel.
    pub queue_offset: AtomicI64,
    /// Number of timed messages that are not delivered yet.
    pub pending: AtomicI64,
    /// Longest time in milliseconds after which a message that was added since the broker started is delivered or rolled.
    pub window_ms: AtomicI64,
    /// The latest slot that got a message since the broker started, as its start in milliseconds since the epoch.
    pub last_ms: AtomicI64,
    /// Number of messages by slot. Only kept while `timerCongestNumEachSlot` sets a limit.
    counts: Mutex<BTreeMap<i64, i64>>,
}

impl Shared {
    /// Locks the gate. The lock is held while a cancelling message or a delivery is appended.
    pub(crate) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<i64, i64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the timer thread.
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
