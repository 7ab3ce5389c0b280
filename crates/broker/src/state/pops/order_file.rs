//! The file `consumerOrderInfo.json`: which messages the last ordered pop of each queue returned (`ConsumerOrderInfoManager`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use wire::body::{Extra, OrderTable};
use wire::json::{self, Dialect};

use super::{Cell, Pops};
use crate::names;
use crate::persist::{self, ConfigFiles};

/// The state of a queue that is not popped for this many milliseconds is removed
/// (`ConsumerOrderInfoManager.CLEAN_SPAN_FROM_LAST`).
const UNUSED_MS: i64 = 24 * 3_600_000;

const FILE: &str = "consumerOrderInfo.json";

/// State for writing the file, besides the states in the in-flight queues.
#[derive(Default)]
pub(crate) struct OrderFile {
    changed: AtomicBool,
    /// Members of the file that this version does not know; they are written back unchanged.
    extra: Mutex<Extra>,
}

impl OrderFile {
    /// Marks the file as out of date, so that the next save writes it.
    pub(crate) fn changed(&self) {
        self.changed.store(true, Ordering::Release);
    }
}

impl Pops {
    /// Writes the state of ordered pops to its file if it changed. A change during the write is saved by the next
    /// call.
    pub(crate) fn save_order(&self, now_ms: i64, files: &ConfigFiles) -> Result<(), persist::Error> {
        if !self.order_file.changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut extra = self.order_file.extra.lock();
        let mut file = OrderTable { extra: std::mem::take(&mut *extra), ..OrderTable::default() };
        let oldest_ms = now_ms - UNUSED_MS;
        // The states of lite topics are in memory only (`MemoryConsumerOrderInfoManager`).
        let is_saved = |cell: &Arc<Cell>| names::lite_parts(&cell.topic).is_none();
        for cell in self.in_flight_queues.all().into_iter().filter(is_saved) {
            let mut in_flight = cell.in_flight();
            in_flight.order = in_flight.order.take().filter(|state| state.used_ms >= oldest_ms);
            if let Some(state) = &in_flight.order {
                let key = format!("{}@{}", cell.topic, cell.group);
                file.table.entry(key).or_default().insert(cell.queue_id, state.clone());
            }
        }
        let written = files.file(FILE).write(&json::to_vec_as(&file, Dialect::Standard));
        *extra = file.extra;
        if written.is_err() {
            self.order_file.changed();
        }
        written
    }

    /// Loads the states an earlier run of the broker left in its file.
    pub(crate) fn load(&self, files: &ConfigFiles) -> Result<(), persist::Error> {
        let file: OrderTable = files.file(FILE).read()?.unwrap_or_default();
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
        *self.order_file.extra.lock() = file.extra;
        Ok(())
    }
}
