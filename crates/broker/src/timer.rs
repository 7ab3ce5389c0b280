//! Timed messages, delivered at a point in time that is exact to the millisecond (`TimerMessageStore`).
//!
//! A timed send is stored in queue 0 of `rmq_sys_wheel_timer`, the timer queue ([`put`]). The timer ([`scheduler`])
//! reads that queue, adds the messages to the files of [`store::timer`], and appends a copy of each message to its
//! real topic at its due time. Two more engines spare the timer waits for the disk. [`fetch`] reads the messages that
//! are due in some seconds, and the position writer ([`crate::position_writer`]) makes the files durable.
//!
//! A successfully recalled message is never delivered. A recall stores a message that cancels the other message. The
//! recall is appended, and counted, under the lock of [`crate::state::TimerState::recall_order`]. The timer reads that
//! count before it reads the timer queue, and again, under the lock, before it appends the due messages. A recall is
//! refused, and stores nothing, if the message may have been delivered. While recalls wait in the timer
//! queue, the timer reads the queue even with `timerStopEnqueue`, which refuses new recalls.

mod barrier;
mod deliver;
pub(crate) mod delivery_time;
mod enqueue;
pub(crate) mod fetch;
pub(crate) mod recall;
pub(crate) mod scheduler;
mod timed;

#[cfg(test)]
mod tests;
