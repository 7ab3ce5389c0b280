//! Applications on the Rust client: its examples, and what it writes down about messages.

use std::time::Duration;

use client::{
    Client, Config, ConsumeStatus, Error, Message, Producer, ProducerConfig, PullConsumer, PushConfig,
    PushConsumer, Received, TRACE_TOPIC,
};
use wire::codes::request;

use crate::common::{PATIENCE, patiently};
use crate::stage::{Stage, eventually};

#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/consumer.rs"]
mod consumer;
#[allow(dead_code, unreachable_pub, reason = "a program whose main is not called here")]
#[path = "../../crates/client/examples/orderly.rs"]
mod orderly;
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

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let within = async { tokio::time::timeout(3 * PATIENCE, future).await };
    runtime.block_on(within).expect("it ends")
}

/// Runs an example until none of its requests is answered too late, each time with a topic of its own.
fn run_example(stage: &Stage, topic: &str, run: impl AsyncFn(&str, &str) -> Result<(), Error>) {
    let mut number = 0;
    eventually("the example ends", || {
        number += 1;
        let topic = format!("{topic}{number}");
        match block_on(run(&namesrv(stage, &topic), &topic)) {
            Err(
                error @ (Error::Connect { .. } | Error::Call(_) | Error::Busy { .. } | Error::NoReply(_)),
            ) => {
                eprintln!("{error}");
                None
            }
            outcome => {
                outcome.expect("the example succeeds");
                Some(())
            }
        }
    });
}

/// Makes a topic and gives the name server's address once the topic is routed there.
fn namesrv(stage: &Stage, topic: &str) -> String {
    let setup = stage.server.setup();
    let namesrv = setup.namesrv().to_string();
    block_on(async {
        let client = Client::start(Config::new(&namesrv)).expect("a client");
        let broker = setup.broker().to_string();
        patiently(async || client.create_topic(&broker, topic, 4).await).await.expect("a topic");
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
    run_example(&stage, "Example", async |namesrv, topic| {
        producer::run(namesrv, topic).await?;
        let client = Client::start(Config::new(namesrv))?;
        let route = client.route(topic).await?;
        let mut consumed = 0;
        // However often a slow machine needs.
        while consumed < 10 {
            let moment = tokio::time::sleep(Duration::from_millis(300));
            consumer::run(namesrv, topic, moment).await?;
            consumed = 0;
            for queue in &route.subscribe {
                consumed += client.committed_offset("example_consumer", queue).await?.unwrap_or(0);
            }
        }
        client.shutdown();
        Ok(())
    });
}

#[test]
fn the_example_of_requests_gets_its_answers() {
    let stage = Stage::start(&[]);
    run_example(&stage, "Questions", requests::run);
}

#[test]
fn the_example_of_transactions_ships_what_is_paid() {
    let stage = Stage::start(&[
        "transactionTimeOut=5000",
        "transactionCheckInterval=300",
        "transactionCheckMax=1000",
    ]);
    run_example(&stage, "Orders", transactions::run);
}

#[test]
fn the_example_of_order_keeps_it() {
    let stage = Stage::start(&[]);
    run_example(&stage, "Accounts", orderly::run);
}

#[test]
fn the_example_of_pulling_finds_what_its_condition_asks_for() {
    let stage = Stage::start(&["enablePropertyFilter=true"]);
    run_example(&stage, "Measurements", pull::run);
}

#[test]
fn the_example_of_timers_waits_and_takes_back() {
    let stage = Stage::start(&["recallMessageEnable=true", "traceTopicEnable=true"]);
    run_example(&stage, "Reminders", reminders::run);
}

/// A producer that waits for late answers.
fn producer_of(client: &Client, trace: Option<String>) -> Producer {
    Producer::new(client, ProducerConfig { timeout: PATIENCE, trace, ..ProducerConfig::new("P") })
}

async fn reader_of_traces(client: &Client) -> PullConsumer {
    let reader = PullConsumer::new(client, "R", "*");
    let queues = patiently(async || reader.queues(TRACE_TOPIC).await).await.expect("a route");
    patiently(async || reader.assign(&queues).await).await.expect("queues");
    reader
}

async fn traces(reader: &PullConsumer) -> Vec<Received> {
    patiently(async || reader.poll(Duration::from_secs(5)).await).await.expect("traces")
}

#[test]
fn what_becomes_of_a_message_is_written_down() {
    let stage = Stage::start(&["traceTopicEnable=true"]);
    let trace = Some(TRACE_TOPIC.to_owned());
    let namesrv = namesrv(&stage, "Traced");
    let (id, records) = block_on(async {
        let client = Client::start(Config::new(&namesrv)).expect("a client");
        let producer = producer_of(&client, trace.clone());
        let sent = producer.send(&Message::new("Traced", "x").keys("k1 k2")).await.expect("stored");
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let config =
            PushConfig { from: client::ConsumeFrom::First, trace, ..PushConfig::new("G", "Traced", "*") };
        let start = async || {
            let sender = sender.clone();
            PushConsumer::start(&client, config.clone(), move |messages| {
                sender.send(messages.len()).expect("the test waits");
                ConsumeStatus::Done
            })
            .await
        };
        let consumer = patiently(start).await.expect("a consumer");
        assert_eq!(receiver.recv().await, Some(1));
        consumer.shutdown().await;
        producer.shutdown().await;
        let reader = reader_of_traces(&client).await;
        let mut records = Vec::new();
        while records.len() < 3 {
            for message in traces(&reader).await {
                let keys = message.property("KEYS").expect("keys").to_owned();
                let has_all = [sent.message_id.as_str(), "k1", "k2"].iter().all(|key| keys.contains(key));
                assert!(has_all, "{keys}");
                let text = String::from_utf8(message.body).expect("text");
                records.extend(text.split_terminator('\u{2}').map(|record| record.replace('\u{1}', "|")));
            }
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
        let reader = reader_of_traces(&client).await;
        let mut records = Vec::new();
        while records.len() < 7 {
            for message in traces(&reader).await {
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
