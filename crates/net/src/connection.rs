//! The task of one connection.
//!
//! Bytes are read into a buffer shared by all connections of the worker, decoded there and answered into another
//! shared buffer that leaves in one write. A connection owns memory only for what could not be finished: a frame
//! that is not complete, or answers the socket did not take. So ten thousand idle connections cost next to nothing.

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
use crate::{Limits, Peer, Service};

/// Bytes of the shared read buffer; larger frames are collected in the connection's own memory.
const SCRATCH_BYTES: usize = 512 << 10;

/// Capacity above which an answer buffer is given back to the allocator.
const OUTPUT_BYTES_KEPT: usize = 2 << 20;

/// Reads of one poll before other connections of the worker get their turn.
const READS_PER_POLL: usize = 4;

/// Bytes read and answered in one poll from which on a connection is queued for its next one ([`FairQueue`]).
const POLL_BYTES: usize = 256 << 10;

/// Bytes of a large frame that are read at once.
const LARGE_READ_BYTES: usize = 128 << 10;

/// Buffers all connections of a worker share.
pub(crate) struct Scratch {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Ranges of the fields of the command being served.
    pairs: Pairs,
    /// Connections that wait because they move much at a time.
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

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
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
    #[error("it let {0} bytes of answers pile up")]
    TooSlow(usize),
}

pub(crate) struct Connection<S: Service> {
    pub stream: Stream,
    pub peer: Arc<Peer>,
    pub service: Arc<S>,
    pub turn: Rc<RefCell<S::Turn>>,
    pub scratch: Rc<RefCell<Scratch>>,
    pub limits: Limits,
}

/// What a connection keeps between wake-ups.
struct State<S: Service> {
    link: Connection<S>,
    /// Start of a frame that is not complete, or frames held back while answers pile up.
    partial: Vec<u8>,
    /// Answers the socket did not take yet.
    unsent: Vec<u8>,
    sent: usize,
    /// Bytes read and answered in this poll.
    handled: usize,
    /// The last poll handled so much that the next one waits for its turn.
    is_heavy: bool,
    /// It is in the worker's queue of such connections.
    is_queued: bool,
    /// Commands were served whose answers the socket was not given yet.
    served: bool,
    /// A malformed frame arrived: the connection ends once the answers before it are written.
    broken: Option<FrameError>,
    idle: Pin<Box<Sleep>>,
    last_traffic: Instant,
}

impl<S: Service> Connection<S> {
    /// Serves the connection until it ends.
    pub(crate) async fn run(self) {
        let mut state = State {
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
            // A peer that ends TLS without saying so, as Java's and Go's clients do, has ended the connection all the same.
            End::Socket(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                tracing::debug!(remote = %peer.remote(), "connection ended");
            }
            End::Remote | End::Local => tracing::debug!(remote = %peer.remote(), %end, "connection ended"),
            _ => tracing::info!(remote = %peer.remote(), %end, "connection ended"),
        }
        peer.mark_closed();
        state.link.service.closed(peer);
    }
}

impl<S: Service> State<S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
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

    /// Tells the budget what the connection holds.
    fn note_held(&self) {
        let Connection { stream, peer, .. } = &self.link;
        let bytes = self.partial.capacity() + self.unsent.capacity() + stream.held(!self.unsent.is_empty());
        peer.holding.note(bytes, self.last_traffic.duration_since(peer.opened()));
    }

    /// Whether others of the worker go first, because this connection moved much when it was woken last.
    fn must_queue(&mut self, cx: &Context<'_>) -> bool {
        if !self.is_heavy {
            return false;
        }
        let (id, queue) = (self.link.peer.id(), &mut self.link.scratch.borrow_mut().heavy);
        let waits = !queue.admits(id);
        if waits && !self.is_queued {
            self.is_queued = true;
            queue.push(id, cx.waker());
        }
        waits
    }

    fn progress(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.handled = 0;
        for _ in 0..READS_PER_POLL {
            self.compact();
            let closing = self.link.peer.take_pushed(&mut self.unsent, cx.waker());
            if closing && self.link.peer.is_closed() {
                return Poll::Ready(End::Local);
            }
            let written = match self.poll_write(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(End::Socket(error)),
                written => written,
            };
            if written.is_ready() {
                // Given back before anything asks whether there is memory, or counts what is held.
                self.compact();
            }
            let closing = closing || self.broken.is_some();
            if closing && written.is_ready() {
                return Poll::Ready(self.broken.take().map_or(End::Local, End::Frame));
            }
            let waiting = self.unsent.len() - self.sent;
            if waiting > self.link.limits.unsent_bytes_max {
                return Poll::Ready(End::TooSlow(waiting));
            }
            if waiting > self.link.limits.unsent_bytes_high || closing {
                return Poll::Pending;
            }
            if self.must_queue(cx) {
                return Poll::Pending;
            }
            match self.poll_contained_turn(cx) {
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

    /// Drops what was sent, so that pushed frames can follow it.
    fn compact(&mut self) {
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        } else if self.sent > self.unsent.len() / 2 {
            // Not at every write: a long queue of large frames would be moved over and over.
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
        if self.unsent.is_empty() && self.unsent.capacity() > 0 {
            // The memory goes back to the worker, so that an idle connection holds none.
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

    /// Writes what is unsent; pending while the socket takes no more.
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

    /// Does what was put back, as far as the turn's bound admits; true when there was something.
    fn poll_work(&mut self, output: &mut Vec<u8>) -> bool {
        let peer = &self.link.peer;
        let Some(mut work) = peer.take_work() else { return false };
        loop {
            work(peer, output);
            if output.len() >= self.link.limits.turn_bytes {
                break;
            }
            match peer.take_work() {
                Some(next) => work = next,
                None => break,
            }
        }
        self.handled += output.len();
        take_answers(&mut self.unsent, output);
        true
    }

    /// One turn and its answers. When a handler panics, what it and the frames before it staged is forgotten at once: the
    /// memory of a turn belongs to all connections of the worker, and the next one must not find another's answers there.
    fn poll_contained_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let turn = AssertUnwindSafe(|| {
            let polled = self.poll_turn(cx);
            self.answer_first(cx);
            polled
        });
        match catch_unwind(turn) {
            Ok(polled) => polled,
            Err(panic) => {
                self.link.scratch.borrow_mut().output.clear();
                let mut turn = self.link.turn.borrow_mut();
                // Commands before the one that panicked may have been performed.
                self.link.service.answered(&mut turn);
                *turn = self.link.service.turn();
                drop(turn);
                resume_unwind(panic)
            }
        }
    }

    /// Gives the answers of a turn to the socket, and only then lets the service do what nobody of the turn waits for.
    fn answer_first(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.served) {
            // An error comes again with the next write.
            let _ = self.poll_write(cx);
            self.link.service.answered(&mut self.link.turn.borrow_mut());
        }
    }

    /// What was put back, else frames held back, else one read and the frames it completes.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
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
        // What is whole is served all the same once nothing is unsent: it frees memory.
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
        ready!(Pin::new(&mut self.link.stream).poll_read(cx, &mut buffer)).map_err(End::from)?;
        let count = buffer.filled().len();
        if count == 0 {
            return Poll::Ready(Err(End::Remote));
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
    ) -> Poll<Result<(), End>> {
        let kept = self.partial.len();
        let frame = frame_length(&self.partial).map_err(End::from)?.unwrap_or(kept);
        let missing = frame.saturating_sub(kept).clamp(1, LARGE_READ_BYTES);
        let mut buffer = ReadBuf::new(&mut input[..missing]);
        ready!(Pin::new(&mut self.link.stream).poll_read(cx, &mut buffer)).map_err(End::from)?;
        let count = buffer.filled().len();
        if count == 0 {
            return Poll::Ready(Err(End::Remote));
        }
        self.received(count);
        let needed = kept + count;
        if self.partial.capacity() < needed {
            // By half at a time and not beyond the frame.
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

    /// Gives the complete frames of `bytes` to the service and takes their answers. Returns the bytes used: fewer
    /// than are complete when the answers reached the turn's bound, or requests that wait that of the connection.
    fn serve(&mut self, bytes: &mut [u8], output: &mut Vec<u8>, pairs: &mut Pairs) -> usize {
        let Connection { peer, service, turn, limits, .. } = &self.link;
        let turn = &mut *turn.borrow_mut();
        let mut used = 0;
        while output.len() < limits.turn_bytes && !peer.account.is_full() {
            let rest = &mut bytes[used..];
            let length = match frame_length(rest) {
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(_) => break,
                Err(error) => {
                    self.broken = Some(error);
                    break;
                }
            };
            match Command::decode_with(&mut rest[..length], pairs) {
                Ok(command) if command.is_response() && peer.answer(&command) => {}
                Ok(command) => service.frame(turn, peer, command, output),
                Err(error) => {
                    self.broken = Some(error);
                    break;
                }
            }
            used += length;
        }
        service.end(turn, peer, output);
        self.served = true;
        self.handled += output.len();
        take_answers(&mut self.unsent, output);
        used
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let limit = self.link.limits.idle;
        while self.idle.as_mut().poll(cx).is_ready() {
            if self.link.peer.account.is_full() && self.sent == self.unsent.len() && self.broken.is_none() {
                // It waits for us. One that does not take its answers waits for nobody.
                self.last_traffic = Instant::now();
            }
            if self.last_traffic.elapsed() >= limit {
                return Poll::Ready(End::Idle(limit));
            }
            let next = self.last_traffic + limit;
            self.idle.as_mut().reset(next);
        }
        Poll::Pending
    }
}

/// Puts the answers of a turn behind those that are unsent.
fn take_answers(unsent: &mut Vec<u8>, output: &mut Vec<u8>) {
    if unsent.is_empty() {
        std::mem::swap(unsent, output);
    } else {
        unsent.append(output);
    }
}

/// True when `bytes` starts with a whole frame, or with one that is refused.
fn complete(bytes: &[u8]) -> bool {
    match frame_length(bytes) {
        Ok(Some(length)) => length <= bytes.len(),
        Ok(None) => false,
        Err(_) => true,
    }
}
