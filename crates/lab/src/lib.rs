//! Load generation, measurement and limit servers: the tools behind `vostok lab`.
//!
//! - [`agent`]: observes other machines for the lab.
//! - [`archive`]: the files of a run.
//! - [`command`]: the command line: which tool runs.
//! - [`arguments`], [`scenario_arguments`]: the flags of RocketMQ's benchmark scripts, and those of the scenarios.
//! - [`report`]: what is counted, the lines that the scripts print, and the result as JSON.
//! - [`judge`]: the verdicts on the figures of a run.
//! - [`load`]: requests made from templates and the connections that send them.
//! - [`generator`]: producers and consumers as a workload describes them.
//! - [`scenario`]: runs of many cells, recorded and resumable.
//! - [`selftest`]: the limits of this machine alone.
//! - [`measure`]: figures of machines and brokers, every second.
//! - [`pages`], [`export`]: the report of a run, and writing it; [`compare`], [`plan`]: the comparison of two runs, and the
//!   plan of a cluster.
//! - [`echo`]: the two limit servers, a bare echo and a logging echo.
//! - the tools themselves: [`producer`], [`consumer`], [`batch_producer`], [`transaction_producer`].

pub mod agent;
pub mod archive;
pub mod arguments;
pub mod batch_producer;
pub mod command;
pub mod compare;
pub mod consumer;
pub mod echo;
mod error;
pub mod export;
pub mod generator;
pub mod judge;
pub mod load;
pub mod measure;
mod output;
pub mod pages;
pub mod plan;
pub mod producer;
pub mod report;
pub mod scenario;
pub mod scenario_arguments;
pub mod selftest;
mod session;
mod sizes;
pub mod transaction_producer;

pub use command::run;
pub use error::Error;
