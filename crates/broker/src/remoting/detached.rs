//! Requests that are kept longer than their receive buffer: for the disk pool, the metadata writer and the master.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::{ConnectionHandle, MemoryCharge};
use wire::codes::request;
use wire::frame::{Command, OwnedCommand};

use super::Dispatcher;
use super::answer::Answer;
use super::incoming::Request;
use super::port::Port;
use super::request_frame::RequestFrame;
use super::request_table::{Route, Runs};
use super::sink::ANSWER_BYTES;
use crate::broker::Broker;
use crate::caller::Caller;
use crate::change::{ROUNDS_MAX, Then};
use crate::disk_pool::{Kind, Reservation};
use crate::rpc_latency::{Measured, Written};
use crate::slow::WaitCause;
use crate::state::Postponed;
use crate::{Refusal, Result};

/// An answer of more bytes than this waits until its connection has room for it.
const LARGE_BYTES: usize = 1 << 20;

/// A request that is served later.
pub(super) struct Detached {
    command: OwnedCommand,
    route: Option<&'static Route>,
    /// The port the request came to.
    port: Port,
    /// Number of times the request was served again.
    rounds: u32,
    /// Time at which the first read batch of the request began.
    begin: Duration,
    /// Caller of the request. Its signature is not verified again, because the frame here is not the signed frame.
    caller: Caller,
    /// Whether a later request of the client may have been performed before this request ([`Request::is_late`]).
    pub is_late: bool,
}

impl Detached {
    /// Copies a request.
    pub(super) fn new(frame: &RequestFrame<'_>, caller: &Caller, port: &Port) -> Self {
        Self {
            command: OwnedCommand::new(&frame.command),
            route: frame.route,
            port: port.clone(),
            rounds: 0,
            begin: Duration::ZERO,
            caller: caller.clone(),
            is_late: false,
        }
    }

    /// Address of the client that made the request.
    pub(super) fn remote(&self) -> SocketAddr {
        self.caller.remote
    }

    /// The request's name for the log.
    fn name(&self) -> &'static str {
        request::name(self.command.code()).unwrap_or("request")
    }

    pub(super) fn bytes(&self) -> usize {
        self.command.bytes()
    }

    /// The original request, without its remark.
    pub(super) fn command(&self) -> Command<'_> {
        self.command.command()
    }

    /// Whether a broker that is not the master forwards the request.
    pub(super) fn needs_master(&self) -> bool {
        self.route.is_some_and(|route| route.needs_master)
    }

    /// Whether the request may be performed twice. A repeated unlock would free queues that the client has locked
    /// again.
    pub(super) fn may_repeat(&self) -> bool {
        matches!(
            self.command.code(),
            request::QUERY_CONSUMER_OFFSET | request::UPDATE_CONSUMER_OFFSET | request::LOCK_BATCH_MQ
        )
    }

    /// Refusal of this request by a slave. `None` at a master, and if the slave serves the request.
    pub(super) fn refusal_of_slave(&self, broker: &Broker) -> Option<Refusal> {
        let is_slave = broker.replication.role.is_slave();
        self.route.filter(|_| is_slave).and_then(|route| (route.at_slave)(broker))
    }

    fn frame(&self) -> RequestFrame<'_> {
        RequestFrame::of(self.command(), self.route)
    }

    fn is_for_operators(&self) -> bool {
        self.route.is_some_and(|route| route.runs == Runs::Operators)
    }
}

/// Queues a request for the disk pool, because it may wait for the disk or takes long.
///
/// # Errors
/// `SYSTEM_BUSY`: too many requests wait for the disk pool.
pub(super) fn serve_from_disk(
    dispatcher: &Dispatcher,
    frame: &RequestFrame<'_>,
    request: &Request<'_>,
    keeps_body: bool,
) -> Result<()> {
    let body = if keeps_body { frame.command.body } else { &[] };
    let kept = RequestFrame::of(Command { body, ..frame.command.clone() }, frame.route);
    let detached = Detached::new(&kept, request.caller, &dispatcher.port);
    let detached = Detached { begin: request.begin, is_late: request.is_late, ..detached };
    let reservation = reserve(&dispatcher.broker, &detached)?;
    run(&dispatcher.broker, request.peer, detached, reservation);
    Ok(())
}

fn reserve(broker: &Broker, request: &Detached) -> Result<Reservation> {
    let kind = if request.is_for_operators() { Kind::Operators } else { Kind::Requests };
    broker.runtime.disk_pool.reserve(kind, request.bytes())
}

fn run(broker: &Arc<Broker>, peer: &Arc<ConnectionHandle>, request: Detached, reservation: Reservation) {
    let charge = peer.charge(request.bytes() + ANSWER_BYTES);
    let (broker, peer) = (broker.clone(), peer.clone());
    let queued = broker.runtime.clock.steady();
    reservation.run(move || {
        if is_moot(&peer, &request) {
            return;
        }
        let name = request.name();
        broker.figures.note_slow(name, WaitCause::DiskPool, queued);
        let (begin, mut out) = (broker.runtime.clock.steady(), Vec::new());
        serve_again(&broker, &peer, request, &mut out);
        broker.figures.note_slow(name, WaitCause::DiskRead, begin);
        give(&peer, out);
        drop(charge);
    });
}

/// Whether a queued request need not be served, because it changes nothing and its connection has ended. Tools give
/// up on a slow response and ask again.
fn is_moot(peer: &ConnectionHandle, request: &Detached) -> bool {
    peer.is_closed() && request.is_for_operators()
}

/// Passes a response to its connection. A large response waits until the connection has room for it, and until then
/// it is charged to the connection. A closed connection gets no response.
fn give(peer: &Arc<ConnectionHandle>, bytes: Vec<u8>) {
    if bytes.len() <= LARGE_BYTES {
        let _ = peer.push(|out| out.extend_from_slice(&bytes));
        return;
    }
    let charge = peer.charge(bytes.len());
    let _ = peer.enqueue(Box::new(move |_, out| {
        out.extend_from_slice(&bytes);
        drop(charge);
    }));
}

/// Queues a request for the metadata writer until the change in its refusal is on disk.
///
/// # Errors
/// The refusal to answer with now: `refusal` itself if it contains no change, `SYSTEM_BUSY` when too many requests
/// wait.
pub(crate) fn postpone(
    dispatcher: &Dispatcher,
    frame: &RequestFrame<'_>,
    request: &Request<'_>,
    refusal: Refusal,
) -> Result<()> {
    queue(&dispatcher.broker, request.peer, refusal, || Detached {
        begin: request.begin,
        is_late: request.is_late,
        ..Detached::new(frame, request.caller, &dispatcher.port)
    })
}

fn queue(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    mut refusal: Refusal,
    detach: impl FnOnce() -> Detached,
) -> Result<()> {
    let Some(later) = refusal.later.take() else { return Err(refusal) };
    let request = detach();
    let charge = peer.charge(request.bytes() + size_of::<Waiting>());
    let queued = broker.runtime.clock.steady();
    let waiting = Waiting { broker: broker.clone(), peer: peer.clone(), request, charge, queued };
    broker.runtime.metadata_queue.add(*later, Box::new(waiting))
}

/// A request that waits for the metadata writer.
struct Waiting {
    broker: Arc<Broker>,
    peer: Arc<ConnectionHandle>,
    request: Detached,
    charge: MemoryCharge,
    /// Time since which the request waits, on the clock of [`crate::clock::Clock::steady`].
    queued: Duration,
}

impl Postponed for Waiting {
    fn bytes(&self) -> usize {
        self.request.bytes()
    }

    fn go_on(self: Box<Self>, outcome: Result<Then>) {
        let Self { broker, peer, request, charge, queued } = *self;
        broker.figures.note_slow(request.name(), WaitCause::MetadataWriter, queued);
        if outcome == Ok(Then::Again) {
            if request.route.is_none_or(|route| !route.needs_disk_pool(0)) {
                // On the connection's thread, because the reads and writes of the request must not hold up the
                // metadata writer. The client may be gone, but the change stays.
                let _ = peer.enqueue(Box::new(move |peer, out| {
                    serve_again(&broker, peer, request, out);
                    drop(charge);
                }));
                return;
            }
            match reserve(&broker, &request) {
                Ok(reservation) => run(&broker, &peer, request, reservation),
                Err(refusal) => give(&peer, request.answered(&broker, Err(refusal))),
            }
            return;
        }
        give(&peer, request.answered(&broker, outcome.map(drop)));
    }

    #[cfg(test)]
    fn catch_up(&self) -> Box<dyn Fn()> {
        let peer = self.peer.clone();
        Box::new(move || {
            while let Some(work) = peer.take_task() {
                let mut out = Vec::new();
                work(&peer, &mut out);
                peer.push(|bytes| bytes.extend_from_slice(&out)).unwrap();
            }
        })
    }
}

impl Detached {
    /// The answer of a request that is done or refused.
    pub(super) fn answered(&self, broker: &Arc<Broker>, outcome: Result<()>) -> Vec<u8> {
        let mut out = Vec::new();
        let frame = self.frame();
        match outcome {
            Err(refusal) => {
                Dispatcher::new(broker.clone(), self.port.clone()).refuse(&frame, &refusal, &mut out);
            }
            Ok(()) => Answer::success().write(&frame.command, &mut out),
        }
        let measured = Measured { request: frame.command.code, begin: self.begin, is_long_polling: false };
        broker.figures.rpc_latency.count_frame(&measured, &out, Written::Success);
        out
    }
}

/// Serves a detached request again from the start.
pub(super) fn serve_again(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    request: Detached,
    out: &mut Vec<u8>,
) {
    let dispatcher = Dispatcher::new(broker.clone(), request.port.clone());
    let frame = request.frame();
    let (begin, is_late) = (request.begin, request.is_late);
    let admitted = Request { begin, is_late, ..dispatcher.request(peer, &frame, &request.caller) };
    let Err(mut refusal) = dispatcher.serve_alone(&frame, &admitted, out) else { return };
    let rounds = request.rounds + 1;
    if rounds < ROUNDS_MAX {
        let detach = || {
            let detached = Detached::new(&frame, &request.caller, &request.port);
            Detached { rounds, begin, is_late, ..detached }
        };
        match queue(broker, peer, refusal, detach) {
            Ok(()) => return,
            Err(error) => refusal = error,
        }
    }
    dispatcher.refuse_measured(&frame, &admitted, &refusal, out);
}

#[cfg(test)]
mod tests;
