//! Signals of a process that starts others: stop, and the end of a child process.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::roles::Error;

/// Event that ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// SIGTERM or SIGINT came.
    Stop,
    /// A child process ended, or time is up.
    Look,
}

/// The signals of the process.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    child: Signal,
}

impl Signals {
    /// Receives signals from now on.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn receive() -> Result<Self, Error> {
        let receive = |kind| signal(kind).map_err(|error| Error::new("signals cannot be received", error));
        Ok(Self {
            terminate: receive(SignalKind::terminate())?,
            interrupt: receive(SignalKind::interrupt())?,
            child: receive(SignalKind::child())?,
        })
    }

    /// Waits for a signal, at most this long.
    pub async fn next(&mut self, timeout: Duration) -> Event {
        tokio::select! {
            _ = self.terminate.recv() => Event::Stop,
            _ = self.interrupt.recv() => Event::Stop,
            _ = self.child.recv() => Event::Look,
            () = tokio::time::sleep(timeout) => Event::Look,
        }
    }
}
