//! Load generation, measurement and limit servers: the tools behind `vostok lab`.
//!
//! - `agent`: observes other machines for the lab.
//! - [`archive`]: the files of a run.
//! - [`command`]: the command line: what the flags of every tool ask for.
//! - `script`: runs of RocketMQ's benchmark scripts, with the lines that they print and the result as JSON.
//! - [`judge`]: the verdicts on the figures of a run.
//! - `sentences`: what the verdicts say, in English and Chinese.
//! - `load`: requests made from templates and the connections that send them.
//! - `generator`: producers and consumers as a workload describes them.
//! - `scenario`: runs of many cells, recorded and resumable.
//! - `selftest`: the limits of this machine alone.
//! - `measure`: figures of machines and brokers, every second.
//! - `report`, `export`: the report of a run, and writing it; `compare`, `plan`: the comparison of two runs, and the
//!   plan of a cluster.
//! - [`echo`]: the two limit servers, a bare echo and a logging echo.
//!
//! Clocks, threads and pauses are in the modules that are marked as shells below; verdicts, reports and plans have none.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "a shell: observes machines as time passes")
)]
mod agent;
pub mod archive;
pub mod command;
mod compare;
#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a shell: serves with its own threads"))]
pub mod echo;
mod error;
mod export;
#[cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "a shell: its clients send and read as time passes")
)]
mod generator;
pub mod judge;
#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a shell: keeps the times of requests"))]
mod load;
mod measure;
mod output;
mod plan;
mod report;
#[cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "the one place where the lab starts runtimes")
)]
mod runtime;
#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a shell: runs cells as time passes"))]
mod scenario;
#[cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "a shell: runs as long as the script is told")
)]
mod script;
#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a shell: measures this machine"))]
mod selftest;
mod sentences;

pub use command::run;
pub use error::Error;
