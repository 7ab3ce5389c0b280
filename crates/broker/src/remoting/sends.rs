//! Sends and recalls as frames: requests 10, 310, 320 and 370, and their answers, which are written without intermediate values.

use std::sync::Arc;

use net::ConnectionHandle;
use wire::codes::response;
use wire::frame::{FrameWriter, Head, written_code};
use wire::header::SendHeader;
use wire::id::OffsetId;

use super::incoming::Request;
use super::pending_answers;
use super::sink::{Call, Form};
use crate::broker::Broker;
use crate::reply::{self, Replied};
use crate::rpc_latency::{Tally, Written};
use crate::send::{self, AnswerStored, RecallRequest, SendAnswers, SendRequest, StagedSends, StoredSend};
use crate::{Refusal, Result};

/// Number of digits of a message id with an IPv6 address.
const ID_BYTES: usize = 56;

/// The staged sends of a read batch.
pub(crate) type Sends = StagedSends<Call>;

/// Serves 10 `SEND_MESSAGE`, 310 `SEND_MESSAGE_V2` and 320 `SEND_BATCH_MESSAGE`.
pub(super) fn send(request: &Request<'_>, staged: &mut Sends, out: &mut Vec<u8>) -> Result<()> {
    let Request { broker, peer, command, caller, .. } = request;
    let header = SendHeader::decode(command.code, &command.fields)?;
    let sent = SendRequest { caller, header, body: command.body, is_reply: false };
    let mut answers = Answers::new(broker, peer, out);
    let outcome = send::stage(&broker.sends, staged, &sent, Call::of(request, Form::Plain), &mut answers);
    answers.count();
    outcome
}

/// Serves 370 `RECALL_MESSAGE`.
pub(super) fn recall(request: &Request<'_>, staged: &mut Sends, _: &mut Vec<u8>) -> Result<()> {
    let fields = &request.command.fields;
    let recall = RecallRequest {
        topic: fields.need("topic")?,
        handle: fields.need("recallHandle")?,
        producer_group: fields.text("producerGroup").unwrap_or_default(),
    };
    send::stage_recall(&request.broker.sends, staged, request.caller, &recall, Call::of(request, Form::Plain))
}

/// Serves 324 `SEND_REPLY_MESSAGE` and 325 `SEND_REPLY_MESSAGE_V2`.
pub(super) fn reply(request: &Request<'_>, _: &mut Sends, _: &mut Vec<u8>) -> Result<()> {
    let Request { broker, peer, command, caller, .. } = *request;
    let header = SendHeader::decode(command.code, &command.fields)?;
    let sent = SendRequest { caller, header, body: command.body, is_reply: true };
    let (ticket, peer, answering) = (Call::of(request, Form::Plain), peer.clone(), broker.clone());
    let replied = move |replied: Replied| {
        // The answer is built before it is pushed, because storing the reply may have answered consumers on this connection. The
        // push fails for a replier that has disconnected, which does not matter.
        let mut frame = Vec::new();
        write_replied(&answering, &ticket, &replied, &mut frame);
        let written = Written::of(&peer.push(|out| out.extend_from_slice(&frame)));
        answering.figures.rpc_latency.count_frame(&ticket.measured, &frame, written);
    };
    reply::reply(&broker.sends, &sent, Box::new(replied))
}

/// Writes the answer of a reply.
fn write_replied(broker: &Broker, ticket: &Call, replied: &Replied, out: &mut Vec<u8>) {
    if ticket.is_one_way {
        return;
    }
    let mut head = ticket.head(response::SUCCESS);
    if let Some(failed) = &replied.failed {
        head = ticket.head(response::SYSTEM_ERROR).remark(failed);
    }
    let frame = FrameWriter::begin(out, head);
    let frame = match replied.stored {
        Some(placed) => {
            let id = OffsetId { store_host: broker.identity.store_host, log_offset: placed.log_offset };
            frame
                .text("msgId", &id.to_string())
                .number("queueId", replied.queue_id)
                .number("queueOffset", placed.queue_offset.get())
        }
        // Clients require the fields of a successful send.
        None if replied.failed.is_none() => {
            frame.text("msgId", "0").number("queueId", replied.queue_id).number("queueOffset", 0)
        }
        None => frame,
    };
    with_region_and_trace(broker, frame).finish(b"");
}

/// Stores and answers the sends of a read batch.
pub(super) fn commit(
    broker: &Arc<Broker>,
    staged: &mut Sends,
    peer: &Arc<ConnectionHandle>,
    out: &mut Vec<u8>,
) {
    let mut answers = Answers::new(broker, peer, out);
    send::commit(&broker.sends, staged, &mut answers);
    answers.count();
}

/// Writes the answer of a send that is refused.
pub(super) fn refuse(broker: &Broker, head: Head<'_>, out: &mut Vec<u8>) {
    with_region_and_trace(broker, FrameWriter::begin(out, head)).finish(b"");
}

/// Writes the fields `MSG_REGION` and `TRACE_ON`, which every answer of a send contains. Clients
/// read the fields without a null check.
fn with_region_and_trace<'b>(broker: &Broker, writer: FrameWriter<'b>) -> FrameWriter<'b> {
    writer
        .text("MSG_REGION", &broker.runtime.config.region_id)
        .flag("TRACE_ON", broker.runtime.config.trace_on)
}

/// Writes the answers of sends into frames.
struct Answers<'a> {
    broker: &'a Broker,
    peer: &'a Arc<ConnectionHandle>,
    /// Output for responses that may leave now.
    out: &'a mut Vec<u8>,
    /// The frames of answers that wait for the flush.
    late: Vec<u8>,
    /// Sends that are answered with success now, and sends that wait for the flush.
    tallies: [Tally; 2],
    /// Buffer for message ids.
    ids: Vec<u8>,
}

impl<'a> Answers<'a> {
    fn new(broker: &'a Broker, peer: &'a Arc<ConnectionHandle>, out: &'a mut Vec<u8>) -> Self {
        Self { broker, peer, out, late: Vec::new(), tallies: Default::default(), ids: Vec::new() }
    }

    /// Counts the sends that were answered with success.
    fn count(self) {
        let [now, _] = self.tallies;
        now.answered(&self.broker.figures.rpc_latency, response::SUCCESS, Written::Success);
    }

    fn add(&mut self, tally: usize, ticket: &Call) {
        if !ticket.is_one_way {
            self.tallies[tally].add(&ticket.measured);
        }
    }
}

/// Writes the response of a send whose records are stored. `ids` is a buffer for reuse.
fn write(
    broker: &Broker,
    ticket: &Call,
    stored: &StoredSend<'_, Call>,
    ids: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    if ticket.is_one_way {
        return;
    }
    let writer = FrameWriter::begin(out, ticket.head(response::SUCCESS));
    let key = stored.unique_key();
    if stored.is_recall() {
        return writer.bytes("msgId", key).text("MSG_REGION", &broker.runtime.config.region_id).finish(b"");
    }
    ids.clear();
    ids.reserve(ID_BYTES);
    for log_offset in stored.log_offsets() {
        if !ids.is_empty() {
            ids.push(b',');
        }
        OffsetId { store_host: broker.identity.store_host, log_offset }.append_to(ids);
    }
    let writer = writer
        .bytes("msgId", ids)
        .number("queueId", stored.queue_id())
        .number("queueOffset", stored.queue_offset().get());
    let writer = if key.is_empty() { writer } else { writer.bytes("transactionId", key) };
    // Without this field the client builds the batch's id from those of its messages.
    let writer = if stored.is_inner_batch() { writer.bytes("batchUniqId", key) } else { writer };
    let handle = stored.recall_handle();
    let writer = if handle.is_empty() { writer } else { writer.bytes("recallHandle", handle) };
    with_region_and_trace(broker, writer).finish(b"");
}

impl SendAnswers for Answers<'_> {
    type Ticket = Call;

    fn stored(&mut self, ticket: &Call, stored: &StoredSend<'_, Call>) {
        write(self.broker, ticket, stored, &mut self.ids, self.out);
        self.add(0, ticket);
    }

    fn stored_later(&mut self, ticket: &Call, stored: &StoredSend<'_, Call>) {
        write(self.broker, ticket, stored, &mut self.ids, &mut self.late);
        self.add(1, ticket);
    }

    fn refused(&mut self, ticket: &Call, refusal: &Refusal) {
        if !ticket.is_one_way {
            let start = self.out.len();
            refuse(self.broker, ticket.head(refusal.code).remark(&refusal.remark), self.out);
            let latency = &self.broker.figures.rpc_latency;
            latency.count_frame(&ticket.measured, &self.out[start..], Written::Success);
        }
    }

    fn finish(&mut self, staged_bytes: usize) -> Option<AnswerStored> {
        if self.late.is_empty() {
            return None;
        }
        let (mut late, tally) = (std::mem::take(&mut self.late), std::mem::take(&mut self.tallies[1]));
        let latency = self.broker.figures.rpc_latency.clone();
        // The memory charge makes a connection wait whose sends come faster than the disk takes them.
        let charge = self.peer.charge(staged_bytes + late.len());
        let peer = self.peer.clone();
        Some(Box::new(move |outcome| {
            pending_answers::qualify_sends(&mut late, outcome);
            // The push fails for a disconnected producer, but its messages are stored.
            let written = Written::of(&peer.push(|out| out.extend_from_slice(&late)));
            tally.answered(&latency, written_code(&late).unwrap_or_default(), written);
            drop(charge);
        }))
    }
}
