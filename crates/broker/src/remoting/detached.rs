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
use super::request_table::{self, Runs};
use super::sink::ANSWER_BYTES;
use crate::Refusal;
use crate::broker::Broker;
use crate::caller::Caller;
use crate::change::{ROUNDS_MAX, Then};
use crate::disk_pool::{Kind, Reservation};
use crate::rpc_latency::{Measured, Written};
use crate::slow::WaitCause;
use crate::state::Postponed;

/// An answer of more bytes than this waits until its connection has room for it.
const LARGE_BYTES: usize = 1 << 20;

/// A request that is served later.
#[derive(Debug)]
pub(super) struct Detached {
    command: OwnedCommand,
    /// The port the request came to.
    port: Port,
    /// Number of times the request was served again.
    rounds: u32,
    /// When its first read batch was taken up.
    begin: Duration,
    /// Caller of the request. Its signature is not verified again, because the frame here is not the signed frame.
    caller: Caller,
}

impl Detached {
    /// Copies a request.
    ///
    /// # Errors
    /// `SYSTEM_ERROR`: the copy has no place for the header.
    pub(super) fn new(
        command: &Command<'_>,
        caller: &Caller,
        port: &Port,
        rounds: u32,
    ) -> Result<Self, Refusal> {
        let command = OwnedCommand::new(command).map_err(|error| Refusal::error(error.to_string()))?;
        Ok(Self { command, port: port.clone(), rounds, begin: Duration::ZERO, caller: caller.clone() })
    }

    fn code(&self) -> i32 {
        self.command.code()
    }

    /// Address of the client that made the request.
    pub(super) fn remote(&self) -> SocketAddr {
        self.caller.remote
    }

    /// The request's name for the log.
    fn name(&self) -> &'static str {
        request::name(self.code()).unwrap_or("request")
    }

    pub(super) fn bytes(&self) -> usize {
        self.command.bytes()
    }

    /// Calls `serve` with the original request and its port.
    pub(super) fn with(&mut self, serve: impl FnOnce(&Command<'_>, Port)) {
        let (code, port) = (self.code(), self.port.clone());
        match self.command.command() {
            Ok(command) => serve(&command, port),
            // The invariant of the copy does not hold. The client gets no answer, and every other request is served.
            Err(error) => tracing::error!(%error, code, "a request that was kept cannot be read again"),
        }
    }
}

/// Queues a request for the disk pool, because it may wait for the disk or takes long.
///
/// # Errors
/// `SYSTEM_BUSY`: too many requests wait for the disk pool. `SYSTEM_ERROR`: the header is too long to be kept.
pub(super) fn serve_from_disk(
    dispatcher: &Dispatcher,
    request: &Request<'_>,
    keeps_body: bool,
) -> Result<(), Refusal> {
    let Request { peer, command, caller, .. } = *request;
    let body = if keeps_body { command.body } else { &[] };
    let begin = request.begin;
    let request = Detached::new(&Command { body, ..command.clone() }, caller, &dispatcher.port, 0)?;
    let request = Detached { begin, ..request };
    let reservation = reserve(&dispatcher.broker, &request)?;
    run(&dispatcher.broker, peer, request, reservation);
    Ok(())
}

fn reserve(broker: &Broker, request: &Detached) -> Result<Reservation, Refusal> {
    let kind = if is_for_operators(request.code()) { Kind::Operators } else { Kind::Requests };
    broker.runtime.disk_pool.reserve(kind, request.bytes())
}

fn is_for_operators(code: i32) -> bool {
    request_table::find(code, &Port::Own).is_some_and(|route| route.runs == Runs::Operators)
}

fn run(broker: &Arc<Broker>, peer: &Arc<ConnectionHandle>, request: Detached, reservation: Reservation) {
    let charge = peer.charge(request.bytes() + ANSWER_BYTES);
    let (broker, peer) = (broker.clone(), peer.clone());
    let queued = broker.runtime.clock.steady();
    reservation.run(move || {
        if is_moot(&peer, request.code()) {
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
fn is_moot(peer: &ConnectionHandle, code: i32) -> bool {
    peer.is_closed() && is_for_operators(code)
}

/// Passes a response to its connection. A large response waits until the connection has room for it, and until then
/// it is charged to the connection. A closed connection gets no response.
fn give(peer: &Arc<ConnectionHandle>, bytes: Vec<u8>) {
    if bytes.len() <= LARGE_BYTES {
        let _ = peer.push(|out| out.extend_from_slice(&bytes));
        return;
    }
    let charge = peer.charge(bytes.len());
    let _ = peer.put_back(Box::new(move |_, out| {
        out.extend_from_slice(&bytes);
        drop(charge);
    }));
}

/// Queues a request for the metadata writer until the change in its refusal is on disk.
///
/// # Errors
/// The refusal to answer with now: `refusal` itself if it contains no change, `SYSTEM_BUSY` when too many requests
/// wait, `SYSTEM_ERROR` when the header is too long to be kept.
pub(crate) fn postpone(
    dispatcher: &Dispatcher,
    request: &Request<'_>,
    refusal: Refusal,
) -> Result<(), Refusal> {
    let Request { peer, command, caller, .. } = *request;
    let begin = request.begin;
    queue(&dispatcher.broker, peer, refusal, || {
        Ok(Detached { begin, ..Detached::new(command, caller, &dispatcher.port, 0)? })
    })
}

fn queue(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    mut refusal: Refusal,
    detach: impl FnOnce() -> Result<Detached, Refusal>,
) -> Result<(), Refusal> {
    let Some(later) = refusal.later.take() else { return Err(refusal) };
    let request = detach()?;
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

    fn go_on(self: Box<Self>, outcome: Result<Then, Refusal>) {
        let Self { broker, peer, mut request, charge, queued } = *self;
        broker.figures.note_slow(request.name(), WaitCause::MetadataWriter, queued);
        if outcome == Ok(Then::Again) {
            if request_table::find(request.code(), &Port::Own).is_none_or(|route| !route.needs_disk_pool(0)) {
                // On the connection's thread, because the reads and writes of the request must not hold up the
                // metadata writer. The client may be gone, but the change stays.
                let _ = peer.put_back(Box::new(move |peer, out| {
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
            while let Some(work) = peer.take_work() {
                let mut out = Vec::new();
                work(&peer, &mut out);
                peer.push(|bytes| bytes.extend_from_slice(&out)).unwrap();
            }
        })
    }
}

impl Detached {
    /// The answer of a request that is done or refused.
    pub(super) fn answered(&mut self, broker: &Arc<Broker>, outcome: Result<(), Refusal>) -> Vec<u8> {
        let mut out = Vec::new();
        self.with(|command, port| match outcome {
            Err(refusal) => Dispatcher::new(broker.clone(), port).refuse(command, &refusal, &mut out),
            Ok(()) => Answer::success().write(command, &mut out),
        });
        let measured = Measured { request: self.code(), begin: self.begin, is_long_polling: false };
        broker.figures.rpc_latency.count_frame(&measured, &out, Written::Success);
        out
    }
}

/// Serves a detached request again from the start.
pub(super) fn serve_again(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    mut request: Detached,
    out: &mut Vec<u8>,
) {
    let (rounds, caller, begin) = (request.rounds + 1, request.caller.clone(), request.begin);
    request.with(|command, port| {
        let dispatcher = Dispatcher::new(broker.clone(), port);
        let admitted = Request { begin, ..dispatcher.request(peer, command, &caller) };
        let Err(mut refusal) = dispatcher.serve_alone(&admitted, out) else { return };
        if rounds < ROUNDS_MAX {
            let detach =
                || Ok(Detached { begin, ..Detached::new(command, &caller, &dispatcher.port, rounds)? });
            match queue(broker, peer, refusal, detach) {
                Ok(()) => return,
                Err(error) => refusal = error,
            }
        }
        dispatcher.refuse_measured(&admitted, &refusal, out);
    });
}

#[cfg(test)]
mod tests;
