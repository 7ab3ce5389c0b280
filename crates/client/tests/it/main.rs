//! The client against a small cluster in memory, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

mod asked;
mod cluster;
mod connect;
mod consume;
mod send;

use std::future::Future;

/// Runs a test's future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
