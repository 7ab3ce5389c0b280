//! Load generation, measurement and limit servers: the tools behind `vostok lab`.
//!
//! - [`agent`]: the eyes of the lab on other machines.
//! - [`archive`]: what a run leaves on disk.
//! - [`command`]: the command line, with the flags of RocketMQ's benchmark scripts.
//! - [`report`]: what is counted, the lines the scripts print, and the result as JSON.
//! - [`judge`]: what the figures of a run mean.
//! - [`load`]: requests made from templates and the connections that drive them.
//! - [`generator`]: producers and consumers as a workload describes them.
//! - [`scenario`]: runs of many cells, recorded and resumable.
//! - [`selftest`]: what this machine alone can do.
//! - [`measure`]: machines and brokers, second by second.
//! - [`pages`], [`compare`], [`plan`]: the report of a run, two runs beside each other, and what to build.
//! - [`echo`]: the two limit servers, a bare echo and a logging echo.
//! - the tools themselves: [`producer`], [`consumer`], [`batch_producer`], [`transaction_producer`].

pub mod agent;
pub mod archive;
pub mod batch_producer;
pub mod command;
pub mod compare;
pub mod consumer;
pub mod echo;
mod error;
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
pub mod selftest;
mod session;
pub mod transaction_producer;

pub use command::run;
pub use error::Error;
