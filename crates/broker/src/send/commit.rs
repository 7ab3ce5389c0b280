//! Appending staged sends, and answering them once they are stored.

use std::sync::Arc;
use std::time::Duration;

use store::FlushOutcome;

use super::staged::{Pending, StagedSends, StoredSend};
use super::{not_stored, recall};
use crate::durability::Outcome;
use crate::parts::{Delivery, Figures, SendParts};
use crate::refusal_counts::Cause;
use crate::slow::WaitCause;
use crate::state::Name;
use crate::topics::Queue;
use crate::{Refusal, names};

/// Sends the responses of [`SendAnswers::stored_later`] when the outcome of the wait is known.
pub(crate) type AnswerStored = Box<dyn FnOnce(&Outcome) + Send>;

/// Front's receiver of the responses to its sends.
pub(crate) trait SendAnswers {
    /// Front's data for answering a send.
    type Ticket;

    /// The send is stored, and its answer may leave.
    fn stored(&mut self, ticket: &Self::Ticket, stored: &StoredSend<'_, Self::Ticket>);

    /// Takes a send that is appended. Its response may leave only when the function from [`SendAnswers::finish`] is
    /// called.
    fn stored_later(&mut self, ticket: &Self::Ticket, stored: &StoredSend<'_, Self::Ticket>);

    /// The send is not stored.
    fn refused(&mut self, ticket: &Self::Ticket, refusal: &Refusal);

    /// Returns the function to call when the log is flushed and on slaves, for all responses of
    /// [`SendAnswers::stored_later`]. `staged_bytes` is the size of the records. `None` if no response waits.
    fn finish(&mut self, staged_bytes: usize) -> Option<AnswerStored>;
}

/// Appends all staged records with one write, and answers their requests.
pub(crate) fn commit<A: SendAnswers>(
    parts: &SendParts,
    staged: &mut StagedSends<A::Ticket>,
    answers: &mut A,
) {
    if staged.pending.is_empty() {
        return;
    }
    // The order of recalls is locked while a cancelling message is appended: see `crate::timer`.
    let mut order = staged.cancels.then(|| parts.delivery.timer.recall_order());
    let delivered_ms = order.as_ref().map_or(i64::MIN, |order| order.delivered_ms);
    recall::push(&parts.identity, staged, delivered_ms);
    if staged.batch.is_empty() {
        // All requests are recalls that came too late.
        drop(order);
        for pending in &staged.pending {
            answer(staged, pending, delivered_ms, answers);
        }
        return staged.clear();
    }
    let begin = parts.runtime.clock.steady();
    let done = parts.tables.store.append(&mut staged.batch, parts.runtime.now_ms());
    if let Some(order) = &mut order {
        order.cancels += 1;
        if done.is_ok() {
            order.recalled_end = order.recalled_end.max(recall::end(staged));
        }
    }
    drop(order);
    if done.is_ok() {
        for pending in staged.pending.iter().filter(|pending| !pending.records.is_empty()) {
            let sizes =
                pending.records.clone().map(|index| u64::from(staged.batch.append_result(index).size));
            if pending.queue.sent.count(pending.kind, sizes, pending.messages) {
                parts.figures.stats.note_sent_to(pending.queue.index.topic());
            }
        }
        // Java counts by the producer's group, which is the same for all clients that send their dead letters themselves
        // (`SendMessageProcessor.handleRetryAndDLQ`).
        for retry in &staged.dead_letters {
            parts.figures.stats.count(Name::DeadLetters, retry, &retry[names::RETRY_PREFIX.len()..]);
        }
    }
    match done {
        Ok(()) if parts.replication.durability.waits() => {
            defer(parts, staged, Appended { delivered_ms, begin }, answers)
        }
        Ok(()) => {
            took(
                &parts.figures,
                staged.pending.iter().map(|pending| &pending.queue),
                begin,
                WaitCause::Append,
            );
            for pending in &staged.pending {
                answer(staged, pending, delivered_ms, answers);
            }
            let further = parts.tables.further_queues(&staged.batch);
            let sent = staged.pending.iter().map(|pending| &pending.queue);
            for queue in sent.chain(&further).filter(|queue| queue.is_waited_on()) {
                if staged.grown.last().is_none_or(|last| !Arc::ptr_eq(last, queue)) {
                    staged.grown.push(queue.clone());
                }
            }
            if parts.replication.durability.limit().is_some() {
                // Consumers may not see the messages yet: the flush mode changed meanwhile, or they are not confirmed.
                let sent = staged.pending.iter().map(|pending| pending.queue.clone());
                parts.delivery.wake_when_visible(staged.batch.end(), sent.chain(further).collect());
            }
        }
        Err(error) => {
            parts.figures.refused.count(Cause::from(&error), staged.pending.len());
            let (refusal, recall_failed) =
                (not_stored(&parts.tables.store, &error), crate::timer::recall::failed());
            for pending in &staged.pending {
                let refusal = if pending.recalls_at.is_some() { &recall_failed } else { &refusal };
                answers.refused(&pending.ticket, refusal);
            }
        }
    }
    staged.clear();
}

/// Wakes the suspended pulls and pops of the queues that grew since the last call.
pub(crate) fn wake<T>(delivery: &Delivery, staged: &mut StagedSends<T>) {
    for queue in staged.grown.drain(..) {
        delivery.wake(&queue);
    }
}

/// Records the duration since `begin` of requests to these queues that were stored together, and the cause of their
/// last wait.
fn took<'a>(
    figures: &Figures,
    queues: impl ExactSizeIterator<Item = &'a Arc<Queue>>,
    begin: Duration,
    cause: WaitCause,
) {
    let time = figures.note_slow("send", cause, begin);
    figures.stats.puts.took(time, queues.len());
    if time >= Duration::from_millis(1) {
        queues.for_each(|queue| queue.sent.took(time));
    }
}

/// Passes the front the response of a send whose records are stored, or of a recall, which may have come too late.
fn answer<A: SendAnswers>(
    staged: &StagedSends<A::Ticket>,
    pending: &Pending<A::Ticket>,
    delivered_ms: i64,
    answers: &mut A,
) {
    match recall::refusal(pending, delivered_ms) {
        Some(refusal) => answers.refused(&pending.ticket, &refusal),
        None => answers.stored(&pending.ticket, &StoredSend { staged, pending }),
    }
}

/// Result of appending a batch.
struct Appended {
    /// Timed messages due until this time, in milliseconds since the epoch, may have been delivered before the append.
    delivered_ms: i64,
    /// When the append began, as [`crate::clock::Clock::steady`] counts.
    begin: Duration,
}

/// Answers a batch once it is stored; requests that do not wait for that are answered at once.
fn defer<A: SendAnswers>(
    parts: &SendParts,
    staged: &mut StagedSends<A::Ticket>,
    appended: Appended,
    answers: &mut A,
) {
    let Appended { delivered_ms, begin } = appended;
    let mut queues: Vec<Arc<Queue>> = parts.tables.further_queues(&staged.batch);
    for pending in &staged.pending {
        if !queues.iter().any(|queue| Arc::ptr_eq(queue, &pending.queue)) {
            queues.push(pending.queue.clone());
        }
        // A recall that came too late stores nothing, and is answered at once.
        if pending.waits && !pending.records.is_empty() {
            answers.stored_later(&pending.ticket, &StoredSend { staged, pending });
        } else {
            answer(staged, pending, delivered_ms, answers);
        }
    }
    let end = staged.batch.end();
    let (figures, delivery) = (parts.figures.clone(), parts.delivery.clone());
    let sent: Vec<_> = staged.pending.iter().map(|pending| pending.queue.clone()).collect();
    let answer = answers.finish(staged.batch.size());
    if parts.replication.durability.waits_for_slaves() {
        // Consumers do not wait for slaves.
        staged.grown.extend(queues);
        if parts.replication.durability.limit().is_some() {
            delivery.wake_when_visible(end, std::mem::take(&mut staged.grown));
        }
        let durability = parts.replication.durability.clone();
        return durability.when(end, move |outcome| {
            took(&figures, sent.iter(), begin, WaitCause::Slaves);
            answer.into_iter().for_each(|answer| answer(&outcome));
        });
    }
    let Some(answer) = answer else {
        took(&figures, sent.iter(), begin, WaitCause::Append);
        return delivery.wake_when_visible(end, queues);
    };
    let durability = parts.replication.durability.clone();
    let flushed = move |outcome: FlushOutcome| {
        took(&figures, sent.iter(), begin, WaitCause::Flush);
        durability.after_flush(end, false, outcome.clone().into(), move |outcome| answer(&outcome));
        delivery.wake_flushed(end, queues, &outcome);
    };
    parts.tables.store.when_flushed(end, Box::new(flushed));
}
