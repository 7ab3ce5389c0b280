use super::*;
use crate::role::Part;
use crate::testing::Fixture;

#[test]
fn a_broker_that_cannot_write_its_epoch_does_not_lead() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    std::fs::create_dir(broker.config.store.root.join("epochFileCheckpoint.tmp")).unwrap();
    let (proposals, _) = mpsc::unbounded_channel();
    let mut roles = Roles::new(broker.clone(), proposals);
    let committed = CommittedSet { members: [BrokerId::FIRST].into(), ..CommittedSet::default() };
    let order = Order::Lead { own: BrokerId::FIRST, epoch: Epoch::new(1), committed };
    let refused = roles.perform(order).unwrap_err();
    assert!(matches!(refused, RoleError::EpochFile(_)), "{refused}");
    assert!(broker.replicas.elected().epochs.last().is_none(), "the next try writes the epoch");
}

#[test]
fn a_broker_whose_role_nobody_changes_any_more_is_fenced() {
    let fixture = Fixture::new();
    let broker = fixture.broker.clone();
    assert_eq!(broker.role.part(), Part::Master);
    let panics = move || {
        let _fenced_by_panic = FencedByPanic(broker);
        panic!("on purpose");
    };
    let thread = fixture.broker.supervisor.spawn(SupervisedWork::Role, "role", panics).unwrap();
    thread.join().unwrap();
    assert_eq!(fixture.broker.role.part(), Part::Fenced);
    assert_eq!(fixture.broker.supervisor.names(), ["role"]);
}
