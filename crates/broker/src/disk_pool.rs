//! Disk pool: small pools of threads for work that waits for the disk or takes long. So no connection waits for a
//! consumer far behind or for an operator's request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use wire::codes::response;

use crate::refusal_counts::{Cause, RefusalCounts};
use crate::reply_sink::{PullSink, ReplySink};
use crate::{Refusal, Result};

/// Most waiting jobs of each kind. Further jobs are refused as busy.
const WAITING_MAX: usize = 4096;
/// Most bytes of requests that wait for the disk pool.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Kind of a job. Each kind has threads of its own. Pulls and pops have their own because another request may wait
/// for a file to be flushed. Operators have their own because their requests may read every queue, and consumers'
/// send-backs must not wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Pulls and pops whose messages are not in memory.
    Consumers,
    /// Other requests that may wait for the disk.
    Requests,
    /// Requests of operators and their tools.
    Operators,
}

type Job = Box<dyn FnOnce() + Send>;

/// Place of a job in the queue of waiting jobs. Dropping it frees the place.
pub(crate) struct Reservation {
    jobs: Sender<(Waits, Job)>,
    waits: Waits,
}

impl Reservation {
    /// Runs `job` on a thread of the disk pool.
    pub(crate) fn run(self, job: impl FnOnce() + Send + 'static) {
        // The receiver is gone only after the pool has stopped, and then no caller waits for a response.
        let _ = self.jobs.send((self.waits, Box::new(job)));
    }

    /// Answers a pull or pop on a thread of the disk pool: `read` reads the messages and writes the response. If the
    /// caller is gone, `read` does not run. `after` always runs at the end.
    pub(crate) fn answer<S: ReplySink + ?Sized + 'static>(
        self,
        sink: Arc<S>,
        read: impl FnOnce(&Arc<S>) + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) {
        let charge = sink.charge();
        self.run(move || {
            // Messages read for a caller that is gone would count as delivered, and popped ones be invisible for nothing.
            if !sink.is_closed() {
                read(&sink);
            }
            after();
            drop(charge);
        });
    }
}

/// Counts a waiting job and its bytes until it is dropped.
struct Waits {
    jobs: Arc<AtomicUsize>,
    all_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.jobs.fetch_sub(1, Ordering::Relaxed);
        self.all_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Queue of jobs, and the number of threads that take jobs from it.
struct Pool {
    name: &'static str,
    threads: usize,
    /// `None` once the queue is closed.
    jobs: Mutex<Option<Sender<(Waits, Job)>>>,
    receiver: Arc<Mutex<Receiver<(Waits, Job)>>>,
    waiting: Arc<AtomicUsize>,
}

impl Pool {
    fn new(name: &'static str, threads: usize) -> Self {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        Self { name, threads, jobs: Mutex::new(Some(sender)), receiver, waiting: Arc::default() }
    }

    fn close(&self) {
        self.jobs.lock().take();
    }
}

/// Threads for requests that may wait for the disk, of three kinds, and the jobs that wait for them.
pub(crate) struct DiskPool {
    consumers: Pool,
    requests: Pool,
    operators: Pool,
    /// Bytes of the requests that wait.
    waiting_bytes: Arc<AtomicUsize>,
}

impl DiskPool {
    /// Makes a pool with `count` threads for pulls and pops, and as many each for other requests and for operators.
    /// So a tool that asks for the progress of all groups does not block the page or the scrape of another tool.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            consumers: Pool::new("disk-pull", count),
            requests: Pool::new("disk-request", count),
            operators: Pool::new("disk-admin", count),
            waiting_bytes: Arc::default(),
        }
    }

    /// Returns the names of the pool's threads, and their functions. A function runs until the pool is closed and all
    /// its jobs are done.
    pub(crate) fn threads(&self) -> Vec<(String, impl FnOnce() + Send + 'static)> {
        let pools = [&self.consumers, &self.requests, &self.operators].into_iter();
        let threads = pools.flat_map(|pool| (0..pool.threads).map(move |index| (pool, index)));
        threads
            .map(|(pool, index)| {
                let receiver = pool.receiver.clone();
                (format!("{}-{index}", pool.name), move || keep_working(&receiver))
            })
            .collect()
    }

    /// Returns the number of waiting jobs by the metric name of the processor whose work they are
    /// (`BrokerMetricsManager.initStatsMetrics`).
    pub(crate) fn waiting(&self) -> [(&'static str, usize); 3] {
        [("pull", &self.consumers), ("query_message", &self.requests), ("admin", &self.operators)]
            .map(|(name, pool)| (name, pool.waiting.load(Ordering::Relaxed)))
    }

    /// Reserves a place in the queue for a job that holds `bytes` bytes of a request until it runs.
    ///
    /// # Errors
    /// `SYSTEM_BUSY` when too many jobs wait, or the broker stops.
    pub(crate) fn reserve(&self, kind: Kind, bytes: usize) -> Result<Reservation> {
        let pool = match kind {
            Kind::Consumers => &self.consumers,
            Kind::Requests => &self.requests,
            Kind::Operators => &self.operators,
        };
        let jobs = pool.jobs.lock().clone();
        let jobs = jobs.ok_or_else(|| too_many(kind))?;
        let before = pool.waiting.fetch_add(1, Ordering::Relaxed);
        let all_bytes = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let waits = Waits { jobs: pool.waiting.clone(), all_bytes: self.waiting_bytes.clone(), bytes };
        if before >= WAITING_MAX || bytes > 0 && all_bytes > WAITING_BYTES_MAX {
            return Err(too_many(kind));
        }
        Ok(Reservation { jobs, waits })
    }

    /// Answers a pull whose messages are not in memory: `read` reads them on a thread of the pool and writes the
    /// response. If too many jobs wait, the caller gets a busy response, which `refused` counts. If the caller is
    /// gone, `read` does not run. `after` always runs at the end.
    pub(crate) fn answer(
        &self,
        refused: &RefusalCounts,
        sink: Arc<dyn PullSink>,
        read: impl FnOnce(&Arc<dyn PullSink>) + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) {
        match self.reserve(Kind::Consumers, 0) {
            Ok(reservation) => reservation.answer(sink, read, after),
            Err(refusal) => {
                refusal.cause.into_iter().for_each(|cause| refused.count(cause, 1));
                sink.write(&mut |out| out.refused(&refusal));
                after();
            }
        }
    }

    /// Rejects further jobs. The threads finish the queued jobs and end.
    pub(crate) fn close(&self) {
        [&self.consumers, &self.requests, &self.operators].into_iter().for_each(Pool::close);
    }

    /// Bytes of the requests that wait.
    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Takes no further jobs of operators.
    #[cfg(test)]
    pub(crate) fn close_operators(&self) {
        self.operators.close();
    }
}

/// Makes the refusal of a job when too many jobs of its kind wait.
fn too_many(kind: Kind) -> Refusal {
    let what = match kind {
        Kind::Consumers => "pulls and pops wait for messages from the disk",
        Kind::Requests => "requests wait for the disk",
        Kind::Operators => "requests of operators and their tools wait for each other",
    };
    let remark = format!("[OVERLOAD]system busy, start flow control for a while: too many {what}");
    Refusal::because(Cause::ColdReads, response::SYSTEM_BUSY, remark)
}

/// Runs jobs until the pool stops, even after a job panicked. The request of that job gets no response. Other
/// requests are not affected.
fn keep_working(receiver: &Mutex<Receiver<(Waits, Job)>>) {
    // Sound, because a job shares state with others only behind locks whose holders keep it consistent at each step.
    while catch_unwind(AssertUnwindSafe(|| work(receiver))).is_err() {
        tracing::error!("a request that was served from the disk panicked and is not answered");
    }
}

fn work(receiver: &Mutex<Receiver<(Waits, Job)>>) {
    loop {
        let job = receiver.lock().recv();
        let Ok((waits, job)) = job else { return };
        drop(waits);
        job();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_there_is_too_much_of() {
        let cases = [
            (Kind::Consumers, "too many pulls and pops wait for messages from the disk"),
            (Kind::Requests, "too many requests wait for the disk"),
            (Kind::Operators, "too many requests of operators and their tools wait for each other"),
        ];
        for (kind, text) in cases {
            let Refusal { code, remark, .. } = too_many(kind);
            assert_eq!(code, response::SYSTEM_BUSY);
            assert!(remark.ends_with(text), "{remark}");
        }
    }

    #[test]
    fn a_slow_request_of_an_operator_leaves_a_thread_for_others() {
        let pool = DiskPool::new(2);
        let names = pool.threads().into_iter().map(|(name, _)| name);
        let of_operators: Vec<_> = names.filter(|name| name.starts_with("disk-admin")).collect();
        assert_eq!(of_operators, ["disk-admin-0", "disk-admin-1"]);
    }

    #[test]
    fn more_than_the_bound_is_refused_and_reservations_are_given_back() {
        let pool = DiskPool::new(1);
        let reserved: Vec<_> = (0..WAITING_MAX).map(|_| pool.reserve(Kind::Requests, 1).unwrap()).collect();
        assert!(pool.reserve(Kind::Requests, 1).is_err() && pool.reserve(Kind::Operators, 1).is_ok());
        assert!(pool.reserve(Kind::Operators, WAITING_BYTES_MAX).is_err());
        drop(reserved);
        assert_eq!(pool.waiting_bytes(), 0);
        assert!(pool.reserve(Kind::Operators, WAITING_BYTES_MAX).is_ok());
        pool.close();
        assert!(pool.reserve(Kind::Requests, 1).is_err());
    }

    #[test]
    fn pulls_and_pops_that_find_no_place_are_counted_and_those_of_a_caller_that_is_gone_are_not_read() {
        let (pool, refused) = (DiskPool::new(1), RefusalCounts::default());
        let busy = || refused.status().find(|(name, _)| *name == "refusedColdReads").unwrap().1;
        let peer = Arc::new(net::ConnectionHandle::detached(1, crate::testing::ADDRESS));
        let (reads, ends) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let answer = || {
            let (read, ended) = (reads.clone(), ends.clone());
            let read = move |_: &Arc<dyn PullSink>| {
                read.fetch_add(1, Ordering::Relaxed);
            };
            let after = move || {
                ended.fetch_add(1, Ordering::Relaxed);
            };
            pool.answer(&refused, crate::remoting::Call::first().later(&peer, &Arc::default()), read, after);
        };
        answer();
        assert!(peer.unanswered() > 0, "its answer is charged to it");
        peer.abort();
        answer();
        assert_eq!(busy(), "0");
        pool.close();
        answer();
        assert_eq!(busy(), "1");
        pool.threads().into_iter().for_each(|(_, run)| run());
        assert_eq!((reads.load(Ordering::Relaxed), ends.load(Ordering::Relaxed)), (0, 3));
    }
}
