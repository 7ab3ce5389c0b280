use super::*;

fn check(text: &str, expected: Option<Handle<'_>>) {
    assert_eq!(Handle::parse(text), expected, "{text}");
    if let Some(handle) = expected {
        assert_eq!(handle.to_string(), text);
    }
}

#[test]
fn handles_are_read_and_written() {
    let handle = Handle {
        start_offset: 100,
        pop_ms: 1_700_000_000_000,
        invisible_ms: 60_000,
        revive_queue: 3,
        kind: Kind::Normal,
        broker_name: "broker-a",
        queue_id: Some(2),
        offset: Some(105),
    };
    check("100 1700000000000 60000 3 0 broker-a 2 105", Some(handle));
    check("100 1700000000000 60000 3 0 broker-a 2", Some(Handle { offset: None, ..handle }));
    check("100 1700000000000 60000 3 0 broker-a", Some(Handle { offset: None, queue_id: None, ..handle }));
    let ordered = Handle { revive_queue: ORDER_REVIVE_QUEUE, kind: Kind::RetryV2, ..handle };
    check("100 1700000000000 60000 999 2 broker-a 2 105", Some(ordered));
    assert!(ordered.is_ordered() && !handle.is_ordered());
    for bad in ["", "100", "100 1 2 3 0", "100 1 2 3 7 b 2 105", "x 1 2 3 0 b 2 105", "100 1 2 3 0 b 2 x"] {
        check(bad, None);
    }
}

#[test]
fn answers_list_offsets_by_queue() {
    let deliveries = Some(Deliveries { by_offset: [(100, 3)].into(), least: 0 });
    let normal = QueueOffsets {
        queue_id: 2,
        start: 100,
        offsets: vec![100, 101],
        deliveries,
        ..QueueOffsets::default()
    };
    let retry = QueueOffsets { kind: Kind::RetryV1, start: 7, offsets: vec![7], ..QueueOffsets::default() };
    let texts = OffsetTexts::of(&[normal.clone(), retry.clone()]);
    assert_eq!((texts.starts.as_str(), texts.offsets.as_str()), ("0 2 100;1 0 7", "0 2 100,101;1 0 7"));
    assert_eq!(texts.counts, "0 qo2%100 3;0 2 0");
    let read = texts.queues();
    let expected = [normal, retry].map(|queue| QueueOffsets { offsets: Vec::new(), ..queue });
    assert_eq!(read, expected);
    let other = OffsetTexts {
        starts: "x;0 2;0 2 y;3 0 0;0 1 5".into(),
        counts: "0 qo9%1 1;0 qo1 2;2".into(),
        ..texts
    };
    assert_eq!(other.queues(), [QueueOffsets { queue_id: 1, start: 5, ..QueueOffsets::default() }]);
}

#[test]
fn retry_topics_have_two_forms() {
    for (kind, name) in
        [(Kind::RetryV1, "%RETRY%G_T_1"), (Kind::RetryV2, "%RETRY%G+T_1"), (Kind::Normal, "T_1")]
    {
        assert_eq!(kind.topic("T_1", "G"), name);
        assert_eq!(Kind::of(name), kind);
        assert_eq!(Kind::parse(&kind.number().to_string()), Some(kind));
        assert_eq!(normal_topic(name, "G"), "T_1");
    }
    assert_eq!(normal_topic("%RETRY%G_1_T", "G_1"), "T");
    assert_eq!(normal_topic("%RETRY%G", "G"), "%RETRY%G");
}
