use super::mix::{MARK_BYTES, Mark};
use super::*;
use crate::echo::{Echo, EchoOptions};
use crate::load::{Stamp, Target, Work};
use wire::frame::Command;

#[test]
fn marks_are_read_as_written() {
    let mark = Mark { run: 7, connection: 2, sequence: 1 << 40, floor: 99, since_us: 1_700_000_000_000_001 };
    let mut body = vec![b'x'; MARK_BYTES + 5];
    mark.write(&mut body);
    assert_eq!(Mark::read(&body), Some(mark));
    assert_eq!(Mark::read(&body[..MARK_BYTES - 1]), None);
    assert_eq!(Mark::read(&[b'x'; 64]), None);
}

#[test]
fn what_is_signed_holds_the_mark() {
    let access = Access { access_key: "me".to_owned(), secret_key: "hush".to_owned() };
    let workload = Workload { access: Some(access.clone()), ..Workload::default() };
    let target = Target { broker: "b".to_owned(), topic: None, queue_id: 0 };
    let mix = Mix::new(&workload, &workload.messages().unwrap(), (&[target], 3, [7; 10])).unwrap();
    let (epoch_ms, since_us) = (1_700_000_000_123, 1_700_000_000_123_000);
    let stamp =
        Stamp { opaque: 1_000_000_001, epoch_ms, month_ms: 5, counter: 6, sequence: 77, floor: 70, since_us };
    let mut frame = Vec::new();
    mix.append(&mut frame, 0, &stamp);
    let command = Command::decode(&mut frame).unwrap();
    assert_eq!(Mark::read(command.body).map(|mark| (mark.connection, mark.sequence)), Some((3, 77)));
    let values = client::signed_fields(&command.fields).into_iter().map(|(_, value)| value);
    let expected = access.credentials().sign(values.chain([command.body]));
    assert_eq!(command.fields.bytes("Signature"), Some(&expected[..]));
}

#[test]
fn sends_over_grpc_hold_the_mark_and_differ() {
    use grpc::messages::SendMessageRequest;
    use prost::Message as _;
    let grpc = Some("h:8081".to_owned());
    let workload = Workload { grpc, tags: 1, keys: true, property_size: 9, ..Workload::default() };
    let target = |queue_id| Target { broker: "b".to_owned(), topic: None, queue_id };
    let targets = [target(3), target(5)];
    let mix = Mix::new(&workload, &workload.messages().unwrap(), (&targets, 3, [7; 10])).unwrap();
    let mut out = Vec::new();
    for number in 0..2_u16 {
        let since_us = 1_700_000_000_123_000;
        let (epoch_ms, sequence) = (1_700_000_000_123, u64::from(number));
        let opaque = 1_000_000_001 + i32::from(number);
        mix.append(
            &mut out,
            number.into(),
            &Stamp { opaque, epoch_ms, month_ms: 5, counter: number, sequence, floor: 0, since_us },
        );
    }
    let sent: Vec<_> = crate::load::requests(&mut out).collect();
    assert_eq!(
        (sent.iter().map(|(id, _)| *id).collect::<Vec<_>>(), out.len()),
        (vec![1_000_000_001, 1_000_000_002], 0)
    );
    let mut ids = Vec::new();
    for (sequence, (_, request)) in (0..).zip(sent) {
        let [message] = &*SendMessageRequest::decode(&request[5..]).unwrap().messages else { panic!() };
        let mark = Mark::read(&message.body).unwrap();
        assert_eq!((mark.connection, mark.sequence, message.body.len()), (3, sequence, 1024));
        let system = message.system_properties.as_ref().unwrap();
        assert_eq!(system.queue_id, if sequence == 0 { 3 } else { 5 });
        assert_eq!((system.tag.as_deref(), &*system.keys), (Some("tag0"), &["1700000000".to_owned()][..]));
        assert_eq!(system.born_timestamp.unwrap().ms(), 1_700_000_000_123);
        assert_eq!(message.user_properties["aaa"].len(), 9);
        assert!(
            system.message_id.len() == 34 && system.message_id.starts_with("01"),
            "{}",
            system.message_id
        );
        ids.push(system.message_id.clone());
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn sizes_come_in_their_shares_and_always_the_same() {
    let sizes = Sizes(vec![(100, 8), (1000, 2)]);
    assert_eq!(sizes.mean(), 280);
    let large = (0..10_000).filter(|sequence| sizes.pick(*sequence) == 1).count();
    assert!(large.abs_diff(2000) < 100, "{large}");
    assert_eq!(sizes.pick(77), sizes.pick(77));
}

#[test]
fn bodies_are_what_was_asked_for() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"abc").unwrap();
    let check = |payload, expected: &dyn Fn(&[u8]) -> bool| {
        let workload = Workload { payload, sizes: Sizes::one(300), ..Workload::default() };
        let body = &workload.messages().unwrap()[0].body;
        assert!(body.len() == 300 && expected(body), "{body:?}");
    };
    check(Payload::Random, &|body| body[..100] != body[100..200]);
    check(Payload::Repeat(100), &|body| body[..100] == body[100..200]);
    check(Payload::File(file.path().to_owned()), &|body| body.starts_with(b"abcabc"));
    let packed =
        Workload { compression: Compression::Lz4, payload: Payload::Repeat(10), ..Workload::default() };
    let message = &packed.messages().unwrap()[0];
    assert!(message.body.len() < 100 && message.sys_flag != 0 && !packed.is_marked());
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refused = |workload: Workload| workload.check().unwrap_err().to_string();
    let one_way = Workload { send: Send::OneWay, ..Workload::default() };
    assert!(refused(one_way.clone()).contains("needs a rate"));
    Workload { rate: Some(10.0), ..one_way.clone() }.check().unwrap();
    assert!(refused(Workload { rate: Some(10.0), checked: true, ..one_way }).contains("cannot be checked"));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(Workload { rate: Some(rate), ..Workload::default() }).contains("above 0"), "{rate}");
    }
    let ramp = |ramp| Workload { rate: Some(10.0), ramp: Some(ramp), ..Workload::default() };
    ramp((0.0, 1.0)).check().unwrap();
    assert!(refused(ramp((0.0, 0.0))).contains("seconds above 0"));
    assert!(refused(ramp((-1.0, 1.0))).contains("seconds above 0"));
    let nothing = Workload { threads: 0, ..Workload::default() };
    assert!(refused(nothing.clone()).contains("0 requests in flight: expected at least 1"));
    assert_eq!(nothing.check_over(2).unwrap_err().to_string(), refused(nothing), "whatever the machines");
    let half = Workload { send: Send::Transaction, batch: 4, ..Workload::default() };
    assert!(refused(half).contains("batches"));
    let pushed = Workload { consume: Consume::Orderly, checked: true, ..Workload::default() };
    assert!(refused(pushed).contains("push consumers only count"));
    let threads = Workload { consumer_threads: Some(4), groups: 1, ..Workload::default() };
    assert!(refused(threads.clone()).contains("--consume push"));
    Workload { consume: Consume::Push, ..threads.clone() }.check().unwrap();
    let nobody = |workload| assert!(refused(workload).contains("nobody consumes"));
    nobody(Workload { groups: 0, ..threads });
    nobody(Workload { consumers: 2, ..Workload::default() });
    nobody(Workload { consume: Consume::Push, ..Workload::default() });
    let several = |consumers| Workload { consumers, queues: 8, groups: 1, ..Workload::default() };
    several(8).check().unwrap();
    assert!(refused(several(9)).contains("9 consumers in a group: expected at most one for each of the 8"));
}

#[test]
fn the_queues_of_a_group_are_shared_by_its_consumers() {
    let check = |queues: u32, consumers, expected: &[usize]| {
        let queues: Vec<_> = (0..queues).collect();
        let shares: Vec<_> = shares(&queues, consumers).collect();
        assert_eq!(shares.iter().map(|share| share.len()).collect::<Vec<_>>(), expected);
        assert_eq!(shares.concat(), queues);
    };
    check(8, 1, &[8]);
    check(8, 2, &[4, 4]);
    check(10, 3, &[3, 3, 4]);
    check(2, 10, &[1, 1]);
}

#[test]
fn a_load_is_shared_without_loss() {
    let whole = Workload { threads: 8, rate: Some(900.0), ramp: Some((300.0, 5.0)), ..Workload::default() };
    let parts: Vec<_> = (0..3).map(|number| whole.share(number, 3)).collect();
    assert_eq!(parts.iter().map(|part| part.threads).collect::<Vec<_>>(), [3, 3, 2]);
    assert_eq!((parts[2].rate, parts[2].ramp), (Some(300.0), Some((100.0, 5.0))));
    assert_eq!(whole.share(0, 1), whole);
}

#[test]
fn the_share_of_an_agent_has_no_consumers_and_is_not_refused_for_that() {
    let read = Workload { threads: 8, groups: 2, queues: 8, ..Workload::default() };
    let loads = [
        Workload { consumers: 4, ..read.clone() },
        Workload { consume: Consume::Push, consumer_threads: Some(8), ..read.clone() },
        Workload { consume: Consume::Orderly, ..read },
    ];
    for whole in loads {
        whole.check_over(2).unwrap();
        let share = whole.share_to_send(1, 2);
        share.check().unwrap();
        assert_eq!((share.groups, share.threads, share.queues), (0, 4, 8));
        assert_eq!(whole.share(0, 2).consumers, whole.consumers, "the lab keeps them");
    }
}

#[test]
fn a_message_is_noted_before_it_is_sent() {
    let ledger = Arc::new(Ledger::new(4, 1));
    let workload = Workload { checked: true, ..Workload::default() };
    let target = Target { broker: "b".to_owned(), topic: None, queue_id: 0 };
    let mix = Mix::new(&workload, &workload.messages().unwrap(), (&[target], 3, [7; 10])).unwrap();
    let mix = mix.noted_in(Some(ledger.clone()));
    let stamp = Stamp {
        opaque: 1_000_000_001,
        epoch_ms: 1_700_000_000_123,
        month_ms: 5,
        counter: 6,
        sequence: 77,
        floor: 70,
        since_us: 1_700_000_000_123_000,
    };
    mix.append(&mut Vec::new(), 0, &stamp);
    assert!(ledger.has_issued(3, 77) && !ledger.has_issued(3, 78) && !ledger.has_issued(2, 77));
}

#[test]
fn seconds_of_generators_add_up() {
    let mut one = IntervalSample {
        at_ms: 2000,
        lasted_ms: 1000,
        sent: 10,
        cpu_us: 1_500_000,
        ..IntervalSample::default()
    };
    one.latency.saturating_record(100);
    let mut other = IntervalSample {
        at_ms: 2001,
        lasted_ms: 2000,
        sent: 30,
        cpu_us: 500_000,
        ..IntervalSample::default()
    };
    other.latency.saturating_record(300);
    one.add(&other);
    let second = one.second();
    assert_eq!((second.at_ms, second.lasted_ms, second.sent), (2001, 2000, 40), "counts, not rates");
    assert_eq!((second.sent_rate(), second.mean_us, second.max_us), (20.0, 200.0, 300));
    assert_eq!(second.lab_cores, 0.75, "of the one that used most");
}

#[test]
fn one_request_in_flight_goes_round_all_brokers() {
    let place = |broker: &str| {
        let echo = Echo::bind(&EchoOptions::local(1)).unwrap();
        let address = echo.address().unwrap();
        std::thread::spawn(move || echo.serve());
        Place { address, targets: vec![Target { broker: broker.to_owned(), topic: None, queue_id: 0 }] }
    };
    let places = ["a", "b", "c"].map(place);
    runtime::block_on(async {
        let workload = Workload { quantity: Some(1000), send_timeout_ms: 3_600_000, ..Workload::default() };
        let client = Client::start(client::Config::new("127.0.0.1:1"))?;
        let mut generator = Generator::over(&workload, client, places.into())?;
        generator.start_producers(&workload)?;
        assert_eq!(generator.connections.len(), 3, "a connection to every broker");
        // If a connection noticed only by its timer that it may send, every message would take a second.
        let ended = tokio::time::timeout(Duration::from_secs(120), generator.ended()).await;
        assert!(ended.is_ok(), "{} messages", generator.tally().snapshot(0).messages);
        assert_eq!(generator.tally().snapshot(0).messages, 1000);
        generator.stop().await;
        Ok(())
    })
    .unwrap();
}

#[test]
fn more_headers_than_memory_has_room_for_are_refused() {
    let workload = Workload { tags: 100_000, ..Workload::default() };
    let targets = [0; 8].map(|queue_id| Target { broker: "b".to_owned(), topic: None, queue_id });
    let refused = Mix::new(&workload, &workload.messages().unwrap(), (&targets, 0, [0; 10]));
    assert!(refused.unwrap_err().to_string().contains("at most 262144 are kept"));
}
