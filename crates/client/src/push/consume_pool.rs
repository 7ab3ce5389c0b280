//! The consume pool: the threads that call the listener.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Work for one of the threads.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The consume pool: the listener's threads with their queue of jobs. The process queues bound the number of
/// jobs.
pub(super) struct ConsumePool {
    job_queue: Arc<JobQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Jobs that wait for a thread, and threads that wait for a job.
///
/// Invariant: while jobs wait and threads sleep, at least one thread has been woken and is not running yet. A thread
/// that wakes takes a job and wakes the next thread. So short jobs do not wake all threads, and long jobs do not wait
/// for each other.
#[derive(Default)]
struct JobQueue {
    state: Mutex<PoolState>,
    woken: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    /// Number of threads that sleep and have not been woken.
    sleeping: usize,
    /// Number of threads that have been woken and are not running yet.
    woken: usize,
    has_ended: bool,
}

impl ConsumePool {
    pub fn start(count: usize) -> std::io::Result<Self> {
        let consume_pool = Self { job_queue: Arc::default(), threads: Mutex::default() };
        for index in 0..count.max(1) {
            let job_queue = consume_pool.job_queue.clone();
            let thread = std::thread::Builder::new().name(format!("consume-{index}"));
            let thread = thread.spawn(move || job_queue.work())?;
            consume_pool.threads.lock().expect("short section").push(thread);
        }
        Ok(consume_pool)
    }

    /// Adds jobs. After the end of the pool they are dropped; the next owner of the queue pulls their messages again.
    pub fn submit(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut jobs: VecDeque<Job> = jobs.into_iter().collect();
        let mut state = self.job_queue.state();
        if !state.has_ended {
            state.jobs.append(&mut jobs);
            self.job_queue.wake_one(state);
        }
    }

    /// Waits for the jobs that were added, and ends the threads.
    pub fn finish(&self) {
        self.job_queue.end();
        let threads = std::mem::take(&mut *self.threads.lock().expect("short section"));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a listener panicked outside of a call");
            }
        }
    }
}

impl Drop for ConsumePool {
    fn drop(&mut self) {
        self.job_queue.end();
    }
}

impl JobQueue {
    /// Lets the threads end when no jobs remain.
    fn end(&self) {
        self.state().has_ended = true;
        self.woken.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().expect("short section")
    }

    /// Wakes a thread when there is a job for it.
    fn wake_one(&self, mut state: MutexGuard<'_, PoolState>) {
        if state.jobs.is_empty() || state.sleeping == 0 {
            return;
        }
        state.sleeping -= 1;
        state.woken += 1;
        drop(state);
        self.woken.notify_one();
    }

    /// Runs jobs until the pool has ended and no jobs remain.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let mut was_woken = false;
            while state.jobs.is_empty() {
                if state.has_ended {
                    return;
                }
                state = self.sleep(state);
                was_woken = true;
            }
            let job = state.jobs.pop_front();
            if was_woken {
                self.wake_one(state);
            } else {
                drop(state);
            }
            if let Some(job) = job {
                job();
            }
        }
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, PoolState>) -> MutexGuard<'a, PoolState> {
        state.sleeping += 1;
        let asleep = |state: &mut PoolState| state.woken == 0 && !state.has_ended;
        let mut state = self.woken.wait_while(state, asleep).expect("short section");
        state.woken = state.woken.saturating_sub(1);
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

    /// Time limit after which a hanging test fails.
    const PATIENCE: Duration = Duration::from_secs(120);

    #[test]
    fn jobs_that_wait_for_each_other_all_get_a_thread() {
        let consume_pool = ConsumePool::start(8).unwrap();
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
            consume_pool.submit(jobs.by_ref().take(3));
            consume_pool.submit(jobs);
            let count = (0..8).take_while(|_| arrivals.recv_timeout(PATIENCE).is_ok()).count();
            assert_eq!(count, 8, "round {round}");
            drop(goes);
        }
        consume_pool.finish();
    }

    #[test]
    fn the_threads_of_a_dropped_pool_end() {
        let consume_pool = ConsumePool::start(4).unwrap();
        let job_queue: Weak<JobQueue> = Arc::downgrade(&consume_pool.job_queue);
        drop(consume_pool);
        let begin = std::time::Instant::now();
        while job_queue.strong_count() > 0 {
            assert!(begin.elapsed() < PATIENCE, "a thread sleeps for ever");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_was_handed_over_is_done_before_the_end_and_nothing_after_it() {
        let consume_pool = ConsumePool::start(3).unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let job = || {
            let done = done.clone();
            Box::new(move || {
                done.fetch_add(1, Ordering::Relaxed);
            }) as Job
        };
        (0..100).for_each(|_| consume_pool.submit((0..10).map(|_| job())));
        consume_pool.finish();
        assert_eq!(done.load(Ordering::Relaxed), 1000);
        consume_pool.submit([job()]);
        assert_eq!(done.load(Ordering::Relaxed), 1000);
    }
}
