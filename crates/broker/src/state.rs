//! State of the broker: tables with their own rules, and no I/O except their files. Tables do not know their users.
//! [`crate::broker::Broker`] is composed of them, and operations and engines use both.

mod acting;
mod client_calls;
mod clock_set_back;
mod delivery_notes;
mod disk_watch;
mod light;
mod lite;
mod metadata_queue;
mod modes;
mod poll_timeouts;
mod pops;
mod ranking;
mod registration_acks;
mod retention;
mod routes;
mod schedule;
mod stats;
mod table_copies;
mod timer;
mod transactions;
mod unreadable;

pub(crate) use acting::Acting;
pub(crate) use client_calls::ClientCalls;
pub(crate) use clock_set_back::ClockSetBack;
pub(crate) use delivery_notes::{DeliveryNote, DeliveryNotes};
pub(crate) use disk_watch::{DISK_LOOK_MS, DiskWatch, Pending};
pub(crate) use light::Light;
#[cfg(test)]
pub(crate) use light::WAITED_MAX;
pub(crate) use lite::{GroupRules, Lite, Offered, PassKey, Subscriber};
pub(crate) use metadata_queue::{MetadataQueue, Postponed, WAITING_BYTES_MAX, Waiting, abandoned};
pub(crate) use modes::Modes;
pub(crate) use poll_timeouts::PollTimeouts;
pub(crate) use pops::{Busy, Cell, HeldCheckpoint, InFlightPatience, Pops};
pub(crate) use ranking::Ranking;
pub(crate) use registration_acks::RegistrationAcks;
pub(crate) use retention::Retention;
pub(crate) use routes::{Question, Queues, Routes, TopicQueues};
pub(crate) use schedule::Schedule;
pub(crate) use stats::{
    KnownTimes, NAMES, Name, Read, SAMPLE_MS, Span, Stats, Sums, Tables, Windows, decimal,
};
pub(crate) use table_copies::{Copies, TableCopies, TableVersions};
pub(crate) use timer::TimerState;
pub use transactions::Decision;
pub(crate) use transactions::{Decisions, End, FINISH_BOUNDS_S, HalfMessages, Transactions};
pub(crate) use unreadable::UnreadableSince;
