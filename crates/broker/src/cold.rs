//! Pulls whose messages are not in memory: a small pool of threads reads them from the disk, so that a consumer far
//! behind stalls no connection.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use net::Peer;
use wire::codes::response;
use wire::frame::Head;

use crate::broker::Broker;
use crate::pull::{Pull, Scan, Source, answer};

/// Pulls that may wait for a reader; beyond it a pull is answered as busy.
const WAITING_MAX: usize = 4096;

struct Job {
    broker: Arc<Broker>,
    peer: Arc<Peer>,
    pull: Pull,
}

/// The readers' pool.
pub(crate) struct ColdReaders {
    jobs: Mutex<Option<SyncSender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ColdReaders {
    /// Starts `count` readers.
    pub(crate) fn start(count: usize) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for index in 0..count {
            let receiver = receiver.clone();
            let name = format!("cold-read-{index}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || read(&receiver))?);
        }
        Ok(Self { jobs: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Answers `pull` from the disk, later.
    pub(crate) fn submit(&self, broker: &Arc<Broker>, peer: Arc<Peer>, pull: Pull) {
        let job = Job { broker: broker.clone(), peer, pull };
        let sent = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.try_send(job),
            None => Err(TrySendError::Disconnected(job)),
        };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = sent {
            let remark =
                "[OVERLOAD]system busy, start flow control for a while: too many pulls read from disk";
            let head = Head::response(job.pull.encoding, response::SYSTEM_BUSY, job.pull.opaque);
            // A consumer that went away needs no answer.
            let _ = job.peer.push(|out| head.remark(remark).write(out, b""));
        }
    }

    /// Ends the readers after the pulls already submitted.
    pub(crate) fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a cold reader panicked");
            }
        }
    }
}

fn read(receiver: &Mutex<Receiver<Job>>) {
    let mut units = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { broker, peer, pull }) = job else { return };
        bytes.clear();
        let Some(scan) = Scan::of(&broker, &pull, Source::Disk, &mut units) else { continue };
        answer(&broker, &pull, &scan, &units, Source::Disk, &mut bytes);
        // A consumer that went away needs no answer.
        let _ = peer.push(|out| out.extend_from_slice(&bytes));
    }
}
