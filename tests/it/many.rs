//! As many topics and groups as large users have.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use wire::codes::request;

use crate::common::server::{Setup, exists_below};
use crate::common::wire_client::{Connection, send_header};
use crate::stage::{Stage, beat, eventually, setup};

const TOPICS: usize = 60_000;

/// Puts a table of so many topics where the broker reads it.
fn write_topics(setup: &Setup, count: usize) {
    let mut text = String::from("{\"dataVersion\":{\"counter\":1},\"topicConfigTable\":{");
    for number in 0..count {
        let comma = if number == 0 { "" } else { "," };
        write!(
            text,
            "{comma}\"some-application-topic-{number:05}\":{{\"attributes\":{{}},\"order\":false,\"perm\":6,\"readQueueNums\":8,\"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"some-application-topic-{number:05}\",\"topicSysFlag\":0,\"writeQueueNums\":8}}"
        )
        .expect("a string takes everything");
    }
    text.push_str("}}");
    let config = setup.data.join("config");
    fs::create_dir_all(&config).expect("a temporary directory");
    fs::write(config.join("topics.json"), text).expect("a temporary directory");
}

fn route_of(name_server: &mut Connection, topic: &str) -> i32 {
    name_server.call(request::GET_ROUTEINFO_BY_TOPIC, |writer| writer.text("topic", topic), &[]).code
}

#[test]
fn sixty_thousand_topics_register() {
    let (setup, home) = setup(&["registerNameServerPeriod=1000"]);
    write_topics(&setup, TOPICS);
    let started = Instant::now();
    let server = setup.start().unwrap_or_else(|error| panic!("the server does not start: {error}"));
    let ready = started.elapsed();
    let stage = Stage { server, home };
    let mut name_server = stage.name_server();
    let last = format!("some-application-topic-{:05}", TOPICS - 1);
    eventually("the last topic has a route", || (route_of(&mut name_server, &last) == 0).then_some(()));
    let registered = started.elapsed();
    let resident = stage.server.resident_kb();
    println!("{TOPICS} topics: ready after {ready:?}, registered after {registered:?}, {resident} kB");
    assert!(resident < 300 * 1024, "{resident} kB with {TOPICS} topics");

    // The lists for tools arrive, or are refused with what to ask instead.
    let mut broker = stage.connect();
    let all = broker.call(request::GET_ALL_TOPIC_CONFIG, |writer| writer, &[]);
    assert!(all.code == 0 && all.number("totalTopicNum") as usize > TOPICS, "{}", all.remark());
    let page = broker.call(
        request::GET_ALL_TOPIC_CONFIG,
        |writer| writer.number("topicSeq", TOPICS).number("maxTopicNum", 2000),
        &[],
    );
    assert!(page.code == 0 && page.body.len() < all.body.len() / 100, "{} bytes", page.body.len());
    let listed = name_server.call(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, |writer| writer, &[]);
    assert_eq!(listed.code, 0, "{}", listed.remark());

    // One topic more is registered by itself, and sends go on while the table is written.
    broker.stored(&send_header("some-application-topic-00000", 0), b"x");
    broker.stored(&send_header("one-more", 0), b"x");
    eventually("the new topic has a route", || (route_of(&mut name_server, "one-more") == 0).then_some(()));

    // Later registrations find that nothing changed.
    let cpu = || cpu_ticks(stage.server.pid());
    eventually("less than a second of processor time in two periods at rest", || {
        let before = cpu();
        std::thread::sleep(Duration::from_millis(2500));
        (cpu() - before < 100).then_some(())
    });
}

/// Processor time of a process in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let after_name = text.rsplit_once(')').expect("the name stands in parentheses").1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

#[test]
fn two_thousand_new_groups_join_with_one_heartbeat() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let groups: Vec<String> = (0..2000)
        .map(|number| format!("{{\"groupName\":\"group-{number}\",\"subscriptionDataSet\":[]}}"))
        .collect();
    let body =
        format!("{{\"clientID\":\"c\",\"consumerDataSet\":[{}],\"producerDataSet\":[]}}", groups.join(","));
    let started = Instant::now();
    beat(&mut connection, &body);
    println!("2000 groups and their retry topics after {:?}", started.elapsed());
    let stage = stage.restart(|server| server.kill9());
    let mut connection = stage.connect();
    let answer = connection.call(
        request::GET_SUBSCRIPTIONGROUP_CONFIG,
        |writer| writer.text("group", "group-1999"),
        &[],
    );
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(exists_below(&stage.server.setup().data, "subscriptionGroup.json"));
}

#[test]
fn topics_made_from_four_connections_at_once_are_all_there_after_a_kill() {
    let stage = Stage::start(&[]);
    let create = |connection: &mut Connection, name: &str| {
        let answer = connection.call(
            request::UPDATE_AND_CREATE_TOPIC,
            |writer| {
                let writer = writer.text("topic", name).number("readQueueNums", 8);
                writer.number("writeQueueNums", 8).number("perm", 6).text("defaultTopic", "TBW102")
            },
            &[],
        );
        assert_eq!(answer.code, 0, "{answer:?}");
    };
    let per_connection = many_topics() / 4;
    let started = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let mut connection = stage.connect();
            scope.spawn(move || {
                (0..per_connection)
                    .for_each(|topic| create(&mut connection, &format!("made-{number}-{topic}")));
            });
        }
    });
    println!("{} topics from 4 connections after {:?}", per_connection * 4, started.elapsed());
    let stage = stage.restart(|server| server.kill9());
    let mut connection = stage.connect();
    for number in 0..4 {
        let name = format!("made-{number}-{}", per_connection - 1);
        connection.stored(&send_header(&name, 7), b"x");
    }
}

/// Topics of the test above; more for a measurement.
fn many_topics() -> usize {
    std::env::var("VOSTOK_MANY_TOPICS").ok().and_then(|count| count.parse().ok()).unwrap_or(200)
}
