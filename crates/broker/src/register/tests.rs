use net::{Limits, Service};
use wire::frame::{Command, Head};

use super::*;
use crate::broker::Broker;
use crate::config::Config;
use crate::testing::{ADDRESS, Fixture, until};

#[test]
fn every_part_says_another_version_and_the_last_one_the_true_one() {
    let version = DataVersion { counter: 7, state_version: 0, timestamp: 1000 };
    let times = |count| part_versions(version, count).map(|part| part.timestamp).collect::<Vec<_>>();
    assert_eq!(times(1), [1000]);
    assert_eq!(times(3), [998, 999, 1000]);
    assert!(part_versions(version, 3).all(|part| part.counter == 7));
}

#[test]
fn a_name_server_is_reminded_of_a_small_table_every_time_and_of_a_large_one_in_turns() {
    let fixture = Fixture::new();
    let topics = &fixture.broker.tables.topics;
    let mut reminder = Reminder::default();
    let mut take = || reminder.take(topics).1.iter().map(|topic| topic.name()).collect::<Vec<_>>().join(" ");
    assert_eq!(take(), "");
    let put = |name: &str| topics.put(TopicConfig::new(name, 1, PERM_READ), 1).unwrap();
    ["A", "B"].into_iter().for_each(put);
    assert_eq!([take(), take()], ["A B", "A B"]);
    ["C", "D", "E", "F", "G"].into_iter().for_each(put);
    assert_eq!([take(), take(), take()], ["A B C D E", "F G", "A B C D E"]);
    topics.commit(["F", "G"].map(|name| vec![TopicChange::Remove(name.to_owned())]).into(), 1);
    assert_eq!([take(), take()], ["A B C D E", "A B C D E"], "what came next is gone");
}

#[test]
fn a_broker_that_may_not_be_written_registers_topics_without_that_permission() {
    let config = TopicConfig::new("T", 4, PERM_READ | PERM_WRITE);
    assert_eq!(*masked(6, &config), config);
    assert_eq!(masked(PERM_READ, &config).perm, PERM_READ);
    assert_eq!(masked(PERM_READ, &config).read_queue_nums, 4);
}

#[test]
fn topics_with_an_order_configuration_are_marked_once_and_stay_as_they_are_otherwise() {
    let fixture = Fixture::new();
    let config = TopicConfig { topic_sys_flag: 2, ..TopicConfig::new("T", 3, PERM_READ) };
    fixture.broker.tables.topics.put(config.clone(), 1).unwrap();
    let body = br#"{"table":{"T":"broker-a:3","Elsewhere":"broker-b:4"}}"#;
    take_order(&fixture.broker.tables, &fixture.broker.replication, &fixture.broker.runtime, body);
    let broker = &fixture.broker;
    assert_eq!(broker.tables.topics.find("T").unwrap().config, TopicConfig { order: true, ..config });
    assert!(broker.tables.topics.find("Elsewhere").is_none());
    let version = broker.tables.topics.version();
    take_order(&broker.tables, &broker.replication, &broker.runtime, body);
    take_order(&broker.tables, &broker.replication, &broker.runtime, b"{");
    assert_eq!(broker.tables.topics.version(), version);
    assert!(fixture.reopened().broker.tables.topics.find("T").unwrap().config.order);
}

/// A name server that answers every request with success.
struct Obliging;

impl Service for Obliging {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, _turn: &mut (), _peer: &Arc<ConnectionHandle>, command: Command<'_>, out: &mut Vec<u8>) {
        Head::response(command.encoding, response::SUCCESS, command.opaque).write(out, b"");
    }
}

/// Changes `namesrvAddr`.
fn register_with(broker: &Broker, addresses: &str) {
    let mut config = Config::clone(&broker.runtime.config);
    config.namesrv_addr = Some(addresses.to_owned());
    broker.runtime.config.replace(config).unwrap();
    broker.replication.registration_acks.change_name_servers();
}

#[test]
fn what_a_name_server_answered_is_known_there_until_it_is_gone() {
    let fixture = Fixture::new();
    let (topics, told) = (&fixture.broker.tables.topics, &fixture.broker.replication.registration_acks);
    // No name server knows such a generation, so this is true as soon as one is reachable.
    let is_in_reach = || !told.is_known(u64::MAX);
    let workers = Workers::start("broker", 1, Limits::default()).unwrap();
    let name_server = Workers::start("namesrv", 1, Limits::default()).unwrap();
    let address = name_server.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Obliging)).unwrap();
    register_with(&fixture.broker, &address.to_string());
    let (broker, tasks) = (fixture.broker.clone(), workers.clone());
    workers.spawn(0, move || run_all(broker.group_parts(), tasks)).unwrap();
    until("the name server is in reach", is_in_reach);
    topics.put(TopicConfig::new("T", 3, PERM_READ), 1).unwrap();
    until("the topic is known", || told.is_known(topics.generation()));
    assert!(is_in_reach());
    name_server.shutdown();
    topics.put(TopicConfig::new("U", 3, PERM_READ), 1).unwrap();
    until("the name server is lost", || !is_in_reach());
    workers.shutdown();
}

/// A name server that knows a master.
struct Knowing;

impl Service for Knowing {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, _turn: &mut (), _peer: &Arc<ConnectionHandle>, command: Command<'_>, out: &mut Vec<u8>) {
        let head = Head::response(command.encoding, response::SUCCESS, command.opaque);
        let answer = FrameWriter::begin(out, head).text("masterAddr", "10.0.0.2:10911");
        answer.text("haServerAddr", "10.0.0.2:10912").finish(b"");
    }
}

#[test]
fn a_slave_that_gets_another_master_asks_at_once_where_that_one_is() {
    let fixture = Fixture::with(|config| config.replication.controller.is_enabled = true);
    let broker = fixture.broker.clone();
    let workers = Workers::start("broker", 1, Limits::default()).unwrap();
    let name_server = Workers::start("namesrv", 1, Limits::default()).unwrap();
    let address = name_server.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Knowing)).unwrap();
    broker.replication.role.follow(1);
    register_with(&broker, &address.to_string());
    let (own, tasks) = (broker.clone(), workers.clone());
    workers.spawn(0, move || run_all(own.group_parts(), tasks)).unwrap();
    // The second time the broker is slave already. Without being woken it would rest for RECONNECT_PAUSE.
    for _ in 0..2 {
        broker.replication.replicas.set_master(Some("10.0.0.2:10911".to_owned()));
        until("it knows where the master is", || !broker.replication.replicas.lacks_master());
    }
    workers.shutdown();
    name_server.shutdown();
}

/// The first request a name server gets after a topic was created.
fn first_request(single: bool) -> (i32, Option<String>, Vec<u8>) {
    let fixture = Fixture::with(|config| config.single_topic_register = single);
    let known = fixture.broker.tables.topics.generation();
    fixture.broker.tables.topics.put(TopicConfig::new("T", 3, PERM_READ), 1).unwrap();
    let mut bytes = first_told(&fixture, Some(known));
    let command = Command::decode(&mut bytes).unwrap();
    (command.code, command.fields.text("topic").map(str::to_owned), command.body.to_vec())
}

/// The first request a name server gets that has the table up to a generation.
fn first_told(fixture: &Fixture, known: Option<u64>) -> Vec<u8> {
    let parts = &fixture.broker.group_parts();
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let tasks = Workers::start("test", 1, Limits::default()).unwrap();
    let telling = async {
        let link = Link { parts, peer: &peer, tasks: &tasks };
        let told = bring_up_to_date(&link, known, || (), None);
        tokio::time::timeout(Duration::ZERO, told).await
    };
    assert!(runtime.block_on(telling).is_err(), "nobody answers");
    tasks.shutdown();
    peer.pushed()
}

#[test]
fn a_name_server_learns_whether_it_gets_the_whole_table() {
    let fixture = Fixture::new();
    let topics = &fixture.broker.tables.topics;
    let part_after = |known: Option<u64>| {
        let mut bytes = first_told(&fixture, known);
        let command = Command::decode(&mut bytes).unwrap();
        command.fields.text("partOfTable").map(str::to_owned)
    };
    let put = |name: &str| topics.put(TopicConfig::new(name, 1, PERM_READ), 1).unwrap();
    put("A");
    let known = topics.generation();
    put("B");
    assert_eq!(part_after(None).as_deref(), Some("false"), "the table");
    assert_eq!(part_after(Some(known)).as_deref(), Some("true"), "a new topic");
    let known = topics.generation();
    topics.commit(vec![vec![TopicChange::Remove("B".to_owned())]], 1);
    assert_eq!(part_after(Some(known)).as_deref(), Some("true"), "a topic is gone");
    ["B", "C", "D", "E", "F"].into_iter().for_each(put);
    assert_eq!(part_after(None).as_deref(), Some("true"), "the table is sent in parts");
}

#[test]
fn with_single_registration_a_name_server_is_told_of_the_changed_topic_alone() {
    let (code, topic, body) = first_request(true);
    assert_eq!((code, topic.as_deref()), (request::REGISTER_TOPIC_IN_NAMESRV, Some("T")));
    let queues = TopicRouteData::decode(&body).unwrap().queue_datas.remove(0);
    assert_eq!((queues.read_queue_nums, queues.write_queue_nums, queues.perm), (3, 3, PERM_READ));
    assert_eq!(first_request(false).0, request::REGISTER_BROKER);
}

#[test]
fn a_broker_registers_where_a_changed_setting_says() {
    let fixture = Fixture::new();
    let workers = Workers::start("broker", 1, Limits::default()).unwrap();
    let name_servers = Workers::start("namesrv", 1, Limits::default()).unwrap();
    let [first, second] = [(); 2].map(|()| {
        name_servers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(Obliging)).unwrap().to_string()
    });
    let broker = &fixture.broker;
    let change = |addresses: &str| register_with(broker, addresses);
    let reached = || broker.replication.registration_acks.reached();
    change(&first);
    let (of_task, tasks) = (broker.clone(), workers.clone());
    workers.spawn(0, move || run_all(of_task.group_parts(), tasks)).unwrap();
    until("the first name server knows the broker", || reached() == [first.clone()]);
    change(&format!("{first};{second}"));
    until("both know it", || reached().len() == 2);
    change(&second);
    until("only the second knows it", || reached() == [second.clone()]);
    workers.shutdown();
    name_servers.shutdown();
}
