use store::{FakeDisk, FlushMode};

use super::*;
use crate::testing::{Fixture, until};

#[test]
fn a_broker_whose_disk_has_failed_sends_no_heartbeats_and_puts_nobody_out_of_its_set() {
    let disk = FakeDisk::new(512);
    let fixture = Fixture::on(Arc::new(disk.clone()), tempfile::tempdir().unwrap(), |config| {
        config.store.flush = FlushMode::Sync;
    });
    let broker = &fixture.broker;
    fixture.put("T", 0, b"body", b"");
    assert!(can_lead(&broker.replication, &broker.runtime));
    let alone = || ([BrokerId::new(1)].into(), SetEpoch(7));
    assert!(of_proposal(&broker.replication, &broker.runtime, alone()).is_some());
    broker.replication.replicas.elected().lead_failed = true;
    assert!(!can_lead(&broker.replication, &broker.runtime), "it was elected and serves nobody");
    broker.replication.replicas.elected().lead_failed = false;
    disk.faults(|faults| faults.syncs_left = Some(0));
    fixture.put("T", 0, b"body", b"");
    until("the store is fenced", || broker.store.fenced().is_some());
    assert!(
        !can_lead(&broker.replication, &broker.runtime),
        "the set would have a master that takes nothing, as long as its process runs"
    );
    assert!(
        of_proposal(&broker.replication, &broker.runtime, alone()).is_none(),
        "nobody else could be elected"
    );
}
