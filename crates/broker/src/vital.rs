//! Threads the broker promises something by. When one panics, what it did is not done any more: that must not go
//! unnoticed, and nothing may be accepted that nobody would do.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use wire::codes::response;

use crate::Refusal;

/// What a thread does for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Duty {
    /// Delivers delayed messages.
    Delay,
    /// Delivers messages for a point in time.
    Timer,
    /// Makes the positions of both durable.
    Keep,
}

impl Duty {
    fn text(self) -> &'static str {
        match self {
            Self::Delay => "delayed messages are not delivered",
            Self::Timer => "timed messages are not delivered",
            Self::Keep => "delayed and timed messages may be delivered again after a restart",
        }
    }
}

/// The threads that stopped without being told to.
#[derive(Default)]
pub(crate) struct Vital(Mutex<BTreeMap<Duty, String>>);

impl Vital {
    /// Starts a thread with a duty.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        duty: Duty,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (vital, thread) = (self.clone(), name.to_owned());
        thread::Builder::new().name(name.to_owned()).spawn(move || vital.watch(duty, &thread, run))
    }

    /// Runs what a thread does, and notes when it panics.
    pub(crate) fn watch(&self, duty: Duty, thread: &str, run: impl FnOnce()) {
        // What it shares with others is behind locks whose holders leave it whole at each step.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            tracing::error!(thread, "a thread panicked: {} until the broker is started again", duty.text());
            self.lose(duty, thread);
        }
    }

    /// Notes that nobody performs a duty any more.
    pub(crate) fn lose(&self, duty: Duty, thread: &str) {
        self.stopped().insert(duty, thread.to_owned());
    }

    /// Refuses a message whose delivery has ended.
    pub(crate) fn demand(&self, duty: Duty) -> Result<(), Refusal> {
        match self.stopped().get(&duty) {
            None => Ok(()),
            Some(thread) => {
                let remark =
                    format!("service not available now. The thread {thread} has stopped: {}", duty.text());
                Err(Refusal::new(response::SERVICE_NOT_AVAILABLE, remark))
            }
        }
    }

    /// Names of the threads that stopped without being told to, for the status answer.
    pub(crate) fn names(&self) -> String {
        self.stopped().values().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    fn stopped(&self) -> MutexGuard<'_, BTreeMap<Duty, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_delivers_is_refused() {
        let vital = Arc::new(Vital::default());
        let thread = vital.spawn(Duty::Timer, "timer", || panic!("on purpose")).unwrap();
        thread.join().unwrap();
        let refusal = vital.demand(Duty::Timer).unwrap_err();
        assert_eq!(refusal.code, response::SERVICE_NOT_AVAILABLE);
        assert!(refusal.remark.contains("thread timer has stopped"), "{}", refusal.remark);
        assert!(vital.demand(Duty::Delay).is_ok());
        assert_eq!(vital.names(), "timer");
    }

    #[test]
    fn a_thread_that_ends_in_order_is_not_missed() {
        let vital = Arc::new(Vital::default());
        vital.spawn(Duty::Delay, "delay", || ()).unwrap().join().unwrap();
        assert!(vital.demand(Duty::Delay).is_ok());
        assert_eq!(vital.names(), "");
    }
}
