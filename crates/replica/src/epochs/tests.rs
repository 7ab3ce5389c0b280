use super::*;
use proptest::prelude::*;

const fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

fn list(entries: &[(u32, u64)]) -> EpochList {
    let entry = |(epoch, start): &(u32, u64)| EpochStart { epoch: Epoch::new(*epoch), start: at(*start) };
    EpochList::new(entries.iter().map(entry).collect()).expect("rising")
}

#[test]
fn the_file_is_that_of_java() {
    let java = "3\n679457245\n1-0\n3-4096\n7-10000\n";
    let epochs = list(&[(1, 0), (3, 4_096), (7, 10_000)]);
    assert_eq!(epochs.to_file().as_deref(), Some(java));
    assert_eq!(EpochList::from_file(java), Ok(epochs));
    let java = "2\n612758122\n1-0\n4-124\n";
    assert_eq!(list(&[(1, 0), (4, 124)]).to_file().as_deref(), Some(java));
    assert_eq!(EpochList::default().to_file(), None);
}

#[test]
fn a_damaged_file_is_refused() {
    for (text, expected) in [
        ("", "epoch file without count and checksum"),
        ("1\n", "epoch file without count and checksum"),
        ("2\n0\n1-0\n", "epoch file: expected 2 entries, found 1"),
        ("1\n0\n1:0\n", "epoch file: expected `epoch-start`, found `1:0`"),
        ("1\n0\n1--5\n", "epoch file: expected `epoch-start`, found `1--5`"),
        ("2\n0\n1-0\n1-5\n", "epoch file: epoch 1 does not lie behind the entry before it"),
        ("1\n5\n1-0\n", "epoch file: expected checksum 5, found 1170646571"),
    ] {
        let found = EpochList::from_file(text).expect_err(text).to_string();
        let is_checksum = expected.contains("checksum 5");
        assert!(
            found == expected || is_checksum && found.starts_with("epoch file: expected checksum 5"),
            "{found}"
        );
    }
    assert_eq!(EpochList::from_file("1\n0\n1-0\n"), Ok(list(&[(1, 0)])), "checksum 0 is not checked");
}

#[test]
fn a_byte_belongs_to_the_epoch_it_was_written_in() {
    let epochs = list(&[(2, 50), (5, 100)]);
    let epoch_at = |offset| epochs.at(at(offset)).map(|entry| entry.epoch.get());
    assert_eq!(
        [epoch_at(0), epoch_at(50), epoch_at(99), epoch_at(100)],
        [Some(2), Some(2), Some(2), Some(5)]
    );
    let end_at = |offset| epochs.end_at(at(offset)).map(LogOffset::get);
    assert_eq!([end_at(0), end_at(50), end_at(99), end_at(100)], [Some(100), Some(100), Some(100), None]);
    assert_eq!(EpochList::default().at(at(0)), None);
    assert_eq!(EpochList::default().end_at(at(0)), None);
}

#[test]
fn a_master_begins_its_epoch_where_the_log_ends() {
    let mut epochs = EpochList::default();
    assert_eq!(epochs.begin(Epoch::new(1), at(0)), Ok(()));
    assert_eq!(epochs.begin(Epoch::new(2), at(0)), Ok(()));
    assert_eq!(epochs, list(&[(1, 0), (2, 0)]), "nothing was written in between");
    assert_eq!(epochs.begin(Epoch::new(4), at(80)), Ok(()));
    assert_eq!(epochs.begin(Epoch::new(4), at(90)), Ok(()));
    assert_eq!(epochs, list(&[(1, 0), (2, 0), (4, 90)]));
    let stale = StaleEpoch { asked: Epoch::new(3), last: Epoch::new(4) };
    assert_eq!(epochs.begin(Epoch::new(3), at(95)), Err(stale));
    assert_eq!(epochs, list(&[(1, 0), (2, 0), (4, 90)]));
}

#[test]
fn a_cut_log_loses_epochs() {
    let all = list(&[(1, 0), (2, 100), (3, 200)]);
    let cut = |end| {
        let mut epochs = all.clone();
        epochs.cut(at(end));
        epochs.entries().len()
    };
    assert_eq!([cut(0), cut(1), cut(100), cut(101), cut(200), cut(201)], [0, 1, 1, 2, 2, 3]);
    let dropped = |minimum| {
        let mut epochs = all.clone();
        epochs.drop_below(at(minimum));
        epochs.entries().len()
    };
    assert_eq!([dropped(0), dropped(100), dropped(101), dropped(201), dropped(900)], [3, 3, 2, 1, 1]);
}

type Entries<'a> = &'a [(u32, u64)];
type Case<'a> = (Entries<'a>, u64, Entries<'a>, u64, Result<Option<u64>, NoCommonEpoch>);

/// The cases of the specification's conformance list.
#[test]
fn the_consistent_point_is_that_of_java() {
    let cases: [Case<'_>; 11] = [
        (&[(1, 0), (2, 100)], 150, &[(1, 0), (3, 120)], 300, Ok(Some(100))),
        (&[(1, 0)], 150, &[(1, 0), (2, 100)], 300, Ok(Some(100))),
        (&[(1, 0), (2, 100)], 150, &[(1, 0), (2, 100)], 120, Ok(Some(120))),
        (&[(2, 0)], 50, &[(1, 0)], 50, Err(NoCommonEpoch)),
        (&[], 50, &[(1, 0)], 10, Ok(None)),
        (&[(1, 0), (2, 100)], 100, &[(1, 0), (2, 100)], 300, Ok(Some(100))),
        (&[(1, 0), (2, 100)], 80, &[(1, 0), (2, 100)], 300, Ok(Some(80))),
        (&[(2, 100)], 80, &[(2, 100)], 300, Err(NoCommonEpoch)),
        (&[(1, 0), (2, 90)], 150, &[(1, 0), (2, 100)], 300, Ok(Some(90))),
        // A master that was killed before its first message comes back.
        (&[(1, 0)], 0, &[(2, 0)], 300, Ok(Some(0))),
        (&[(1, 0)], 0, &[], 0, Ok(Some(0))),
    ];
    for (own, end, master, master_end, expected) in cases {
        let found = list(own).consistent_point(at(end), &list(master), at(master_end));
        assert_eq!(found, expected.map(|point| point.map(at)), "{own:?} {end} {master:?} {master_end}");
    }
}

/// Log of a broker as the epoch of each written byte. Mastership moves between brokers at random. A new master cuts
/// nothing, and each follower cuts to the consistent point.
#[derive(Clone, Debug, Default)]
struct Broker {
    log: Vec<u32>,
    epochs: EpochList,
}

#[test]
fn an_epoch_without_a_byte_does_not_label_those_of_the_next_master() {
    let mut epochs = list(&[(1, 0), (2, 500)]);
    epochs.begin(Epoch::new(3), at(500)).expect("newer");
    assert_eq!(epochs, list(&[(1, 0), (3, 500)]));
    let mut cut = list(&[(1, 0), (2, 500)]);
    cut.begin(Epoch::new(4), at(400)).expect("newer");
    assert_eq!(cut, list(&[(1, 0), (4, 400)]));
    let mut empty = list(&[(1, 0)]);
    empty.begin(Epoch::new(2), at(0)).expect("newer");
    assert_eq!(empty, list(&[(1, 0), (2, 0)]));
    empty.begin(Epoch::new(3), at(0)).expect("newer");
    assert_eq!(empty, list(&[(1, 0), (3, 0)]));
    // A slave follows: what it noted with a heartbeat has no byte.
    let mut slave = list(&[(1, 0), (2, 500)]);
    assert!(slave.append(EpochStart { epoch: Epoch::new(3), start: at(500) }));
    assert_eq!(slave, list(&[(1, 0), (3, 500)]));
}

/// Two masters that began with the same empty epoch wrote different bytes.
#[test]
fn an_empty_first_epoch_makes_no_two_logs_the_same() {
    let mut own = list(&[(1, 0)]);
    own.begin(Epoch::new(3), at(0)).expect("newer");
    let mut master = list(&[(1, 0)]);
    master.begin(Epoch::new(5), at(0)).expect("newer");
    assert_eq!(own.consistent_point(at(1_000), &master, at(2_000)), Ok(Some(at(0))));
    assert_eq!(master.consistent_point(at(2_000), &own, at(1_000)), Ok(Some(at(0))));
    assert_eq!(list(&[(1, 0)]).consistent_point(at(1_000), &master, at(2_000)), Ok(Some(at(0))));
    assert_eq!(master.at(at(0)).map(|entry| entry.epoch), Some(Epoch::new(5)));
}

proptest! {
    /// Checks after arbitrary writes that two logs are equal below the consistent point. The point is below the
    /// common part by no more than the last common epoch requires.
    #[test]
    fn logs_are_equal_below_the_consistent_point(
        turns in proptest::collection::vec((0..3_usize, 0..20_usize, 0..3_usize, 0..20_usize, 0..6_usize), 1..30),
    ) {
        let mut brokers = vec![Broker::default(); 3];
        for (number, (leader, written, follower, copied, lost)) in (1..).zip(turns) {
            // The leader was restarted after a power cut that took the end of its log.
            if lost > 0 {
                let kept = brokers[leader].log.len().saturating_sub(lost);
                brokers[leader].log.truncate(kept);
                brokers[leader].epochs.cut(at(kept as u64));
            }
            let end = at(brokers[leader].log.len() as u64);
            brokers[leader].epochs.begin(Epoch::new(number), end).expect("epochs grow");
            brokers[leader].log.extend(std::iter::repeat_n(number, written));
            if leader == follower {
                continue;
            }
            let master = brokers[leader].clone();
            let slave = &mut brokers[follower];
            let ends = (at(slave.log.len() as u64), at(master.log.len() as u64));
            let point = match slave.epochs.consistent_point(ends.0, &master.epochs, ends.1) {
                Ok(Some(point)) => usize::try_from(point.get()).expect("small"),
                Ok(None) => 0,
                // Nothing in common: the operator empties the slave.
                Err(NoCommonEpoch) => 0,
            };
            prop_assert!(point <= slave.log.len() && point <= master.log.len());
            prop_assert_eq!(&slave.log[..point], &master.log[..point]);
            slave.log.truncate(point);
            slave.epochs.cut(at(point as u64));
            for byte in point..master.log.len().min(point + copied) {
                slave.log.push(master.log[byte]);
                slave.epochs.append(master.epochs.at(at(byte as u64)).expect("the master has an epoch"));
            }
        }
    }

    #[test]
    fn files_round_trip(starts in proptest::collection::btree_set(0..1_000_000_u64, 1..50)) {
        let entries: Vec<(u32, u64)> = (3..).zip(starts).collect();
        let epochs = list(&entries);
        let text = epochs.to_file().expect("not empty");
        prop_assert_eq!(EpochList::from_file(&text), Ok(epochs));
    }
}
