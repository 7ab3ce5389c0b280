//! The writer: one thread serves requests that change or list many topics or write a file, in order of arrival. The threads of
//! connections serve lookups meanwhile.
//!
//! Changes of key-value settings that follow each other are stored with one write. A waiting request is charged to its connection,
//! which bounds the queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{io, thread};

use net::{ConnectionHandle, MemoryCharge};
use parking_lot::Mutex;
use wire::frame::{Command, OwnedCommand};

use crate::{MinBrokerNotice, RequestHandler};

/// Most changes of key-value settings that are stored with one write.
const KV_CHANGES_MAX: usize = 64;

/// Bytes that a waiting request is charged beside its frame.
const WAITING_BYTES: usize = size_of::<PendingRequest>();

/// A request that waits for the writer.
struct PendingRequest {
    peer: Arc<ConnectionHandle>,
    command: OwnedCommand,
    charge: MemoryCharge,
}

enum WriterTask {
    Request(Box<PendingRequest>),
    /// Removes lost brokers.
    Settle,
    /// Removes the brokers that were silent at a time, and passes their connections on. Registrations that arrived before that time
    /// are in the queue before this entry.
    Expire(Instant, Box<dyn FnOnce(Vec<u64>) + Send>),
    /// Ends the thread.
    Stop,
}

/// The queue of the writer, and its thread.
pub(crate) struct Writer {
    queue: Sender<WriterTask>,
    /// Whether [`WriterTask::Settle`] is queued.
    settles: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread. The thread passes due notices to `notify`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        handler: Arc<RequestHandler>,
        notify: impl Fn(Vec<MinBrokerNotice>) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, received) = channel();
        let settles = Arc::new(AtomicBool::new(false));
        let writing = WriterThread { handler, received, queued: VecDeque::new(), settles: settles.clone() };
        let thread =
            thread::Builder::new().name("namesrv-writer".to_owned()).spawn(move || writing.run(notify))?;
        Ok(Self { queue, settles, thread: Mutex::new(Some(thread)) })
    }

    /// Queues a request.
    pub fn add(&self, peer: &Arc<ConnectionHandle>, command: &Command<'_>) {
        let command = OwnedCommand::new(command);
        let charge = peer.charge(command.bytes() + WAITING_BYTES);
        let waiting = Box::new(PendingRequest { peer: peer.clone(), command, charge });
        // Fails only while the name server stops, which closes the connection.
        let _ = self.queue.send(WriterTask::Request(waiting));
    }

    /// Queues [`RequestHandler::settle`].
    pub fn settle(&self) {
        if !self.settles.swap(true, Ordering::AcqRel) {
            // As in `add`.
            let _ = self.queue.send(WriterTask::Settle);
        }
    }

    /// Queues [`RequestHandler::expire`] behind the registrations that arrived so far, with the present time.
    /// Passes the connections of the removed brokers to `close`.
    pub fn expire(&self, close: impl FnOnce(Vec<u64>) + Send + 'static) {
        // As in `add`.
        let _ = self.queue.send(WriterTask::Expire(Instant::now(), Box::new(close)));
    }

    /// Ends and joins the thread.
    pub fn stop(&self) {
        // Fails when the thread has ended.
        let _ = self.queue.send(WriterTask::Stop);
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer of the name server panicked");
        }
    }
}

struct WriterThread {
    handler: Arc<RequestHandler>,
    received: Receiver<WriterTask>,
    queued: VecDeque<WriterTask>,
    settles: Arc<AtomicBool>,
}

impl WriterThread {
    fn run(mut self, notify: impl Fn(Vec<MinBrokerNotice>)) {
        while let Some(work) = self.next() {
            if matches!(work, WriterTask::Stop) {
                return;
            }
            // No other thread serves changes, so that a fault in one change must not end this thread.
            let done = catch_unwind(AssertUnwindSafe(|| self.perform(work, &notify)));
            if done.is_err() {
                tracing::error!("a change of the name server ended in a panic");
            }
        }
    }

    fn perform(&mut self, work: WriterTask, notify: impl Fn(Vec<MinBrokerNotice>)) {
        match work {
            WriterTask::Stop => {}
            WriterTask::Settle => self.settles.store(false, Ordering::Release),
            WriterTask::Expire(now, close) => close(self.handler.expire(now)),
            WriterTask::Request(waiting) if RequestHandler::changes_kv(waiting.command.code()) => {
                self.change_kv(*waiting);
            }
            WriterTask::Request(waiting) => self.serve(*waiting),
        }
        if self.handler.is_unsettled() {
            notify(self.handler.settle());
        }
    }

    fn next(&mut self) -> Option<WriterTask> {
        if self.queued.is_empty() {
            self.queued.push_back(self.received.recv().ok()?);
        }
        self.queued.extend(self.received.try_iter());
        self.queued.pop_front()
    }

    fn serve(&self, waiting: PendingRequest) {
        let (handler, peer) = (&self.handler, waiting.peer.clone());
        let mut out = Vec::new();
        let command = waiting.command.command();
        let served = catch_unwind(AssertUnwindSafe(|| {
            handler.respond(Instant::now(), peer.id(), &command, &mut out);
        }));
        send_response(waiting, served.map(|()| out).ok());
        // If the connection ended before the registration, no later event removes the broker.
        if peer.is_closed() {
            handler.disconnected(peer.id());
        }
    }

    /// Stores a change of key-value settings together with directly following changes.
    fn change_kv(&mut self, first: PendingRequest) {
        let mut batch = vec![first];
        while batch.len() < KV_CHANGES_MAX {
            match self.queued.pop_front() {
                Some(WriterTask::Request(next)) if RequestHandler::changes_kv(next.command.code()) => {
                    batch.push(*next);
                }
                Some(other) => {
                    self.queued.push_front(other);
                    break;
                }
                None => break,
            }
        }
        let served = catch_unwind(AssertUnwindSafe(|| {
            let commands: Vec<_> = batch.iter().map(|waiting| waiting.command.command()).collect();
            self.handler.respond_kv(&commands)
        }));
        match served {
            Ok(responses) => {
                batch
                    .into_iter()
                    .zip(responses)
                    .for_each(|(waiting, response)| send_response(waiting, Some(response)));
            }
            Err(_) => batch.into_iter().for_each(|waiting| send_response(waiting, None)),
        }
    }
}

/// Passes a response to its connection. A large response waits until the connection can take it. Without a
/// response, after a panic, the connection ends.
fn send_response(waiting: PendingRequest, response: Option<Vec<u8>>) {
    let PendingRequest { peer, charge, .. } = waiting;
    let Some(response) = response else {
        tracing::error!(remote = %peer.remote(), "a request panicked, its connection is closed");
        return peer.abort();
    };
    let charge = (charge, peer.charge(response.len()));
    // A client whose connection has ended needs no response.
    let _ = peer.enqueue(Box::new(move |_, out| {
        out.extend_from_slice(&response);
        drop(charge);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, KvStore};
    use std::time::Duration;

    fn registration() -> Vec<u8> {
        let header = br#"{"code":103,"flag":0,"language":"JAVA","opaque":7,"version":479,"extFields":{"brokerName":"b","brokerAddr":"a:1","clusterName":"c","haServerAddr":"a:2","brokerId":"0"}}"#;
        let size = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
        [&size(4 + header.len())[..], &size(header.len()), header].concat()
    }

    /// A scan that waited behind a registration does not judge by the time at which the scan ends its wait.
    #[test]
    fn a_scan_judges_by_the_time_at_which_it_was_queued() {
        let home = tempfile::tempdir().unwrap();
        let config = Config::new(home.path());
        let kv = KvStore::open(&config.kv_config_path).unwrap();
        let start = Instant::now();
        let handler = Arc::new(RequestHandler::new(config, kv, start));
        let mut response = Vec::new();
        handler.respond(start, 5, &Command::decode(&mut registration()).unwrap(), &mut response);
        let (queue, received) = channel();
        let mut writing =
            WriterThread { handler, received, queued: VecDeque::new(), settles: Arc::default() };
        let (closed, closing) = channel();
        for seconds in [120, 121] {
            let closed = closed.clone();
            let close = Box::new(move |connections| closed.send((seconds, connections)).unwrap());
            queue.send(WriterTask::Expire(start + Duration::from_secs(seconds), close)).unwrap();
        }
        drop((queue, closed));
        while let Some(work) = writing.next() {
            writing.perform(work, |_| {});
        }
        assert_eq!(closing.iter().collect::<Vec<_>>(), [(120, vec![]), (121, vec![5])]);
        assert!(!writing.handler.is_unsettled(), "the broker is removed");
    }
}
