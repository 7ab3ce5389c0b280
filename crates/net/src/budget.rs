//! The memory budget: one bound for the memory of all connections of a process.
//!
//! A connection uses memory for an incomplete frame, for responses that the socket did not take, for unanswered
//! requests, and for the buffers of TLS. This is counted in whole pages each time the connection's task has run. So a
//! connection with complete frames and sent responses costs one comparison. Measures depend on the sum of all
//! connections:
//!
//! - Up to seven eighths of the bound: no measure.
//! - Above that: connections with more than a fair share (the bound divided by the number of connections that hold
//!   more than 64 KiB) are not read. If that does not help, the largest connection that moved no byte for a second is
//!   closed.
//! - Above the bound: the largest connection is closed at once, an idle connection before others. Until its memory is
//!   free, only connections with at most 64 KiB are read.
//!
//! A connection below its fair share is read at all other times.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::admission::{Admission, ConnectionLimits, ConnectionPermit, REFUSALS_LOGGED};
use crate::tls::Security;
use crate::{ConnectionHandle, memory};

/// Unit in which memory is counted, in bytes.
const PAGE_BYTES: usize = 4096;

/// Most bytes of a connection that is not counted for the fair share, and not closed while others hold more.
const SMALL_BYTES: usize = 64 << 10;

/// Least and most bytes of the default bound, which is a sixteenth of the memory that the process may use.
const DEFAULT_BYTES: (usize, usize) = (64 << 20, 512 << 20);

/// A connection that moved no byte for this time counts as idle.
const IDLE: Duration = if cfg!(test) { Duration::from_nanos(1) } else { Duration::from_secs(1) };

/// The memory budget of a set of connections.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    /// Bytes that all connections hold.
    held: AtomicUsize,
    /// Part of `held` of connections that were closed to free memory and have not ended yet.
    closing: AtomicUsize,
    /// Number of connections that hold more than [`SMALL_BYTES`].
    holders: AtomicUsize,
    /// Whether some connection is not read. A connection sets the flag and then checks the sum
    /// again. Code that frees memory lowers the sum and then loads the flag.
    waiting: AtomicBool,
    connections: Mutex<HashMap<u64, Weak<ConnectionHandle>>>,
    /// Limits of accepted connections.
    admission: Arc<Admission>,
    /// When a refused connection was last logged.
    refusal_logged: Mutex<Option<Instant>>,
    /// Notified when the sum rises above the mark from which connections are not read.
    pressed: Notify,
    closed: AtomicUsize,
}

/// Memory that one connection holds.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    budget: Arc<Budget>,
    /// Bytes counted in the budget's sum; memory charges of unanswered requests are in the connection's account.
    bytes: AtomicUsize,
    /// When the connection last moved a byte, in microseconds after it was opened.
    moved_us: AtomicU64,
    /// Whether the connection is not read because of its memory.
    waits: AtomicBool,
    /// Whether the connection was closed to free its memory. The memory counts until the connection's task has ended.
    closing: AtomicBool,
    /// Part of `Budget::closing` that the connection added. Changed under the lock of `Budget::connections` alone.
    closing_bytes: AtomicUsize,
}

impl Budget {
    /// A budget of `bytes_max` bytes; 0 means a sixteenth of the memory, at least 64 MiB and at most 512 MiB.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Self::limited(bytes_max, ConnectionLimits::default())
    }

    /// Like [`Budget::new`], with another number of connections that are accepted.
    pub fn limited(bytes_max: usize, limits: ConnectionLimits) -> Arc<Self> {
        let (least, most) = DEFAULT_BYTES;
        let bytes_max = match bytes_max {
            0 => memory::limit().map_or(most, |bytes| (bytes / 16).clamp(least, most)),
            given => given,
        };
        Arc::new(Self {
            bytes_max,
            held: AtomicUsize::new(0),
            closing: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            connections: Mutex::default(),
            admission: Arc::new(Admission::new(limits)),
            refusal_logged: Mutex::default(),
            pressed: Notify::new(),
            closed: AtomicUsize::new(0),
        })
    }

    /// A budget without a bound, for programs that only open connections themselves.
    pub fn unbounded() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// The bound in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes that all connections hold.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Number of connections that were closed to free memory.
    pub fn closed(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }

    /// The sum in bytes from which connections with more than their share are not read.
    fn mark(&self) -> usize {
        self.bytes_max - self.bytes_max / 8
    }

    fn is_pressed(&self) -> bool {
        self.held.load(Ordering::SeqCst) > self.mark()
    }

    /// Bytes that are held when the connections that were closed have ended.
    fn held_soon(&self) -> usize {
        self.held().saturating_sub(self.closing.load(Ordering::SeqCst))
    }

    fn share(&self) -> usize {
        self.bytes_max / self.holders.load(Ordering::Relaxed).max(1)
    }

    /// Returns a permit for a connection that was accepted from `remote`, or `None` if a limit is reached and
    /// the connection must be closed.
    pub fn admit(&self, remote: IpAddr, security: &Security) -> Option<ConnectionPermit> {
        let permit = self.admission.enter(remote, security.proxies.contains(remote));
        let mut logged = self.refusal_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_none() && logged.is_none_or(|last| last.elapsed() > REFUSALS_LOGGED) {
            *logged = Some(Instant::now());
            tracing::warn!(%remote, "a connection was closed: connectionsMax or connectionsPerAddressMax is reached");
        }
        permit
    }

    pub(crate) fn enter(&self, peer: &Arc<ConnectionHandle>) {
        self.connections().insert(peer.id(), Arc::downgrade(peer));
    }

    /// Removes a connection that has ended and freed its memory.
    pub(crate) fn leave(&self, peer: &ConnectionHandle) {
        let mut connections = self.connections();
        connections.remove(&peer.id());
        self.closing.fetch_sub(peer.holding.closing_bytes.load(Ordering::Relaxed), Ordering::SeqCst);
        drop(connections);
        peer.holding.count(0);
    }

    /// Counts memory that was taken.
    pub(crate) fn take(&self, bytes: usize) {
        let held = self.held.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if held > self.mark() {
            self.pressed.notify_one();
        }
    }

    /// Counts memory that was freed, and wakes connections that wait for it.
    pub(crate) fn give_back(&self, bytes: usize) {
        let before = self.held.fetch_sub(bytes, Ordering::SeqCst);
        let held = before - bytes;
        let is_within = before > self.bytes_max && held <= self.bytes_max;
        if self.waiting.load(Ordering::SeqCst) && (is_within || held <= self.mark()) {
            self.resume();
        }
    }

    fn resume(&self) {
        self.waiting.store(false, Ordering::SeqCst);
        for peer in self.peers() {
            if peer.holding.waits.swap(false, Ordering::SeqCst) {
                // The connection moved no bytes only because it was not read: it does not count as idle.
                peer.holding.moved(peer.opened().elapsed());
                peer.wake();
            }
        }
    }

    /// Closes connections until the sum is within the bound.
    fn enforce(&self) {
        while self.held_soon() > self.bytes_max {
            let peers = self.peers();
            let idle = largest(&peers, ConnectionHandle::is_idle_holder);
            let Some(victim) = idle.or_else(|| largest(&peers, |_| true)) else { return };
            self.close(victim);
        }
    }

    /// Closes idle connections, the largest first, while others wait for memory. An idle connection that waits itself is
    /// closed only when there is no other.
    fn close_idle(&self) {
        let is_pressed = || self.held_soon() > self.mark();
        if !self.waiting.load(Ordering::SeqCst) || !is_pressed() {
            return;
        }
        let enough = self.bytes_max / 4 * 3;
        let peers = self.peers();
        while self.held_soon() > enough
            && let Some(victim) = largest(&peers, |peer| peer.is_idle_holder() && !peer.holding.waits())
        {
            self.close(victim);
        }
        if is_pressed()
            && let Some(victim) = largest(&peers, ConnectionHandle::is_idle_holder)
        {
            self.close(victim);
        }
    }

    fn close(&self, victim: &Arc<ConnectionHandle>) {
        self.closed.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            remote = %victim.remote(),
            held_bytes = victim.held(),
            idle_ms = victim.idle().as_millis(),
            all_held_bytes = self.held(),
            bytes_max = self.bytes_max,
            "a connection was closed for others to go on: all together reached connectionBufferBytes, and it held the most"
        );
        // The memory counts until the connection has ended: until then the thread may read many further connections.
        let connections = self.connections();
        let is_open = connections.contains_key(&victim.id());
        if is_open && !victim.holding.closing.swap(true, Ordering::SeqCst) {
            let bytes = victim.holding.bytes();
            victim.holding.closing_bytes.store(bytes, Ordering::Relaxed);
            self.closing.fetch_add(bytes, Ordering::SeqCst);
        }
        drop(connections);
        victim.abort();
    }

    /// Body of the task that closes idle connections while others wait for memory; never ends.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            self.pressed.notified().await;
            while self.is_pressed() {
                tokio::time::sleep(IDLE / 4).await;
                self.close_idle();
            }
        }
    }

    fn peers(&self) -> Vec<Arc<ConnectionHandle>> {
        self.connections().values().filter_map(Weak::upgrade).collect()
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, Weak<ConnectionHandle>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the connection with the most memory among those with memory that `admits` accepts.
fn largest(
    peers: &[Arc<ConnectionHandle>],
    admits: impl Fn(&ConnectionHandle) -> bool,
) -> Option<&Arc<ConnectionHandle>> {
    let held = |peer: &&Arc<ConnectionHandle>| peer.holding.bytes.load(Ordering::Relaxed);
    let stays = |peer: &ConnectionHandle| !peer.holding.closing.load(Ordering::Relaxed);
    peers.iter().filter(|peer| held(peer) > 0 && stays(peer) && admits(peer)).max_by_key(held)
}

impl ConnectionMemory {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            bytes: AtomicUsize::new(0),
            moved_us: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            closing_bytes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// When the connection last moved a byte, in microseconds after it was opened.
    pub(crate) fn moved_us(&self) -> u64 {
        self.moved_us.load(Ordering::Relaxed)
    }

    /// Records the memory of the connection, and the time of its last moved byte.
    pub(crate) fn note(&self, bytes: usize, since_opened: Duration) {
        if bytes > SMALL_BYTES {
            self.moved(since_opened);
        }
        if bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES != self.bytes() && !self.closing.load(Ordering::SeqCst) {
            self.count(bytes);
            if self.budget.held_soon() > self.budget.bytes_max {
                self.budget.enforce();
            }
        }
    }

    fn moved(&self, since_opened: Duration) {
        let micros = u64::try_from(since_opened.as_micros()).unwrap_or(u64::MAX);
        self.moved_us.fetch_max(micros, Ordering::Relaxed);
    }

    fn count(&self, bytes: usize) {
        let bytes = bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES;
        let before = self.bytes.swap(bytes, Ordering::SeqCst);
        let is_holder_less = before > SMALL_BYTES && bytes <= SMALL_BYTES;
        if is_holder_less {
            self.budget.holders.fetch_sub(1, Ordering::Relaxed);
        } else if before <= SMALL_BYTES && bytes > SMALL_BYTES {
            self.budget.holders.fetch_add(1, Ordering::Relaxed);
        }
        if bytes > before {
            self.budget.take(bytes - before);
        } else {
            self.budget.give_back(before - bytes);
        }
        if is_holder_less && self.budget.waiting.load(Ordering::SeqCst) {
            // The share of the others has grown; those still above it will wait again.
            self.budget.resume();
        }
    }
}

impl ConnectionHandle {
    /// Bytes that the connection holds, memory charges included.
    pub(crate) fn held(&self) -> usize {
        self.holding.bytes() + self.account.bytes()
    }

    /// Time since the connection last moved a byte.
    fn idle(&self) -> Duration {
        self.opened().elapsed().saturating_sub(Duration::from_micros(self.holding.moved_us()))
    }

    /// Whether the connection is idle and holds memory worth freeing, and most of that is not for requests that wait for the
    /// broker.
    fn is_idle_holder(&self) -> bool {
        self.held() > SMALL_BYTES && self.account.bytes() <= self.holding.bytes() && self.idle() >= IDLE
    }

    /// Whether the connection must not be read now, because memory is short and it holds more than its share. When true, the
    /// connection is woken once memory is free.
    pub(crate) fn waits_for_memory(&self) -> bool {
        let budget = self.holding.budget();
        let is_over = || {
            let least = if budget.held() > budget.bytes_max { SMALL_BYTES } else { budget.share() };
            budget.is_pressed() && self.held() > least.min(budget.share())
        };
        if !is_over() {
            return false;
        }
        self.holding.waits.store(true, Ordering::SeqCst);
        budget.waiting.store(true, Ordering::SeqCst);
        // Memory freed before the flags were set woke no task: check again.
        is_over()
    }
}

#[cfg(test)]
mod tests;
