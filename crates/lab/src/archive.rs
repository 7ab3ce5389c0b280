//! What a run of the lab leaves on disk: the only thing that judgement and reports read.
//!
//! ```text
//! run/
//!   run.json                        one `RunFile`
//!   cells/001-w60-s1024-q8/
//!     cell.json                     one `Cell`; `cell.partial.json` until all its repeats are there
//!     1/load.csv                    repeat 1: one `LoadSecond` a row
//!     1/latency.hlog                one histogram of send latency a second (HdrHistogram's interval log)
//!     1/end-to-end.hlog             the same from being sent to being consumed, where there were consumers
//!     1/late.hlog                   the same of how late requests of an open loop left
//!     1/host-NAME.csv               one `HostSecond` a row, for every node
//!     1/broker-NAME.csv             one `BrokerSecond` a row, for every broker
//!     1/events.csv                  one `Event` a row
//!     1-ended-early/                what repeat 1 had left when it was ended early, put aside when it was made again
//! ```
//!
//! A cell is finished when its `cell.json` is there; a run that was interrupted goes on with the first cell that is
//! not, of which `cell.partial.json` tells the repeats that are there. Times are milliseconds since 1970 by the clock
//! of the lab; the `at_ms` of a row is the end of its second, which `at` tells as ISO 8601 (UTC). Histograms count microseconds; their intervals carry the
//! same times.

mod directory;
mod histograms;
mod plan;
mod record;
mod rows;
mod series;
mod slo;
#[cfg(test)]
mod tests;

pub use directory::{Archive, CellDirectory, RepeatDirectory};
pub(crate) use directory::{plain, run_directory, write_whole};
pub use histograms::{Histograms, Interval, LATENCY, Sparse, corrected, empty_histogram, read_histograms};
pub(crate) use histograms::{decode, encode};
pub(crate) use plan::is_virtual;
pub use plan::{
    Beaten, BrokerFile, Cell, FLUSH, Factors, HostFile, Limit, Made, Phase, Roofline, RunFile, SETTING,
    Target, TargetKind,
};
pub use record::{Record, RecordedCell, Repeat, Window};
pub use rows::{Rows, read_rows};
pub use series::{BROKER_AWAY, BROKER_BACK, BROKER_RESTARTED, BrokerSecond, Event, HostSecond, LoadSecond};
pub use slo::Slo;
