//! The threads that call the listener.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Something to do on one of the threads.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The listener's threads. Jobs are bounded by the windows of the queues.
pub(super) struct Crew {
    line: Arc<Line>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Where jobs wait for a thread, and threads for a job.
///
/// Invariant: while jobs wait and threads sleep, one of the threads has been called and has not come yet. Who comes takes a
/// job and calls the next one, so that short jobs do not wake everybody and long ones do not wait for each other.
#[derive(Default)]
struct Line {
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads that sleep and have not been called.
    sleeping: usize,
    /// Threads that have been called and still sleep.
    called: usize,
    has_ended: bool,
}

impl Crew {
    pub fn start(count: usize) -> std::io::Result<Self> {
        let crew = Self { line: Arc::default(), threads: Mutex::default() };
        for index in 0..count.max(1) {
            let line = crew.line.clone();
            let thread = std::thread::Builder::new().name(format!("consume-{index}"));
            let thread = thread.spawn(move || line.work())?;
            crew.threads.lock().expect("short section").push(thread);
        }
        Ok(crew)
    }

    /// Hands jobs over; after the end they are dropped: their messages will be pulled again by whoever has the queue then.
    pub fn submit(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut jobs: VecDeque<Job> = jobs.into_iter().collect();
        let mut state = self.line.state();
        if !state.has_ended {
            state.jobs.append(&mut jobs);
            self.line.call_one(state);
        }
    }

    /// Lets what was handed over be finished and ends the threads.
    pub fn finish(&self) {
        self.line.end();
        let threads = std::mem::take(&mut *self.threads.lock().expect("short section"));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a listener panicked outside of a call");
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.line.end();
    }
}

impl Line {
    /// Has the threads end when nothing is left to do.
    fn end(&self) {
        self.state().has_ended = true;
        self.called.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("short section")
    }

    /// Calls a thread when there is something left for it.
    fn call_one(&self, mut state: MutexGuard<'_, State>) {
        if state.jobs.is_empty() || state.sleeping == 0 {
            return;
        }
        state.sleeping -= 1;
        state.called += 1;
        drop(state);
        self.called.notify_one();
    }

    /// Does jobs until there are none and will be none.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let mut was_called = false;
            while state.jobs.is_empty() {
                if state.has_ended {
                    return;
                }
                state = self.sleep(state);
                was_called = true;
            }
            let job = state.jobs.pop_front();
            if was_called {
                self.call_one(state);
            } else {
                drop(state);
            }
            if let Some(job) = job {
                job();
            }
        }
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.sleeping += 1;
        let asleep = |state: &mut State| state.called == 0 && !state.has_ended;
        let mut state = self.called.wait_while(state, asleep).expect("short section");
        state.called = state.called.saturating_sub(1);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Long enough for any thread to come, and a failure instead of a test that hangs.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn jobs_that_wait_for_each_other_all_get_a_thread() {
        let crew = Crew::start(8).unwrap();
        for round in 0..200 {
            let (arrived, arrivals) = channel();
            let goes: Vec<_> = (0..8)
                .map(|_| {
                    let (go, gone) = channel::<()>();
                    let arrived = arrived.clone();
                    let job = move || {
                        arrived.send(()).unwrap();
                        let _ = gone.recv_timeout(PATIENCE);
                    };
                    (go, Box::new(job) as Job)
                })
                .collect();
            let (goes, jobs): (Vec<_>, Vec<_>) = goes.into_iter().unzip();
            let mut jobs = jobs.into_iter();
            crew.submit(jobs.by_ref().take(3));
            crew.submit(jobs);
            let count = (0..8).take_while(|_| arrivals.recv_timeout(PATIENCE).is_ok()).count();
            assert_eq!(count, 8, "round {round}");
            drop(goes);
        }
        crew.finish();
    }

    #[test]
    fn the_threads_of_a_crew_that_is_gone_end() {
        let crew = Crew::start(4).unwrap();
        let line: Weak<Line> = Arc::downgrade(&crew.line);
        drop(crew);
        let begin = std::time::Instant::now();
        while line.strong_count() > 0 {
            assert!(begin.elapsed() < PATIENCE, "a thread sleeps for ever");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_was_handed_over_is_done_before_the_end_and_nothing_after_it() {
        let crew = Crew::start(3).unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let job = || {
            let done = done.clone();
            Box::new(move || {
                done.fetch_add(1, Ordering::Relaxed);
            }) as Job
        };
        (0..100).for_each(|_| crew.submit((0..10).map(|_| job())));
        crew.finish();
        assert_eq!(done.load(Ordering::Relaxed), 1000);
        crew.submit([job()]);
        assert_eq!(done.load(Ordering::Relaxed), 1000);
    }
}
