//! Transaction checks: asking producers about undecided half messages (`TransactionalMessageServiceImpl.check`).

use std::sync::Arc;

use store::Message;
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::{self, Placement, RecordFields, RecordView};
use wire::units::{LogOffset, QueueOffset};

use super::{Appended, Put, append_with_op, immunity_ms, number, read_half};
use crate::client_link::{ClientLink, Notice};
use crate::engine::{Engine, every};
use crate::names;
use crate::parts::{DeliveryParts, Identity, Runtime, Sessions};
use crate::refusal::PutError;
use crate::state::End;

/// The engine that checks transactions every `transactionCheckInterval`. A slave gets the master's decisions with the log.
pub(crate) fn checks(parts: Arc<DeliveryParts>) -> impl Engine {
    every(
        parts,
        |parts| parts.runtime.config.transaction.check_interval_ms,
        |parts, now_ms| {
            if !parts.replication.role.is_slave() {
                check_all(parts, now_ms);
            }
        },
    )
}

/// Treatment of an undecided half message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The message is too young, and so are all later messages.
    Stop,
    /// The message is not checked this time.
    Pass,
    GiveUp,
    /// A producer gets check number `times`.
    Ask {
        times: i64,
    },
}

/// Checks every undecided half message that is old enough once.
pub(super) fn check_all(parts: &DeliveryParts, now_ms: i64) {
    let Some(queue) = parts.tables.log_queue(names::HALF_TOPIC, 0) else { return };
    parts.delivery.transactions.lock().skip_to(queue.index.min().to_i64());
    let (first, max) = (parts.delivery.transactions.lock().first, queue.index.max().to_i64());
    let mut bytes = Vec::new();
    for offset in first..max {
        if parts.delivery.transactions.lock().undecided(offset) != Some(offset) {
            continue;
        }
        let Some(at) = read_half(&parts.tables, offset, &mut bytes) else { continue };
        let Ok(half) = RecordView::parse(&bytes) else { continue };
        let stored_ms = match half.store_timestamp() {
            ahead_ms if ahead_ms > now_ms => {
                parts.delivery.transactions.lock().set_back.stored_ms(offset, max, now_ms)
            }
            stored_ms => stored_ms,
        };
        let done = match decide(&parts.runtime, &half, stored_ms, now_ms) {
            Step::Stop => return,
            Step::Pass => continue,
            Step::GiveUp => give_up(parts, offset, &half),
            Step::Ask { times } => ask(parts, (offset, at), &half, times),
        };
        if let Err(error) = done {
            tracing::warn!(offset, %at, %error, "an undecided transaction could not be checked; it is tried again");
            if matches!(error, PutError::Append(_)) {
                return;
            }
        }
    }
}

fn decide(runtime: &Runtime, half: &RecordView<'_>, stored_ms: i64, now_ms: i64) -> Step {
    let settings = &runtime.config.transaction;
    // By the store time, which only grows along the queue; the birth time comes from the producer's clock.
    if now_ms - stored_ms <= settings.timeout_ms && immunity_ms(half).is_none() {
        return Step::Stop;
    }
    let age_ms = now_ms - half.born_timestamp();
    if immunity_ms(half).is_some_and(|immunity_ms| age_ms <= immunity_ms) {
        return Step::Pass;
    }
    let times = number(half, key::TRANSACTION_CHECK_TIMES).unwrap_or(0);
    if times >= settings.check_max || age_ms > runtime.config.retention.reserved_ms {
        return Step::GiveUp;
    }
    Step::Ask { times: times + 1 }
}

fn give_up(parts: &DeliveryParts, offset: i64, half: &RecordView<'_>) -> Result<(), PutError> {
    let message = Message { store_host: parts.identity.store_host, ..Message::of(half) };
    let put = Put { topic: names::CHECK_MAX_TIME_TOPIC, queue_id: 0, message };
    let mut state = parts.delivery.transactions.lock();
    if state.undecided(offset) != Some(offset) {
        return Ok(());
    }
    let former = state.former(offset);
    append_with_op(parts, &mut state, offset, Some(put))?;
    state.note_end(former.into_iter().chain([offset]), End::GivenUp(offset));
    drop(state);
    let group = properties::get_str(half.properties(), key::PRODUCER_GROUP);
    tracing::warn!(
        offset,
        group,
        topic = names::CHECK_MAX_TIME_TOPIC,
        "nobody decided a transaction; it is moved"
    );
    Ok(())
}

/// Stores the half message again with its new number of checks, then asks a producer of its group.
fn ask(
    parts: &DeliveryParts,
    (offset, at): (i64, LogOffset),
    half: &RecordView<'_>,
    times: i64,
) -> Result<(), PutError> {
    let stored = half.properties();
    let mut text = Vec::new();
    properties::rewrite(
        &mut text,
        stored,
        &[],
        &[(key::TRANSACTION_CHECK_TIMES, times.to_string().as_bytes())],
    );
    // Java puts a message back while it is immune, and notes its first offset then (`renewImmunityHalfMessageInner`). Here such a
    // message stays at that offset until its producer is asked.
    let has_origin = properties::get(stored, key::TRANSACTION_PREPARED_QUEUE_OFFSET).is_some();
    if immunity_ms(half).is_some() && !has_origin {
        let origin = offset.to_string();
        properties::append(&mut text, key::TRANSACTION_PREPARED_QUEUE_OFFSET, origin.as_bytes());
    }
    let message = Message { properties: &text, store_host: parts.identity.store_host, ..Message::of(half) };
    let put = Put { topic: names::HALF_TOPIC, queue_id: 0, message };
    let mut state = parts.delivery.transactions.lock();
    if state.undecided(offset) != Some(offset) {
        return Ok(());
    }
    let former = state.former(offset);
    let (message, place) = match append_with_op(parts, &mut state, offset, Some(put)) {
        Ok(Appended { placed: Some(placed), .. }) => {
            state.moved(offset, former, placed.queue_offset.to_i64());
            (message, (placed.queue_offset, placed.log_offset))
        }
        Ok(Appended { placed: None, .. }) => return Ok(()),
        // The properties have no room for the number of checks: the message stays where it is, and its producer is asked until
        // the message is too old.
        Err(PutError::Push(_)) => {
            let place = (QueueOffset::from_i64(offset).unwrap_or_default(), at);
            (Message { properties: stored, ..message }, place)
        }
        Err(error) => return Err(error),
    };
    drop(state);
    if let Some(producer) = producer(&parts.identity, &parts.sessions, stored) {
        send_check(&parts.identity, &parts.runtime, &*producer, &message, place);
    }
    Ok(())
}

/// A connected producer of the message's group; successive calls spread over all of them.
fn producer(identity: &Identity, sessions: &Sessions, stored: &[u8]) -> Option<Arc<dyn ClientLink>> {
    let group = properties::get_str(stored, key::PRODUCER_GROUP)?;
    let mut members = sessions.clients.producers(group)?;
    members.retain(|member| !member.link.is_closed());
    let index = identity.spread(i32::try_from(members.len()).ok()?);
    members.get(usize::try_from(index).ok()?).map(|member| member.link.clone())
}

/// Asks a producer for its decision (39 `CHECK_TRANSACTION_STATE`), with the message as its producer sent it.
fn send_check(
    identity: &Identity,
    runtime: &Runtime,
    producer: &dyn ClientLink,
    half: &Message<'_>,
    place: (QueueOffset, LogOffset),
) {
    let stored = half.properties;
    let (queue_offset, log_offset) = place;
    let real = |name| properties::get_str(stored, name).unwrap_or_default();
    let fields = RecordFields {
        topic: real(key::REAL_TOPIC),
        queue_id: real(key::REAL_QUEUE_ID).parse().unwrap_or(0),
        flag: half.flag,
        sys_flag: half.sys_flag,
        born_timestamp: half.born_timestamp,
        born_host: half.born_host,
        store_host: half.store_host,
        reconsume_times: half.reconsume_times,
        prepared_transaction_offset: half.prepared_transaction_offset,
        body: half.body,
        properties: stored,
        crc_property: false,
    };
    let mut body = Vec::new();
    if let Err(error) = record::encode(&fields, &mut body) {
        tracing::error!(%log_offset, %error, "a half message cannot be sent to its producer");
        return;
    }
    let store_timestamp = runtime.now_ms();
    record::place(&mut body, &Placement { queue_offset, log_offset, store_timestamp });
    // A producer that has disconnected is passed over; the next check asks again.
    producer.notify(&Notice::CheckTransaction {
        broker_name: &runtime.config.broker_name,
        unique_key: real(key::UNIQ_KEY),
        queue_offset,
        id: OffsetId { store_host: identity.store_host, log_offset },
        record: &body,
    });
}
