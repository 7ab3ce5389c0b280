use super::*;

const PATIENCE: InFlightPatience = InFlightPatience { stay_ms: 10_000, rest_ms: 3000 };
const ALL: LogOffset = LogOffset::new(u64::MAX >> 1);

fn held(start: i64, pop_ms: i64, count: u8) -> HeldCheckpoint {
    let diffs = (0..i32::from(count)).collect();
    let checkpoint = Checkpoint {
        start_offset: start,
        pop_ms,
        count,
        diffs,
        invisible_ms: 60_000,
        ..Checkpoint::default()
    };
    HeldCheckpoint { checkpoint, revive_queue: 3, after: LogOffset::ZERO }
}

#[test]
fn the_offset_passes_pops_in_their_order() {
    let mut in_flight = InFlightQueue::default();
    assert_eq!((in_flight.position(7), in_flight.commit(ALL)), (7, None));
    in_flight.hold(held(7, 100, 2), 9);
    in_flight.hold(held(9, 101, 1), 10);
    in_flight.settle(15, LogOffset::ZERO);
    assert_eq!((in_flight.position(7), in_flight.position(20)), (15, 20));
    assert_eq!(in_flight.ack((9, 101), (&[9], LogOffset::ZERO), PATIENCE, 200), Some(true));
    assert_eq!(in_flight.commit(ALL), None, "the first pop is still open");
    assert_eq!(in_flight.ack((7, 100), (&[7], LogOffset::ZERO), PATIENCE, 200), Some(false));
    assert_eq!(in_flight.commit(ALL), None);
    assert_eq!(in_flight.ack((7, 100), (&[8], LogOffset::ZERO), PATIENCE, 200), Some(true));
    assert_eq!(in_flight.commit(ALL), Some(15));
    assert!(in_flight.is_empty());
    assert_eq!(in_flight.ack((7, 100), (&[8], LogOffset::ZERO), PATIENCE, 200), None, "no longer in memory");
}

#[test]
fn the_offset_waits_for_the_disk() {
    let mut in_flight = InFlightQueue::default();
    for (next, end) in [(5, 1000), (6, 2000), (7, 3000), (8, 4000)] {
        in_flight.settle(next, LogOffset::new(end));
    }
    assert_eq!(in_flight.len(), 2, "however many pops there are between two flushes");
    assert_eq!(in_flight.commit(LogOffset::new(999)), None);
    assert_eq!(in_flight.commit(LogOffset::new(1000)), Some(5));
    assert_eq!(in_flight.due_ms(PATIENCE, 77), Some(77));
    assert_eq!(in_flight.commit(LogOffset::new(4000)), Some(8));
    assert_eq!(in_flight.due_ms(PATIENCE, 77), None);
}

#[test]
fn a_checkpoint_leaves_with_what_is_acknowledged() {
    let mut in_flight = InFlightQueue::default();
    in_flight.hold(held(0, 1000, 2), 2);
    assert_eq!(in_flight.due_ms(PATIENCE, 0), Some(11_000));
    assert_eq!(
        in_flight.ack((0, 1000), (&[1, 77], LogOffset::ZERO), PATIENCE, 9_500),
        Some(false),
        "an offset of nobody changes nothing"
    );
    assert_eq!(
        in_flight.ack((0, 1000), (&[0], LogOffset::ZERO), PATIENCE, 9_501),
        None,
        "too close to the end"
    );
    assert_eq!(in_flight.leave(PATIENCE, 10_999), []);
    let left = in_flight.leave(PATIENCE, 11_000);
    assert_eq!(left.len(), 1);
    assert!(left[0].checkpoint.is_acked(1) && !left[0].checkpoint.is_acked(0));
    assert_eq!(
        in_flight.ack((0, 1000), (&[0], LogOffset::ZERO), PATIENCE, 5000),
        None,
        "acknowledgements follow it to the log"
    );
    assert_eq!(in_flight.commit(ALL), None);
    in_flight.left(left[0].clone(), None);
    assert_eq!(in_flight.leave(PATIENCE, 11_000), left, "it could not be stored and is held again");
    in_flight.left(left[0].clone(), Some(LogOffset::new(50)));
    assert_eq!(in_flight.commit(LogOffset::new(49)), None);
    assert_eq!(in_flight.commit(LogOffset::new(50)), Some(2));
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
    let mut in_flight = InFlightQueue::default();
    in_flight.settle(3, LogOffset::new(9));
    in_flight.hold(held(3, 1, 1), 4);
    assert_eq!(in_flight.clear(), [held(3, 1, 1)]);
    assert_eq!((in_flight.position(0), in_flight.commit(ALL)), (0, None));
    in_flight.left(held(3, 1, 1), Some(LogOffset::ZERO));
    assert!(in_flight.is_empty());
}

#[test]
fn a_checkpoint_that_could_not_be_stored_at_a_reset_is_tried_again() {
    let mut in_flight = InFlightQueue::default();
    in_flight.hold(held(3, 1, 1), 4);
    let left = in_flight.clear();
    assert!(in_flight.left(left[0].clone(), None));
    assert_eq!((in_flight.is_empty(), in_flight.due_ms(PATIENCE, 77)), (false, Some(77)));
    assert_eq!(in_flight.leave(PATIENCE, 0), left);
    assert!(in_flight.left(left[0].clone(), Some(LogOffset::ZERO)) && in_flight.is_empty());
}

#[test]
fn an_in_flight_queue_that_ended_keeps_nothing() {
    let mut in_flight = InFlightQueue::default();
    in_flight.hold(held(3, 1, 1), 4);
    let left = in_flight.end();
    assert!(!in_flight.left(left[0].clone(), None), "nobody wants it");
    assert!(in_flight.is_empty() && in_flight.gone);
}

#[test]
fn the_offset_waits_for_the_checkpoint_a_message_got_for_itself() {
    let mut in_flight = InFlightQueue::default();
    in_flight.hold(held(0, 1000, 2), 2);
    assert_eq!(in_flight.ack((0, 1000), (&[0], LogOffset::new(700)), PATIENCE, 1001), Some(false));
    assert_eq!(in_flight.ack((0, 1000), (&[1], LogOffset::ZERO), PATIENCE, 1002), Some(true));
    assert_eq!(in_flight.commit(LogOffset::new(699)), None);
    assert_eq!(in_flight.commit(LogOffset::new(700)), Some(2));
}

#[test]
fn what_may_come_back_is_known_until_it_is_over() {
    let mut in_flight = InFlightQueue::default();
    let checkpoint = |start_offset, pop_ms| Checkpoint {
        start_offset,
        pop_ms,
        invisible_ms: 60_000,
        ..Checkpoint::default()
    };
    for second in 0..1000 {
        in_flight.add_pending(&checkpoint(second, second * 1000), second * 1000, second * 1000 - 61_000);
        assert!(in_flight.pending.len() <= 9, "{}", in_flight.pending.len());
    }
    let first = in_flight.pending(999_000).unwrap();
    assert!((920..=940).contains(&first), "those popped in the last minute, and some: {first}");
    // A consumer extends the invisible time of an old message.
    in_flight.add_pending(&checkpoint(5, 1_000_000), 1_000_000, 999_000);
    assert_eq!(in_flight.pending(1_059_999), Some(5));
    assert_eq!(in_flight.pending(1_100_000), None);
}
