//! What the tests of the whole product share: a blocking client of the protocol, a guard of the server process,
//! a load that numbers its messages, and the judge of what was read back.
#![allow(dead_code, reason = "each of the test programs uses its part")]

use std::time::{Duration, Instant};

pub mod disk;
pub mod judge;
pub mod load;
pub mod message;
pub mod os;
pub mod random;
pub mod read;
pub mod server;
pub mod sick_disk;
pub mod wire_client;

/// Longest wait for an outcome. No test judges how late an outcome comes, so a wait ends here only if it would never end.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Attempts something of the Rust client until it succeeds: the client waits a few seconds for an answer, and a slow machine may take
/// longer. Returns the last error after [`PATIENCE`].
pub async fn patiently<T>(attempt: impl AsyncFn() -> Result<T, client::Error>) -> Result<T, client::Error> {
    let began = Instant::now();
    loop {
        match attempt().await {
            Err(_) if began.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(5)).await,
            outcome => return outcome,
        }
    }
}
