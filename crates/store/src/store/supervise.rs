//! Handles panics of the store's threads. No caller may wait for a thread that has ended, and the store may accept no
//! data that no thread would make durable.

use super::parts::Parts;
use crate::wake::lock;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Restarts after panics that a thread gets which the store can do without.
const RESTARTS_MAX: usize = 3;

/// Importance of a thread for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Importance {
    /// Needed for durability or for the removal of files: a panic of the thread fences the store.
    Required,
    /// Needed for searches by key or for rebuilds of lost queue files: the thread is restarted, and ends after
    /// repeated panics.
    Useful,
}

impl Parts {
    /// Runs a thread's body until it ends, and handles its panics.
    pub(crate) fn supervise(&self, name: &'static str, need: Importance, run: impl Fn(&Self)) {
        // Unwind safety: data parts between threads is behind locks, whose holders keep it consistent at each step.
        let panics = || catch_unwind(AssertUnwindSafe(|| run(self))).is_err();
        let mut restarts = 0;
        while panics() {
            match need {
                // Behind the fence a required thread runs again, to answer waiting callers, or to end.
                Importance::Required if !self.state.fence.is_up() => {
                    self.state.put_up_fence(&format!("the thread {name} panicked"))
                }
                Importance::Useful if restarts < RESTARTS_MAX => {
                    restarts += 1;
                    tracing::error!(name, restarts, "a thread of the store panicked and begins anew");
                }
                _ => {
                    tracing::error!(
                        name,
                        "a thread of the store panicked and has ended until the store is reopened"
                    );
                    lock(&self.stopped).push(name);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppendError, Config, FakeDisk, FlushOutcome, Store};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use wire::units::LogOffset;

    fn store() -> Store {
        let config = Config { segment_bytes: 1 << 16, ..Config::new("/s") };
        Store::open(config, Arc::new(FakeDisk::new(512))).unwrap()
    }

    #[test]
    fn a_panic_of_a_thread_that_makes_durable_fences_the_store_and_answers_all() {
        let store = store();
        let runs = AtomicUsize::new(0);
        store.parts.supervise("store-flush", Importance::Required, |parts| {
            assert!(runs.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
            // The second run happens behind the fence, like that of the flush thread, which then answers waiting
            // callers.
            assert!(parts.state.fence.is_up());
        });
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        let reason = store.fenced().unwrap();
        assert_eq!(reason, "the thread store-flush panicked");
        let mut batch = store.batch();
        let queue = store.queue("T", 0).unwrap();
        batch.push(&queue, &message()).unwrap();
        assert!(matches!(store.append(&mut batch, 1), Err(AppendError::Fenced(_))));
        let (sender, receiver) = std::sync::mpsc::channel();
        store.when_flushed(LogOffset::new(1 << 20), Box::new(move |outcome| sender.send(outcome).unwrap()));
        assert_eq!(receiver.recv().unwrap(), FlushOutcome::Failed(reason));
        assert_eq!(store.stopped_threads(), Vec::<&str>::new());
    }

    #[test]
    fn a_thread_that_panics_behind_the_fence_as_well_ends() {
        let store = store();
        store.parts.supervise("store-check", Importance::Required, |_| panic!("on purpose"));
        assert_eq!(store.stopped_threads(), ["store-check"]);
    }

    #[test]
    fn a_thread_the_store_can_do_without_begins_anew_and_fences_nothing() {
        let store = store();
        let runs = AtomicUsize::new(0);
        let once = |_: &Parts| assert!(runs.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
        store.parts.supervise("store-index", Importance::Useful, once);
        assert_eq!((store.fenced(), store.stopped_threads().len()), (None, 0));
        store.parts.supervise("store-index", Importance::Useful, |_| panic!("on purpose"));
        assert_eq!((store.fenced(), store.stopped_threads()), (None, vec!["store-index"]));
    }

    fn message() -> crate::Message<'static> {
        let host = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        crate::Message {
            body: b"m",
            properties: b"",
            sys_flag: 0,
            flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        }
    }
}
