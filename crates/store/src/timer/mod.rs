//! Messages that wait for a point in time: RocketMQ's timer wheel and timer log (`TimerWheel`, `TimerLog`).
//!
//! A timed message lies in queue 0 of `rmq_sys_wheel_timer`. Somebody follows that queue and adds a 52-byte unit per
//! message to the *timer log*; units of one second form a chain, newest first, whose head is a 32-byte *slot* of the
//! *wheel*. When the second comes near, its chain is walked and its messages are put into the [`Agenda`], ordered by
//! the millisecond they are due.
//!
//! | file | holds | written |
//! |---|---|---|
//! | `timerlog/<start>` | units, appended in blocks | at once, made durable first |
//! | `timerwheel` | 2 x 604,800 slots; a slot belongs to the second it names | changed pages, made durable second |
//! | `config/timercheck` | up to where units, queue and wheel time are done | last |
//!
//! A crash between two steps leaves a check that is older than the files: the units behind it are read again and put
//! back into their slots, which changes nothing when they were there, and what was delivered since is delivered again.
//! Units and slots are derived from the queue, so what is lost of them is made again from there.
//!
//! The sum of a unit's two times lies in the second of its slot. Java stores its start; this store puts one less than
//! the exact due time there, which Java reads as the same slot.
//!
//! Memory does not grow with what waits: the wheel is read by pages, of which a bounded number is kept, units lie on
//! the disk, and the agenda is bounded.

mod agenda;
mod check;
mod files;
mod log;
mod recover;
pub(crate) mod slot;
pub(crate) mod unit;
mod walk;
mod wheel;

pub use agenda::{Agenda, Entry, Key, Load, Loaded};
pub use check::TimerCheck;
pub use files::{Progress as TimerProgress, SaveError, TimerConfig, TimerFiles, TimerSave};
pub use log::TimerLog;
pub use recover::TimerRecovered;
pub use slot::Slot;
pub use unit::{TimerUnit, UNIT_BYTES, magic};
pub use walk::{Refused, units, walk};

/// The wheel time of a message due at `due_ms`: the start of the step that ends with it
/// (`HookUtils.transformTimerMessage`).
#[must_use]
pub fn wheel_time(due_ms: i64, precision_ms: i64) -> i64 {
    (due_ms - 1).div_euclid(precision_ms) * precision_ms
}

#[cfg(test)]
mod tests;
