//! The handle of one connection: pushes frames, makes calls, closes the connection.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::frame::{Command, Encoding, FRAME_BYTES_MAX, FrameWriter, Head};

use crate::Limits;
use crate::budget::{Budget, ConnectionMemory};
use crate::memory_charge::{ChargeAccount, MemoryCharge};

/// Error: the connection has ended, and no bytes were sent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the connection to {0} is closed")]
pub struct ConnectionClosed(pub SocketAddr);

/// Reasons why a call has no response. The peer may or may not have performed the request.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CallError {
    /// The connection ended before the response came.
    #[error("the connection to {0} was closed before the answer came")]
    Closed(SocketAddr),
    /// No response arrived within the given time.
    #[error("no answer from {0} within {1:?}")]
    TimedOut(SocketAddr, Duration),
}

/// Bytes that a delayed response is charged to its connection beside its frame.
const WAITING_BYTES: usize = 256;

/// A response, copied out of the receive buffer.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Response code (`ResponseCode`).
    pub code: i32,
    /// Version ordinal of the other side (`MQVersion`).
    pub version: i32,
    /// The `remark`, a text for humans.
    pub remark: Option<String>,
    /// Header fields (`extFields`), in order.
    pub fields: Vec<(String, String)>,
    /// The body; empty when there is none.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header field.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn detach(command: &Command<'_>) -> Self {
        let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: command.code,
            version: command.version,
            remark: command.remark.map(str::to_owned),
            fields: command.fields.iter().map(|(key, value)| (owned(key), owned(value))).collect(),
            body: command.body.to_vec(),
        }
    }
}

/// Work to do on the connection's own thread; it appends frames to the connection's responses.
pub type ConnectionTask = Box<dyn FnOnce(&Arc<ConnectionHandle>, &mut Vec<u8>) + Send>;

#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    work: VecDeque<ConnectionTask>,
    waker: Option<Waker>,
    closing: bool,
}

/// The handle of one connection. Frames may be pushed from any thread; the connection's task writes them, several at once.
pub struct ConnectionHandle {
    id: u64,
    remote: SocketAddr,
    local: SocketAddr,
    unsent_bytes_max: usize,
    /// Longest frame that is read from the connection.
    frame_bytes_max: AtomicUsize,
    pub(crate) account: ChargeAccount,
    pub(crate) holding: ConnectionMemory,
    outbox: Mutex<Outbox>,
    closed: AtomicBool,
    opened: Instant,
    /// When bytes were last received, in microseconds after `opened`.
    received_us: AtomicU64,
    /// Whether there is queued work, so that the hot path need not lock.
    has_work: AtomicBool,
    mark: AtomicU64,
    next_opaque: AtomicI32,
    calls: Mutex<HashMap<i32, oneshot::Sender<Response>>>,
    /// Number of entries in `calls`, so that the hot path need not lock.
    waiting: AtomicUsize,
}

impl ConnectionHandle {
    /// Creates the handle; `unanswered` counts the memory charges of all connections.
    pub(crate) fn new(
        id: u64,
        (remote, local): (SocketAddr, SocketAddr),
        limits: &Limits,
        unanswered: Arc<AtomicUsize>,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            id,
            remote,
            local,
            unsent_bytes_max: limits.unsent_bytes_max,
            frame_bytes_max: AtomicUsize::new(FRAME_BYTES_MAX),
            account: ChargeAccount::new(limits, unanswered),
            holding: ConnectionMemory::new(budget),
            outbox: Mutex::default(),
            closed: AtomicBool::new(false),
            opened: Instant::now(),
            received_us: AtomicU64::new(0),
            has_work: AtomicBool::new(false),
            mark: AtomicU64::new(0),
            next_opaque: AtomicI32::new(0),
            calls: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// A handle without a connection, for tests and simulations: pushed frames are kept for [`ConnectionHandle::pushed`].
    pub fn detached(id: u64, remote: SocketAddr) -> Self {
        let limits = Limits { unsent_bytes_max: usize::MAX, ..Limits::default() };
        Self::new(id, (remote, remote), &limits, Arc::default(), Budget::unbounded())
    }

    /// Runs the queued work, and returns pushed bytes and the work's output, as the connection's task would.
    pub fn pushed(self: &Arc<Self>) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.outbox().bytes);
        while let Some(work) = self.take_task() {
            work(self, &mut bytes);
        }
        bytes
    }

    /// Whether [`ConnectionHandle::close`] was called or the connection has ended.
    pub fn is_closing(&self) -> bool {
        self.outbox().closing
    }

    /// Longest frame in bytes, its length prefix included, that is read from the connection; a longer one ends it.
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max.load(Ordering::Relaxed)
    }

    /// Changes the longest frame that is read from the connection, which is [`FRAME_BYTES_MAX`] at first. A
    /// connection with an unauthenticated client may be allowed less memory.
    pub fn limit_frames(&self, bytes: usize) {
        self.frame_bytes_max.store(bytes.min(FRAME_BYTES_MAX), Ordering::Relaxed);
    }

    /// Number that the service stores with the connection, such as the verified user (`auth::Mark`). 0 at first.
    /// This crate does not interpret it.
    pub fn mark(&self) -> &AtomicU64 {
        &self.mark
    }

    /// Id of the connection, unique in this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Address of the other side.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Local address of the connection.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether the peer is this machine: it connected over the loopback, or from the address to which it connected.
    /// With a trusted PROXY preamble, the address in the preamble counts.
    pub fn is_local(&self) -> bool {
        let remote = self.remote.ip();
        remote.is_loopback() || remote == self.local.ip()
    }

    /// Time since bytes were last received.
    pub fn silence(&self) -> Duration {
        let received = Duration::from_micros(self.received_us.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(received)
    }

    /// When the connection was opened.
    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    /// Records that bytes were received.
    pub(crate) fn received(&self, now: Instant) {
        let micros = now.duration_since(self.opened).as_micros();
        self.received_us.store(u64::try_from(micros).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The id (`opaque`) for the next request sent on this connection.
    pub fn next_opaque(&self) -> i32 {
        self.next_opaque.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues whole frames, which the connection's task writes. A client that reads too slowly is disconnected.
    pub fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), ConnectionClosed> {
        let waker = {
            let mut outbox = self.outbox();
            if self.is_closed() || outbox.closing {
                return Err(ConnectionClosed(self.remote));
            }
            write(&mut outbox.bytes);
            if outbox.bytes.len() > self.unsent_bytes_max {
                outbox.closing = true;
                outbox.bytes.clear();
            }
            outbox.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Charges the connection with `bytes` bytes of an unanswered request. It is not read while its charges are at the limit.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> MemoryCharge {
        MemoryCharge::new(self.clone(), bytes)
    }

    /// Charges the connection for a response that leaves later. The returned function sends the response, and sets the
    /// mark of the connection unless `mark` is 0.
    pub fn delayed(self: &Arc<Self>, frame: Vec<u8>, mark: u64) -> impl FnOnce() + Send + use<> {
        let (peer, charge) = (self.clone(), self.charge(frame.len() + WAITING_BYTES));
        move || {
            if mark != 0 {
                peer.mark.store(mark, Ordering::Relaxed);
            }
            // A client that has disconnected gets nothing.
            let _ = peer.push(|out| out.extend_from_slice(&frame));
            drop(charge);
        }
    }

    /// Bytes charged for unanswered requests of the connection.
    pub fn unanswered(&self) -> usize {
        self.account.bytes()
    }

    /// Queues work between arriving frames. It runs on the connection's thread, while the unsent responses are below
    /// a limit. The caller bounds the queue. The work is dropped if the connection ends first.
    pub fn enqueue(&self, work: ConnectionTask) -> Result<(), ConnectionClosed> {
        let waker = {
            let mut outbox = self.outbox();
            if self.is_closed() || outbox.closing {
                return Err(ConnectionClosed(self.remote));
            }
            outbox.work.push_back(work);
            self.has_work.store(true, Ordering::Release);
            outbox.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Takes the next queued work. For the connection's task, and for tests of handles without a connection.
    pub fn take_task(&self) -> Option<ConnectionTask> {
        if !self.has_work.load(Ordering::Acquire) {
            return None;
        }
        let mut outbox = self.outbox();
        let work = outbox.work.pop_front();
        if outbox.work.is_empty() {
            outbox.work = VecDeque::new();
            self.has_work.store(false, Ordering::Release);
        }
        work
    }

    /// Asks the connection's task to end once everything pushed before is written.
    pub fn close(&self) {
        self.outbox().closing = true;
        self.wake();
    }

    /// Ends the connection at once: unsent bytes are not written, queued work is not done, and pending calls fail.
    pub fn abort(&self) {
        self.mark_closed();
    }

    /// Wakes the connection's task to check for work.
    pub(crate) fn wake(&self) {
        let waker = self.outbox().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Sends a request and waits for its response. `write` adds header fields and finishes the frame. Needs a
    /// tokio runtime with a timer, which may be any runtime of the process.
    pub fn call<'p, W: FnOnce(FrameWriter<'_>)>(
        &'p self,
        encoding: Encoding,
        code: i32,
        timeout: Duration,
        write: W,
    ) -> impl Future<Output = Result<Response, CallError>> + Send + use<'p, W> {
        let mut write = Some(write);
        self.call_as(Head::request(encoding, code, 0), timeout, &mut |frame| {
            if let Some(write) = write.take() {
                write(frame);
            }
        })
    }

    /// Sends a request like [`Self::call`], with a head that the caller provides. The connection replaces the
    /// request id (`opaque`) of the head. `write` runs once.
    pub fn call_as<'p>(
        &'p self,
        head: Head<'_>,
        timeout: Duration,
        write: &mut dyn FnMut(FrameWriter<'_>),
    ) -> impl Future<Output = Result<Response, CallError>> + Send + use<'p> {
        let opaque = self.next_opaque();
        let (sender, receiver) = oneshot::channel();
        self.calls().insert(opaque, sender);
        self.waiting.fetch_add(1, Ordering::Release);
        let pushed = self.push(|out| write(FrameWriter::begin(out, Head { opaque, ..head })));
        let pending = PendingCall { peer: self, opaque };
        async move {
            let _pending = pending;
            pushed.map_err(|ConnectionClosed(remote)| CallError::Closed(remote))?;
            match tokio::time::timeout(timeout, receiver).await {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(_)) => Err(CallError::Closed(self.remote)),
                Err(_) => Err(CallError::TimedOut(self.remote, timeout)),
            }
        }
    }

    /// Passes a response to the call that waits for it; false when none does.
    pub(crate) fn complete_call(&self, command: &Command<'_>) -> bool {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return false;
        }
        let Some(sender) = self.forget(command.opaque) else { return false };
        // A caller that stopped waiting has dropped its receiver; that is no error.
        let _ = sender.send(Response::detach(command));
        true
    }

    fn forget(&self, opaque: i32) -> Option<oneshot::Sender<Response>> {
        let sender = self.calls().remove(&opaque);
        if sender.is_some() {
            self.waiting.fetch_sub(1, Ordering::Release);
        }
        sender
    }

    /// Moves pushed bytes to `unsent` and stores the waker for later pushes. Returns true if the connection must end.
    pub(crate) fn take_pushed(&self, unsent: &mut Vec<u8>, waker: &Waker) -> bool {
        let mut outbox = self.outbox();
        if outbox.bytes.is_empty() {
            // Free the buffer: an idle connection keeps no memory for earlier responses.
            outbox.bytes = Vec::new();
        } else if unsent.is_empty() {
            std::mem::swap(unsent, &mut outbox.bytes);
        } else {
            unsent.append(&mut outbox.bytes);
        }
        if !outbox.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            outbox.waker = Some(waker.clone());
        }
        outbox.closing
    }

    pub(crate) fn mark_closed(&self) {
        self.closed.store(true, Ordering::Release);
        let mut left = std::mem::replace(&mut *self.outbox(), Outbox { closing: true, ..Outbox::default() });
        let waker = left.waker.take();
        // Dropped without the lock: work that is not done releases its memory charges.
        drop(left);
        self.calls().clear();
        self.waiting.store(0, Ordering::Release);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // A panic while frames are pushed can leave a torn frame at the end, so the connection ends.
        self.outbox.lock().unwrap_or_else(|poisoned| {
            let mut outbox = poisoned.into_inner();
            outbox.closing = true;
            outbox
        })
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<i32, oneshot::Sender<Response>>> {
        self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionHandle")
            .field("id", &self.id)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

/// Removes a call when its caller stops waiting.
struct PendingCall<'a> {
    peer: &'a ConnectionHandle,
    opaque: i32,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.peer.forget(self.opaque);
    }
}
