//! Applications on the Rust client: its examples, and what it writes down about messages.

use std::cell::Cell;
use std::time::Duration;

use client::{
    Client, Config, Message, PopConfig, PopConsumer, Producer, ProducerConfig, PushConfig, PushConsumer,
    TRACE_TOPIC, Verdict,
};
use wire::codes::request;

use crate::stage::{Stage, eventually};

#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/consumer.rs"]
mod consumer;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/orderly.rs"]
mod orderly;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/pop.rs"]
mod pop;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/producer.rs"]
mod producer;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/pull.rs"]
mod pull;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/reminders.rs"]
mod reminders;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/requests.rs"]
mod requests;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/transactions.rs"]
mod transactions;

const PATIENCE: Duration = Duration::from_secs(180);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let within = async { tokio::time::timeout(PATIENCE, future).await };
    runtime.block_on(within).expect("within three minutes")
}

/// Makes a topic and gives the name server's address once the topic is routed there.
fn namesrv(stage: &Stage, topic: &str) -> String {
    let setup = stage.server.setup();
    let namesrv = setup.namesrv().to_string();
    block_on(async {
        let client = Client::start(Config::new(&namesrv)).expect("a client");
        client.create_topic(&setup.broker().to_string(), topic, 4).await.expect("a topic");
        client.shutdown();
    });
    eventually("the topic has a route", || {
        let code = request::GET_ROUTEINFO_BY_TOPIC;
        let answer = stage.name_server().call(code, |writer| writer.text("topic", topic), &[]);
        (answer.code == 0).then_some(())
    });
    namesrv
}

#[test]
fn the_examples_send_and_receive() {
    let stage = Stage::start(&[]);
    let namesrv = namesrv(&stage, "Example");
    block_on(async {
        producer::run(&namesrv, "Example").await.expect("it sends");
        let client = Client::start(Config::new(&namesrv)).expect("a client");
        let route = client.route("Example").await.expect("a route");
        let mut consumed = 0;
        // However often a slow machine needs, at most for the minute of `block_on`.
        while consumed < 10 {
            let moment = tokio::time::sleep(Duration::from_millis(300));
            consumer::run(&namesrv, "Example", moment).await.expect("it receives");
            consumed = 0;
            for queue in &route.subscribe {
                let offset = client.committed_offset("example_consumer", queue).await.expect("an answer");
                consumed += offset.unwrap_or(0);
            }
        }
        client.shutdown();
    });
}

#[test]
fn the_example_of_requests_gets_its_answers() {
    let stage = Stage::start(&[]);
    block_on(requests::run(&namesrv(&stage, "Questions"), "Questions")).expect("ten answers");
}

#[test]
fn the_example_of_transactions_ships_what_is_paid() {
    let stage = Stage::start(&[
        "transactionTimeOut=5000",
        "transactionCheckInterval=300",
        "transactionCheckMax=1000",
    ]);
    block_on(transactions::run(&namesrv(&stage, "Orders"), "Orders")).expect("six orders");
}

#[test]
fn the_example_of_order_keeps_it() {
    let stage = Stage::start(&[]);
    block_on(orderly::run(&namesrv(&stage, "Accounts"), "Accounts")).expect("eighty steps");
}

#[test]
fn the_example_of_pulling_finds_what_its_condition_asks_for() {
    let stage = Stage::start(&["enablePropertyFilter=true"]);
    block_on(pull::run(&namesrv(&stage, "Measurements"), "Measurements")).expect("ten alarms");
}

#[test]
fn the_example_of_pops_finishes_every_job() {
    let stage = Stage::start(&[]);
    block_on(pop::run(&namesrv(&stage, "Jobs"), "Jobs")).expect("twelve jobs");
}

#[test]
fn two_members_share_what_they_pop_and_one_goes_on_for_the_other() {
    let stage = Stage::start(&[]);
    let namesrv = namesrv(&stage, "Shared");
    let join = async |client: &Client| {
        let config = PopConfig { from_first: true, batch: 4, ..PopConfig::new("G", "Shared", "*") };
        PopConsumer::start(client, config).await.expect("a member")
    };
    let left = Cell::new(0_u32);
    let work = async |member: &PopConsumer| {
        let mut bodies = Vec::new();
        while left.get() > 0 {
            for one in member.pop(Duration::from_secs(1)).await.expect("an answer") {
                member.ack(&one).await.expect("acknowledged");
                left.set(left.get().saturating_sub(1));
                bodies.push(String::from_utf8(one.message.body).expect("text"));
            }
        }
        bodies
    };
    block_on(async {
        let clients = [(); 2].map(|()| Client::start(Config::new(&namesrv)).expect("a client"));
        let producer = Producer::new(&clients[0], ProducerConfig::new("P"));
        let send = async |from: u32, until: u32| {
            for number in from..until {
                producer.send(&Message::new("Shared", number.to_string())).await.expect("stored");
            }
            left.set(until - from);
        };
        let members = [join(&clients[0]).await, join(&clients[1]).await];
        send(0, 400).await;
        let (mut all, other) = tokio::join!(work(&members[0]), work(&members[1]));
        assert!(!all.is_empty() && !other.is_empty(), "{} and {}", all.len(), other.len());
        all.extend(other);
        members[1].shutdown().await;
        // With its connection: requests that wait there would still be given messages.
        clients[1].shutdown();
        let mut broker = stage.connect();
        for queue in 0..4 {
            let mut waiting = || {
                let code = request::POLLING_INFO;
                let answer = broker.call(
                    code,
                    |frame| frame.text("consumerGroup", "G").text("topic", "Shared").number("queueId", queue),
                    b"",
                );
                answer.number("pollingNum")
            };
            while waiting() > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        send(400, 500).await;
        all.extend(work(&members[0]).await);
        all.sort_unstable_by_key(|text| text.parse::<u32>().expect("a number"));
        let sent: Vec<_> = (0..500).map(|number| number.to_string()).collect();
        assert_eq!(all, sent, "each once");
        members[0].shutdown().await;
        producer.shutdown().await;
        clients[0].shutdown();
    });
}

#[test]
fn the_example_of_timers_waits_and_takes_back() {
    let stage = Stage::start(&["recallMessageEnable=true", "traceTopicEnable=true"]);
    block_on(reminders::run(&namesrv(&stage, "Reminders"), "Reminders")).expect("two reminders");
}

#[test]
fn what_becomes_of_a_message_is_written_down() {
    let stage = Stage::start(&["traceTopicEnable=true"]);
    let trace = Some(TRACE_TOPIC.to_owned());
    let namesrv = namesrv(&stage, "Traced");
    let (id, records) = block_on(async {
        let client = Client::start(Config::new(&namesrv)).expect("a client");
        let producer =
            Producer::new(&client, ProducerConfig { trace: trace.clone(), ..ProducerConfig::new("P") });
        let sent = producer.send(&Message::new("Traced", "x").keys("k1 k2")).await.expect("stored");
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let config = PushConfig { from: client::From::First, trace, ..PushConfig::new("G", "Traced", "*") };
        let consumer = PushConsumer::start(&client, config, move |messages| {
            sender.send(messages.len()).expect("the test waits");
            Verdict::Done
        })
        .await
        .expect("a consumer");
        assert_eq!(receiver.recv().await, Some(1));
        consumer.shutdown().await;
        producer.shutdown().await;
        let reader = client::PullConsumer::new(&client, "R", "*");
        reader.assign(&reader.queues(TRACE_TOPIC).await.expect("a route")).await.expect("queues");
        let mut records = Vec::new();
        for message in reader.poll(Duration::from_secs(5)).await.expect("traces") {
            let keys = message.property("KEYS").expect("keys").to_owned();
            assert!(keys.contains(&sent.message_id) && keys.contains("k1") && keys.contains("k2"), "{keys}");
            let text = String::from_utf8(message.body).expect("text");
            records.extend(text.split_terminator('\u{2}').map(|record| record.replace('\u{1}', "|")));
        }
        client.shutdown();
        (sent.message_id, records)
    });
    let begins = |prefix: &str| records.iter().filter(|record| record.starts_with(prefix)).count();
    assert_eq!((begins("Pub|"), begins("SubBefore|"), begins("SubAfter|")), (1, 1, 1), "{records:?}");
    assert!(records.iter().all(|record| record.contains(&id)), "{records:?}");
    let sent = records.iter().find(|record| record.starts_with("Pub|")).expect("counted above");
    assert!(sent.contains("|DefaultRegion|P|Traced|") && sent.ends_with("|true"), "{sent}");
}

#[test]
fn the_lab_writes_traces_of_what_it_sends() {
    let stage = Stage::start(&["traceTopicEnable=true"]);
    let namesrv = namesrv(&stage, "Traced");
    let line = format!("producer -n {namesrv} -t Traced -w 2 -s 33 -q 7 -l 3 -k true -m true");
    lab::run(lab::command::Lab::new(line.split(' ').map(str::to_owned))).expect("seven messages");
    let records = block_on(async {
        let client = Client::start(Config::new(&namesrv)).expect("a client");
        let reader = client::PullConsumer::new(&client, "R", "*");
        reader.assign(&reader.queues(TRACE_TOPIC).await.expect("a route")).await.expect("queues");
        let mut records = Vec::new();
        while records.len() < 7 {
            let messages = reader.poll(Duration::from_secs(5)).await.expect("traces");
            assert!(!messages.is_empty(), "{records:?}");
            for message in messages {
                let text = String::from_utf8(message.body).expect("text");
                records.extend(text.split_terminator('\u{2}').map(|record| record.replace('\u{1}', "|")));
            }
        }
        client.shutdown();
        records
    });
    assert_eq!(records.len(), 7, "{records:?}");
    for record in records {
        let fields: Vec<_> = record.split('|').collect();
        assert_eq!((fields[0], fields[3], fields[4]), ("Pub", "benchmark_producer", "Traced"), "{record}");
        assert!(fields[6].starts_with("tag") && fields[9] == "33" && fields[13] == "true", "{record}");
        // Keys are seconds since 1970.
        assert!(fields[7].parse::<u64>().is_ok_and(|seconds| seconds > 1_700_000_000), "{record}");
    }
}
