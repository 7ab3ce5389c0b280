//! Pops as frames: requests 200050 to 200055 and 200151. Numbers that RocketMQ keeps as primitives are 0 when they are absent
//! (`RemotingCommand.decodeCommandCustomHeaderDirectly`).

use wire::body::BatchAckBody;
use wire::codes::response;
use wire::frame::Command;
use wire::json;

use super::answer::Answer;
use super::incoming::Request;
use super::sink::{Call, Form};
use crate::caller::Caller;
use crate::pop::revive_records::ReviveRecords;
use crate::pop::{self, InvisibleTimeChange, Polling, PopRequest, PopTarget, PoppedMessage};
use crate::{Result, names};

fn target<'a>(command: &Command<'a>, caller: &'a Caller) -> Result<PopTarget<'a>> {
    let fields = &command.fields;
    Ok(PopTarget {
        caller,
        topic: fields.need("topic")?,
        group: fields.need("consumerGroup")?,
        queue_id: fields.number_or("queueId", 0)?,
    })
}

fn polling<'a>(command: &Command<'a>) -> Result<Polling<'a>> {
    let fields = &command.fields;
    Ok(Polling {
        born_ms: fields.number_or("bornTime", 0)?,
        poll_ms: fields.number_or("pollTime", 0)?,
        ordered: fields.flag_or("order", false),
        attempt_id: fields.text("attemptId"),
    })
}

/// Serves 200050 `POP_MESSAGE`. A one-way pop is not performed, because its messages would reach no client.
pub(super) fn pop(request: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Request { broker, peer, command, caller, .. } = *request;
    if command.is_one_way() {
        return Ok(());
    }
    let fields = &command.fields;
    let pop = PopRequest {
        polling: polling(command)?,
        count_max: fields.number_or("maxMsgNums", 0)?,
        invisible_ms: fields.number_or("invisibleTime", 0)?,
        from_end: fields.number_or::<i32>("initMode", 0)? != 0,
        expression: fields.text("exp").unwrap_or_default(),
        expression_type: fields.text("expType").unwrap_or_default(),
        target: target(command, caller)?,
    };
    let call = Call::of(request, Form::Pop);
    pop::pop(&broker.pops, &pop, &mut call.writer(out), &|| call.later(peer, &broker.figures.rpc_latency))
}

/// Serves 200054 `NOTIFICATION`.
pub(super) fn notify(request: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Request { broker, peer, command, caller, .. } = *request;
    if command.is_one_way() {
        return Ok(());
    }
    let asked = (&target(command, caller)?, &polling(command)?);
    let call = Call::of(request, Form::Plain);
    pop::notify(&broker.pops, asked, &mut call.writer(out), &|| call.later(peer, &broker.figures.rpc_latency))
}

/// The queue of the lite topic that a request names; `None` for a message of another kind.
fn lite_queue(command: &Command<'_>) -> Result<Option<String>> {
    match command.fields.text("liteTopic").filter(|lite_topic| !lite_topic.trim().is_empty()) {
        Some(lite_topic) => Ok(Some(names::lite_queue(command.fields.need("topic")?, lite_topic))),
        None => Ok(None),
    }
}

fn message<'a>(
    command: &Command<'a>,
    lite_queue: Option<&'a str>,
    caller: &'a Caller,
) -> Result<PoppedMessage<'a>> {
    let fields = &command.fields;
    Ok(PoppedMessage {
        caller,
        topic: lite_queue.map_or_else(|| fields.need("topic"), Ok)?,
        queue_id: fields.need_number("queueId")?,
        offset: fields.need_number("offset")?,
        handle: fields.need("extraInfo")?,
        group: fields.text_or_empty("consumerGroup")?,
    })
}

/// Serves 200051 `ACK_MESSAGE`.
pub(super) fn ack(request: &Request<'_>, records: &mut ReviveRecords) -> Result<Answer> {
    let lite_queue = lite_queue(request.command)?;
    pop::ack(
        &request.broker.pops,
        records,
        &message(request.command, lite_queue.as_deref(), request.caller)?,
    )?;
    Ok(Answer::success())
}

/// Serves 200151 `BATCH_ACK_MESSAGE`.
pub(super) fn batch_ack(request: &Request<'_>, records: &mut ReviveRecords) -> Result<Answer> {
    let body = request.command.body;
    let body: BatchAckBody =
        if body.is_empty() { BatchAckBody::default() } else { json::from_request(body)? };
    let refused = pop::batch_ack(&request.broker.pops, records, &body)?;
    Ok(refused.map_or_else(Answer::success, Answer::from))
}

/// Serves 200053 `CHANGE_MESSAGE_INVISIBLETIME`.
pub(super) fn change_invisible_time(request: &Request<'_>) -> Result<Answer> {
    let (command, caller) = (request.command, request.caller);
    let invisible_ms = command.fields.need_number("invisibleTime")?;
    let lite_queue = lite_queue(command)?;
    let message = message(command, lite_queue.as_deref(), caller)?;
    let change =
        InvisibleTimeChange { message, invisible_ms, suspend: command.fields.flag_or("suspend", false) };
    let changed = pop::change_visibility(&request.broker.pops, &change)?;
    let Some(changed) = changed else { return Ok(Answer::success()) };
    Ok(Answer::success()
        .field("popTime", changed.pop_ms)
        .field("invisibleTime", changed.invisible_ms)
        .field("reviveQid", changed.revive_queue)
        .appended(changed.end))
}

/// Serves 200052 `PEEK_MESSAGE`.
pub(super) fn peek(request: &Request<'_>) -> Result<Answer> {
    let (command, caller) = (request.command, request.caller);
    let count_max = command.fields.number_or("maxMsgNums", 0)?;
    let peeked = pop::peek(&request.broker.pops, &target(command, caller)?, count_max)?;
    let (code, status) = match peeked.body.is_empty() {
        true => (response::PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE"),
        false => (response::SUCCESS, "FOUND"),
    };
    let answer = Answer { code, ..Answer::default() }.remark(status).field("restNum", peeked.rest);
    let zeros = ["popTime", "invisibleTime", "reviveQid"];
    Ok(zeros.iter().fold(answer, |answer, name| answer.field(name, 0)).body(peeked.body))
}

/// Serves 200055 `POLLING_INFO`.
pub(super) fn polling_info(request: &Request<'_>) -> Result<Answer> {
    let waiting = pop::polling(
        &request.broker.tables,
        &request.broker.runtime,
        &target(request.command, request.caller)?,
    )?;
    Ok(Answer::success().field("pollingNum", waiting))
}

/// Serves 200056 `POP_ROLLBACK`, which in Java moves checkpoints of pops from RocksDB to the revive topic
/// (`AdminBrokerProcessor.transferPopToFsStore`). It has no effect, because Vostok stores checkpoints in that topic
/// only.
pub(super) fn rollback(_: &Request<'_>) -> Result<Answer> {
    Ok(Answer::success())
}
