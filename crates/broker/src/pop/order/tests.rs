use super::*;

fn first() -> OrderState {
    popped(None, Some("a"), (1000, 500), &[10, 11, 13])
}

#[test]
fn a_queue_is_blocked_until_all_is_settled_or_visible() {
    let mut state = first();
    assert_eq!(state.offsets, [10, 1, 3]);
    assert_eq!(blocked_until(&state, None, 1499), Some(1500));
    assert_eq!(blocked_until(&state, Some("b"), 1499), Some(1500));
    assert_eq!(blocked_until(&state, Some("a"), 1499), None, "the same attempt gets the same messages");
    assert_eq!(blocked_until(&state, None, 1500), None, "the time is over");
    assert_eq!(ack(&mut state, 11, 1000), Acked::Commit(10));
    assert_eq!(ack(&mut state, 10, 1000), Acked::Commit(13));
    assert_eq!(blocked_until(&state, None, 1499), Some(1500));
    assert_eq!(ack(&mut state, 13, 1000), Acked::Commit(14));
    assert_eq!(blocked_until(&state, None, 1001), None);
}

#[test]
fn what_was_not_returned_cannot_be_settled() {
    let mut state = first();
    assert_eq!(ack(&mut state, 12, 1000), Acked::Unknown);
    assert_eq!(ack(&mut state, 10, 999), Acked::Late);
    assert_eq!(ack(&mut OrderState::default(), 10, 0), Acked::Unknown);
    assert_eq!(state, first());
}

#[test]
fn a_changed_time_counts_for_its_message() {
    let mut state = first();
    delay(&mut state, 10, 999, 9000);
    delay(&mut state, 12, 1000, 9000);
    assert_eq!(state, first(), "another pop, another message");
    delay(&mut state, 10, 1000, 9000);
    assert_eq!(blocked_until(&state, None, 8999), Some(9000));
    delay(&mut state, 10, 1000, 1001);
    assert_eq!(blocked_until(&state, None, 1200), Some(1500), "the others wait as before");
}

#[test]
fn deliveries_are_counted_by_message() {
    let state = first();
    assert_eq!(deliveries(&state), Deliveries::default());
    let again = popped(Some(&state), Some("b"), (2000, 500), &[10, 11, 13]);
    assert_eq!(deliveries(&again), Deliveries { by_offset: [(10, 1), (11, 1), (13, 1)].into(), least: 1 });
    let same = popped(Some(&again), Some("b"), (2000, 500), &[10, 11, 13]);
    assert_eq!(deliveries(&same), deliveries(&again), "the same attempt is one delivery");
    let more = popped(Some(&again), Some("c"), (3000, 500), &[11, 13, 14]);
    assert_eq!(deliveries(&more), Deliveries { by_offset: [(11, 2), (13, 2)].into(), least: 0 });
    let unnamed = popped(Some(&popped(None, None, (1, 5), &[10])), None, (9, 5), &[10]);
    assert_eq!(deliveries(&unnamed).least, 1, "attempts without a name are not the same");
}
