//! Task of a connection.
//!
//! Bytes are read into a buffer shared by all connections of the worker, decoded in place, and answered into another
//! shared buffer that is sent with one write. A connection owns memory only for an incomplete frame, or for responses
//! that the socket did not take. So ten thousand idle connections cost next to nothing.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use wire::fields::Pairs;
use wire::frame::{Command, FrameError, frame_length};

use crate::fair_queue::{FairQueue, wake_later};
use crate::stream::Stream;
use crate::{ConnectionHandle, Limits, Service};

/// Size in bytes of the shared read buffer; larger frames are collected in the connection's own memory.
const SCRATCH_BYTES: usize = 512 << 10;

/// Capacity in bytes above which a response buffer is freed.
const OUTPUT_BYTES_KEPT: usize = 2 << 20;

/// Reads in one poll before other connections of the worker are served.
const READS_PER_POLL: usize = 4;

/// Bytes read and answered in one poll from which the connection's next poll is queued ([`FairQueue`]).
const POLL_BYTES: usize = 256 << 10;

/// Bytes of a large frame read at once.
const LARGE_READ_BYTES: usize = 128 << 10;

/// Buffers that all connections of a worker share.
pub(crate) struct Scratch {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Positions of the header fields of the command being served.
    pairs: Pairs,
    /// Queue of the connections that move many bytes per poll.
    pub heavy: FairQueue,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            input: vec![0; SCRATCH_BYTES],
            output: Vec::with_capacity(64 << 10),
            pairs: Pairs::default(),
            heavy: FairQueue::default(),
        }
    }
}

/// Reasons why a connection has ended.
#[derive(Debug, thiserror::Error)]
enum EndReason {
    #[error("the other side closed it")]
    Remote,
    #[error("closed by us")]
    Local,
    #[error("no traffic for {0:?}")]
    Idle(std::time::Duration),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("a frame of {length} bytes begins, at most {max} may come before the client is known")]
    TooLong { length: usize, max: usize },
    #[error("it let {0} bytes of answers pile up")]
    TooSlow(usize),
}

pub(crate) struct Connection<S: Service> {
    pub stream: Stream,
    pub peer: Arc<ConnectionHandle>,
    pub service: Arc<S>,
    pub read_batch: Rc<RefCell<S::ReadBatch>>,
    pub scratch: Rc<RefCell<Scratch>>,
    pub limits: Limits,
}

/// State of a connection between wake-ups.
struct ConnectionState<S: Service> {
    link: Connection<S>,
    /// The start of an incomplete frame, or whole frames held back while responses are not sent.
    partial: Vec<u8>,
    /// Responses that the socket did not take yet.
    unsent: Vec<u8>,
    sent: usize,
    /// Bytes read and answered in this poll.
    handled: usize,
    /// Whether the last poll moved so many bytes that the next poll is queued.
    is_heavy: bool,
    /// Whether the connection is in the worker's [`FairQueue`].
    is_queued: bool,
    /// Whether commands were served whose responses were not passed to the socket yet.
    served: bool,
    /// Error of the last frame. The connection ends after the earlier responses are written.
    broken: Option<EndReason>,
    idle: Pin<Box<Sleep>>,
    last_traffic: Instant,
}

impl<S: Service> Connection<S> {
    /// Serves the connection until it ends.
    pub(crate) async fn run(self) {
        let mut state = ConnectionState {
            partial: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            handled: 0,
            is_heavy: false,
            is_queued: false,
            served: false,
            broken: None,
            idle: Box::pin(tokio::time::sleep(self.limits.idle)),
            last_traffic: Instant::now(),
            link: self,
        };
        let link = &state.link;
        link.service.opened(&link.peer, &mut state.unsent);
        let end = std::future::poll_fn(|cx| state.poll(cx)).await;
        let peer = &state.link.peer;
        match end {
            // Java and Go clients end TLS connections without a close message, which is a normal end.
            EndReason::Socket(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                tracing::debug!(remote = %peer.remote(), "connection ended");
            }
            EndReason::Remote | EndReason::Local => {
                tracing::debug!(remote = %peer.remote(), %end, "connection ended")
            }
            _ => tracing::info!(remote = %peer.remote(), %end, "connection ended"),
        }
        peer.mark_closed();
        state.link.service.closed(peer);
    }
}

impl<S: Service> ConnectionState<S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let polled = self.progress(cx);
        if self.link.scratch.borrow_mut().heavy.advance(self.link.peer.id()) {
            self.is_queued = false;
        }
        match polled {
            Poll::Pending => {
                self.note_held();
                self.poll_idle(cx)
            }
            Poll::Ready(end) => Poll::Ready(end),
        }
    }

    /// Reports the memory that the connection holds to the budget.
    fn note_held(&self) {
        let Connection { stream, peer, .. } = &self.link;
        let bytes = self.partial.capacity() + self.unsent.capacity() + stream.held(!self.unsent.is_empty());
        peer.holding.note(bytes, self.last_traffic.duration_since(peer.opened()));
    }

    /// Whether other connections of the worker must be served first, because this connection moved many bytes in its
    /// last poll.
    fn must_queue(&mut self, cx: &Context<'_>) -> bool {
        if !self.is_heavy {
            return false;
        }
        let (id, queue) = (self.link.peer.id(), &mut self.link.scratch.borrow_mut().heavy);
        let waits = !queue.try_enter(id);
        if waits && !self.is_queued {
            self.is_queued = true;
            queue.push(id, cx.waker());
        }
        waits
    }

    fn progress(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        self.handled = 0;
        for _ in 0..READS_PER_POLL {
            self.compact();
            let closing = self.link.peer.take_pushed(&mut self.unsent, cx.waker());
            if closing && self.link.peer.is_closed() {
                return Poll::Ready(EndReason::Local);
            }
            let written = match self.poll_write(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(EndReason::Socket(error)),
                written => written,
            };
            if written.is_ready() {
                // Free the buffer before memory is checked or counted.
                self.compact();
            }
            let closing = closing || self.broken.is_some();
            if closing && written.is_ready() {
                return Poll::Ready(self.broken.take().unwrap_or(EndReason::Local));
            }
            let waiting = self.unsent.len() - self.sent;
            if waiting > self.link.limits.unsent_bytes_max {
                return Poll::Ready(EndReason::TooSlow(waiting));
            }
            if waiting > self.link.limits.unsent_bytes_high || closing {
                return Poll::Pending;
            }
            if self.must_queue(cx) {
                return Poll::Pending;
            }
            match self.poll_contained(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => {
                    self.is_heavy = false;
                    return Poll::Pending;
                }
            }
            if self.handled >= POLL_BYTES {
                break;
            }
        }
        self.is_heavy = self.handled >= POLL_BYTES;
        if self.is_heavy {
            wake_later(cx.waker());
        } else {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Removes the bytes that were sent, so that pushed frames can be appended.
    fn compact(&mut self) {
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        } else if self.sent > self.unsent.len() / 2 {
            // Not after every write: that would move a long queue of large frames over and over.
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
        if self.unsent.is_empty() && self.unsent.capacity() > 0 {
            // The buffer goes back to the worker, so that an idle connection holds none.
            let output = &mut self.link.scratch.borrow_mut().output;
            if output.capacity() < self.unsent.capacity() {
                std::mem::swap(output, &mut self.unsent);
            }
            if output.capacity() > OUTPUT_BYTES_KEPT {
                *output = Vec::new();
            }
            self.unsent = Vec::new();
        }
    }

    /// Writes the unsent bytes. Pending while the socket takes no more.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.unsent.len() {
            let stream = Pin::new(&mut self.link.stream);
            match stream.poll_write(cx, &self.unsent[self.sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.sent += count;
                    self.last_traffic = Instant::now();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Pin::new(&mut self.link.stream).poll_flush(cx)
    }

    /// Runs queued work ([`ConnectionHandle::enqueue`]) until the output limit of a read batch is reached. Returns
    /// true if there was any.
    fn poll_work(&mut self, output: &mut Vec<u8>) -> bool {
        let peer = &self.link.peer;
        let Some(mut work) = peer.take_task() else { return false };
        loop {
            work(peer, output);
            if output.len() >= self.link.limits.read_batch_bytes {
                break;
            }
            match peer.take_task() {
                Some(next) => work = next,
                None => break,
            }
        }
        self.handled += output.len();
        take_responses(&mut self.unsent, output);
        true
    }

    /// Serves a read batch and answers it. If a handler panics, everything staged by it and by earlier frames is
    /// dropped at once. All connections of the worker share the service's state of a read batch, and the next
    /// connection must not find another's responses.
    fn poll_contained(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        let serve = AssertUnwindSafe(|| {
            let polled = self.poll_read_batch(cx);
            self.respond_first(cx);
            polled
        });
        match catch_unwind(serve) {
            Ok(polled) => polled,
            Err(panic) => {
                self.link.scratch.borrow_mut().output.clear();
                let mut read_batch = self.link.read_batch.borrow_mut();
                // Commands before the panicking command may have been performed.
                self.link.service.answered(&mut read_batch);
                *read_batch = self.link.service.read_batch();
                drop(read_batch);
                resume_unwind(panic)
            }
        }
    }

    /// Passes the responses of a read batch to the socket, and only then lets the service do work that no client of the batch
    /// waits for.
    fn respond_first(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.served) {
            // The next write reports the same error.
            let _ = self.poll_write(cx);
            self.link.service.answered(&mut self.link.read_batch.borrow_mut());
        }
    }

    /// Runs queued work if there is any. Otherwise serves frames that were held back. Otherwise reads once and serves
    /// the complete frames.
    fn poll_read_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        let scratch = self.link.scratch.clone();
        let mut scratch = scratch.borrow_mut();
        let Scratch { input, output, pairs, .. } = &mut *scratch;
        if self.poll_work(output) {
            return Poll::Ready(Ok(()));
        }
        if self.link.peer.account.pauses() {
            return Poll::Pending;
        }
        let is_complete = complete(&self.partial);
        // Whole frames are served even without memory when nothing is unsent: serving them frees memory.
        if !(is_complete && self.unsent.is_empty()) && self.link.peer.waits_for_memory() {
            return Poll::Pending;
        }
        if is_complete {
            self.last_traffic = Instant::now();
            let mut held = std::mem::take(&mut self.partial);
            let used = self.serve(&mut held, output, pairs);
            held.drain(..used);
            self.partial = if held.is_empty() { Vec::new() } else { held };
            return Poll::Ready(Ok(()));
        }
        if self.partial.len() > SCRATCH_BYTES / 2 {
            return self.poll_large(cx, input, output, pairs);
        }
        let kept = self.partial.len();
        let mut buffer = ReadBuf::new(&mut input[kept..]);
        ready!(Pin::new(&mut self.link.stream).poll_read(cx, &mut buffer)).map_err(EndReason::from)?;
        let count = buffer.filled().len();
        if count == 0 {
            return Poll::Ready(Err(EndReason::Remote));
        }
        self.received(count);
        input[..kept].copy_from_slice(&self.partial);
        let filled = kept + count;
        let used = self.serve(&mut input[..filled], output, pairs);
        self.partial.clear();
        self.partial.extend_from_slice(&input[used..filled]);
        if self.partial.is_empty() && self.partial.capacity() > 4096 {
            self.partial = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    fn received(&mut self, count: usize) {
        self.handled += count;
        self.last_traffic = Instant::now();
        self.link.peer.received(self.last_traffic);
    }

    /// Collects a large frame in the connection's own memory, which grows only as bytes arrive.
    fn poll_large(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut [u8],
        output: &mut Vec<u8>,
        pairs: &mut Pairs,
    ) -> Poll<Result<(), EndReason>> {
        let kept = self.partial.len();
        let frame = frame_length(&self.partial).map_err(EndReason::from)?.unwrap_or(kept);
        let missing = frame.saturating_sub(kept).clamp(1, LARGE_READ_BYTES);
        let mut buffer = ReadBuf::new(&mut input[..missing]);
        ready!(Pin::new(&mut self.link.stream).poll_read(cx, &mut buffer)).map_err(EndReason::from)?;
        let count = buffer.filled().len();
        if count == 0 {
            return Poll::Ready(Err(EndReason::Remote));
        }
        self.received(count);
        let needed = kept + count;
        if self.partial.capacity() < needed {
            // Grow by half at a time, but not beyond the frame.
            let capacity = (self.partial.capacity() / 2 * 3).clamp(needed, frame.max(needed));
            self.partial.reserve_exact(capacity - kept);
        }
        self.partial.extend_from_slice(buffer.filled());
        if !complete(&self.partial) {
            return Poll::Ready(Ok(()));
        }
        let mut whole = std::mem::take(&mut self.partial);
        let used = self.serve(&mut whole, output, pairs);
        self.partial.extend_from_slice(&whole[used..]);
        Poll::Ready(Ok(()))
    }

    /// Passes the complete frames of `bytes` to the service and takes the responses. Returns the number of bytes used. Some
    /// complete frames remain when the responses reach the output limit, or the connection's memory charges their limit.
    fn serve(&mut self, bytes: &mut [u8], output: &mut Vec<u8>, pairs: &mut Pairs) -> usize {
        let Connection { peer, service, read_batch, limits, .. } = &self.link;
        let read_batch = &mut *read_batch.borrow_mut();
        let mut used = 0;
        while output.len() < limits.read_batch_bytes && !peer.account.is_full() {
            let rest = &mut bytes[used..];
            let length = match frame_length(rest) {
                Ok(Some(length)) if length > peer.frame_bytes_max() => {
                    self.broken = Some(EndReason::TooLong { length, max: peer.frame_bytes_max() });
                    break;
                }
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(_) => break,
                Err(error) => {
                    self.broken = Some(error.into());
                    break;
                }
            };
            match Command::decode_with(&mut rest[..length], pairs) {
                Ok(command) if command.is_response() && peer.complete_call(&command) => {}
                Ok(command) => service.frame(read_batch, peer, command, output),
                Err(error) => {
                    self.broken = Some(error.into());
                    break;
                }
            }
            used += length;
        }
        service.end(read_batch, peer, output);
        self.served = true;
        self.handled += output.len();
        take_responses(&mut self.unsent, output);
        used
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let limit = self.link.limits.idle;
        while self.idle.as_mut().poll(cx).is_ready() {
            if self.link.peer.account.is_full() && self.sent == self.unsent.len() && self.broken.is_none() {
                // A client with unanswered requests waits for the broker and is not idle. A client that does not take
                // its responses is idle.
                self.last_traffic = Instant::now();
            }
            if self.last_traffic.elapsed() >= limit {
                return Poll::Ready(EndReason::Idle(limit));
            }
            let next = self.last_traffic + limit;
            self.idle.as_mut().reset(next);
        }
        Poll::Pending
    }
}

/// Appends the responses of a read batch to the unsent bytes.
fn take_responses(unsent: &mut Vec<u8>, output: &mut Vec<u8>) {
    if unsent.is_empty() {
        std::mem::swap(unsent, output);
    } else {
        unsent.append(output);
    }
}

/// Whether `bytes` starts with a complete frame, or with a malformed one.
fn complete(bytes: &[u8]) -> bool {
    match frame_length(bytes) {
        Ok(Some(length)) => length <= bytes.len(),
        Ok(None) => false,
        Err(_) => true,
    }
}
