use super::*;
use proptest::prelude::*;

const fn id(broker: u64) -> BrokerId {
    BrokerId::new(broker)
}

const fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

fn set(brokers: &[u64]) -> BTreeSet<BrokerId> {
    brokers.iter().copied().map(id).collect()
}

fn committed(brokers: &[u64], epoch: u32) -> CommittedSet {
    CommittedSet { members: set(brokers), epoch: SetEpoch(epoch) }
}

const LOG: LogState = LogState { end: at(100), epoch_start: at(40) };

fn ack(offset: u64) -> Ack {
    Ack { offset: at(offset), caught_up_ms: Some(0) }
}

/// Broker 1 is master of {1, 2}; broker 2 is connected and has everything; 50 bytes are confirmed, and all are on disk.
fn pair() -> InSync {
    let mut in_sync = unflushed_pair();
    in_sync.flushed(at(1_000));
    in_sync
}

fn unflushed_pair() -> InSync {
    let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1, 2], 3), at(50));
    in_sync.connect(0, id(2), false);
    in_sync.acknowledge(id(2), ack(100));
    in_sync
}

#[test]
fn a_slave_comes_in_when_it_has_what_is_confirmed_and_the_epoch() {
    let asked = |offset, caught_up_ms, is_learner, epoch_start| {
        let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1], 3), at(50));
        in_sync.connect(0, id(2), is_learner);
        in_sync.acknowledge(id(2), Ack { offset: at(offset), caught_up_ms });
        in_sync.propose(0, LogState { end: at(100), epoch_start: at(epoch_start) })
    };
    assert_eq!(asked(50, Some(0), false, 50), Some(set(&[1, 2])));
    assert_eq!(asked(49, Some(0), false, 0), None, "less than what is confirmed");
    assert_eq!(asked(59, Some(0), false, 60), None, "nothing of the last epoch");
    assert_eq!(asked(50, None, false, 50), None, "not what the master had when it sent last");
    assert_eq!(asked(100, Some(0), true, 50), None, "a learner");
}

#[test]
fn a_set_counts_as_committed_only_when_the_controller_says_so() {
    let mut in_sync = pair();
    in_sync.disconnect(id(2));
    assert_eq!(in_sync.propose(1, LOG), Some(set(&[1])));
    assert_eq!(in_sync.propose(2, LOG), None, "one proposal at a time");
    assert_eq!((in_sync.reached(at(100)), in_sync.size()), (None, 2), "broker 2 can still be elected");
    in_sync.lose(3);
    assert_eq!(in_sync.reached(at(100)), None, "nobody knows");
    assert_eq!(in_sync.propose(5_002, LOG), None);
    assert_eq!(in_sync.propose(5_003, LOG), Some(set(&[1])));
    in_sync.commit(5_004, committed(&[1], 4));
    assert_eq!((in_sync.reached(at(100)), in_sync.size()), (Some(at(100)), 1));
}

#[test]
fn a_proposal_whose_result_is_unknown_is_needed_like_a_member() {
    let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1], 3), at(50));
    in_sync.connect(0, id(2), false);
    in_sync.acknowledge(id(2), ack(100));
    assert_eq!(in_sync.propose(0, LOG), Some(set(&[1, 2])));
    in_sync.lose(1);
    in_sync.disconnect(id(2));
    assert_eq!(in_sync.propose(6_000, LOG), None, "the set is what it should be, as far as anybody knows");
    assert_eq!(in_sync.reached(at(100)), None, "the controller may have committed {{1, 2}}");
    in_sync.commit(6_001, committed(&[1, 2], 4));
    in_sync.flushed(at(100));
    assert_eq!(in_sync.propose(6_002, LOG), Some(set(&[1])), "what it has seen must leave first");
    in_sync.refuse(6_003);
    assert_eq!(in_sync.reached(at(100)), None);
}

#[test]
fn a_lost_proposal_is_dead_after_its_time() {
    let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1], 3), at(50));
    in_sync.connect(0, id(2), false);
    in_sync.acknowledge(id(2), ack(100));
    assert_eq!(in_sync.propose(0, LOG), Some(set(&[1, 2])));
    in_sync.lose(3_000);
    in_sync.disconnect(id(2));
    in_sync.commit(32_999, committed(&[1], 3));
    assert_eq!(in_sync.reached(at(100)), None, "the controller may still get to it");
    in_sync.commit(33_000, committed(&[1], 3));
    assert_eq!(in_sync.reached(at(100)), Some(at(100)));
}

#[test]
fn a_broker_of_a_lost_proposal_may_be_proposed_again() {
    let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1], 3), at(50));
    in_sync.connect(0, id(2), false);
    in_sync.acknowledge(id(2), ack(100));
    assert_eq!(in_sync.propose(0, LOG), Some(set(&[1, 2])));
    in_sync.lose(3_000);
    in_sync.disconnect(id(2));
    in_sync.connect(4_000, id(2), false);
    assert_eq!(in_sync.propose(9_000, LOG), None);
    in_sync.acknowledge(id(2), ack(100));
    assert_eq!(in_sync.propose(9_001, LOG), Some(set(&[1, 2])));
    in_sync.commit(9_002, committed(&[1, 2], 4));
    assert_eq!(in_sync.propose(9_003, LOG), None, "it stays");
}

#[test]
fn who_is_gone_leaves_before_a_newcomer_comes() {
    let mut in_sync = pair();
    in_sync.disconnect(id(2));
    in_sync.connect(1, id(3), false);
    in_sync.acknowledge(id(3), ack(100));
    assert_eq!(
        in_sync.propose(1, LOG),
        Some(set(&[1])),
        "controllers that refuse broker 3 must not keep broker 2 in the set"
    );
    in_sync.commit(2, committed(&[1], 4));
    assert_eq!(in_sync.propose(3, LOG), Some(set(&[1, 3])));
}

#[test]
fn a_refused_proposal_is_forgotten() {
    let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1], 3), at(50));
    in_sync.connect(0, id(2), false);
    in_sync.acknowledge(id(2), ack(60));
    assert!(in_sync.propose(0, LOG).is_some());
    assert_eq!(in_sync.reached(at(100)), Some(at(60)));
    in_sync.refuse(1);
    assert_eq!(in_sync.reached(at(100)), Some(at(100)));
    assert_eq!(in_sync.wake_at_ms(at(100)), Some(5_001));
    assert_eq!(in_sync.propose(5_001, LOG), Some(set(&[1, 2])));
}

#[test]
fn a_member_that_stays_behind_leaves_after_its_time() {
    let mut in_sync = pair();
    in_sync.grow(20_000, at(100));
    let grown = LogState { end: at(120), ..LOG };
    assert_eq!(in_sync.wake_at_ms(at(120)), Some(35_001), "it had everything until now");
    assert_eq!(in_sync.propose(35_000, grown), None);
    assert_eq!(in_sync.propose(35_001, grown), Some(set(&[1])));
}

#[test]
fn a_member_that_has_everything_stays() {
    let mut in_sync = pair();
    assert_eq!(in_sync.wake_at_ms(at(100)), None);
    assert_eq!(in_sync.propose(1_000_000, LOG), None);
}

#[test]
fn a_member_that_does_not_connect_leaves_after_its_time() {
    let mut in_sync = InSync::new(7, id(1), InSyncConfig::default(), committed(&[1, 2], 3), at(50));
    assert_eq!(in_sync.wake_at_ms(at(100)), Some(15_008));
    assert_eq!(in_sync.propose(15_007, LOG), None);
    assert_eq!(in_sync.propose(15_008, LOG), Some(set(&[1])));
}

#[test]
fn a_member_that_holds_up_a_send_leaves_then() {
    let mut in_sync = pair();
    in_sync.blame(at(100));
    assert_eq!(in_sync.propose(1, LOG), None, "it has everything below 100");
    in_sync.blame(at(101));
    assert_eq!(in_sync.propose(1, LOG), Some(set(&[1])));
    in_sync.commit(2, committed(&[1], 4));
    in_sync.acknowledge(id(2), ack(110));
    assert_eq!(in_sync.propose(3, LOG), Some(set(&[1, 2])), "and may come back at once");
}

#[test]
fn a_member_that_has_lost_something_leaves_before_it_comes_back() {
    let mut in_sync = pair();
    in_sync.acknowledge(id(2), ack(99));
    assert_eq!(in_sync.propose(1, LOG), Some(set(&[1])));
    let mut in_sync = pair();
    in_sync.connect(1, id(2), false);
    assert_eq!(in_sync.propose(1, LOG), Some(set(&[1])), "nobody knows what happened in between");
    let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1, 2], 3), at(50));
    in_sync.connect(0, id(2), false);
    in_sync.flushed(at(49));
    in_sync.acknowledge(id(2), ack(49));
    assert_eq!(in_sync.propose(1, LOG), Some(set(&[1])));
}

#[test]
fn a_master_is_alone_when_what_slaves_have_is_on_its_disk() {
    let mut in_sync = unflushed_pair();
    in_sync.disconnect(id(2));
    assert_eq!(in_sync.propose(1, LOG), None);
    assert!(in_sync.asks_flush() && !in_sync.asks_flush());
    assert_eq!(
        (in_sync.propose(20_000, LOG), in_sync.wake_at_ms(at(100))),
        (None, None),
        "the flush wakes it"
    );
    in_sync.flushed(at(99));
    assert_eq!(in_sync.propose(20_001, LOG), None, "a flush that takes long is waited for again");
    assert!(in_sync.asks_flush());
    in_sync.flushed(at(100));
    assert_eq!(in_sync.propose(20_002, LOG), Some(set(&[1])));
    assert!(!in_sync.asks_flush());
}

#[test]
fn a_master_that_two_slaves_leave_one_by_one_flushes_before_it_is_alone() {
    let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1, 2, 3], 3), at(50));
    for slave in [2, 3] {
        in_sync.connect(0, id(slave), false);
        in_sync.acknowledge(id(slave), ack(100));
    }
    in_sync.disconnect(id(2));
    assert_eq!(in_sync.propose(1, LOG), Some(set(&[1, 3])), "broker 3 has everything");
    in_sync.commit(2, committed(&[1, 3], 4));
    in_sync.disconnect(id(3));
    assert_eq!(in_sync.propose(3, LOG), None);
    assert!(in_sync.asks_flush());
}

#[test]
fn what_comes_while_a_set_of_the_master_alone_is_decided_is_flushed_before_it_counts() {
    let mut in_sync = pair();
    in_sync.blame(at(1_001));
    assert_eq!(in_sync.propose(1, LOG), Some(set(&[1])));
    in_sync.acknowledge(id(2), ack(1_200));
    assert_eq!(in_sync.reached(at(1_200)), Some(at(1_000)), "the controller may have committed {{1}}");
    assert!(in_sync.asks_flush());
    in_sync.flushed(at(1_200));
    assert_eq!(in_sync.reached(at(1_200)), Some(at(1_200)));
    in_sync.refuse(2);
    in_sync.acknowledge(id(2), ack(1_300));
    assert_eq!(in_sync.reached(at(1_300)), Some(at(1_300)), "broker 2 can be elected");
}

#[test]
fn an_older_set_changes_nothing() {
    let mut in_sync = pair();
    in_sync.commit(0, committed(&[1], 3));
    in_sync.commit(0, committed(&[1], 2));
    assert_eq!(in_sync.committed(), &committed(&[1, 2], 3));
}

#[derive(Clone, Debug)]
enum Chance {
    Connect(u64),
    Disconnect(u64),
    Ack(u64, u64),
    Grow(u64),
    Blame(u64),
    Flush,
    Propose,
    Commit(bool),
    Lose,
    Refuse,
    Pass(u64),
}

fn chance() -> impl Strategy<Value = Chance> {
    prop_oneof![
        (2..5_u64).prop_map(Chance::Connect),
        (2..5_u64).prop_map(Chance::Disconnect),
        (2..5_u64, 0..200_u64).prop_map(|(broker, offset)| Chance::Ack(broker, offset)),
        (1..50_u64).prop_map(Chance::Grow),
        (0..200_u64).prop_map(Chance::Blame),
        Just(Chance::Flush),
        Just(Chance::Propose),
        any::<bool>().prop_map(Chance::Commit),
        Just(Chance::Lose),
        Just(Chance::Refuse),
        (1..20_000_u64).prop_map(Chance::Pass),
    ]
}

proptest! {
    /// Commits sets without notice and lets members come and go at random. The confirm offset never passes a member
    /// of the controller's set that has not acknowledged on its present connection. If the master is the only member,
    /// the confirm offset never passes the master's disk.
    #[test]
    fn confirm_never_passes_an_unknown_member(chances in proptest::collection::vec(chance(), 1..120)) {
        let mut in_sync = InSync::new(0, id(1), InSyncConfig::default(), committed(&[1, 2], 1), at(0));
        let mut controller = committed(&[1, 2], 1);
        let mut on_its_way: Vec<BTreeSet<BrokerId>> = Vec::new();
        let mut acks: BTreeMap<BrokerId, Option<u64>> = BTreeMap::new();
        let (mut now_ms, mut end, mut flushed) = (0, 0, 0);
        for chance in chances {
            match chance {
                Chance::Connect(broker) => {
                    acks.insert(id(broker), None);
                    in_sync.connect(now_ms, id(broker), false);
                }
                Chance::Disconnect(broker) => {
                    acks.remove(&id(broker));
                    in_sync.disconnect(id(broker));
                }
                Chance::Ack(broker, offset) => if let Some(ack) = acks.get_mut(&id(broker)) {
                    let offset = offset.min(end);
                    *ack = Some(offset);
                    in_sync.acknowledge(id(broker), Ack { offset: at(offset), caught_up_ms: Some(now_ms) });
                },
                Chance::Grow(bytes) => {
                    in_sync.grow(now_ms, at(end));
                    end += bytes;
                }
                Chance::Blame(end) => in_sync.blame(at(end)),
                Chance::Flush => {
                    flushed = end;
                    in_sync.flushed(at(end));
                }
                Chance::Propose => {
                    let log = LogState { end: at(end), epoch_start: at(0) };
                    if let Some(wanted) = in_sync.propose(now_ms, log) {
                        prop_assert!(wanted.contains(&id(1)));
                        prop_assert_ne!(&wanted, &in_sync.committed().members);
                        on_its_way.push(wanted);
                    }
                }
                // The controller commits one of the proposals that were made for its set, sooner or later, told or not.
                Chance::Commit(is_told) => {
                    if let Some(members) = on_its_way.pop() {
                        controller = CommittedSet { members, epoch: SetEpoch(controller.epoch.0 + 1) };
                        on_its_way.clear();
                        if !is_told {
                            in_sync.lose(now_ms);
                        }
                    }
                    if is_told {
                        in_sync.commit(now_ms, controller.clone());
                    }
                }
                Chance::Lose => in_sync.lose(now_ms),
                Chance::Refuse => {
                    // Only what was refused on its way: the newest proposal.
                    if on_its_way.pop().is_some() || in_sync.committed().epoch < controller.epoch {
                        in_sync.lose(now_ms);
                    }
                }
                Chance::Pass(ms) => {
                    now_ms += ms;
                    // A proposal that was lost long ago is not committed any more.
                    if ms > 15_000 {
                        on_its_way.clear();
                        now_ms += 30_000;
                        in_sync.commit(now_ms, controller.clone());
                    }
                }
            }
            if let Some(reached) = in_sync.reached(at(end)) {
                for broker in controller.members.iter().filter(|broker| **broker != id(1)) {
                    let ack = acks.get(broker).copied().flatten();
                    prop_assert!(ack.is_some_and(|ack| reached <= at(ack)), "{broker} has {ack:?}, {reached} is confirmed");
                }
                in_sync.raise_confirm(reached);
            }
            prop_assert!(in_sync.confirm() <= at(end));
            // A master that knows that it is alone confirms as asynchronous flush does.
            if controller.members == set(&[1]) && in_sync.committed().epoch < controller.epoch {
                prop_assert!(in_sync.confirm() <= at(flushed), "{} is confirmed, {flushed} on disk", in_sync.confirm());
            }
        }
    }
}
