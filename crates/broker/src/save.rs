//! Saving of positions: how far transactions, pops and consumer groups have come.

use crate::broker::Broker;
use crate::position_writer::wait_flushed;
use crate::transaction;

/// Writes to their files the positions that changed: of transactions, pops and consumer groups.
pub(crate) fn save(broker: &Broker) {
    let now_ms = broker.runtime.now_ms();
    // The flushed end is taken before the positions: what is on disk by then covers every copy that was delivered before.
    if !broker.replication.role.is_slave() {
        transaction::note(broker, broker.store.flushed());
        broker.delivery.pops.save(broker);
    }
    // The end of the log is read after the offsets were taken, so that everything the offsets speak of lies before it.
    let settled = || wait_flushed(&broker.store, broker.store.appended());
    if let Err(error) = broker.tables.offsets.save(now_ms, settled) {
        tracing::error!(%error, "a configuration file could not be written; it is tried again");
    }
}
