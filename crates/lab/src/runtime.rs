//! Runtime of every tool: its own tasks, the worker threads of its connections, and signals.

use crate::Error;
use net::tls::Security;
use net::{Limits, Workers};
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Runs a future on its own runtime. The connections run on the worker threads.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::system("start a runtime"))?.block_on(future)
}

/// Starts worker threads, each connection of which may queue `unsent_bytes_max` bytes that its socket does not take.
pub(crate) fn workers(count: u32, unsent_bytes_max: usize, security: Security) -> Result<Workers, Error> {
    let limits = Limits { unsent_bytes_high: usize::MAX, unsent_bytes_max, ..Limits::default() };
    let workers = Workers::start_secured("lab", count as usize, limits, security);
    workers.map_err(Error::system("start threads"))
}

/// Waits for SIGINT or SIGTERM; returns the number of the signal.
pub(crate) async fn signalled() -> i32 {
    use tokio::signal::unix::{SignalKind, signal};
    let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
    let (Ok(mut interrupted), Ok(mut terminated)) = (signal(interrupt), signal(terminate)) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupted.recv() => interrupt.as_raw_value(),
        _ = terminated.recv() => terminate.as_raw_value(),
    }
}

/// The time since 1970 by the clock of this machine.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970.
pub(crate) fn epoch_ms() -> u64 {
    since_epoch().as_millis() as u64
}
