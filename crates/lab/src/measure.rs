//! What is measured beside the load: machines by procfs, brokers by the admin protocol, and a description of both.

mod broker;
mod collector;
mod counts;
mod environment;
mod process;
#[cfg(test)]
mod tests;

pub use broker::BrokerProbe;
pub use collector::Collector;
pub use counts::{Counts, HostProbe};
pub use environment::{device_of, host, hostname, store_of};
pub use process::{ProcessCounts, cores_allowed, listener_of, process_of, servers_on};
