//! Engine for timed work of pop consumption. Suspended requests time out, checkpoints in memory are stored, and
//! queues blocked by ordered pops become free.

use std::sync::Arc;

use super::{order, patience, serve};
use crate::broker::Broker;
use crate::engine::Next;
use crate::state::Cell;

/// Handles everything that is due at `now_ms`.
pub(crate) fn due(broker: &Arc<Broker>, now_ms: i64) -> Next {
    let pops = &broker.delivery.pops;
    for cell in pops.in_flight_queues.due(now_ms) {
        look_at(broker, &cell, now_ms);
    }
    serve::expire(broker, now_ms);
    let next_ms = pops.poll_timeouts.earliest().into_iter().chain(pops.in_flight_queues.earliest()).min();
    next_ms.map_or(Next::Woken, Next::At)
}

fn look_at(broker: &Arc<Broker>, cell: &Arc<Cell>, now_ms: i64) {
    let left = cell.in_flight().leave(patience(broker), now_ms);
    broker.delivery.pops.store_left(broker, cell, left);
    broker.delivery.pops.advance(broker, cell, now_ms);
    let is_free = {
        let mut in_flight = cell.in_flight();
        let until = in_flight.order.as_ref().and_then(|state| order::blocked_until(state, None, now_ms));
        if let Some(until_ms) = until {
            broker.delivery.pops.look_at(cell, &mut in_flight, until_ms);
        }
        in_flight.order.is_some() && until.is_none()
    };
    if is_free && let Some(topic) = broker.tables.topic(&cell.topic) {
        serve::freed(broker, &topic, cell);
    }
}
