//! Connections that carry remoting commands: framing, batching, back-pressure, correlation, shutdown.
//!
//! - [`Workers`]: threads with a single-threaded runtime each; a connection stays on its worker.
//! - [`Service`]: what a server or client does with the commands of a read batch.
//! - [`tls`]: which connections are encrypted.
//! - [`ConnectionHandle`]: the handle of one connection, usable from any thread.

mod admission;
mod budget;
mod caught;
mod connection;
mod fair_queue;
mod greeting;
mod handle;
mod memory;
mod memory_charge;
mod proxies;
mod replication;
mod service;
mod stream;
pub mod tls;
mod worker;

pub use admission::{Admission, ConnectionLimits, ConnectionPermit};
pub use budget::Budget;
pub use caught::{Panic, caught};
pub use greeting::{FrameStream, ProtocolStream, dial_http2, greet_either, greet_http2};
pub use handle::{CallError, ConnectionClosed, ConnectionHandle, ConnectionTask, Response};
pub use memory::{limit as memory_limit, return_large_blocks};
pub use memory_charge::MemoryCharge;
pub use proxies::{AddressListError, TrustedProxies};
pub use replication::ReplicationTls;
pub use service::{Limits, Service, Silent};
pub use stream::Stream;
pub use worker::{ConnectionSender, Workers, resolve};
