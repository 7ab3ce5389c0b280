//! The file `consumerOrderInfo.json`: which messages the last ordered pop of each queue returned (`ConsumerOrderInfoManager`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use wire::body::{Extra, OrderTable};
use wire::json::{self, Dialect};

use super::Pops;
use crate::broker::Broker;
use crate::persist;

/// The state of a queue that is not popped for this many milliseconds is removed
/// (`ConsumerOrderInfoManager.CLEAN_SPAN_FROM_LAST`).
const UNUSED_MS: i64 = 24 * 3_600_000;

const FILE: &str = "consumerOrderInfo.json";

/// What is needed to write the file besides the states themselves, which stand in the in-flight queues.
#[derive(Default)]
pub(super) struct States {
    changed: AtomicBool,
    /// Members of the file that this version does not know; they are written back unchanged.
    extra: Mutex<Extra>,
}

impl States {
    /// Marks the file as out of date, so that the next save writes it.
    pub(super) fn changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Writes the file when something changed. A change during the write is saved by the next call.
    pub(super) fn save(&self, broker: &Broker) -> Result<(), persist::Error> {
        if !self.changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut extra = self.extra.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = OrderTable { extra: std::mem::take(&mut *extra), ..OrderTable::default() };
        let oldest_ms = broker.now_ms() - UNUSED_MS;
        for cell in broker.pops.in_flight_queues.all() {
            let mut in_flight = cell.in_flight();
            in_flight.order = in_flight.order.take().filter(|state| state.used_ms >= oldest_ms);
            if let Some(state) = &in_flight.order {
                let key = format!("{}@{}", cell.topic, cell.group);
                file.table.entry(key).or_default().insert(cell.queue_id, state.clone());
            }
        }
        let path = broker.config.store.root.join("config").join(FILE);
        let written = persist::write(&path, &json::to_vec_as(&file, Dialect::Standard));
        *extra = file.extra;
        if written.is_err() {
            self.changed();
        }
        written
    }
}

impl Pops {
    /// Loads the states an earlier run of the broker left in the directory `config`.
    pub(crate) fn load(&self, config: &Path) -> Result<(), persist::Error> {
        let file: OrderTable = persist::read(&config.join(FILE))?.unwrap_or_default();
        for (key, queues) in file.table {
            let Some((topic, group)) = key.split_once('@') else {
                tracing::warn!(
                    key,
                    "an entry of the table of ordered pops is not topic@group and is left out"
                );
                continue;
            };
            for (queue_id, state) in queues {
                self.in_flight_queues.make(group, topic, queue_id).in_flight().order = Some(state);
            }
        }
        *self.states.extra.lock().unwrap_or_else(PoisonError::into_inner) = file.extra;
        Ok(())
    }
}
