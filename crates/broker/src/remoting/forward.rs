//! Forwarding of requests that need the master and reach another broker of its set. RocketMQ's clients fetch a new
//! route only every 30 seconds, so after an election they keep sending to the former master. That broker forwards
//! sends, decisions about transactions, locks and committed offsets to the present master, and returns the responses.
//! It does so in controller mode, and in a group with acting masters while no slave acts.
//!
//! A request is sent to a master once. Without a response, the client learns that the outcome is unknown. Commits,
//! queries of offsets and requests for locks may be sent twice: they are held again when the connection ends, or when
//! another broker becomes master or acts before the response. A later commit may overtake a commit that is held again.
//! So the broker that performs the commit then only raises the offset: this broker, or the next master, which learns it
//! from the end of the remark ([`AGAIN`]). While no master is known, a request is
//! held for at most [`HELD_MS`], and its bytes are charged to its connection. A slave that begins to act meanwhile
//! serves the held requests itself. Pops and acknowledgements are never forwarded, but are held as well while the
//! master is gone and no slave acts yet.
//!
//! The request keeps its signature, which the master verifies as well. Its remark begins with [`FORWARDED`], so that
//! two brokers that each take the other for the master do not forward it in a loop. The remark also names the address
//! of the client ([`source`]).

pub(super) mod source;

use std::sync::Arc;
use std::time::Duration;

use net::{CallError, ConnectionHandle, MemoryCharge, Response, Workers};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use wire::codes::response;
use wire::frame::{Command, FLAG_ONE_WAY, FrameWriter, Head};

use super::codec::is_plain_key;
use super::detached::{self, Detached};
use super::port::Port;
use super::request_frame::RequestFrame;
use super::sink::ANSWER_BYTES;
use crate::broker::Broker;
use crate::caller::Caller;
use crate::clock::{pause, within};
use crate::config::Config;
use crate::engine::PUNCTUAL;
use crate::register::Silent;
use crate::replicas::MasterAddresses;
use crate::role::BrokerRole;
use crate::{Refusal, Result};

/// The beginning of the remark of a request that a broker of the set has forwarded.
pub(super) const FORWARDED: &str = "forwarded to the master";

/// The end of the remark of a request that was forwarded to another broker before.
pub(super) const AGAIN: &str = " again";

/// The remark of the refusal of a forwarded request by a broker that is not the master.
pub(super) const NOT_MASTER: &str = "this broker is not the master";

/// Time in milliseconds for which a request is held while no master takes it.
const HELD_MS: i64 = 2_000;

/// Shortest wait of a master for its disk and its slaves that [`answer_timeout`] allows for.
const STORE_TIMEOUT_MIN: Duration = Duration::from_secs(5);

/// Time that [`answer_timeout`] adds to a master's wait for its disk and its slaves.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// Wait for the response of a master after another broker took its place.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Timeout of connecting to a master.
const DIAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause before a broker that cannot be reached, or is not master yet, is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Queue to the task that forwards requests.
#[derive(Clone)]
pub(crate) struct Forwards(UnboundedSender<HeldRequest>);

/// Receiver of the requests that were passed to [`Forwards`], for [`run`].
pub(crate) struct Taken {
    requests: UnboundedReceiver<HeldRequest>,
    again: Forwards,
    answer_timeout: Duration,
}

/// A request that waits for a master.
struct HeldRequest {
    peer: Arc<ConnectionHandle>,
    request: Detached,
    charge: MemoryCharge,
    /// Time until which the request is held, in milliseconds since 1970.
    until_ms: i64,
}

/// Connection to the broker at `address`, which was the last known master.
#[derive(Clone)]
struct MasterLink {
    address: String,
    peer: Arc<ConnectionHandle>,
}

impl Forwards {
    /// Makes the two ends of the queue of requests. A master responds within `answer_timeout`. The queue's length is
    /// bounded by the memory that connections may be charged.
    pub(crate) fn new(answer_timeout: Duration) -> (Self, Taken) {
        let (sender, requests) = mpsc::unbounded_channel();
        (Self(sender.clone()), Taken { requests, again: Self(sender), answer_timeout })
    }

    /// Forwards a request that came at `now_ms` (milliseconds since 1970).
    ///
    /// # Errors
    /// `SERVICE_NOT_AVAILABLE` when the broker stops.
    pub(super) fn forward(
        &self,
        (peer, caller): (&Arc<ConnectionHandle>, &Caller),
        frame: &RequestFrame<'_>,
        port: &Port,
        now_ms: i64,
    ) -> Result<()> {
        let request = Detached::new(frame, caller, port);
        let charge = peer.charge(request.bytes() + ANSWER_BYTES);
        let until_ms = now_ms + HELD_MS;
        let held = HeldRequest { peer: peer.clone(), request, charge, until_ms };
        self.0.send(held).map_err(|_| {
            Refusal::new(
                response::SERVICE_NOT_AVAILABLE,
                "the broker stops, and forwards nothing to the master",
            )
        })
    }
}

/// Returns the timeout of a master's response. A master whose disk stalls or whose slaves are slow responds after
/// `syncFlushTimeout` and then `slaveTimeout`. The brokers of a set should have the same settings.
pub(crate) fn answer_timeout(config: &Config) -> Duration {
    let stored = config.store.flush_timeout.saturating_add(config.replication.slave_timeout());
    stored.max(STORE_TIMEOUT_MIN).saturating_add(ANSWER_MARGIN)
}

/// Forwards requests, in the order in which they came, until the broker stops.
pub(crate) async fn run(broker: Arc<Broker>, tasks: Workers, mut taken: Taken) {
    let mut link = None;
    while let Some(held) = taken.requests.recv().await {
        if held.peer.is_closed() {
            continue;
        }
        match find_master(&broker, &tasks, &mut link, held.until_ms).await {
            Master::Other(master) if held.request.needs_master() => {
                let (broker, again, timeout) = (broker.clone(), taken.again.clone(), taken.answer_timeout);
                if tasks.spawn(PUNCTUAL, move || send(broker, master, held, (again, timeout))).is_err() {
                    // The broker stops.
                    return;
                }
            }
            Master::Own => {
                let serving = broker.clone();
                let HeldRequest { peer, request, charge, .. } = held;
                // The client may be gone, and then no caller waits for the response.
                let _ = peer.enqueue(Box::new(move |peer, out| {
                    match request.refusal_of_slave(&serving) {
                        Some(refusal) => out.extend(request.answered(&serving, Err(refusal))),
                        None => detached::serve_again(&serving, peer, request, out),
                    }
                    drop(charge);
                }));
            }
            Master::Other(_) | Master::None => {
                let remark = "this broker is not the master, and no master of its set is known; try again";
                let own = held.request.refusal_of_slave(&broker).filter(|_| !held.request.needs_master());
                let refusal = own.unwrap_or_else(|| Refusal::new(response::SYSTEM_BUSY, remark));
                refuse(&broker, held, refusal);
            }
        }
    }
}

/// Broker that takes requests now.
enum Master {
    /// Another broker, over this connection.
    Other(MasterLink),
    /// This broker itself: the master, or a slave that acts for the master.
    Own,
    /// No broker until the deadline.
    None,
}

/// Changes of the broker that takes requests of this set.
struct Changes {
    masters: watch::Receiver<MasterAddresses>,
    roles: watch::Receiver<u64>,
    acting: watch::Receiver<bool>,
}

impl Changes {
    fn of(broker: &Broker) -> Self {
        Self {
            masters: broker.replication.replicas.master(),
            roles: broker.replication.role.changes(),
            acting: broker.replication.acting.changes(),
        }
    }

    /// Whether this broker is the master, or acts for it.
    fn is_own(&mut self, broker: &Broker) -> bool {
        self.roles.mark_unchanged();
        *self.acting.borrow_and_update() || broker.replication.role.current() == BrokerRole::Master
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.masters.changed() => {}
            _ = self.roles.changed() => {}
            _ = self.acting.changed() => {}
        }
    }

    /// Returns when this broker, or another broker than `master`, takes requests.
    async fn until_replaced(&mut self, broker: &Broker, master: &str) {
        while !self.is_own(broker)
            && self.masters.borrow_and_update().broker.as_ref().is_none_or(|at| at == master)
        {
            self.next().await;
        }
    }
}

/// Waits until a master is known and connected, at most until the given time. `link` is the connection to the last
/// master and its address.
async fn find_master(
    broker: &Broker,
    tasks: &Workers,
    link: &mut Option<MasterLink>,
    until_ms: i64,
) -> Master {
    let mut changes = Changes::of(broker);
    loop {
        if changes.is_own(broker) {
            return Master::Own;
        }
        let address = changes.masters.borrow_and_update().broker.clone();
        // A fenced broker does not know yet whether the master that it remembers is still one.
        let address = address.filter(|at| {
            *at != broker.identity.address() && broker.replication.role.current() == BrokerRole::Slave
        });
        if link.take_if(|link| Some(&link.address) != address.as_ref() || link.peer.is_closed()).is_none()
            && let Some(link) = link
        {
            return Master::Other(link.clone());
        }
        let left_ms = until_ms - broker.runtime.now_ms();
        let Ok(left) = u64::try_from(left_ms).map(Duration::from_millis) else { return Master::None };
        match address {
            Some(at) => match within(DIAL_TIMEOUT.min(left), tasks.dial_name(&at, Arc::new(Silent))).await {
                Some(Ok(peer)) => *link = Some(MasterLink { address: at, peer }),
                _ => pause(RETRY_PAUSE).await,
            },
            None => {
                let _ = within(left, changes.next()).await;
            }
        }
        if broker.runtime.now_ms() >= until_ms {
            return Master::None;
        }
    }
}

/// Sends a request to the master and passes its response to the client. Tasks of a worker begin in the order of their
/// spawns, so requests reach the master in their order.
async fn send(
    broker: Arc<Broker>,
    MasterLink { address, peer: master }: MasterLink,
    mut held: HeldRequest,
    (again, timeout): (Forwards, Duration),
) {
    let mut call = None;
    let remote = held.request.remote();
    {
        let command = &held.request.command();
        let mut remark = source::remark(&broker, command, remote);
        if held.request.is_late {
            remark.push_str(AGAIN);
        }
        let head = Head::request(command.encoding, command.code, 0);
        let head = Head { language: command.language.unwrap_or(head.language), ..head }.remark(&remark);
        if command.is_one_way() {
            // No caller waits for a response, so a lost connection to the master is not reported.
            let head = Head { opaque: master.next_opaque(), flag: FLAG_ONE_WAY, ..head };
            let _ = master.push(|out| copy(command, FrameWriter::begin(out, head)));
        } else {
            call = Some(master.call_as(head, timeout, &mut |frame| copy(command, frame)));
        }
    }
    let Some(call) = call else { return };
    let mut call = std::pin::pin!(call);
    let mut changes = Changes::of(&broker);
    let mut answered = tokio::select! {
        answered = &mut call => Some(answered),
        () = changes.until_replaced(&broker, &address) => None,
    };
    let may_repeat = held.request.may_repeat();
    if answered.is_none() && may_repeat {
        held.until_ms = broker.runtime.now_ms() + HELD_MS;
    } else if answered.is_none() {
        answered = within(LAST_ANSWER_TIMEOUT, call).await;
    }
    let cause = match answered {
        Some(Ok(reply)) if reply.remark.as_deref() != Some(NOT_MASTER) => return answer(held, &reply),
        // The request was not performed. An election is under way, and a broker has not heard of it.
        Some(Ok(_)) => None,
        Some(Err(CallError::Closed(_))) | None if may_repeat => None,
        Some(Err(error)) => {
            if master.silence() >= timeout {
                // A master that is gone without a word. Later requests do not wait for its response.
                master.abort();
            }
            Some(error.to_string())
        }
        None => Some("another broker took its place".to_owned()),
    };
    let Some(cause) = cause else {
        held.request.is_late = true;
        pause(RETRY_PAUSE).await;
        if let Err(unsent) = again.0.send(held) {
            refuse(&broker, unsent.0, Refusal::new(response::SYSTEM_BUSY, NOT_MASTER));
        }
        return;
    };
    let remark = format!(
        "the outcome is unknown: this broker is not the master and has forwarded the request ({cause}); what was stored \
         then exists twice if it is sent again"
    );
    refuse(&broker, held, Refusal::error(remark));
}

/// Writes the fields and the body of a request. Leaves out fields that no request of RocketMQ has ([`is_plain_key`]).
pub(super) fn copy(command: &Command<'_>, frame: FrameWriter<'_>) {
    let fields = command.fields.iter();
    let fields = fields.filter_map(|(key, value)| Some((std::str::from_utf8(key).ok()?, value)));
    let fields = fields.filter(|(key, _)| is_plain_key(key));
    fields.fold(frame, |frame, (key, value)| frame.bytes(key, value)).finish(command.body);
}

/// Passes the master's answer to the client.
fn answer(held: HeldRequest, reply: &Response) {
    let mut frame = Vec::new();
    let head = Head { remark: reply.remark.as_deref(), ..held.request.command().response(reply.code) };
    let writer = FrameWriter::begin(&mut frame, head);
    let fields = reply.fields.iter();
    fields.fold(writer, |writer, (key, value)| writer.text(key, value)).finish(&reply.body);
    give(&held, &frame);
}

fn refuse(broker: &Arc<Broker>, held: HeldRequest, refusal: Refusal) {
    let frame = held.request.answered(broker, Err(refusal));
    give(&held, &frame);
}

/// Passes a response to the connection of the client, unless it has ended.
fn give(held: &HeldRequest, frame: &[u8]) {
    let _ = held.peer.push(|out| out.extend_from_slice(frame));
}

#[cfg(test)]
mod tests;
