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
    // No flush succeeds any more, so that the offsets would only be written beside their file, at every save.
    if delivery.tables.store.fenced().is_some() {
        return false;
    }
    // The end of the log is read after the offsets were taken, so that everything the offsets speak of lies before it.
    let settled = || wait_flushed(&delivery.tables.store, delivery.tables.store.appended());
    delivery.tables.offsets.save(now_ms, settled).unwrap_or_else(|error| {
        tracing::error!(%error, "a configuration file could not be written; it is tried again");
        false
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Disk, FakeDisk, FlushMode};

    use super::*;
    use crate::testing::{Fixture, until};

    /// Saves follow each other every few seconds, and the text may be large.
    #[test]
    fn a_broker_whose_store_is_fenced_writes_no_offsets() {
        let (disk, directory) = (FakeDisk::new(512), tempfile::tempdir().unwrap());
        let config = directory.path().join("config");
        let fixture = Fixture::on(Arc::new(disk.clone()), directory, |config| {
            config.store.flush = FlushMode::Sync;
        });
        let broker = &fixture.broker;
        fixture.put("T", 0, b"body", b"");
        until("the first message is on disk", || broker.store.flushed() == broker.store.appended());
        disk.faults(|faults| faults.syncs_left = Some(0));
        fixture.put("T", 0, b"body", b"");
        until("the flush has failed", || broker.store.fenced().is_some());
        disk.faults(|faults| faults.syncs_left = None);
        broker.tables.offsets.commit("G", "T", 0, 1);
        for _ in 0..2 {
            assert!(!save(&broker.delivery, &broker.runtime, &broker.pops));
        }
        let names: Vec<String> = disk.list(&config).unwrap().into_iter().map(|entry| entry.name).collect();
        assert!(!names.iter().any(|name| name.starts_with("consumerOffset.json")), "{names:?}");
    }
}
