//! Saving of positions: how far transactions, pops and consumer groups have come.

use crate::parts::{Delivery, PopParts, Runtime};
use crate::position_writer::wait_flushed;
use crate::transaction;

/// Writes to their files the positions that changed: of transactions, pops and consumer groups. Returns whether the
/// offsets of groups are in their file.
pub(crate) fn save(delivery: &Delivery, runtime: &Runtime, pops: &PopParts) -> bool {
    let now_ms = runtime.now_ms();
    // The flushed end is taken before the positions: what is on disk by then covers every copy that was delivered before.
    if !delivery.replication.role.is_slave() {
        transaction::note(&delivery.tables, delivery, delivery.tables.store.flushed());
        delivery.pops.save(pops);
    }
    // The end of the log is read after the offsets were taken, so that everything the offsets speak of lies before it.
    let settled = || wait_flushed(&delivery.tables.store, delivery.tables.store.appended());
    delivery.tables.offsets.save(now_ms, settled).unwrap_or_else(|error| {
        tracing::error!(%error, "a configuration file could not be written; it is tried again");
        false
    })
}
