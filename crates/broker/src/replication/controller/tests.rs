use store::{FakeDisk, FlushMode};
use wire::units::LogOffset;

use super::*;
use crate::testing::{Fixture, until};

#[test]
fn a_heartbeat_tells_the_position_that_the_next_start_finds() {
    for flush in [FlushMode::Sync, FlushMode::Async] {
        let disk = FakeDisk::new(512);
        let fixture = Fixture::on(Arc::new(disk.clone()), tempfile::tempdir().unwrap(), |config| {
            config.store.flush = flush;
        });
        let broker = &fixture.broker;
        fixture.put("T", 0, b"body", b"");
        if flush == FlushMode::Sync {
            until("the first message is on disk", || broker.store.flushed() == broker.store.appended());
            disk.faults(|faults| faults.syncs_left = Some(0));
            fixture.put("T", 0, b"body", b"");
            until("the flush has failed", || broker.store.fenced().is_some());
            assert!(broker.store.flushed() < broker.store.appended());
        }
        let (end, flushed) = (broker.store.appended(), broker.store.flushed());
        let mut bytes = Vec::new();
        let head = wire::frame::Head::request(wire::frame::Encoding::Json, request::BROKER_HEARTBEAT, 1);
        let writer = FrameWriter::begin(&mut bytes, head);
        write_heartbeat(&broker.identity, &broker.replication, &broker.runtime, BrokerId::new(2), writer);
        let heartbeat = wire::frame::Command::decode(&mut bytes).unwrap();
        let position =
            |key| heartbeat.fields.text(key).and_then(|text| text.parse().ok()).map(LogOffset::new);
        let kept = if flush == FlushMode::Sync { flushed } else { end };
        assert_eq!((position("maxOffset"), position("keptOffset")), (Some(end), Some(kept)), "{flush:?}");
    }
}

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
