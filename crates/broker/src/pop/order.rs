//! Ordered pops: further messages of a queue are withheld until the returned messages are acknowledged or visible
//! again (`ConsumerOrderInfoManager.OrderInfo`). Pure.

use wire::body::OrderState;
use wire::pop::Deliveries;

/// Result of acknowledging a message that was popped in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acked {
    /// The group has consumed everything before this queue offset, which becomes its committed offset.
    Commit(i64),
    /// The message is not from the last pop.
    Unknown,
    /// The message was returned again since, so the acknowledgement is too late.
    Late,
}

/// The state of the queue after a pop that returns the messages at `offsets`. A message that was returned before without being
/// acknowledged counts one delivery more, unless the client repeats the same attempt.
pub(super) fn popped(
    before: Option<&OrderState>,
    attempt_id: Option<&str>,
    (pop_ms, invisible_ms): (i64, i64),
    offsets: &[i64],
) -> OrderState {
    let first = offsets.first().copied().unwrap_or_default();
    let relative = offsets.iter().skip(1).map(|offset| offset - first);
    let counts = before.map(|before| {
        let known = before.counts.clone().unwrap_or_default();
        if attempt_id.is_some() && before.attempt_id.as_deref() == attempt_id {
            return known;
        }
        let again = offsets.iter().filter(|offset| index_of(before, **offset).is_some());
        again.map(|offset| (*offset, known.get(offset).map_or(1, |count| count + 1))).collect()
    });
    OrderState {
        attempt_id: attempt_id.map(str::to_owned),
        acked: 0,
        invisible_ms: Some(invisible_ms),
        used_ms: pop_ms,
        offsets: offsets.first().copied().into_iter().chain(relative).collect(),
        counts,
        visible_ms: None,
        pop_ms,
    }
}

/// Returns the number of earlier deliveries of each message by queue offset, and the least number. The least number
/// is 0 if a message of the pop is delivered for the first time.
pub(super) fn deliveries(state: &OrderState) -> Deliveries {
    let by_offset = state.counts.clone().unwrap_or_default();
    let least = if by_offset.len() == state.offsets.len() { by_offset.values().copied().min() } else { None };
    Deliveries { by_offset, least: least.unwrap_or(0) }
}

/// Returns the time at which a pop may read the queue again, in milliseconds since the epoch. `None` if it may now
/// (`OrderInfo.needBlock`).
pub(super) fn blocked_until(state: &OrderState, attempt_id: Option<&str>, now_ms: i64) -> Option<i64> {
    if state.attempt_id.is_some() && state.attempt_id.as_deref() == attempt_id {
        return None;
    }
    let open = (0..state.offsets.len()).filter(|index| !is_acked(state, *index));
    open.map(|index| visible_ms(state, index)).max().filter(|visible_ms| *visible_ms > now_ms)
}

/// Acknowledges a message (`ConsumerOrderInfoManager.commitAndNext`).
pub(super) fn ack(state: &mut OrderState, offset: i64, pop_ms: i64) -> Acked {
    if state.offsets.is_empty() {
        return Acked::Unknown;
    }
    if state.pop_ms != pop_ms {
        return Acked::Late;
    }
    let Some(index) = index_of(state, offset).filter(|index| *index < 64) else { return Acked::Unknown };
    state.acked |= 1 << index;
    let open = (0..state.offsets.len()).find(|index| !is_acked(state, *index));
    Acked::Commit(
        open.map_or_else(|| offset_of(state, state.offsets.len() - 1) + 1, |index| offset_of(state, index)),
    )
}

/// Changes when a message is visible again (`ConsumerOrderInfoManager.updateNextVisibleTime`).
pub(super) fn delay(state: &mut OrderState, offset: i64, pop_ms: i64, visible_ms: i64) {
    if state.pop_ms == pop_ms && index_of(state, offset).is_some() {
        state.visible_ms.get_or_insert_default().insert(offset, visible_ms);
    }
}

fn visible_ms(state: &OrderState, index: usize) -> i64 {
    let changed = state.visible_ms.as_ref().and_then(|times| times.get(&offset_of(state, index)).copied());
    changed.unwrap_or_else(|| state.pop_ms.saturating_add(state.invisible_ms.unwrap_or(0)))
}

fn is_acked(state: &OrderState, index: usize) -> bool {
    index < 64 && state.acked & (1 << index) != 0
}

fn offset_of(state: &OrderState, index: usize) -> i64 {
    let first = state.offsets.first().copied().unwrap_or_default();
    if index == 0 { first } else { first.saturating_add(state.offsets[index]) }
}

fn index_of(state: &OrderState, offset: i64) -> Option<usize> {
    (0..state.offsets.len()).find(|index| offset_of(state, *index) == offset)
}

#[cfg(test)]
mod tests;
