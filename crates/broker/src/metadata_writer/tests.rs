//! Requests that wait for the metadata writer.

use net::ConnectionHandle;
use wire::body::TopicConfig;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head, frame_length};
use wire::header::SendHeader;

use super::*;
use crate::remoting::{Dispatcher, Port};
use crate::testing::{Fixture, answers};

fn peer(id: u64) -> Arc<ConnectionHandle> {
    Arc::new(ConnectionHandle::detached(id, crate::testing::ADDRESS))
}

/// Passes a request to the broker and returns the response that is written at once.
fn ask(
    fixture: &Fixture,
    peer: &Arc<ConnectionHandle>,
    head: Head<'_>,
    fields: impl FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    body: &[u8],
) -> Vec<u8> {
    use net::Service as _;
    let mut bytes = Vec::new();
    fields(FrameWriter::begin(&mut bytes, head)).finish(body);
    let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    dispatcher.frame(&mut read_batch, peer, Command::decode(&mut bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, peer, &mut out);
    out
}

fn put_topic(
    fixture: &Fixture,
    peer: &Arc<ConnectionHandle>,
    opaque: i32,
    name: &str,
    more: &[(&str, &str)],
) -> Vec<u8> {
    let head = Head::request(Encoding::Json, request::UPDATE_AND_CREATE_TOPIC, opaque);
    ask(
        fixture,
        peer,
        head,
        |writer| {
            let writer = writer.text("topic", name).number("readQueueNums", 4).number("writeQueueNums", 4);
            let writer = writer.number("perm", 6);
            more.iter().fold(writer, |writer, (key, value)| writer.text(key, value))
        },
        b"",
    )
}

fn version(fixture: &Fixture) -> i64 {
    fixture.broker.tables.topics.version().counter
}

#[test]
fn changes_that_come_together_are_written_once_and_answered_behind_it() {
    let fixture = Fixture::new();
    let (one, two) = (peer(1), peer(2));
    let before = version(&fixture);
    for number in 0..50 {
        let peer = if number % 2 == 0 { &one } else { &two };
        assert!(put_topic(&fixture, peer, number, &format!("T{number}"), &[]).is_empty());
    }
    assert!(fixture.broker.tables.topics.find("T7").is_none() && one.pushed().is_empty());
    fixture.broker.metadata_parts().settle();
    assert_eq!(version(&fixture), before + 1, "one write");
    let (even, odd) = (answers(one.pushed()), answers(two.pushed()));
    assert_eq!(even, (0..50).step_by(2).map(|number| (0, number)).collect::<Vec<_>>());
    assert_eq!(odd.len(), 25);
    let fixture = fixture.reopened();
    assert!((0..50).all(|number| fixture.broker.tables.topics.find(&format!("T{number}")).is_some()));
}

#[test]
fn a_refused_change_leaves_the_others_of_its_round_alone() {
    let fixture = Fixture::new();
    let peer = peer(1);
    put_topic(&fixture, &peer, 1, "Good", &[("attributes", "+message.type=FIFO")]);
    put_topic(&fixture, &peer, 2, "Bad", &[("attributes", "+what=1")]);
    put_topic(&fixture, &peer, 3, "Good", &[("attributes", "-message.type")]);
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(0, 1), (1, 2), (0, 3)]);
    assert!(fixture.broker.tables.topics.find("Bad").is_none());
    assert!(fixture.broker.tables.topics.find("Good").unwrap().config.attributes.is_empty());
    let before = version(&fixture);
    put_topic(&fixture, &peer, 4, "Good", &[]);
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(0, 4)]);
    assert_eq!(version(&fixture), before, "the same once more is no change");
}

#[test]
fn when_the_file_cannot_be_written_everybody_is_told_and_nothing_is_visible() {
    let fixture = Fixture::new();
    let peer = peer(1);
    let obstacle = fixture.config_path("topics.json.tmp");
    std::fs::create_dir_all(&obstacle).unwrap();
    put_topic(&fixture, &peer, 1, "A", &[]);
    put_topic(&fixture, &peer, 2, "B", &[]);
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(1, 1), (1, 2)]);
    assert!(fixture.broker.tables.topics.find("A").is_none());
    std::fs::remove_dir(&obstacle).unwrap();
    put_topic(&fixture, &peer, 3, "A", &[]);
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(0, 3)]);
}

#[test]
fn a_heartbeat_of_many_new_groups_is_one_write_of_each_file() {
    let fixture = Fixture::new();
    let peer = peer(1);
    let groups: Vec<_> =
        (0..2000).map(|number| format!(r#"{{"groupName":"g{number}","subscriptionDataSet":[]}}"#)).collect();
    let body = format!(r#"{{"clientID":"c","consumerDataSet":[{}],"producerDataSet":[]}}"#, groups.join(","));
    let head = Head::request(Encoding::Json, request::HEART_BEAT, 5);
    let before = (version(&fixture), fixture.broker.tables.groups.version().counter);
    assert!(ask(&fixture, &peer, head, |writer| writer, body.as_bytes()).is_empty());
    fixture.broker.metadata_parts().settle();
    assert_eq!(
        (version(&fixture), fixture.broker.tables.groups.version().counter),
        (before.0 + 1, before.1 + 1)
    );
    let told = answers(peer.pushed());
    assert_eq!(told.last(), Some(&(0, 5)), "notices of the new groups come first");
    assert!(fixture.broker.tables.topics.find("%RETRY%g1999").is_some());
    assert_eq!(fixture.broker.sessions.clients.client_ids("g1999").len(), 1);
}

#[test]
fn sends_to_a_new_topic_are_stored_in_their_order_with_the_encoding_they_came_in() {
    let fixture = Fixture::new();
    let default = TopicConfig::new(crate::names::DEFAULT_TOPIC, 8, 7);
    fixture.broker.tables.topics.put(default, 1).unwrap();
    let peer = peer(1);
    for opaque in 0..3 {
        let encoding = if opaque == 1 { Encoding::Binary } else { Encoding::Json };
        let header = SendHeader {
            producer_group: "PG",
            topic: "New",
            default_topic: crate::names::DEFAULT_TOPIC,
            default_topic_queue_nums: 4,
            ..SendHeader::default()
        };
        let head = Head::request(encoding, request::SEND_MESSAGE_V2, opaque);
        let at_once = ask(&fixture, &peer, head, |writer| header.write(writer), &[b'a' + opaque as u8]);
        assert!(at_once.is_empty());
    }
    fixture.broker.metadata_parts().settle();
    let mut bytes = peer.pushed();
    let second = frame_length(&bytes).unwrap().unwrap();
    assert_eq!(bytes[second + 4], 1, "answered in the binary encoding");
    let bodies = fixture.messages("New", 0).into_iter().map(|(body, ..)| body).collect::<Vec<_>>();
    assert_eq!(bodies, [b"a", b"b", b"c"]);
    assert_eq!(answers(std::mem::take(&mut bytes)), [(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn a_topic_is_deleted_with_its_offsets() {
    let fixture = Fixture::new();
    let peer = peer(1);
    fixture.queue("T", 0);
    fixture.broker.tables.offsets.commit("g", "T", 0, 7);
    let head = Head::request(Encoding::Json, request::DELETE_TOPIC_IN_BROKER, 1);
    ask(&fixture, &peer, head, |writer| writer.text("topic", "T"), b"");
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(0, 1)]);
    assert!(fixture.broker.tables.topics.find("T").is_none());
    assert_eq!(fixture.broker.tables.offsets.committed("g", "T", 0), None);
    assert!(fixture.broker.store.find_queue("T", 0).is_none());
}

#[test]
fn the_positions_of_a_deleted_topic_are_off_the_disk_before_its_connection_goes_on() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    fixture.broker.tables.offsets.commit("g", "T", 0, 7);
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    let change = Change::from(TopicChange::Remove("T".to_owned()));
    fixture.broker.metadata_parts().store_changes(std::iter::once(change)).remove(0).unwrap();
    let fixture = fixture.killed();
    assert_eq!(fixture.broker.tables.offsets.committed("g", "T", 0), None);
}

#[test]
fn a_topic_is_deleted_with_what_its_groups_popped_of_it() {
    let fixture = Fixture::new();
    for group in ["g", "h_T"] {
        fixture.broker.tables.groups.make(group, 1).unwrap();
    }
    let retries = ["%RETRY%g_T", "%RETRY%g+T", "%RETRY%g", "%RETRY%g_U", "%RETRY%h_T"];
    for topic in ["T"].into_iter().chain(retries) {
        fixture.put(topic, 0, b"m", b"");
        fixture.broker.tables.offsets.commit("g", topic, 0, 1);
    }
    // `%RETRY%h_T` is also the retry topic of the group named `h_T`.
    fixture.broker.tables.offsets.commit("h", "T", 0, 1);
    assert_eq!(fixture.ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", "T")], b"").0, 0);
    let broker = &fixture.broker;
    for topic in ["T", "%RETRY%g_T", "%RETRY%g+T"] {
        assert!(broker.tables.topics.find(topic).is_none(), "{topic}");
        assert!(broker.store.find_queue(topic, 0).is_none(), "{topic}");
        assert_eq!(broker.tables.offsets.committed("g", topic, 0), None, "{topic}");
    }
    for topic in ["%RETRY%g", "%RETRY%g_U", "%RETRY%h_T"] {
        assert!(broker.tables.topics.find(topic).is_some(), "{topic}");
        assert!(broker.store.find_queue(topic, 0).is_some(), "{topic}");
        assert_eq!(broker.tables.offsets.committed("g", topic, 0), Some(1), "{topic}");
    }
}

#[test]
fn what_a_crash_left_of_a_deleted_topic_goes_when_it_is_deleted_again() {
    let fixture = Fixture::new();
    fixture.broker.tables.offsets.commit("g", "T", 0, 7);
    assert_eq!(fixture.ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", "T")], b"").0, 0);
    assert_eq!(fixture.broker.tables.offsets.committed("g", "T", 0), None);
}

#[test]
fn what_waits_is_written_when_the_broker_stops() {
    let fixture = Fixture::new();
    let peer = peer(1);
    let mut writer = MetadataWriter::new(fixture.broker.metadata_parts());
    put_topic(&fixture, &peer, 1, "T", &[]);
    writer.stop();
    assert_eq!(answers(peer.pushed()), [(0, 1)]);
    let refused = put_topic(&fixture, &peer, 2, "U", &[]);
    assert_eq!(answers(refused), [(2, 2)]);
}

#[test]
fn before_it_stops_a_broker_sends_newer_clients_elsewhere() {
    let fixture = Fixture::new();
    let code = |version: i16| {
        use net::Service as _;
        let mut bytes = Vec::new();
        Head::request(Encoding::Binary, request::GET_BROKER_CONFIG, 1).write(&mut bytes, b"");
        bytes[11..13].copy_from_slice(&version.to_be_bytes());
        let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        dispatcher.frame(&mut read_batch, &peer(1), Command::decode(&mut bytes).unwrap(), &mut out);
        answers(out)[0].0
    };
    let (new, old) = (wire::codes::VERSION_5_3_1 as i16 + 4, 409);
    assert_eq!((code(new), code(old)), (0, 0));
    fixture.broker.runtime.draining.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!((code(new), code(old)), (wire::codes::response::GO_AWAY, 0));
}

#[test]
fn a_request_that_waits_is_charged_to_its_connection_until_it_is_answered() {
    let fixture = Fixture::new();
    let peer = peer(1);
    assert!(put_topic(&fixture, &peer, 1, "T", &[]).is_empty());
    let one = peer.unanswered();
    assert!(one > 0);
    assert!(put_topic(&fixture, &peer, 2, "U", &[]).is_empty());
    assert_eq!(peer.unanswered(), 2 * one);
    fixture.broker.metadata_parts().settle();
    assert_eq!((answers(peer.pushed()), peer.unanswered()), (vec![(0, 1), (0, 2)], 0));
}

fn delete_topic(fixture: &Fixture, peer: &Arc<ConnectionHandle>, opaque: i32, name: &str) {
    let head = Head::request(Encoding::Json, request::DELETE_TOPIC_IN_BROKER, opaque);
    assert!(ask(fixture, peer, head, |writer| writer.text("topic", name), b"").is_empty());
}

fn bodies(fixture: &Fixture, topic: &str) -> Vec<Vec<u8>> {
    fixture.messages(topic, 0).into_iter().map(|(body, ..)| body).collect()
}

#[test]
fn a_topic_deleted_and_made_again_in_one_round_is_there_and_begins_anew() {
    let fixture = Fixture::new();
    let peer = peer(1);
    fixture.put("T", 0, b"old", b"");
    fixture.broker.tables.offsets.commit("g", "T", 0, 1);
    delete_topic(&fixture, &peer, 1, "T");
    delete_topic(&fixture, &peer, 2, "T");
    put_topic(&fixture, &peer, 3, "T", &[]);
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(0, 1), (0, 2), (0, 3)]);
    assert_eq!(fixture.broker.tables.topics.find("T").unwrap().config.write_queue_nums, 4);
    assert_eq!(fixture.broker.tables.offsets.committed("g", "T", 0), None);
    fixture.put("T", 0, b"new", b"");
    assert_eq!(bodies(&fixture, "T"), [b"new"]);
}

#[test]
fn a_topic_that_found_the_queues_of_a_deleted_one_opens_others_when_they_go() {
    let fixture = Fixture::new();
    fixture.put("T", 0, b"old", b"");
    let generation = fixture.broker.tables.topics.generation();
    // As if the topic was created again while the deleted one was cleared away.
    fixture.broker.metadata_parts().clear_away(&[&"T".to_owned()]);
    assert!(fixture.broker.tables.topics.generation() > generation, "whoever has it at hand looks again");
    fixture.put("T", 0, b"new", b"");
    assert_eq!(bodies(&fixture, "T"), [b"new"]);
    let topic = fixture.broker.tables.topics.find("T").unwrap();
    fixture.broker.tables.topics.reopen("T");
    assert!(Arc::ptr_eq(&topic, &fixture.broker.tables.topics.find("T").unwrap()), "its queues are there");
}

/// Pulls the first queue of a topic; the pull is suspended.
fn pull(fixture: &Fixture, peer: &Arc<ConnectionHandle>) {
    use wire::header::{PullHeader, pull_flag};
    let header = PullHeader {
        consumer_group: "g",
        topic: "T",
        sys_flag: pull_flag::SUSPEND | pull_flag::SUBSCRIPTION,
        max_messages: 1,
        suspend_timeout_ms: 60_000,
        subscription: "*",
        ..PullHeader::default()
    };
    let pull = Head::request(Encoding::Json, request::PULL_MESSAGE, 1);
    assert!(ask(fixture, peer, pull, |writer| header.write(writer), b"").is_empty(), "it is held");
}

#[test]
fn who_waits_at_a_topic_that_is_deleted_asks_again() {
    let fixture = Fixture::new();
    let peer = peer(1);
    fixture.queue("T", 0);
    fixture.broker.tables.groups.make("g", 1).unwrap();
    pull(&fixture, &peer);
    delete_topic(&fixture, &peer, 2, "T");
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(0, 2), (response::PULL_RETRY_IMMEDIATELY, 1)]);
}

#[test]
fn everybody_who_pops_a_topic_that_is_deleted_asks_again() {
    let fixture = Fixture::new();
    let peer = peer(1);
    fixture.queue("T", 1);
    fixture.broker.tables.groups.make("g", 1).unwrap();
    let pop = |opaque, queue_id: i32| {
        let head = Head::request(Encoding::Json, request::POP_MESSAGE, opaque);
        let at_once = ask(
            &fixture,
            &peer,
            head,
            |writer| {
                let writer = writer.text("consumerGroup", "g").text("topic", "T").number("queueId", queue_id);
                let writer =
                    writer.number("maxMsgNums", 1).number("invisibleTime", 60_000).number("initMode", 0);
                writer.number("pollTime", 60_000).number("bornTime", 0)
            },
            b"",
        );
        assert!(at_once.is_empty(), "it is held");
    };
    (1..=3).for_each(|opaque| pop(opaque, -1));
    (4..=6).for_each(|opaque| pop(opaque, 1));
    delete_topic(&fixture, &peer, 7, "T");
    fixture.broker.metadata_parts().settle();
    let mut told = answers(peer.pushed());
    told.sort_unstable_by_key(|(_, opaque)| *opaque);
    let expected: Vec<_> =
        (1..=6).map(|opaque| (response::TOPIC_NOT_EXIST, opaque)).chain([(0, 7)]).collect();
    assert_eq!(told, expected);
}

#[test]
fn a_late_copy_for_a_deleted_topic_wakes_who_waits_at_the_one_made_since() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    let peer = peer(1);
    broker.tables.groups.make("g", 1).unwrap();
    let nobodys = crate::schedule::target(&broker.delivery, &broker.runtime, "T", 0, 1).unwrap();
    fixture.queue("T", 0);
    pull(&fixture, &peer);
    let mut batch = broker.store.batch();
    batch.push(&nobodys.index, &crate::testing::message(b"late", b"")).unwrap();
    broker.store.append(&mut batch, broker.runtime.now_ms()).unwrap();
    broker.delivery.grown(batch.end(), vec![nobodys]);
    assert_eq!(answers(peer.pushed()), [(0, 1)]);
}

#[test]
fn who_makes_a_topic_is_answered_when_the_name_servers_know_it() {
    let fixture = Fixture::new();
    let (peer, told) = (peer(1), &fixture.broker.replication.registration_acks);
    let tasks = net::Workers::start("tasks", 1, net::Limits::default()).unwrap();
    fixture.broker.sessions.client_calls.start(tasks.clone());
    let before = fixture.broker.tables.topics.generation();
    told.note("one", before);
    told.note("two", before);
    put_topic(&fixture, &peer, 1, "T", &[]);
    put_topic(&fixture, &peer, 2, "U", &[("attributes", "+what=1")]);
    let make = Head::request(Encoding::Json, request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 3);
    ask(&fixture, &peer, make, |writer| writer, br#"{"groupName":"g"}"#);
    fixture.broker.metadata_parts().settle();
    assert!(fixture.broker.tables.topics.find("T").is_some());
    assert_eq!(answers(peer.pushed()), [(1, 2), (0, 3)], "what is refused or no topic waits for nobody");
    told.note("one", before + 1);
    assert!(peer.pushed().is_empty() && peer.unanswered() > 0);
    told.lose("two");
    crate::testing::until("all is answered", || peer.unanswered() == 0);
    assert_eq!(answers(peer.pushed()), [(0, 1)]);
    assert_eq!(fixture.broker.runtime.metadata_queue.unacknowledged_bytes.load(Ordering::Relaxed), 0);
    tasks.shutdown();
}

#[test]
fn a_group_made_behind_its_deletion_stays() {
    let fixture = Fixture::new();
    let peer = peer(1);
    fixture.broker.tables.groups.make("g", 1).unwrap();
    let delete = Head::request(Encoding::Json, request::DELETE_SUBSCRIPTIONGROUP, 1);
    ask(&fixture, &peer, delete, |writer| writer.text("groupName", "g"), b"");
    let make = Head::request(Encoding::Json, request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 2);
    ask(&fixture, &peer, make, |writer| writer, br#"{"groupName":"g","retryMaxTimes":3}"#);
    fixture.broker.metadata_parts().settle();
    assert_eq!(answers(peer.pushed()), [(0, 1), (0, 2)]);
    assert_eq!(fixture.broker.tables.groups.find("g").unwrap().retry_max_times, 3);
}

#[test]
fn the_offsets_of_a_deleted_group_are_off_the_disk_when_it_is_answered() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    for group in ["cleaned", "kept"] {
        fixture.broker.tables.groups.make(group, 1).unwrap();
    }
    for group in ["cleaned", "kept", "unknown"] {
        fixture.broker.tables.offsets.commit(group, "T", 0, 7);
    }
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    for (group, clean) in [("cleaned", "true"), ("kept", "false"), ("unknown", "true")] {
        let fields = [("groupName", group), ("cleanOffset", clean)];
        assert_eq!(fixture.ask(request::DELETE_SUBSCRIPTIONGROUP, &fields, b"").0, 0);
    }
    let fixture = fixture.killed();
    for (group, committed) in [("cleaned", None), ("kept", Some(7)), ("unknown", None)] {
        assert!(fixture.broker.tables.groups.find(group).is_none(), "{group}");
        assert_eq!(fixture.broker.tables.offsets.committed(group, "T", 0), committed, "{group}");
    }
}

#[test]
fn the_offsets_of_a_group_that_cannot_be_deleted_stay() {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture.broker.tables.offsets.commit("g", "T", 0, 7);
    std::fs::create_dir_all(fixture.config_path("subscriptionGroup.json.tmp")).unwrap();
    let fields = [("groupName", "g"), ("cleanOffset", "true")];
    assert_eq!(fixture.ask(request::DELETE_SUBSCRIPTIONGROUP, &fields, b"").0, 1);
    assert!(fixture.broker.tables.groups.find("g").is_some());
    assert_eq!(fixture.broker.tables.offsets.committed("g", "T", 0), Some(7));
}

#[test]
fn a_light_group_is_deleted_with_its_offsets_though_it_stands_in_no_table() {
    let fixture = Fixture::with(|config| config.store.multi_dispatch = true);
    fixture.broker.tables.offsets.commit("%LMQ%g", "%LMQ%one", 0, 5);
    let version = fixture.broker.tables.groups.version();
    let fields = [("groupName", "%LMQ%g"), ("cleanOffset", "true")];
    assert_eq!(fixture.ask(request::DELETE_SUBSCRIPTIONGROUP, &fields, b"").0, 0);
    assert_eq!(fixture.broker.tables.offsets.committed("%LMQ%g", "%LMQ%one", 0), None);
    assert_eq!(fixture.broker.tables.groups.version(), version);
}

#[test]
fn without_the_thread_that_writes_nobody_waits_in_vain() {
    let fixture = Fixture::new();
    let peer = peer(1);
    assert!(put_topic(&fixture, &peer, 1, "T", &[]).is_empty());
    // The same happens when the thread panics.
    drop(MetadataWriter::new(fixture.broker.metadata_parts()));
    assert_eq!(answers(peer.pushed()), [(response::SERVICE_NOT_AVAILABLE, 1)]);
    let refused = put_topic(&fixture, &peer, 2, "U", &[]);
    assert_eq!(answers(refused), [(response::SERVICE_NOT_AVAILABLE, 2)]);
    assert_eq!(peer.unanswered(), 0);
}

#[test]
fn counts_of_decisions_go_with_their_topic() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    fixture.broker.delivery.transactions.lock().count_commit("T", 1);
    delete_topic(&fixture, &peer(1), 2, "T");
    fixture.broker.metadata_parts().settle();
    assert!(fixture.broker.delivery.transactions.lock().decisions().is_empty());
}
