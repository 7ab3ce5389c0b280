//! RocketMQ producers, consumers and admin calls over remoting.
//!
//! - [`Client`]: name servers, routes, connections and heartbeats, shared by everything of one application.

mod admin;
mod client;
mod clock;
mod compress;
mod error;
mod remote;
mod route;

pub use client::{Client, Config};
pub use compress::{Compression, compress, decompress};
pub use error::Error;
pub use route::Route;
