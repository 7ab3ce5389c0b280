//! The client against a small cluster in memory, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

mod asked;
mod cluster;
mod connect;
mod consume;
mod send;

use std::future::Future;
use std::time::Duration;

/// Runs a test's future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Waits for what must come.
async fn until(holds: impl AsyncFn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(std::time::Instant::now() < end, "not within a minute");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
