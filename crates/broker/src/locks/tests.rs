use super::*;

fn queues(ids: &[i32]) -> Vec<MessageQueue> {
    ids.iter().map(|id| MessageQueue::new("T", "b", *id)).collect()
}

/// Locks the `asked` queues for a client and compares the ids of the locked queues with `got`.
fn check(locks: &Locks, client_id: &str, now_ms: i64, asked: &[i32], got: &[i32]) {
    let body = LockBatchBody {
        client_id: client_id.to_owned(),
        consumer_group: "g".to_owned(),
        mq_set: queues(asked),
        only_this_broker: false,
    };
    assert_eq!(lock(locks, body, now_ms).unwrap(), queues(got), "{client_id} at {now_ms}");
}

fn free(locks: &Locks, client_id: &str, ids: &[i32]) {
    locks.unlock("g", client_id, &queues(ids));
}

#[test]
fn a_second_client_waits_for_the_end_of_the_lock() {
    let locks = Locks::default();
    check(&locks, "a", 0, &[0, 1], &[0, 1]);
    check(&locks, "b", 1, &[0, 1], &[]);
    check(&locks, "a", 20_000, &[0], &[0]);
    check(&locks, "b", 60_000, &[0, 1], &[]);
    check(&locks, "b", 60_001, &[0, 1], &[1]);
    check(&locks, "b", 80_000, &[0], &[]);
    check(&locks, "b", 80_001, &[0], &[0]);
    check(&locks, "a", 80_002, &[0, 1], &[]);
}

#[test]
fn an_unlock_frees_only_what_the_client_holds() {
    let locks = Locks::default();
    check(&locks, "a", 0, &[0, 1], &[0, 1]);
    free(&locks, "b", &[0, 1]);
    check(&locks, "b", 1, &[0, 1], &[]);
    free(&locks, "a", &[0, 7]);
    check(&locks, "b", 2, &[0, 1], &[0]);
    free(&locks, "a", &[1]);
    free(&locks, "b", &[0]);
    let table = locks.table.lock();
    assert_eq!((table.count, table.groups.len()), (0, 0));
}

#[test]
fn locks_that_are_held_are_told_with_their_holders() {
    let locks = Locks::default();
    check(&locks, "a", 0, &[1, 0], &[1, 0]);
    check(&locks, "b", 50_000, &[2], &[2]);
    let told = |contains, after, max, now_ms| {
        let held = locks.held(contains, after, max, now_ms).into_iter();
        held.map(|it| format!("{} {} {} {}", it.group, it.queue.queue_id, it.client_id, it.age_ms))
            .collect::<Vec<_>>()
    };
    assert_eq!(told("", "", 9, 50_010), ["g 0 a 50010", "g 1 a 50010", "g 2 b 10"]);
    assert_eq!(told("g", "f", 2, 50_010), ["g 0 a 50010", "g 1 a 50010"]);
    assert_eq!(told("g", "", 9, 70_000), ["g 2 b 20000"], "the others have ended");
    assert_eq!((told("h", "", 9, 0), told("", "g", 9, 0)), (Vec::new(), Vec::new()));
}

#[test]
fn a_group_is_ordered_while_any_lock_of_it_lives() {
    let locks = Locks::default();
    assert!(!locks.is_locked_by_anyone("g", 0));
    check(&locks, "a", 0, &[0], &[0]);
    check(&locks, "a", 10, &[1], &[1]);
    assert!(locks.is_locked_by_anyone("g", 60_010) && !locks.is_locked_by_anyone("h", 0));
    assert!(!locks.is_locked_by_anyone("g", 60_011));
    assert_eq!(locks.table.lock().count, 0);
}

#[test]
fn at_the_bound_expired_locks_make_room_and_live_ones_do_not() {
    let locks = Locks::default();
    check(&locks, "a", 0, &[0, 1], &[0, 1]);
    check(&locks, "a", 50_000, &[2, 3, 4], &[2, 3]);
    check(&locks, "b", 60_001, &[5, 6, 7], &[5, 6]);
    assert_eq!(locks.table.lock().count, 4);
}

#[test]
fn one_request_looks_for_expired_locks_once() {
    let locks = Locks::default();
    check(&locks, "a", 0, &[0, 1, 2, 3], &[0, 1, 2, 3]);
    let many: Vec<i32> = (10..1000).collect();
    check(&locks, "b", 1, &many, &[]);
    assert_eq!(locks.table.lock().sweeps, 1);
    check(&locks, "a", 2, &[3, 2, 1, 0, 3, 2, 1, 0], &[3, 2, 1, 0, 3, 2, 1, 0]);
    assert_eq!(locks.table.lock().sweeps, 1, "what is held needs no room");
    check(&locks, "b", 60_003, &many, &[10, 11, 12, 13]);
    let table = locks.table.lock();
    assert_eq!((table.sweeps, table.count), (2, 4));
}
