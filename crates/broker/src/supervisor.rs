//! Supervisor of the broker's threads and tasks. If a thread panics or ends before the broker stops, its work is no
//! longer done. That is logged and shown in the broker's status, and requests that depend on this work are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use wire::codes::response;

use crate::{Refusal, Result};

/// The work of a supervised thread or task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SupervisedWork {
    /// Delivers delayed messages.
    Delay,
    /// Delivers timed messages.
    Timer,
    /// Makes the delivery positions of delayed and timed messages durable.
    Positions,
    /// Revives popped messages that are not acknowledged.
    Revive,
    /// Writes changes of topics and groups to their files.
    Metadata,
    /// Serves requests that may wait for the disk.
    Disk,
    /// Deletes old messages and watches the disk.
    Retention,
    /// Saves the offsets of groups.
    Offsets,
    /// Asks producers about undecided transactions.
    Checks,
    /// Answers suspended pulls whose polling time is over.
    Pulls,
    /// Answers suspended pops whose polling time is over.
    Pops,
    /// Gives clients their lite topics, and removes expired lite topics.
    Lite,
    /// Removes clients that no longer send heartbeats, and samples statistics.
    Clients,
    /// Finds out once which of very many topics have the most messages.
    Ranking,
    /// Queries name servers for requests of clients that need routes.
    Routes,
    /// Keeps the broker registered with a name server.
    Register,
    /// Sends the log to slaves.
    Replicate,
    /// Takes the master's log.
    Follow,
    /// Takes the master's tables.
    Tables,
    /// Answers requests that failed authentication, later.
    Refusals,
    /// Watches the files of ACL 1.0.
    Rules,
    /// Speaks with the controllers.
    Agent,
    /// Forwards requests to the master while this broker is not the master.
    Forwards,
    /// Follows the living brokers of the group.
    Members,
    /// Changes the broker's role.
    Role,
    /// Serves metrics.
    Metrics,
}

impl SupervisedWork {
    fn text(self) -> &'static str {
        match self {
            Self::Lite => "clients with many lite topics do not get some, and lite topics do not expire",
            Self::Delay => "delayed messages are not delivered",
            Self::Timer => "timed messages are not delivered",
            Self::Positions => "delayed and timed messages may be delivered again after a restart",
            Self::Revive => "popped messages that are not acknowledged do not come back",
            Self::Metadata => "topics and groups are not made or changed",
            Self::Disk => "requests that read the disk are answered late or not at all",
            Self::Retention => "old messages are not deleted and the disk is not watched",
            Self::Offsets => "offsets of groups are not saved",
            Self::Checks => "producers are not asked about undecided transactions",
            Self::Pulls => "pulls that wait are not answered when their time is over",
            Self::Pops => "pops that wait are not answered when their time is over",
            Self::Clients => "silent clients are not forgotten and no figures are sampled",
            Self::Ranking => "the first page of topics by messages is late",
            Self::Routes => "clients that ask for their queues are not answered",
            Self::Replicate => "slaves do not get the log",
            Self::Follow => "this slave does not follow its master",
            Self::Tables => "this slave does not learn of topics, groups and offsets",
            Self::Refusals => "clients whose requests fail authentication are not told",
            Self::Rules => "changes of plain_acl.yml do not count",
            Self::Agent => "the controllers hear nothing of this broker",
            Self::Forwards => "requests for the master that reach this broker are not answered",
            Self::Members => "this broker does not learn whether its master is there",
            Self::Metrics => "metrics are not served",
            Self::Role => "this broker is neither master nor slave",
            Self::Register => "a name server does not learn of topics, and forgets the broker",
        }
    }
}

/// The supervisor: knows which threads and tasks ended although the broker is not stopping.
#[derive(Default)]
pub(crate) struct Supervisor {
    stopped: Mutex<BTreeMap<SupervisedWork, String>>,
    /// Whether the broker stops, so that threads and tasks may end.
    stopping: AtomicBool,
    /// Work that may end although the broker runs, because its role has changed.
    dismissed: Mutex<BTreeSet<SupervisedWork>>,
}

impl Supervisor {
    /// Starts a supervised thread, which must run until the broker stops.
    #[expect(clippy::disallowed_methods, reason = "the one place where the broker starts threads")]
    pub(crate) fn spawn(
        self: &Arc<Self>,
        work: SupervisedWork,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (supervisor, thread) = (self.clone(), name.to_owned());
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // State shared with other threads is behind locks, and consistent whenever a holder of a lock may panic.
            let is_whole = catch_unwind(AssertUnwindSafe(run)).is_ok();
            supervisor.ended(work, &thread, if is_whole { "ended" } else { "panicked" });
        })
    }

    /// Runs a supervised task, which must run until the broker stops.
    pub(crate) async fn task(&self, work: SupervisedWork, name: &str, run: impl Future<Output = ()>) {
        let how = if net::caught(run).await.is_ok() { "ended" } else { "panicked" };
        self.ended(work, name, how);
    }

    /// Records that the thread or task that does this work has ended, unless the broker stops.
    fn ended(&self, work: SupervisedWork, thread: &str, how: &str) {
        let is_dismissed = || how == "ended" && self.dismissed.lock().contains(&work);
        if self.stopping.load(Ordering::Acquire) || is_dismissed() {
            return;
        }
        tracing::error!(thread, "a thread {how}: {} until the broker is started again", work.text());
        // Only the first thread that ended is kept for each kind of work, since it is the cause.
        self.stopped.lock().entry(work).or_insert_with(|| thread.to_owned());
    }

    /// Marks that the broker stops, so that threads and tasks may end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Marks that the threads of this work may end.
    pub(crate) fn dismiss(&self, work: SupervisedWork) {
        self.dismissed.lock().insert(work);
    }

    /// Marks that new threads do this work again.
    pub(crate) fn employ(&self, work: SupervisedWork) {
        self.dismissed.lock().remove(&work);
        self.stopped.lock().remove(&work);
    }

    /// Refuses a request that depends on an ended thread or task.
    ///
    /// # Errors
    /// `SERVICE_NOT_AVAILABLE` with the name of the thread.
    pub(crate) fn demand(&self, work: SupervisedWork) -> Result<()> {
        match self.stopped.lock().get(&work) {
            None => Ok(()),
            Some(thread) => {
                let remark =
                    format!("service not available now. The thread {thread} has stopped: {}", work.text());
                Err(Refusal::new(response::SERVICE_NOT_AVAILABLE, remark))
            }
        }
    }

    /// Names of the threads and tasks that ended although the broker is not stopping.
    pub(crate) fn names(&self) -> Vec<String> {
        self.stopped.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_delivers_is_refused() {
        let supervisor = Arc::new(Supervisor::default());
        let thread = supervisor.spawn(SupervisedWork::Timer, "timer", || panic!("on purpose")).unwrap();
        thread.join().unwrap();
        let refusal = supervisor.demand(SupervisedWork::Timer).unwrap_err();
        assert_eq!(refusal.code, response::SERVICE_NOT_AVAILABLE);
        assert!(refusal.remark.contains("thread timer has stopped"), "{}", refusal.remark);
        assert!(supervisor.demand(SupervisedWork::Delay).is_ok());
        assert_eq!(supervisor.names(), ["timer"]);
    }

    #[test]
    fn a_thread_that_ends_by_itself_is_missed() {
        let supervisor = Arc::new(Supervisor::default());
        supervisor.spawn(SupervisedWork::Retention, "retention", || ()).unwrap().join().unwrap();
        assert_eq!(supervisor.names(), ["retention"]);
    }

    #[test]
    fn who_is_dismissed_may_end_but_not_panic_and_is_employed_again() {
        let supervisor = Arc::new(Supervisor::default());
        let run = |run: fn()| supervisor.spawn(SupervisedWork::Delay, "delay", run).unwrap().join().unwrap();
        supervisor.dismiss(SupervisedWork::Delay);
        run(|| ());
        assert_eq!(supervisor.names(), Vec::<String>::new());
        run(|| panic!("on purpose"));
        assert_eq!(supervisor.names(), ["delay"]);
        supervisor.employ(SupervisedWork::Delay);
        assert_eq!(supervisor.names(), Vec::<String>::new());
        run(|| ());
        assert_eq!(supervisor.names(), ["delay"], "nobody told it to end");
    }

    #[test]
    fn a_thread_that_ends_because_the_broker_stops_is_not_missed() {
        let supervisor = Arc::new(Supervisor::default());
        supervisor.stop();
        supervisor.spawn(SupervisedWork::Delay, "delay", || ()).unwrap().join().unwrap();
        assert!(supervisor.demand(SupervisedWork::Delay).is_ok());
        assert_eq!(supervisor.names(), Vec::<String>::new());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_task_that_panics_or_ends_is_missed() {
        let supervisor = Supervisor::default();
        supervisor.task(SupervisedWork::Offsets, "offsets", async { panic!("on purpose") }).await;
        supervisor.task(SupervisedWork::Register, "register", async {}).await;
        assert_eq!(supervisor.names(), ["offsets", "register"]);
    }
}
