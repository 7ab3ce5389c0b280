//! Engine for timed work of pop consumption. Suspended requests time out, checkpoints in memory are stored, and
//! queues blocked by ordered pops become free.

use std::sync::Arc;

use super::{order, patience, serve};
use crate::engine::Next;
use crate::parts::PopParts;
use crate::state::Cell;

/// Handles everything that is due at `now_ms`.
pub(crate) fn due(parts: &Arc<PopParts>, now_ms: i64) -> Next {
    let pops = &parts.delivery.pops;
    for cell in pops.in_flight_queues.due(now_ms) {
        look_at(parts, &cell, now_ms);
    }
    serve::expire(parts, now_ms);
    let next_ms = pops.poll_timeouts.earliest().into_iter().chain(pops.in_flight_queues.earliest()).min();
    next_ms.map_or(Next::Woken, Next::At)
}

fn look_at(parts: &Arc<PopParts>, cell: &Arc<Cell>, now_ms: i64) {
    let left = cell.in_flight().leave(patience(&parts.replication, &parts.runtime), now_ms);
    parts.delivery.pops.store_left(parts, cell, left);
    parts.delivery.pops.advance(parts, cell, now_ms);
    let is_free = {
        let mut in_flight = cell.in_flight();
        let until = in_flight.order.as_ref().and_then(|state| order::blocked_until(state, None, now_ms));
        if let Some(until_ms) = until {
            parts.delivery.pops.look_at(cell, &mut in_flight, until_ms);
        }
        in_flight.order.is_some() && until.is_none()
    };
    if is_free && let Some(topic) = parts.tables.topic(&cell.topic) {
        serve::freed(parts, &topic, cell);
    }
}
