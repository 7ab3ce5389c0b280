use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use net::{Limits, Service as _};
use wire::codes::request as code;
use wire::header::SendHeader;

use super::*;
use crate::remoting::Dispatcher;
use crate::testing::{ADDRESS, Fixture, OUTCOME_CAP, answers};

/// The frame of a send to topic `T`, with a remark.
fn send_frame(opaque: i32, remark: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = Head { remark, ..Head::request(wire::frame::Encoding::Json, code::SEND_MESSAGE_V2, opaque) };
    let header = SendHeader {
        producer_group: "P",
        topic: "T",
        default_topic: "TBW102",
        default_topic_queue_nums: 1,
        ..SendHeader::default()
    };
    header.write(FrameWriter::begin(&mut bytes, head)).finish(b"body");
    bytes
}

/// Forwards sends that came `came_ms` after the present, and returns code and id of their responses.
fn forwarded(fixture: &Fixture, opaques: &[i32], came_ms: i64) -> Vec<(i32, i32)> {
    let frames = opaques.iter().map(|opaque| send_frame(*opaque, None)).collect();
    forwarded_while(fixture, frames, came_ms, || {})
}

/// Forwards requests and calls `event` while the requests are held.
fn forwarded_while(
    fixture: &Fixture,
    frames: Vec<Vec<u8>>,
    came_ms: i64,
    event: impl FnOnce(),
) -> Vec<(i32, i32)> {
    let broker = &fixture.broker;
    let count = frames.len();
    let (forwards, taken) = Forwards::new(OUTCOME_CAP);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let caller = Caller { remote: ADDRESS, version: 0, user: auth::Subject::Off };
    for mut bytes in frames {
        let frame = RequestFrame::new(Command::decode(&mut bytes).unwrap());
        forwards.forward((&peer, &caller), &frame, &Port::Own, broker.runtime.now_ms() + came_ms).unwrap();
    }
    run_while(fixture, taken, async {
        event();
        answers_of(&peer, count).await
    })
}

/// Waits for `count` responses to a client.
async fn answers_of(peer: &Arc<ConnectionHandle>, count: usize) -> Vec<(i32, i32)> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(answers(peer.pushed()));
        pause(Duration::from_millis(1)).await;
    }
    all
}

/// Forwards requests until the responses are known.
fn run_while(
    fixture: &Fixture,
    taken: Taken,
    answered: impl Future<Output = Vec<(i32, i32)>>,
) -> Vec<(i32, i32)> {
    let tasks = Workers::start("forwards", 1, Limits::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all = runtime.block_on(within(OUTCOME_CAP, async {
        tokio::select! {
            biased;
            () = run(fixture.broker.clone(), tasks.clone(), taken) => panic!("it runs until the broker stops"),
            all = answered => all,
        }
    }));
    tasks.shutdown();
    all.expect("all are answered")
}

#[test]
fn no_request_waits_longer_because_others_wait_before_it() {
    let fixture = Fixture::new();
    fixture.broker.replication.role.fence();
    let busy = |opaque| (response::SYSTEM_BUSY, opaque);
    assert_eq!(forwarded(&fixture, &[1, 2, 3], -2_000), [busy(1), busy(2), busy(3)]);
}

#[test]
fn a_broker_that_has_become_master_meanwhile_serves_what_it_holds() {
    let fixture = Fixture::new();
    fixture.broker.tables.topics.put(wire::body::topic::TopicConfig::new("T", 1, 6), 0).unwrap();
    assert_eq!(forwarded(&fixture, &[7], 3_600_000), [(response::SUCCESS, 7)]);
}

#[test]
fn a_forwarded_request_is_not_forwarded_again() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    broker.replication.role.fence();
    let (forwards, mut taken) = Forwards::new(OUTCOME_CAP);
    let dispatcher = Dispatcher::forwarding(broker.clone(), Port::Own, Some(forwards));
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let ask = |remark| {
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        let mut bytes = send_frame(1, remark);
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        out
    };
    assert!(ask(None).is_empty() && taken.requests.try_recv().is_ok());
    let mut refused =
        ask(Some(&source::remark(broker, &Command::decode(&mut send_frame(1, None)).unwrap(), ADDRESS)));
    assert_eq!(Command::decode(&mut refused).unwrap().remark, Some(NOT_MASTER));
    assert!(taken.requests.try_recv().is_err());
}

/// The frame of a commit of offset 5.
fn commit_frame(opaque: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = Head::request(wire::frame::Encoding::Json, code::UPDATE_CONSUMER_OFFSET, opaque);
    let writer = FrameWriter::begin(&mut bytes, head).text("consumerGroup", "G").text("topic", "T");
    writer.number("queueId", 0).number("commitOffset", 5).finish(b"");
    bytes
}

/// The frame of an acknowledgement of a message that was popped here.
fn ack_frame(opaque: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = Head::request(wire::frame::Encoding::Json, code::ACK_MESSAGE, opaque);
    let writer = FrameWriter::begin(&mut bytes, head).text("consumerGroup", "G").text("topic", "T");
    let writer = writer.number("queueId", 0).number("offset", 0);
    writer.text("extraInfo", "0 1 60000 0 0 b 0 0").finish(b"");
    bytes
}

/// A slave of a group with acting masters, whose master is gone.
fn slave_without_master() -> Fixture {
    let fixture = Fixture::with(|config| {
        config.replication.role = crate::config::Role::Slave;
        config.replication.acting.is_enabled = true;
        config.replication.acting.skips_pre_online = true;
        config.slave_read_enable = true;
    });
    fixture.queue("T", 0);
    fixture.broker.tables.groups.make("G", 1).unwrap();
    fixture
}

#[test]
fn requests_held_for_a_lost_master_are_served_once_the_slave_acts() {
    let fixture = slave_without_master();
    let broker = &fixture.broker;
    let frames = vec![commit_frame(1), ack_frame(2), send_frame(3, None)];
    let act = || broker.replication.acting.set_acting(true);
    let all = forwarded_while(&fixture, frames, 3_600_000, act);
    assert_eq!(all, [(response::SUCCESS, 1), (response::SUCCESS, 2), (response::SYSTEM_BUSY, 3)]);
    assert_eq!(broker.tables.offsets.committed("G", "T", 0), Some(5));
}

fn read_frame(stream: &mut std::net::TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    let mut rest = vec![0; usize::try_from(u32::from_be_bytes(bytes)).unwrap()];
    stream.read_exact(&mut rest)?;
    Ok([&bytes[..], &rest].concat())
}

/// A master of the slave that takes connections and requests, and never answers. Calls `event` with the number of
/// the connection after each request.
fn silent_master(broker: &Broker, event: impl Fn(usize) + Send + Sync + 'static) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    broker.replication.replicas.learn(Some(&listener.local_addr().unwrap().to_string()), None);
    let event = Arc::new(event);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (mut stream, event) = (stream.unwrap(), event.clone());
            std::thread::spawn(move || {
                while read_frame(&mut stream).is_ok() {
                    event(number + 1);
                }
            });
        }
    });
}

#[test]
fn a_commit_that_a_silent_master_has_is_served_once_the_slave_acts() {
    let fixture = slave_without_master();
    let (broker, requests) = (fixture.broker.clone(), AtomicUsize::new(0));
    silent_master(&fixture.broker, move |_| {
        if requests.fetch_add(1, Ordering::SeqCst) == 1 {
            broker.replication.acting.set_acting(true);
        }
    });
    let mut all = forwarded_while(&fixture, vec![commit_frame(1), send_frame(2, None)], 3_600_000, || {});
    all.sort_by_key(|(_, opaque)| *opaque);
    assert_eq!(all, [(response::SUCCESS, 1), (response::SYSTEM_ERROR, 2)], "a send may be stored");
    assert_eq!(fixture.broker.tables.offsets.committed("G", "T", 0), Some(5));
}

#[test]
fn a_commit_that_is_held_again_does_not_lower_the_offset() {
    let fixture = slave_without_master();
    let (broker, requests) = (fixture.broker.clone(), AtomicUsize::new(0));
    silent_master(&fixture.broker, move |_| {
        if requests.fetch_add(1, Ordering::SeqCst) == 1 {
            // A later commit overtakes the commit of 5.
            assert!(broker.tables.offsets.commit("G", "T", 0, 9));
            broker.replication.acting.set_acting(true);
        }
    });
    let mut unlock = Vec::new();
    Head::request(wire::frame::Encoding::Json, code::UNLOCK_BATCH_MQ, 2).write(&mut unlock, b"{}");
    let mut all = forwarded_while(&fixture, vec![commit_frame(1), unlock], 3_600_000, || {});
    all.sort_by_key(|(_, opaque)| *opaque);
    assert_eq!(all, [(response::SUCCESS, 1), (response::SYSTEM_ERROR, 2)], "an unlock is not repeated");
    assert_eq!(fixture.broker.tables.offsets.committed("G", "T", 0), Some(9));
}

#[test]
fn a_commit_that_is_forwarded_again_does_not_lower_the_offset_of_the_next_master() {
    let fixture = slave_without_master();
    let second = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (broker, address) = (fixture.broker.clone(), second.local_addr().unwrap().to_string());
    silent_master(&fixture.broker, move |_| broker.replication.replicas.learn(Some(&address), None));
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(read_frame(&mut second.accept().unwrap().0).unwrap()));
    let (forwards, taken) = Forwards::new(OUTCOME_CAP);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let caller = Caller { remote: ADDRESS, version: 0, user: auth::Subject::Off };
    let (mut bytes, mut forwarded) = (commit_frame(1), Vec::new());
    let frame = RequestFrame::new(Command::decode(&mut bytes).unwrap());
    let until_ms = fixture.broker.runtime.now_ms() + 3_600_000;
    forwards.forward((&peer, &caller), &frame, &Port::Own, until_ms).unwrap();
    run_while(&fixture, taken, async {
        while forwarded.is_empty() {
            forwarded = received.try_recv().unwrap_or_default();
            pause(Duration::from_millis(1)).await;
        }
        Vec::new()
    });
    // The next master has performed a later commit of the client meanwhile.
    let next = Fixture::new();
    next.queue("T", 0);
    next.broker.tables.groups.make("G", 1).unwrap();
    assert!(next.broker.tables.offsets.commit("G", "T", 0, 9));
    let dispatcher = Dispatcher::new(next.broker.clone(), Port::Own);
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut forwarded).unwrap(), &mut out);
    assert_eq!(Command::decode(&mut out).unwrap().code, response::SUCCESS);
    assert_eq!(next.broker.tables.offsets.committed("G", "T", 0), Some(9));
}

#[test]
fn a_request_is_repeated_with_pauses_while_the_master_closes_its_connections() {
    let fixture = slave_without_master();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    fixture.broker.replication.replicas.learn(Some(&address), None);
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = read_frame(&mut stream.unwrap());
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let held_ms = 600;
    let busy = [(response::SYSTEM_BUSY, 1)];
    assert_eq!(forwarded_while(&fixture, vec![commit_frame(1)], held_ms - HELD_MS, || {}), busy);
    let most = held_ms / i64::try_from(RETRY_PAUSE.as_millis()).unwrap() + 2;
    let requests = i64::try_from(requests.load(Ordering::SeqCst)).unwrap();
    assert!((1..=most).contains(&requests), "{requests} requests, expected at most {most}");
}

#[test]
fn a_master_may_take_as_long_for_a_response_as_its_disk_and_its_slaves() {
    let check = |flush_ms, slave_ms, expected_ms| {
        let (mut config, _) = Config::from_properties(b"").unwrap();
        config.store.flush_timeout = Duration::from_millis(flush_ms);
        config.replication.slave_timeout_ms = slave_ms;
        assert_eq!(answer_timeout(&config), Duration::from_millis(expected_ms));
    };
    check(5_000, 3_000, 9_000);
    check(60_000, 3_000, 64_000);
    check(100, 100, 6_000);
}

#[test]
fn no_request_goes_to_a_connection_on_which_the_master_was_silent() {
    let fixture = slave_without_master();
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = connections.clone();
    silent_master(&fixture.broker, move |number| seen.store(number, Ordering::SeqCst));
    let (forwards, mut taken) = Forwards::new(OUTCOME_CAP);
    taken.answer_timeout = Duration::from_millis(50);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let caller = Caller { remote: ADDRESS, version: 0, user: auth::Subject::Off };
    let all = run_while(&fixture, taken, async {
        let mut all = Vec::new();
        for opaque in [1, 2] {
            let mut bytes = send_frame(opaque, None);
            let frame = RequestFrame::new(Command::decode(&mut bytes).unwrap());
            let now_ms = fixture.broker.runtime.now_ms();
            forwards.forward((&peer, &caller), &frame, &Port::Own, now_ms + 3_600_000).unwrap();
            all.extend(answers_of(&peer, 1).await);
        }
        all
    });
    assert_eq!(all, [(response::SYSTEM_ERROR, 1), (response::SYSTEM_ERROR, 2)]);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[test]
fn an_acknowledgement_is_held_only_while_a_slave_may_act_soon() {
    let fixture = slave_without_master();
    let broker = &fixture.broker;
    let (forwards, mut taken) = Forwards::new(OUTCOME_CAP);
    let dispatcher = Dispatcher::forwarding(broker.clone(), Port::Own, Some(forwards));
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let mut ask = |follows| {
        broker.replication.replicas.set_follows(follows);
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        let mut bytes = ack_frame(1);
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        let code = (!out.is_empty()).then(|| Command::decode(&mut out).unwrap().code);
        (code, taken.requests.try_recv().is_ok())
    };
    assert_eq!(ask(false), (None, true));
    assert_eq!(ask(true), (Some(response::SERVICE_NOT_AVAILABLE), false), "the master is there");
    // No slave acted in time.
    let unserved = [(response::SERVICE_NOT_AVAILABLE, 4)];
    assert_eq!(forwarded_while(&fixture, vec![ack_frame(4)], -2_000, || {}), unserved);
}

#[test]
fn a_slave_that_acts_for_its_master_commits_by_itself_and_passes_nothing_on() {
    let fixture = slave_without_master();
    let broker = &fixture.broker;
    let (forwards, mut taken) = Forwards::new(OUTCOME_CAP);
    let dispatcher = Dispatcher::forwarding(broker.clone(), Port::Own, Some(forwards));
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let ask = |mut bytes: Vec<u8>| {
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        (!out.is_empty()).then(|| Command::decode(&mut out).unwrap().code)
    };
    let commit = || commit_frame(1);
    assert_eq!((ask(commit()), broker.tables.offsets.committed("G", "T", 0)), (None, None));
    assert!(taken.requests.try_recv().is_ok(), "it is held for the master");
    broker.replication.acting.set_acting(true);
    assert_eq!((ask(commit()), broker.tables.offsets.committed("G", "T", 0)), (Some(0), Some(5)));
    assert_eq!(ask(send_frame(1, None)), Some(response::SYSTEM_BUSY), "a send is refused as by every slave");
    assert!(taken.requests.try_recv().is_err());
}

#[test]
fn a_field_whose_key_needs_escapes_is_not_forwarded() {
    let head = || Head::request(wire::frame::Encoding::Json, code::SEND_MESSAGE_V2, 1);
    let mut bytes = Vec::new();
    let writer = FrameWriter::begin(&mut bytes, head()).text(r#"a\"quote"#, "x").text(r"a\\backslash", "y");
    writer.text(r"a\nline", "z").text("b", "T").finish(b"body");
    let command = Command::decode(&mut bytes).unwrap();
    assert_eq!(command.fields.len(), 4);
    let mut copied = Vec::new();
    copy(&command, FrameWriter::begin(&mut copied, head()));
    let copied = Command::decode(&mut copied).expect("the master can read it");
    assert_eq!(copied.fields.iter().collect::<Vec<_>>(), [(&b"b"[..], &b"T"[..])]);
    assert_eq!(copied.body, b"body");
}
