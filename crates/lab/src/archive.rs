//! The files that a run of the lab writes. Judgement and reports read nothing else.
//!
//! ```text
//! run/
//!   run.json                        one `RunFile`
//!   cells/001-w60-s1024-q8/
//!     cell.json                     one `Cell`; named `cell.partial.json` until all repeats of the cell are finished
//!     1/load.csv                    repeat 1: one `LoadSecond` per row
//!     1/latency.hlog                one histogram of send latency per second (HdrHistogram's interval log)
//!     1/end-to-end.hlog             one histogram of the time from send to consumption per second, with consumers only
//!     1/late.hlog                   one histogram per second of how late the requests of an open loop were sent
//!     1/host-NAME.csv               one `HostSecond` per row, for every machine
//!     1/broker-NAME.csv             one `BrokerSecond` per row, for every broker
//!     1/events.csv                  one `Event` per row
//!     1/round.json                  one `Round`, of failover runs only
//!     1-ended-early/                the files of a repeat 1 that was ended early, moved aside when the repeat was run again
//! ```
//!
//! A cell is finished when its `cell.json` exists. A run that was interrupted resumes with the first unfinished cell;
//! the `cell.partial.json` of that cell says which repeats are finished. Times are milliseconds since 1970 by the clock
//! of the lab. The column `at_ms` of a row is the end of its interval, and `at` is the same time as ISO 8601 (UTC).
//! Histograms count microseconds; the times of their intervals match the rows.

mod directory;
mod histograms;
mod purpose;
mod record;
mod round;
mod rows;
mod run;
mod series;
mod slo;
#[cfg(test)]
mod tests;

pub use directory::{Archive, CellDirectory, RepeatDirectory};
pub(crate) use directory::{plain, run_directory, write_whole};
pub use histograms::{
    END_TO_END, Histograms, Interval, LATE, LATENCY, SEND_LATENCY, Sparse, corrected, empty_histogram,
    read_histograms,
};
pub(crate) use histograms::{decode, encode};
pub use purpose::Purpose;
pub use record::{Record, RecordedCell, Repeat, Window};
pub use round::{CommittedOffset, Round, Silence};
pub use rows::{Rows, read_rows};
pub(crate) use run::is_virtual;
pub use run::{
    Beaten, BrokerFile, Cell, FLUSH, Factors, HostFile, Limit, Made, Phase, Roofline, RunFile, SECRET,
    SETTING, Target, TargetKind,
};
pub use series::{BROKER_AWAY, BROKER_BACK, BROKER_RESTARTED, BrokerSecond, Event, HostSecond, LoadSecond};
pub use slo::Slo;
