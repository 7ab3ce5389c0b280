//! Timed messages, delivered at a point in time that is exact to the millisecond (`TimerMessageStore`).
//!
//! A timed send is stored in queue 0 of `rmq_sys_wheel_timer`, the timer queue ([`put`]). The timer ([`scheduler`]) reads
//! that queue, adds the messages to the files of [`store::timer`], and appends a copy of each message to its real topic when
//! it is due. Two more engines keep the timer from waiting for the disk: [`fetch`] reads what is due in some seconds,
//! and the position writer ([`crate::position_writer`]) makes the files durable.
//!
//! A message whose recall was answered with success is never delivered. A recall stores a message that cancels the other. It
//! is appended, and counted, under the lock of [`crate::state::TimerState::gate`]. The timer reads that count before it reads the timer queue,
//! and again, under the lock, before it appends the messages that are due. A recall is refused, and nothing is stored, when
//! the gate says that the message's time has come. While recalls wait in the timer queue, it is read even with
//! `timerStopEnqueue`, which refuses new recalls.

mod barrier;
mod deliver;
mod enqueue;
pub(crate) mod fetch;
pub(crate) mod put;
pub(crate) mod recall;
pub(crate) mod scheduler;
mod timed;

#[cfg(test)]
mod tests;
