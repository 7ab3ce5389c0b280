//! The disk pool: small pools of threads that serve pulls whose messages are not in memory, and other requests that may wait for
//! the disk or for large tables. So no connection waits for a consumer far behind or for an operator's request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use net::{ConnectionHandle, MemoryCharge};
use wire::codes::{request, response};
use wire::frame::Head;

use crate::broker::Broker;
use crate::metadata_writer::{Detached, serve_again};
use crate::pull::{Pull, Scan, Source, answer};
use crate::refused::Cause;
use crate::{Refusal, lookup, pop};

/// Most pulls and pops, and most requests of each other kind, that wait for a thread of the disk pool; a further one is answered
/// as busy.
const WAITING_MAX: usize = 4096;
/// Most bytes of the requests that wait for the disk pool.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Bytes that a waiting request is charged to its connection for its answer: about the size of an answer from the disk
/// (`maxTransferBytesOnMessageInDisk`).
const ANSWER_BYTES: usize = 64 << 10;

/// Bytes of the answer buffer that a thread keeps. A larger answer waits until its connection has room.
const KEPT_BYTES: usize = 1 << 20;

struct Job {
    broker: Arc<Broker>,
    peer: Arc<ConnectionHandle>,
    work: Work,
    charge: MemoryCharge,
}

impl Job {
    fn new(broker: &Arc<Broker>, peer: Arc<ConnectionHandle>, work: Work) -> Self {
        let bytes = if let Work::Request(request) = &work { request.bytes() } else { 0 };
        Self { broker: broker.clone(), charge: peer.charge(bytes + ANSWER_BYTES), peer, work }
    }
}

enum Work {
    Pull(Pull),
    Pop(Arc<pop::Ask>),
    Request(Detached),
    #[cfg(test)]
    Panic,
}

/// Threads that take jobs from one queue.
struct Pool {
    jobs: Mutex<Option<SyncSender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    fn start(name: &str, count: usize) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for index in 0..count {
            let receiver = receiver.clone();
            let thread = std::thread::Builder::new().name(format!("{name}-{index}"));
            threads.push(thread.spawn(move || keep_reading(&receiver))?);
        }
        Ok(Self { jobs: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    fn send(&self, job: Job) -> Result<(), Job> {
        let sent = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.try_send(job),
            None => Err(TrySendError::Disconnected(job)),
        };
        sent.map_err(|(TrySendError::Full(job) | TrySendError::Disconnected(job))| job)
    }

    fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the disk pool panicked");
            }
        }
    }
}

/// The disk pool. Pulls and pops have threads of their own, because another request may wait for a file to be flushed. Operators
/// have one of their own, because their requests may read every queue, and consumers' send-backs must not wait for that.
pub(crate) struct DiskPool {
    consumers: Pool,
    requests: Pool,
    operators: Pool,
    /// Bytes of the requests that wait.
    waiting_bytes: AtomicUsize,
}

impl DiskPool {
    /// Starts `count` threads for pulls and pops, `count` for other requests, and one for operators' requests.
    pub(crate) fn start(count: usize) -> std::io::Result<Self> {
        Ok(Self {
            consumers: Pool::start("disk-pull", count)?,
            requests: Pool::start("disk-request", count)?,
            operators: Pool::start("disk-admin", 1)?,
            waiting_bytes: AtomicUsize::new(0),
        })
    }

    /// Queues a pull to be answered from the disk; answers it as busy when too many wait.
    pub(crate) fn submit(&self, broker: &Arc<Broker>, peer: Arc<ConnectionHandle>, pull: Pull) {
        let job = Job::new(broker, peer, Work::Pull(pull));
        if let Err(Job { peer, work: Work::Pull(pull), .. }) = self.consumers.send(job) {
            let head = Head::response(pull.encoding, response::SYSTEM_BUSY, pull.opaque);
            // A consumer whose connection has ended needs no answer.
            let refusal = too_many(request::PULL_MESSAGE);
            let _ = peer.push(|out| head.remark(&refusal.remark).write(out, b""));
        }
    }

    /// Queues a pop to be answered from the disk; answers it as busy when too many wait.
    pub(crate) fn submit_pop(&self, broker: &Arc<Broker>, peer: Arc<ConnectionHandle>, ask: Arc<pop::Ask>) {
        let job = Job::new(broker, peer, Work::Pop(ask));
        if let Err(Job { peer, work: Work::Pop(ask), .. }) = self.consumers.send(job) {
            // A consumer whose connection has ended needs no answer.
            let _ = peer.push(|out| ask.refuse(&too_many(request::POP_MESSAGE), out));
        }
    }

    /// Queues any other request; returns it when too many wait.
    pub(crate) fn serve(
        &self,
        broker: &Arc<Broker>,
        peer: &Arc<ConnectionHandle>,
        request: Detached,
    ) -> Result<(), Detached> {
        let bytes = request.bytes();
        if self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(request);
        }
        let pool = if lookup::is_for_operators(request.code()) { &self.operators } else { &self.requests };
        match pool.send(Job::new(broker, peer.clone(), Work::Request(request))) {
            Err(Job { work: Work::Request(request), .. }) => {
                self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                Err(request)
            }
            _ => Ok(()),
        }
    }

    /// Serves what was queued and ends the threads.
    pub(crate) fn stop(&self) {
        self.consumers.stop();
        self.requests.stop();
        self.operators.stop();
    }
}

/// The refusal of a request with this code when too many wait for the disk pool.
pub(crate) fn too_many(code: i32) -> Refusal {
    let what = match code {
        request::PULL_MESSAGE | request::POP_MESSAGE => "pulls and pops wait for messages from the disk",
        code if lookup::is_for_operators(code) => "requests of operators and their tools wait for each other",
        _ => "requests wait for the disk",
    };
    let remark = format!("[OVERLOAD]system busy, start flow control for a while: too many {what}");
    Refusal::because(Cause::ColdReads, response::SYSTEM_BUSY, remark)
}

/// Whether a queued request needs no serving: it changes nothing, and its connection has ended. Tools give up on a slow answer
/// and ask again.
fn is_moot(peer: &ConnectionHandle, code: i32) -> bool {
    peer.is_closed() && lookup::is_for_operators(code)
}

/// Hands a large answer to its connection when that has room for it; until then the whole answer is charged to the connection.
fn give(peer: &Arc<ConnectionHandle>, bytes: Vec<u8>) {
    let charge = peer.charge(bytes.len());
    // A client whose connection has ended needs no answer.
    let _ = peer.put_back(Box::new(move |_, out| {
        out.extend_from_slice(&bytes);
        drop(charge);
    }));
}

/// Serves jobs until the pool stops, also after a job panicked. The request of that job gets no answer; others are not affected.
fn keep_reading(receiver: &Mutex<Receiver<Job>>) {
    // Sound, because a job shares state with others only behind locks whose holders keep it consistent at each step.
    while catch_unwind(AssertUnwindSafe(|| read(receiver))).is_err() {
        tracing::error!("a request that was served from the disk panicked and is not answered");
    }
}

fn read(receiver: &Mutex<Receiver<Job>>) {
    let mut units = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { broker, peer, work, charge }) = job else { return };
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        match work {
            Work::Pull(pull) => {
                let Some(scan) = Scan::of(&broker, &pull, Source::Disk, &mut units) else { continue };
                answer(&broker, &pull, &scan, &units, Source::Disk, &mut bytes);
            }
            #[cfg(test)]
            Work::Panic => panic!("on purpose"),
            Work::Pop(ask) => pop::serve_cold(&broker, &peer, &ask, &mut bytes),
            Work::Request(request) => {
                broker.disk_pool.waiting_bytes.fetch_sub(request.bytes(), Ordering::Relaxed);
                if is_moot(&peer, request.code()) {
                    continue;
                }
                serve_again(&broker, &peer, request, &mut bytes);
                if bytes.len() > KEPT_BYTES {
                    give(&peer, std::mem::take(&mut bytes));
                    continue;
                }
            }
        }
        // A consumer whose connection has ended needs no answer.
        let _ = peer.push(|out| out.extend_from_slice(&bytes));
        drop(charge);
    }
}

#[cfg(test)]
mod tests;
