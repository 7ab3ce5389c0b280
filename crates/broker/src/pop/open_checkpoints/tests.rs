use super::*;

fn checkpoint(start: i64, pop_ms: i64) -> Checkpoint {
    Checkpoint {
        topic: "T".to_owned(),
        group: "G".to_owned(),
        broker_name: "b".to_owned(),
        start_offset: start,
        count: 2,
        diffs: vec![0, 1],
        pop_ms,
        invisible_ms: 1000,
        ..Checkpoint::default()
    }
}

fn acks(start: i64, pop_ms: i64, broker: &str, offsets: &[i64]) -> Acks {
    Acks {
        topic: "T".to_owned(),
        group: "G".to_owned(),
        broker_name: broker.to_owned(),
        start_offset: start,
        pop_ms,
        offset: -1,
        offsets: offsets.to_vec(),
        ..Acks::default()
    }
}

#[test]
fn acknowledgements_find_their_checkpoint() {
    let mut open_checkpoints = OpenCheckpoints::behind(-1);
    open_checkpoints.open(0, checkpoint(10, 100));
    open_checkpoints.open(1, checkpoint(12, 100));
    open_checkpoints.ack(2, &acks(10, 100, "b", &[11]), "b");
    open_checkpoints.ack(3, &acks(12, 100, "", &[12, 13, 99]), "b");
    open_checkpoints.ack(4, &acks(12, 101, "b", &[12]), "b");
    open_checkpoints.skip(5);
    let (offset, first) = open_checkpoints.due(1100).unwrap();
    assert_eq!((offset, first.is_acked(0), first.is_acked(1)), (0, false, true));
    open_checkpoints.close(0);
    let (offset, second) = open_checkpoints.due(1100).unwrap();
    assert_eq!((offset, second.is_done()), (1, true), "an empty name is this broker's");
    open_checkpoints.close(1);
    assert_eq!((open_checkpoints.done(), open_checkpoints.next), (5, 6));
}

#[test]
fn progress_stops_at_the_first_open_checkpoint() {
    let mut open_checkpoints = OpenCheckpoints::behind(4);
    assert_eq!((open_checkpoints.next, open_checkpoints.done(), open_checkpoints.first_ms()), (5, 4, None));
    open_checkpoints.skip(5);
    open_checkpoints.open(6, checkpoint(1, 500));
    open_checkpoints.ack(7, &acks(9, 9, "b", &[9]), "b");
    assert_eq!((open_checkpoints.done(), open_checkpoints.first_ms()), (5, Some(1500)));
    assert_eq!(open_checkpoints.due(1499), None);
    open_checkpoints.close(6);
    assert_eq!((open_checkpoints.done(), open_checkpoints.due(i64::MAX)), (7, None));
}

#[test]
fn a_checkpoint_stored_twice_is_one() {
    let mut open_checkpoints = OpenCheckpoints::behind(-1);
    open_checkpoints.open(0, checkpoint(10, 100));
    open_checkpoints.ack(1, &acks(10, 100, "b", &[10]), "b");
    open_checkpoints.open(2, checkpoint(10, 100));
    open_checkpoints.ack(3, &acks(10, 100, "b", &[11]), "b");
    let (offset, found) = open_checkpoints.due(1100).unwrap();
    assert_eq!((offset, found.is_done()), (2, true));
    open_checkpoints.close(2);
    assert_eq!(open_checkpoints.done(), 3);
}

#[test]
fn a_message_put_off_does_not_replace_the_checkpoint_it_came_from() {
    let mut open_checkpoints = OpenCheckpoints::behind(-1);
    open_checkpoints.open(0, checkpoint(10, 100));
    let put_off =
        Checkpoint { count: 1, diffs: vec![0], put_off: Some("1".to_owned()), ..checkpoint(10, 100) };
    open_checkpoints.open(1, put_off);
    assert_eq!(open_checkpoints.due(1100).map(|(offset, first)| (offset, first.count)), Some((0, 2)));
    open_checkpoints.close(0);
    assert_eq!(open_checkpoints.due(1100).map(|(offset, first)| (offset, first.count)), Some((1, 1)));
    open_checkpoints.close(1);
    assert_eq!((open_checkpoints.due(1100), open_checkpoints.done()), (None, 1));
}
