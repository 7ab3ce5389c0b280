//! Loading the state of transactions when the broker starts.

use store::{CqUnit, ReadError, Unit};
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};
use wire::units::{LogOffset, QueueOffset};

use super::{GROUP, append_with_op, read_half};
use crate::names;
use crate::parts::{DeliveryParts, Tables};
use crate::refusal::PutError;
use crate::state::HalfMessages;
use crate::topics::Queue;

/// Most op records read in a step.
const STEP: usize = 1024;

/// Reads the op records behind the committed position, and appends the op record that may be missing after a crash.
///
/// # Errors
/// When the disk fails, an index is still being rebuilt, or the missing op record cannot be appended.
pub(crate) fn load(parts: &DeliveryParts) -> Result<(), PutError> {
    let position = |topic: &str| {
        let noted = parts.tables.offsets.committed(GROUP, topic, 0).unwrap_or(0);
        let bounds = parts
            .tables
            .log_queue(topic, 0)
            .map(|queue| (queue.index.min().to_i64(), queue.index.max().to_i64()));
        let (min, max) = bounds.unwrap_or_default();
        noted.clamp(min, max)
    };
    let mut state = HalfMessages::new(position(names::HALF_TOPIC), position(names::OP_HALF_TOPIC));
    read_ops(&parts.tables, &mut state, position(names::OP_HALF_TOPIC))?;
    if parts.tables.store.recovered().after_crash {
        complete(parts, &mut state)?;
    }
    *parts.delivery.transactions.lock() = state;
    Ok(())
}

fn read_ops(tables: &Tables, state: &mut HalfMessages, from: i64) -> Result<(), PutError> {
    let Some(queue) = tables.log_queue(names::OP_HALF_TOPIC, 0) else { return Ok(()) };
    let mut op = from;
    let mut waited = None;
    while op < queue.index.max().to_i64() {
        match read_some(&tables.store, state, &queue, &mut op) {
            Ok(true) => {}
            Ok(false) => break,
            // Part of the queue's index was lost and is being rebuilt from the log.
            Err(ReadError::Rebuilding { .. }) if waited != Some(op) => {
                waited = Some(op);
                tables.store.wait_healed();
            }
            Err(error @ (ReadError::Io(_) | ReadError::Rebuilding { .. })) => return Err(error.into()),
            Err(error) => {
                tracing::error!(op, %error, "a decision about transactions cannot be read; they are asked about again");
                op += 1;
            }
        }
    }
    Ok(())
}

/// Applies the op records from offset `op` on to the state, and moves `op` behind them. False when there are none.
fn read_some(
    store: &store::Store,
    state: &mut HalfMessages,
    queue: &Queue,
    op: &mut i64,
) -> Result<bool, ReadError> {
    let mut units: Vec<Unit> = Vec::new();
    let mut bytes = Vec::new();
    let place = |op: i64| QueueOffset::from_i64(op).unwrap_or_default();
    queue.index.units_blocking(place(*op), STEP, &mut units)?;
    for unit in &units {
        bytes.clear();
        let message = CqUnit { offset: place(*op), unit: *unit };
        store.read_messages_blocking(&queue.index, &[message], &mut bytes)?;
        for half in RecordView::parse(&bytes).iter().flat_map(|record| halves(record.body())) {
            state.decided(half, *op);
        }
        *op += 1;
    }
    Ok(!units.is_empty())
}

/// The half offsets an op record lists: numbers with a comma behind each, which Java omits behind a single number.
fn halves(body: &[u8]) -> impl Iterator<Item = i64> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    text.split(',').filter_map(|number| number.trim().parse().ok())
}

/// Appends the op record that should follow the last record of the log, if a crash prevented that.
fn complete(parts: &DeliveryParts, state: &mut HalfMessages) -> Result<(), PutError> {
    let Some(at) = parts.tables.store.last_record() else { return Ok(()) };
    let mut bytes = Vec::new();
    match parts.tables.store.record_at(at, &mut bytes) {
        Err(error @ ReadError::Io(_)) => return Err(error.into()),
        // A damaged last record gives no information.
        Err(_) => return Ok(()),
        Ok(()) => {}
    }
    let Ok(last) = RecordView::parse(&bytes) else { return Ok(()) };
    let half = if last.sys_flag() & sys_flag::TRANSACTION_MASK == sys_flag::TRANSACTION_COMMIT {
        committed_half(&parts.tables.store, &last)
    } else {
        moved_half(&parts.tables, state, &last)
    };
    if let Some(half) = half.and_then(|half| state.undecided(half)) {
        tracing::info!(half, %at, "completed a transaction step that a crash had parted");
        append_with_op(parts, state, half, None)?;
    }
    Ok(())
}

/// The half offset of the message that a committed message was made from. Later copies, of delayed or retried messages, have
/// 0 for its log offset, where another half message may be; so the identity of both messages is compared.
fn committed_half(store: &store::Store, last: &RecordView<'_>) -> Option<i64> {
    let mut bytes = Vec::new();
    let at = LogOffset::from_i64(last.prepared_transaction_offset())?;
    store.record_at(at, &mut bytes).ok()?;
    let half = RecordView::parse(&bytes).ok()?;
    let is_its_own = half.topic() == names::HALF_TOPIC.as_bytes() && identity(&half) == identity(last);
    is_its_own.then(|| half.queue_offset().to_i64())
}

/// Returns the identity that a half message shares with its committed message: the unique key and the real topic.
fn identity<'a>(record: &RecordView<'a>) -> (Option<&'a [u8]>, &'a [u8]) {
    let text = record.properties();
    (properties::get(text, key::UNIQ_KEY), properties::get(text, key::REAL_TOPIC).unwrap_or(record.topic()))
}

/// Returns the former half offset of a message that was stored again or given up: the half offset of the other
/// undecided message with its unique key.
fn moved_half(tables: &Tables, state: &HalfMessages, last: &RecordView<'_>) -> Option<i64> {
    let is_again = last.topic() == names::HALF_TOPIC.as_bytes()
        && properties::get(last.properties(), key::TRANSACTION_CHECK_TIMES).is_some();
    if !is_again && last.topic() != names::CHECK_MAX_TIME_TOPIC.as_bytes() {
        return None;
    }
    let unique = properties::get(last.properties(), key::UNIQ_KEY)?;
    let end = if is_again {
        last.queue_offset().to_i64()
    } else {
        tables.log_queue(names::HALF_TOPIC, 0)?.index.max().to_i64()
    };
    let mut bytes = Vec::new();
    (state.first..end).find(|offset| {
        state.undecided(*offset) == Some(*offset)
            && read_half(tables, *offset, &mut bytes).is_some()
            && RecordView::parse(&bytes)
                .is_ok_and(|half| properties::get(half.properties(), key::UNIQ_KEY) == Some(unique))
    })
}
