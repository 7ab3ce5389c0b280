//! Threads and tasks the broker promises something by. When one panics or ends before the broker stops, what it did is not
//! done any more: that must not go unnoticed, and nothing may be accepted that nobody would do.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use wire::codes::response;

use crate::Refusal;

/// What a thread or task does for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Duty {
    /// Delivers delayed messages.
    Delay,
    /// Delivers messages for a point in time.
    Timer,
    /// Makes the positions of both durable.
    Keep,
    /// Brings popped messages back.
    Revive,
    /// Writes topics and groups.
    Changes,
    /// Deletes old messages and watches the disk.
    Retention,
    /// Saves offsets.
    Offsets,
    /// Asks about undecided transactions.
    Checks,
    /// Answers pulls whose time is over.
    Pulls,
    /// Answers pops whose time is over.
    Pops,
    /// Forgets silent clients and samples figures.
    Clients,
    /// Asks name servers for clients.
    Routes,
    /// Registers with name servers.
    Register,
}

impl Duty {
    fn text(self) -> &'static str {
        match self {
            Self::Delay => "delayed messages are not delivered",
            Self::Timer => "timed messages are not delivered",
            Self::Keep => "delayed and timed messages may be delivered again after a restart",
            Self::Revive => "popped messages that are not acknowledged do not come back",
            Self::Changes => "topics and groups are not made or changed",
            Self::Retention => "old messages are not deleted and the disk is not watched",
            Self::Offsets => "offsets of groups are not saved",
            Self::Checks => "producers are not asked about undecided transactions",
            Self::Pulls => "pulls that wait are not answered when their time is over",
            Self::Pops => "pops that wait are not answered when their time is over",
            Self::Clients => "silent clients are not forgotten and no figures are sampled",
            Self::Routes => "clients that ask for their queues are not answered",
            Self::Register => "a name server does not learn of topics, and forgets the broker",
        }
    }
}

/// The threads and tasks that ended without being told to.
#[derive(Default)]
pub(crate) struct Vital {
    stopped: Mutex<BTreeMap<Duty, String>>,
    /// The broker stops: they are told to end.
    stopping: AtomicBool,
}

impl Vital {
    /// Starts a thread with a duty, which it has until the broker stops.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        duty: Duty,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (vital, thread) = (self.clone(), name.to_owned());
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            if vital.watch(duty, &thread, run) {
                vital.ended(duty, &thread, "ended");
            }
        })
    }

    /// Starts a thread that works for another one and ends with it.
    pub(crate) fn spawn_for_another(
        self: &Arc<Self>,
        duty: Duty,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (vital, thread) = (self.clone(), name.to_owned());
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            vital.watch(duty, &thread, run);
        })
    }

    /// Runs a task with a duty, which it has until the broker stops.
    pub(crate) async fn task(&self, duty: Duty, name: &str, run: impl Future<Output = ()>) {
        let how = if net::caught(run).await.is_ok() { "ended" } else { "panicked" };
        self.ended(duty, name, how);
    }

    /// Runs what a thread does, and notes when it panics; true when it did not.
    fn watch(&self, duty: Duty, thread: &str, run: impl FnOnce()) -> bool {
        // What it shares with others is behind locks whose holders leave it whole at each step.
        let is_whole = catch_unwind(AssertUnwindSafe(run)).is_ok();
        if !is_whole {
            self.ended(duty, thread, "panicked");
        }
        is_whole
    }

    /// Notes that nobody performs a duty any more, unless the broker stops.
    fn ended(&self, duty: Duty, thread: &str, how: &str) {
        if self.stopping.load(Ordering::Acquire) {
            return;
        }
        tracing::error!(thread, "a thread {how}: {} until the broker is started again", duty.text());
        // The first one is the cause.
        self.stopped().entry(duty).or_insert_with(|| thread.to_owned());
    }

    /// From now on threads and tasks end because they are told to.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Refuses what nobody would do any more.
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

    /// Names of the threads and tasks that ended without being told to.
    pub(crate) fn names(&self) -> Vec<String> {
        self.stopped().values().cloned().collect()
    }

    fn stopped(&self) -> MutexGuard<'_, BTreeMap<Duty, String>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(vital.names(), ["timer"]);
    }

    #[test]
    fn a_thread_that_ends_by_itself_is_missed() {
        let vital = Arc::new(Vital::default());
        vital.spawn(Duty::Retention, "retention", || ()).unwrap().join().unwrap();
        vital.spawn_for_another(Duty::Timer, "timer-fetch", || ()).unwrap().join().unwrap();
        assert_eq!(vital.names(), ["retention"]);
    }

    #[test]
    fn a_thread_that_ends_because_the_broker_stops_is_not_missed() {
        let vital = Arc::new(Vital::default());
        vital.stop();
        vital.spawn(Duty::Delay, "delay", || ()).unwrap().join().unwrap();
        assert!(vital.demand(Duty::Delay).is_ok());
        assert_eq!(vital.names(), Vec::<String>::new());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_task_that_panics_or_ends_is_missed() {
        let vital = Vital::default();
        vital.task(Duty::Offsets, "offsets", async { panic!("on purpose") }).await;
        vital.task(Duty::Register, "register", async {}).await;
        assert_eq!(vital.names(), ["offsets", "register"]);
    }
}
