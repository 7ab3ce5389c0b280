use super::*;
use proptest::prelude::*;

fn config(mode: Mode, in_sync_replicas: u32) -> AckConfig {
    AckConfig { mode, in_sync_replicas, ..AckConfig::default() }
}

fn need(config: AckConfig, alive: u32, in_sync: u32) -> Result<AckRequirement, AckStatus> {
    config.need(Replicas { alive, in_sync })
}

const NOT_ENOUGH: Result<AckRequirement, AckStatus> = Err(AckStatus::InSyncReplicasNotEnough);

#[test]
fn a_classic_master_waits_only_for_two_and_more() {
    for (wanted, expected) in [
        (0, AckRequirement::Master),
        (1, AckRequirement::Master),
        (2, AckRequirement::Acks(2)),
        (3, AckRequirement::Acks(3)),
    ] {
        assert_eq!(need(config(Mode::Classic, wanted), 1, 1), Ok(expected), "whoever is connected");
    }
}

#[test]
fn a_group_with_an_acting_master_refuses_when_too_few_are_in_sync() {
    let strict = config(Mode::ActingMaster, 2);
    assert_eq!(need(strict, 2, 2), Ok(AckRequirement::Acks(2)));
    assert_eq!(need(strict, 2, 1), NOT_ENOUGH);
    assert_eq!(need(strict, 1, 2), NOT_ENOUGH, "the name servers know only the master");
    let auto = AckConfig { is_auto: true, ..config(Mode::ActingMaster, 3) };
    assert_eq!(need(auto, 3, 3), Ok(AckRequirement::Acks(3)));
    assert_eq!(need(auto, 3, 2), Ok(AckRequirement::Acks(2)));
    assert_eq!(need(auto, 3, 1), Ok(AckRequirement::Master));
    let auto = AckConfig { min_in_sync_replicas: 2, ..auto };
    assert_eq!(need(auto, 3, 2), Ok(AckRequirement::Acks(2)));
    assert_eq!(need(auto, 3, 1), NOT_ENOUGH);
}

#[test]
fn controller_mode_tests_the_size_of_the_set_first() {
    let two = AckConfig { min_in_sync_replicas: 2, ..config(Mode::Controller, 2) };
    assert_eq!(need(two, 3, 1), NOT_ENOUGH);
    assert_eq!(need(two, 3, 2), Ok(AckRequirement::Acks(2)));
    let all = AckConfig { is_all_ack: true, ..two };
    assert_eq!(need(all, 3, 1), NOT_ENOUGH);
    assert_eq!(need(all, 3, 2), Ok(AckRequirement::All));
    let alone = AckConfig { is_all_ack: true, ..config(Mode::Controller, 1) };
    assert_eq!(need(alone, 3, 1), Ok(AckRequirement::All));
}

#[test]
fn codes_and_remarks_are_those_of_java() {
    let table = [
        (AckStatus::Ok, 0, None),
        (AckStatus::FlushDiskTimeout, 10, None),
        (AckStatus::FlushSlaveTimeout, 12, None),
        (AckStatus::ServiceNotAvailable, 14, None),
        (AckStatus::InSyncReplicasNotEnough, 1, Some("in-sync replicas not enough")),
    ];
    for (status, code, remark) in table {
        assert_eq!((status.code(), status.remark()), (code, remark));
    }
    let late = AckStatus::FlushDiskTimeout;
    assert_eq!(late.with_replicas(AckStatus::FlushSlaveTimeout), AckStatus::FlushSlaveTimeout);
    assert_eq!(late.with_replicas(AckStatus::Ok), late);
    assert_eq!(AckStatus::Ok.with_replicas(AckStatus::Ok), AckStatus::Ok);
}

#[test]
fn the_fastest_replicas_count() {
    let reached = |need| reached_by(need, [30, 10, 20].into_iter().map(LogOffset::new)).map(LogOffset::get);
    assert_eq!([reached(2), reached(3), reached(4), reached(5)], [Some(30), Some(20), Some(10), None]);
}

proptest! {
    /// An answer comes exactly once: when its need is met, or when its deadline has come.
    #[test]
    fn every_answer_comes_once(
        adds in proptest::collection::vec((0..50_u64, 0..3_u32, 1..100_u64), 1..40),
        steps in proptest::collection::vec((0..60_u64, 0..30_u64), 1..10),
    ) {
        let mut waits = PendingResponses::default();
        let needs = [AckRequirement::Acks(2), AckRequirement::Acks(3), AckRequirement::All];
        for (number, (end, need, deadline_ms)) in (0..).zip(&adds) {
            let wait = PendingResponse { ticket: Ticket(number), end: LogOffset::new(*end), need: needs[*need as usize] };
            waits.add(wait, *deadline_ms);
        }
        let mut answered = Vec::new();
        let mut now_ms = 0;
        for (reached, later_ms) in steps {
            let reached_of = |need| Some(LogOffset::new(if need == AckRequirement::All { reached / 2 } else { reached }));
            waits.take_reached(reached_of, |ticket| answered.push(ticket));
            for ticket in &answered {
                let (end, need, _) = adds[usize::try_from(ticket.0).expect("small")];
                let need = needs[need as usize];
                prop_assert!(need != AckRequirement::All || end <= 60, "{need:?}");
            }
            now_ms += later_ms;
            let mut late = Vec::new();
            waits.take_late(now_ms, |ticket, end| late.push((ticket, end)));
            for (ticket, end) in late {
                let (expected, _, deadline_ms) = adds[usize::try_from(ticket.0).expect("small")];
                prop_assert!(deadline_ms <= now_ms);
                prop_assert_eq!(end.get(), expected);
                answered.push(ticket);
            }
            prop_assert!(waits.wake_at_ms().is_none_or(|at| at > now_ms));
        }
        waits.take_late(u64::MAX, |ticket, _| answered.push(ticket));
        answered.sort_unstable();
        prop_assert_eq!(answered, (0..adds.len() as u64).map(Ticket).collect::<Vec<_>>());
        prop_assert!(waits.by_need.is_empty());
    }
}
