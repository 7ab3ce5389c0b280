//! Answers that wait for the disk: under sync flush no client is told that something is stored while a power cut could still undo
//! it. The answers for a flush that failed or took too long are decided here, for sends and all other requests.

use std::sync::Arc;

use net::ConnectionHandle;
use store::FlushOutcome;
use wire::codes::response;
use wire::frame::{Command, FrameWriter, frame_length};
use wire::units::LogOffset;

use crate::Answer;
use crate::broker::Broker;

/// What a client can do about a request that may or may not be stored; part of the remark.
const ADVICE: &str = "the outcome is unknown: the request may be stored and may be lost. Send it again, here when the broker was restarted or to another broker; what was stored then exists twice";

/// Writes the answer to `command`: at once, or under sync flush when what the request appended is on disk.
pub(crate) fn answer(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    answer: &Answer,
    out: &mut Vec<u8>,
) {
    let mut late = Vec::new();
    answer.write(command, &mut late);
    answer_when_flushed(broker, peer, late, answer.appended, out);
}

/// Hands out encoded answers: at once, or under sync flush when the log is on disk up to `end`.
pub(crate) fn answer_when_flushed(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    mut answers: Vec<u8>,
    end: LogOffset,
    out: &mut Vec<u8>,
) {
    if answers.is_empty() || !broker.flushes_before_answer() || end <= broker.store.flushed() {
        return out.extend_from_slice(&answers);
    }
    // Charged, so that a connection whose requests come faster than the disk takes them is not read for a while.
    let charge = peer.charge(answers.len());
    let peer = peer.clone();
    let give = move |outcome: FlushOutcome| {
        qualify(&mut answers, &outcome);
        // The client may be gone; the request is performed all the same.
        let _ = peer.push(|out| out.extend_from_slice(&answers));
        drop(charge);
    };
    broker.store.when_flushed(end, Box::new(give));
}

/// Turns encoded answers that say "stored" into answers that fit the outcome of the flush.
pub(crate) fn qualify(answers: &mut Vec<u8>, outcome: &FlushOutcome) {
    match outcome {
        FlushOutcome::Flushed => {}
        FlushOutcome::TimedOut => {
            let remark = format!("the disk did not confirm the flush in time (syncFlushTimeout): {ADVICE}");
            recode(answers, response::FLUSH_DISK_TIMEOUT, &remark);
        }
        FlushOutcome::Failed(cause) => {
            tracing::error!(%cause, "what was stored may not be on disk; those who wait for it are told");
            let remark = format!(
                "service not available now. The store is fenced until it is reopened ({cause}), {ADVICE}"
            );
            recode(answers, response::SERVICE_NOT_AVAILABLE, &remark);
        }
    }
}

/// Changes code and remark of encoded answers. Their header fields stay, because clients read these without a null check.
fn recode(answers: &mut Vec<u8>, code: i32, remark: &str) {
    let mut encoded = std::mem::take(answers);
    let mut rest = encoded.as_mut_slice();
    while let Ok(Some(length)) = frame_length(rest) {
        let (frame, after) = rest.split_at_mut(length);
        if let Ok(command) = Command::decode(frame) {
            let mut writer = FrameWriter::begin(answers, command.reply(code).remark(remark));
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
