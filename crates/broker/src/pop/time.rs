//! The task for what is due in pop consumption: suspended requests time out, checkpoints in memory are stored, and queues
//! blocked by ordered pops become free.

use std::sync::Arc;
use std::time::Duration;

use super::in_flight_queues::Cell;
use super::{order, patience, serve};
use crate::broker::Broker;

/// Longest sleep in milliseconds, so that a jump of the clock is noticed.
const SLEEP_MAX_MS: i64 = 1000;

/// Runs the task until the broker's tasks are stopped.
pub(crate) async fn run(broker: Arc<Broker>) {
    loop {
        let pops = &broker.pops;
        let next_ms = pops.poll_timeouts.earliest().into_iter().chain(pops.in_flight_queues.earliest()).min();
        let wait_ms = next_ms.map_or(SLEEP_MAX_MS, |next_ms| next_ms - broker.now_ms());
        if wait_ms > 0 {
            let timer = tokio::time::sleep(Duration::from_millis(wait_ms.min(SLEEP_MAX_MS).unsigned_abs()));
            tokio::select! {
                () = timer => {}
                () = pops.poll_timeouts.earlier.notified() => {}
            }
        }
        step(&broker);
    }
}

/// Handles everything that is due now.
pub(super) fn step(broker: &Arc<Broker>) {
    let now_ms = broker.now_ms();
    for cell in broker.pops.in_flight_queues.due(now_ms) {
        look_at(broker, &cell, now_ms);
    }
    serve::expire(broker, now_ms);
}

fn look_at(broker: &Arc<Broker>, cell: &Arc<Cell>, now_ms: i64) {
    let left = cell.in_flight().leave(patience(broker), now_ms);
    broker.pops.store_left(broker, cell, left);
    broker.pops.advance(broker, cell, now_ms);
    let is_free = {
        let mut in_flight = cell.in_flight();
        let until = in_flight.order.as_ref().and_then(|state| order::blocked_until(state, None, now_ms));
        if let Some(until_ms) = until {
            broker.pops.look_at(cell, &mut in_flight, until_ms);
        }
        in_flight.order.is_some() && until.is_none()
    };
    if is_free && let Some(topic) = broker.topics.find(&cell.topic) {
        serve::freed(broker, &topic, cell);
    }
}
