//! Remoting protocol of the broker: each listening port has a dispatcher, which chooses the handler of a request by
//! the route table.

mod answer;
mod clients;
mod codec;
mod detached;
mod entry;
mod figures;
mod forward;
mod group;
mod groups;
mod incoming;
mod link;
mod lookup;
mod needs;
mod offsets;
mod pending_answers;
mod plain;
mod pops;
mod port;
mod pulls;
mod relay;
#[cfg(test)]
mod request_page;

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
use wire::codes::{VERSION_5_3_1, request, response};
use wire::frame::{Command, Encoding, Head};

use crate::broker::Broker;
use crate::caller::Caller;
use crate::pull::PullScratch;
use crate::rpc_latency::{Answered, Tally, Written};
use crate::send::StagedSends;
use crate::{Refusal, pop, send};
pub(crate) use answer::Answer;
pub(crate) use forward::{Forwards, run as forward_taken};
pub(crate) use incoming::Request;
pub use link::link;
pub use needs::{Named, needs_of_code, needs_of_request};
pub(crate) use port::Port;
pub use port::served_by_proxy;
use request_table::Serve;
pub use route::{RouteForm, no_route};
use sink::Form;
#[cfg(test)]
pub(crate) use {detached::postpone, sink::Call};

/// Dispatcher of the connections of a listening port.
pub(crate) struct Dispatcher {
    pub broker: Arc<Broker>,
    pub port: Port,
    /// Passes requests that need the master on while this broker is none. `None` where the operator names the master, and no slave
    /// acts for it.
    forwards: Option<Forwards>,
}

/// Reusable state of a read batch.
pub(crate) struct ReadBatch {
    send: sends::Sends,
    pull: PullScratch,
    acks: Acks,
    /// When the read batch was taken up; `None` before its first request.
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
        let Some(caller) = self.admit(peer, &command, out) else { return };
        if broker.replication.role.is_slave() && self.leave_to_master((peer, &caller), &command, out) {
            return;
        }
        let begin = *read_batch.begin.get_or_insert_with(|| broker.figures.rpc_latency.begin());
        let request = Request { begin, ..self.request(peer, &command, &caller) };
        if command.is_one_way() {
            let (written, response) = (Written::OneWay, response::SUCCESS);
            let answered = Answered { request: command.code, response, is_long_polling: false, written };
            broker.figures.rpc_latency.count(answered, begin, 1);
        }
        if let Some(route) = request_table::find(command.code, &self.port)
            .filter(|route| route.needs_disk_pool(command.body.len()))
        {
            if let Err(refusal) = detached::serve_from_disk(self, &request, route.keeps_body) {
                self.refuse_measured(&request, &refusal, out);
            }
            return;
        }
        if let Err(refusal) = self.try_serve(read_batch, &request, out)
            && let Err(refusal) = detached::postpone(self, &request, refusal)
        {
            self.refuse_measured(&request, &refusal, out);
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
        send::wake(&self.broker, &mut read_batch.send);
    }

    fn opened(&self, peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {
        if let Some(bytes) =
            self.broker.sessions.gate.frame_bytes_max(self.broker.runtime.config.max_message_size)
        {
            peer.limit_frames(bytes);
        }
    }

    fn closed(&self, peer: &Arc<ConnectionHandle>) {
        self.broker.delivery.pops.closed(peer.id());
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
        ack: impl FnOnce(&mut pop::revive_records::ReviveRecords) -> Result<Answer, Refusal>,
    ) -> Result<(), Refusal> {
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
        match self.records.append(broker, broker.runtime.now_ms()) {
            Ok(end) => pending_answers::answer_when_flushed(broker, peer, (answers, tally), end, out),
            Err(error) => {
                let refusal = send::not_put(broker, error);
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
        command: &Command<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let refusal = slave::refusal(&self.broker, command.code);
        if command.remark.is_some_and(|remark| remark.starts_with(forward::FORWARDED)) {
            if !forward::needs_master(command.code) {
                return false;
            }
            // Another broker takes this one for the master. It asks again when it knows better.
            let refusal =
                Refusal { remark: forward::NOT_MASTER.into(), ..refusal.unwrap_or_else(slave::rejected) };
            self.refuse(command, &refusal, out);
            return true;
        }
        let forwarded = match &self.forwards {
            Some(forwards)
                if forward::needs_master(command.code) && !self.broker.replication.acting.is_acting() =>
            {
                forwards.forward((peer, caller), command, &self.port, self.broker.runtime.now_ms())
            }
            _ => match refusal {
                Some(refusal) => Err(refusal),
                None => return false,
            },
        };
        if let Err(refusal) = forwarded {
            self.refuse(command, &refusal, out);
        }
        true
    }

    /// A request that was admitted.
    pub(crate) fn request<'a>(
        &'a self,
        peer: &'a Arc<ConnectionHandle>,
        command: &'a Command<'a>,
        caller: &'a Caller,
    ) -> Request<'a> {
        Request { broker: &self.broker, peer, command, caller, port: &self.port, begin: Duration::ZERO }
    }

    fn try_serve(
        &self,
        read_batch: &mut ReadBatch,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let (code, start) = (request.command.code, out.len());
        let route = request_table::find(code, &self.port).ok_or_else(|| not_supported(code))?;
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
    pub(crate) fn serve_alone(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut read_batch = self.read_batch();
        let served = self.try_serve(&mut read_batch, request, out);
        self.end(&mut read_batch, request.peer, out);
        self.answered(&mut read_batch);
        served
    }

    /// Refuses a measured request, like [`Self::refuse`].
    fn refuse_measured(&self, request: &Request<'_>, refusal: &Refusal, out: &mut Vec<u8>) {
        let start = out.len();
        self.refuse(request.command, refusal, out);
        self.broker.figures.rpc_latency.count_frame(&request.measured(), &out[start..], Written::Success);
    }

    /// Answers a request that is refused, in the form that answers to its code have, and counts the refusal.
    pub(crate) fn refuse(&self, command: &Command<'_>, refusal: &Refusal, out: &mut Vec<u8>) {
        if let Some(cause) = refusal.cause {
            self.broker.figures.refused.count(cause, 1);
        }
        if command.is_one_way() {
            return;
        }
        let head = command.reply(refusal.code).remark(&refusal.remark);
        match request_table::find(command.code, &self.port).map(|route| route.serve) {
            Some(Serve::Send(_)) => sends::refuse(&self.broker, head, out),
            Some(Serve::Pop(_)) => sink::refuse(Form::Pop, head, out),
            _ => head.write(out, b""),
        }
    }
}

/// Code 3 with Java's text; for a request that Vostok knows but does not serve, with the request's name.
fn not_supported(code: i32) -> Refusal {
    let remark = match request::name(code) {
        Some(name) => format!(" request type {code} not supported: {name} is not served here"),
        None => format!(" request type {code} not supported"),
    };
    Refusal::new(response::REQUEST_CODE_NOT_SUPPORTED, remark)
}

#[cfg(test)]
mod tests;
