use super::*;

const PATIENCE: Patience = Patience { stay_ms: 10_000, rest_ms: 3000 };
const ALL: LogOffset = LogOffset::new(u64::MAX >> 1);

fn held(start: i64, pop_ms: i64, count: u8) -> Held {
    let diffs = (0..i32::from(count)).collect();
    let checkpoint = Checkpoint {
        start_offset: start,
        pop_ms,
        count,
        diffs,
        invisible_ms: 60_000,
        ..Checkpoint::default()
    };
    Held { checkpoint, revive_queue: 3, after: LogOffset::ZERO }
}

#[test]
fn the_offset_passes_pops_in_their_order() {
    let mut lane = Lane::default();
    assert_eq!((lane.position(7), lane.commit(ALL)), (7, None));
    lane.hold(held(7, 100, 2), 9);
    lane.hold(held(9, 101, 1), 10);
    lane.settle(15, LogOffset::ZERO);
    assert_eq!((lane.position(7), lane.position(20)), (15, 20));
    assert_eq!(lane.ack((9, 101), (&[9], LogOffset::ZERO), PATIENCE, 200), Some(true));
    assert_eq!(lane.commit(ALL), None, "the first pop is still open");
    assert_eq!(lane.ack((7, 100), (&[7], LogOffset::ZERO), PATIENCE, 200), Some(false));
    assert_eq!(lane.commit(ALL), None);
    assert_eq!(lane.ack((7, 100), (&[8], LogOffset::ZERO), PATIENCE, 200), Some(true));
    assert_eq!(lane.commit(ALL), Some(15));
    assert!(lane.is_empty());
    assert_eq!(lane.ack((7, 100), (&[8], LogOffset::ZERO), PATIENCE, 200), None, "no longer in memory");
}

#[test]
fn the_offset_waits_for_the_disk() {
    let mut lane = Lane::default();
    for (next, end) in [(5, 1000), (6, 2000), (7, 3000), (8, 4000)] {
        lane.settle(next, LogOffset::new(end));
    }
    assert_eq!(lane.len(), 2, "however many pops there are between two flushes");
    assert_eq!(lane.commit(LogOffset::new(999)), None);
    assert_eq!(lane.commit(LogOffset::new(1000)), Some(5));
    assert_eq!(lane.due_ms(PATIENCE, 77), Some(77));
    assert_eq!(lane.commit(LogOffset::new(4000)), Some(8));
    assert_eq!(lane.due_ms(PATIENCE, 77), None);
}

#[test]
fn a_checkpoint_leaves_with_what_is_acknowledged() {
    let mut lane = Lane::default();
    lane.hold(held(0, 1000, 2), 2);
    assert_eq!(lane.due_ms(PATIENCE, 0), Some(11_000));
    assert_eq!(
        lane.ack((0, 1000), (&[1, 77], LogOffset::ZERO), PATIENCE, 9_500),
        Some(false),
        "an offset of nobody changes nothing"
    );
    assert_eq!(lane.ack((0, 1000), (&[0], LogOffset::ZERO), PATIENCE, 9_501), None, "too close to the end");
    assert_eq!(lane.leave(PATIENCE, 10_999), []);
    let left = lane.leave(PATIENCE, 11_000);
    assert_eq!(left.len(), 1);
    assert!(left[0].checkpoint.is_acked(1) && !left[0].checkpoint.is_acked(0));
    assert_eq!(
        lane.ack((0, 1000), (&[0], LogOffset::ZERO), PATIENCE, 5000),
        None,
        "acknowledgements follow it to the log"
    );
    assert_eq!(lane.commit(ALL), None);
    lane.left(left[0].clone(), None);
    assert_eq!(lane.leave(PATIENCE, 11_000), left, "it could not be stored and is held again");
    lane.left(left[0].clone(), Some(LogOffset::new(50)));
    assert_eq!(lane.commit(LogOffset::new(49)), None);
    assert_eq!(lane.commit(LogOffset::new(50)), Some(2));
}

#[test]
fn short_invisibility_is_not_held() {
    let mut short = held(0, 1000, 1).checkpoint;
    short.invisible_ms = 4499;
    assert!(!PATIENCE.holds(&short, 1000));
    short.invisible_ms = 4500;
    assert!(PATIENCE.holds(&short, 1000));
}

#[test]
fn a_reset_takes_everything_out() {
    let mut lane = Lane::default();
    lane.settle(3, LogOffset::new(9));
    lane.hold(held(3, 1, 1), 4);
    assert_eq!(lane.clear(), [held(3, 1, 1)]);
    assert_eq!((lane.position(0), lane.commit(ALL)), (0, None));
    lane.left(held(3, 1, 1), Some(LogOffset::ZERO));
    assert!(lane.is_empty());
}

#[test]
fn a_checkpoint_that_could_not_be_stored_at_a_reset_is_tried_again() {
    let mut lane = Lane::default();
    lane.hold(held(3, 1, 1), 4);
    let left = lane.clear();
    assert!(lane.left(left[0].clone(), None));
    assert_eq!((lane.is_empty(), lane.due_ms(PATIENCE, 77)), (false, Some(77)));
    assert_eq!(lane.leave(PATIENCE, 0), left);
    assert!(lane.left(left[0].clone(), Some(LogOffset::ZERO)) && lane.is_empty());
}

#[test]
fn a_lane_that_ended_keeps_nothing() {
    let mut lane = Lane::default();
    lane.hold(held(3, 1, 1), 4);
    let left = lane.end();
    assert!(!lane.left(left[0].clone(), None), "nobody wants it");
    assert!(lane.is_empty() && lane.gone);
}

#[test]
fn the_offset_waits_for_the_checkpoint_a_message_got_for_itself() {
    let mut lane = Lane::default();
    lane.hold(held(0, 1000, 2), 2);
    assert_eq!(lane.ack((0, 1000), (&[0], LogOffset::new(700)), PATIENCE, 1001), Some(false));
    assert_eq!(lane.ack((0, 1000), (&[1], LogOffset::ZERO), PATIENCE, 1002), Some(true));
    assert_eq!(lane.commit(LogOffset::new(699)), None);
    assert_eq!(lane.commit(LogOffset::new(700)), Some(2));
}

#[test]
fn what_may_come_back_is_known_until_it_is_over() {
    let mut lane = Lane::default();
    let checkpoint = |start_offset, pop_ms| Checkpoint {
        start_offset,
        pop_ms,
        invisible_ms: 60_000,
        ..Checkpoint::default()
    };
    for second in 0..1000 {
        lane.owe(&checkpoint(second, second * 1000), second * 1000, second * 1000 - 61_000);
        assert!(lane.owed.len() <= 9, "{}", lane.owed.len());
    }
    let first = lane.owed(999_000).unwrap();
    assert!((920..=940).contains(&first), "those popped in the last minute, and some: {first}");
    // A consumer extends the invisible time of an old message.
    lane.owe(&checkpoint(5, 1_000_000), 1_000_000, 999_000);
    assert_eq!(lane.owed(1_059_999), Some(5));
    assert_eq!(lane.owed(1_100_000), None);
}
