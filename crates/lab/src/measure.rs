//! Measurements beside the load: machines by procfs, brokers by the admin protocol, and a description of both.

mod broker;
mod collector;
mod counts;
mod environment;
mod process;
#[cfg(test)]
mod tests;

pub use broker::BrokerProbe;
pub use collector::Collector;
pub use counts::HostProbe;
pub use environment::{device_of, host, hostname, store_of};
pub use process::{cores_allowed, process_of, servers_on};
