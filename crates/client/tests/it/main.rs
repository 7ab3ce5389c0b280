//! The client against a small cluster in memory, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

mod asked;
mod cluster;
mod connect;
mod consume;
mod send;

use std::future::Future;
use std::time::Duration;

use client::{Config, ProducerConfig};

/// Longest wait of a test for an outcome. An outcome that comes late is as good as an early one.
const OUTCOME_CAP: Duration = Duration::from_secs(120);

/// The configuration of a client whose calls get an answer, however late.
fn client_config(name_servers: &str) -> Config {
    Config { api_timeout_min: OUTCOME_CAP, ..Config::new(name_servers) }
}

/// The configuration of a producer of group `pg` whose sends get an answer, however late.
fn producer_config() -> ProducerConfig {
    ProducerConfig { timeout: OUTCOME_CAP, ..ProducerConfig::new("pg") }
}

/// Runs a test's future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Waits until the expected state.
async fn until(holds: impl AsyncFn() -> bool) {
    let end = std::time::Instant::now() + OUTCOME_CAP;
    while !holds().await {
        assert!(std::time::Instant::now() < end, "not within {OUTCOME_CAP:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
