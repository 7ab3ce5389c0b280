//! Remoting protocol of the broker: each listening port has a dispatcher, which chooses the handler of a request by
//! the route table.

mod answer;
mod broker_set;
mod clients;
mod codec;
mod detached;
mod entry;
mod figures;
mod forward;
mod groups;
mod incoming;
mod link;
mod lite;
mod lookup;
mod needs;
mod offsets;
mod pending_answers;
mod plain;
mod pops;
mod port;
mod pulls;
mod relay;
mod request_frame;
#[cfg(test)]
mod request_page_tests;
mod request_table;
mod route;
mod sends;
mod settings;
mod sink;
mod slave;
mod topics;
mod transactions;
mod users;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::{ConnectionHandle, Service};
use wire::codes::{VERSION_5_3_1, response};
use wire::frame::{Command, Encoding, Head};

use crate::broker::Broker;
use crate::caller::Caller;
use crate::pull::PullScratch;
use crate::rpc_latency::{Answered, Tally, Written};
use crate::send::StagedSends;
use crate::{Refusal, Result, pop, send};
pub(crate) use answer::Answer;
use answer::not_supported;
pub(crate) use forward::{Forwards, answer_timeout, run as forward_taken};
pub(crate) use incoming::Request;
pub use link::link;
pub use needs::Named;
pub(crate) use port::Port;
pub(crate) use request_frame::RequestFrame;
use request_table::Serve;
pub use request_table::{needs_of_code, needs_of_request, served_by_proxy};
pub use route::{RouteForm, no_route};
use sink::Form;
#[cfg(test)]
pub(crate) use {detached::postpone, sink::Call};

/// Dispatcher of the connections of a listening port.
pub(crate) struct Dispatcher {
    pub broker: Arc<Broker>,
    pub port: Port,
    /// Queue of the requests that need the master, for the task that forwards them. `None` for the
    /// port of a proxy, and in a group without controllers and acting masters.
    forwards: Option<Forwards>,
}

/// Reusable state of a read batch.
pub(crate) struct ReadBatch {
    send: sends::Sends,
    pull: PullScratch,
    acks: Acks,
    /// Time at which the read batch began. `None` before its first request.
    begin: Option<Duration>,
}

/// Acknowledgements of pops, which are stored together at the end of the read batch.
struct Acks {
    records: pop::revive_records::ReviveRecords,
    /// The encoded answers, which are sent once the acknowledgements are stored.
    answers: Vec<u8>,
    /// Encoding and id of the requests that wait for these answers.
    waiting: Vec<(Encoding, i32)>,
    tally: Tally,
}

impl Service for Dispatcher {
    type ReadBatch = ReadBatch;

    fn read_batch(&self) -> ReadBatch {
        let store = &self.broker.store;
        ReadBatch {
            send: StagedSends::new(store.batch()),
            pull: PullScratch::default(),
            acks: Acks {
                records: pop::revive_records::ReviveRecords::new(store),
                answers: Vec::new(),
                waiting: Vec::new(),
                tally: Tally::default(),
            },
            begin: None,
        }
    }

    fn frame(
        &self,
        read_batch: &mut ReadBatch,
        peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        if command.is_response() {
            // The answer to a broker-to-client call that has timed out.
            return;
        }
        let broker = &self.broker;
        if broker.runtime.draining.load(Ordering::Relaxed) && command.version > VERSION_5_3_1 {
            return Answer::from(Refusal::new(response::GO_AWAY, "please go away")).write(&command, out);
        }
        let frame = RequestFrame::new(command);
        let command = &frame.command;
        let Some(caller) = self.admit(peer, &frame, out) else { return };
        if broker.replication.role.is_slave() && self.leave_to_master((peer, &caller), &frame, out) {
            return;
        }
        let begin = *read_batch.begin.get_or_insert_with(|| broker.figures.rpc_latency.begin());
        let request = Request { begin, ..self.request(peer, &frame, &caller) };
        if command.is_one_way() {
            let (written, response) = (Written::OneWay, response::SUCCESS);
            let answered = Answered { request: command.code, response, is_long_polling: false, written };
            broker.figures.rpc_latency.count(answered, begin, 1);
        }
        let route = frame.route_on(&self.port);
        let served = match route.filter(|route| route.needs_disk_pool(command.body.len())) {
            Some(route) => detached::serve_from_disk(self, &frame, &request, route.keeps_body),
            None => self
                .try_serve(read_batch, &frame, &request, out)
                .or_else(|refusal| detached::postpone(self, &frame, &request, refusal)),
        };
        if let Err(refusal) = served {
            self.refuse_measured(&frame, &request, &refusal, out);
        }
    }

    fn end(&self, read_batch: &mut ReadBatch, peer: &Arc<ConnectionHandle>, out: &mut Vec<u8>) {
        sends::commit(&self.broker, &mut read_batch.send, peer, out);
        if read_batch.acks.records.len() > 0 {
            read_batch.acks.commit(&self.broker, peer, out);
        }
        read_batch.begin = None;
    }

    fn answered(&self, read_batch: &mut ReadBatch) {
        send::wake(&self.broker.delivery, &mut read_batch.send);
    }

    fn opened(&self, peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {
        if let Some(bytes) =
            self.broker.sessions.gate.frame_bytes_max(self.broker.runtime.config.max_message_size)
        {
            peer.limit_frames(bytes);
        }
    }

    fn closed(&self, peer: &Arc<ConnectionHandle>) {
        self.broker.delivery.closed(peer.id());
        self.broker
            .tables
            .announce(&self.broker.runtime.config, &self.broker.sessions.clients.closed(peer.id()));
    }
}

impl Acks {
    /// Serves an acknowledgement; its answer waits until the records that `ack` adds are stored.
    fn serve(
        &mut self,
        request: &Request<'_>,
        out: &mut Vec<u8>,
        ack: impl FnOnce(&mut pop::revive_records::ReviveRecords) -> Result<Answer>,
    ) -> Result<()> {
        let command = request.command;
        let before = self.records.len();
        let answer = ack(&mut self.records)?;
        if self.records.len() == before {
            pending_answers::answer(request, &answer, out);
        } else if !command.is_one_way() {
            answer.write(command, &mut self.answers);
            self.waiting.push((command.encoding, command.opaque));
            self.tally.add(&request.measured());
        }
        Ok(())
    }

    /// Stores the acknowledgements of the read batch and answers them.
    fn commit(&mut self, broker: &Broker, peer: &Arc<ConnectionHandle>, out: &mut Vec<u8>) {
        let (answers, tally) = (std::mem::take(&mut self.answers), std::mem::take(&mut self.tally));
        match self.records.append(&broker.store, &broker.delivery, broker.runtime.now_ms()) {
            Ok(end) => pending_answers::answer_when_flushed(broker, peer, (answers, tally), end, out),
            Err(error) => {
                let refusal = send::not_put(&broker.store, error);
                tally.answered(&broker.figures.rpc_latency, refusal.code, Written::Success);
                if let Some(cause) = refusal.cause {
                    broker.figures.refused.count(cause, self.waiting.len());
                }
                for (encoding, opaque) in &self.waiting {
                    let head = Head::response(*encoding, refusal.code, *opaque);
                    head.remark(&refusal.remark).write(out, b"");
                }
            }
        }
        self.waiting.clear();
    }
}

impl Dispatcher {
    /// Makes a dispatcher that forwards no requests.
    pub(crate) fn new(broker: Arc<Broker>, port: Port) -> Self {
        Self { broker, port, forwards: None }
    }

    /// Makes a dispatcher that forwards requests to the master if a slave does not serve them.
    pub(crate) fn forwarding(broker: Arc<Broker>, port: Port, forwards: Option<Forwards>) -> Self {
        Self { broker, port, forwards }
    }

    /// Forwards a request that this broker does not serve because it is not the master, or refuses the request.
    /// Returns false if this broker must serve it.
    fn leave_to_master(
        &self,
        (peer, caller): (&Arc<ConnectionHandle>, &Caller),
        frame: &RequestFrame<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let refusal = frame.route.and_then(|route| (route.at_slave)(&self.broker));
        let needs_master = frame.route.is_some_and(|route| route.needs_master);
        if frame.command.remark.is_some_and(|remark| remark.starts_with(forward::FORWARDED)) {
            if !needs_master {
                return false;
            }
            // Another broker takes this one for the master. It asks again when it knows better.
            let refusal =
                Refusal { remark: forward::NOT_MASTER.into(), ..refusal.unwrap_or_else(slave::rejected) };
            self.refuse(frame, &refusal, out);
            return true;
        }
        let waits_for_acting =
            || frame.route.is_some_and(request_table::Route::pops) && slave::may_act_soon(&self.broker);
        let is_held =
            if needs_master { !self.broker.replication.acting.is_acting() } else { waits_for_acting() };
        let forwarded = match &self.forwards {
            Some(forwards) if is_held => {
                forwards.forward((peer, caller), frame, &self.port, self.broker.runtime.now_ms())
            }
            _ => match refusal {
                Some(refusal) => Err(refusal),
                None => return false,
            },
        };
        if let Err(refusal) = forwarded {
            self.refuse(frame, &refusal, out);
        }
        true
    }

    /// A request that was admitted.
    pub(crate) fn request<'a>(
        &'a self,
        peer: &'a Arc<ConnectionHandle>,
        frame: &'a RequestFrame<'a>,
        caller: &'a Caller,
    ) -> Request<'a> {
        let (command, heartbeat) = (&frame.command, &frame.heartbeat);
        let begin = Duration::ZERO;
        let (broker, port) = (&self.broker, &self.port);
        let is_late = command
            .remark
            .is_some_and(|remark| remark.starts_with(forward::FORWARDED) && remark.ends_with(forward::AGAIN));
        Request { broker, peer, command, heartbeat, caller, port, begin, is_late }
    }

    fn try_serve(
        &self,
        read_batch: &mut ReadBatch,
        frame: &RequestFrame<'_>,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        let route = frame.route_on(&self.port).ok_or_else(|| not_supported(frame.command.code))?;
        match route.serve {
            Serve::Send(serve) => return serve(request, &mut read_batch.send, out),
            Serve::Ack(serve) => {
                return read_batch.acks.serve(request, out, |records| serve(request, records));
            }
            Serve::Answer(serve) => {
                pending_answers::answer(request, &serve(request)?, out);
                return Ok(());
            }
            Serve::Pull(serve) => serve(request, &mut read_batch.pull, out)?,
            Serve::Pop(serve) | Serve::Own(serve) => serve(request, out)?,
        }
        self.broker.figures.rpc_latency.count_frame(&request.measured(), &out[start..], Written::Success);
        Ok(())
    }

    /// Serves a request in a read batch of its own.
    pub(crate) fn serve_alone(
        &self,
        frame: &RequestFrame<'_>,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut read_batch = self.read_batch();
        let served = self.try_serve(&mut read_batch, frame, request, out);
        self.end(&mut read_batch, request.peer, out);
        self.answered(&mut read_batch);
        served
    }

    /// Refuses a measured request, like [`Self::refuse`].
    fn refuse_measured(
        &self,
        frame: &RequestFrame<'_>,
        request: &Request<'_>,
        refusal: &Refusal,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        self.refuse(frame, refusal, out);
        self.broker.figures.rpc_latency.count_frame(&request.measured(), &out[start..], Written::Success);
    }

    /// Answers a request that is refused, in the form that answers to its code have, and counts the refusal.
    pub(crate) fn refuse(&self, frame: &RequestFrame<'_>, refusal: &Refusal, out: &mut Vec<u8>) {
        let command = &frame.command;
        if let Some(cause) = refusal.cause {
            self.broker.figures.refused.count(cause, 1);
        }
        if command.is_one_way() {
            return;
        }
        let head = command.response(refusal.code).remark(&refusal.remark);
        match frame.route_on(&self.port).map(|route| route.serve) {
            Some(Serve::Send(_)) => sends::refuse(&self.broker, head, out),
            Some(Serve::Pop(_)) => sink::refuse(Form::Pop, head, out),
            _ => head.write(out, b""),
        }
    }
}

#[cfg(test)]
mod tests;
