//! Responses that wait for the disk and for slaves. Under sync flush no client may learn that a message is stored
//! while a power cut can still undo it. This module also decides the responses after a failed or timed-out wait, for
//! sends and all other requests.

use std::sync::Arc;

use net::ConnectionHandle;
use wire::frame::{Command, FrameWriter, frame_length, written_code};
use wire::units::LogOffset;

use super::answer::Answer;
use super::incoming::Request;
use crate::Refusal;
use crate::broker::Broker;
use crate::durability::Outcome;
use crate::rpc_latency::{Tally, Written};

/// Writes the response to `command`: at once, or under sync flush when the request's records are on disk.
pub(super) fn answer(request: &Request<'_>, answer: &Answer, out: &mut Vec<u8>) {
    let (mut late, mut tally) = (Vec::new(), Tally::default());
    answer.write(request.command, &mut late);
    if !late.is_empty() {
        tally.add(&request.measured());
    }
    answer_when_flushed(request.broker, request.peer, (late, tally), answer.appended, out);
}

/// Sends the encoded responses of counted requests: at once, or under sync flush when the log is on disk up to `end`.
/// All of them have the same code.
pub(super) fn answer_when_flushed(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    (mut answers, tally): (Vec<u8>, Tally),
    end: LogOffset,
    out: &mut Vec<u8>,
) {
    let code = |answers: &[u8]| written_code(answers).unwrap_or_default();
    if answers.is_empty() || broker.replication.durability.is_stored(end) {
        tally.answered(&broker.figures.rpc_latency, code(&answers), Written::Success);
        return out.extend_from_slice(&answers);
    }
    // Charged, so that a connection whose requests come faster than the disk takes them is not read for a while.
    let charge = peer.charge(answers.len());
    let (peer, latency) = (peer.clone(), broker.figures.rpc_latency.clone());
    let give = move |outcome: Outcome| {
        qualify(&mut answers, &outcome);
        // The client may be gone, but the request is performed.
        let written = Written::of(&peer.push(|out| out.extend_from_slice(&answers)));
        tally.answered(&latency, code(&answers), written);
        drop(charge);
    };
    broker.replication.durability.when(end, give);
}

/// Changes encoded responses of successful sends to match the outcome of the wait.
pub(super) fn qualify_sends(answers: &mut Vec<u8>, outcome: &Outcome) {
    if let Some(refusal) = Refusal::not_stored_on_slaves(outcome) {
        return recode(answers, refusal.code, &refusal.remark);
    }
    qualify(answers, outcome);
}

/// Changes encoded successful responses to match the outcome of the wait. For requests other than sends, records that
/// are stored here but not on enough slaves count as done, as in Java.
pub(super) fn qualify(answers: &mut Vec<u8>, outcome: &Outcome) {
    let Some(refusal) = Refusal::not_durable(outcome) else { return };
    if let Outcome::Failed(cause) = outcome {
        tracing::error!(%cause, "what was stored may not be on disk; those who wait for it are told");
    }
    recode(answers, refusal.code, &refusal.remark);
}

/// Changes code and remark of encoded answers. Their header fields stay, because clients read these without a null check.
fn recode(answers: &mut Vec<u8>, code: i32, remark: &str) {
    let mut encoded = std::mem::take(answers);
    let mut rest = encoded.as_mut_slice();
    while let Ok(Some(length)) = frame_length(rest) {
        let (frame, after) = rest.split_at_mut(length);
        if let Ok(command) = Command::decode(frame) {
            let mut writer = FrameWriter::begin(answers, command.response(code).remark(remark));
            for (key, value) in command.fields.iter() {
                writer = writer.bytes(std::str::from_utf8(key).unwrap_or_default(), value);
            }
            writer.finish(b"");
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests;
