//! Timed messages: RocketMQ's timer wheel and timer log (`TimerWheel`, `TimerLog`).
//!
//! A timed message lies in queue 0 of `rmq_sys_wheel_timer`. The broker's timer thread follows that queue and adds a
//! 52-byte unit per message to the *timer log*. The units of a second form a chain, newest first. The chain's head is
//! a 32-byte *slot* of the *wheel*. Shortly before that second, its chain is walked and its messages become due
//! entries ([`DueEntries`]), ordered by due time in ms.
//!
//! | file | holds | written |
//! |---|---|---|
//! | `timerlog/<start>` | units, appended in blocks | at once; made durable first |
//! | `timerwheel` | 2 x 604,800 slots; a slot belongs to the second whose time it holds | changed pages; made durable second |
//! | `config/timercheck` | positions up to which timer log, timer queue and wheel are processed | last |
//!
//! A crash between two steps leaves a `timercheck` older than the other files. Units behind it are read again and put
//! into their slots, which is idempotent. Messages delivered since are delivered again. Units and slots are derived
//! from the timer queue, so lost ones are made again from it.
//!
//! The sum of a unit's two times lies in the second of its slot. RocketMQ stores the start of that second. Vostok
//! stores the exact due time minus 1 ms, which RocketMQ assigns to the same slot.
//!
//! Memory does not grow with the number of waiting messages. A bounded number of the wheel's pages is in memory,
//! units are on the disk, and the number of due entries is bounded.

mod check;
mod due;
mod files;
mod log;
mod recover;
mod rounding;
pub(crate) mod slot;
pub(crate) mod unit;
mod walk;
mod wheel;

pub use check::TimerCheck;
pub use due::{ChainRequest, ChainResult, DueEntries, DueEntry, DueKey};
pub use files::{SaveError, TimerConfig, TimerFiles, TimerProgress, TimerSave};
pub use log::TimerLog;
pub use recover::TimerRecovery;
pub use rounding::{due_times, slot_start, wheel_time};
pub use slot::Slot;
pub use unit::{TimerUnit, UNIT_BYTES, magic};
pub use walk::{UnreadableUnit, units, walk};

#[cfg(test)]
mod tests;
