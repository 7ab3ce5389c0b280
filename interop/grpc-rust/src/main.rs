//! Scenarios on the official Rust client of RocketMQ 5.x. Arguments: gRPC endpoint, name server, run id, scenario names; or `list`.
//! Results go to standard output as "@ok NAME" or "@fail NAME REASON".
//!
//! Version 5.0.0 of the client has no push consumer, recalls no message and does not change how long a message stays invisible.

mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::Producer;
use rocketmq::conf::ProducerOption;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};

use stage::{Outcome, Stage, all, set, text, texts};

const SCENARIOS: [&str; 12] = [
    "simple",
    "tls",
    "batch",
    "long-polling",
    "redelivery",
    "fifo",
    "delay",
    "transactions",
    "tags",
    "sql",
    "large-bodies",
    "refusals",
];

async fn simple(stage: &Stage) -> Outcome {
    let (producer, consumer) = (stage.producer().await?, stage.consumer().await?);
    let mut sent = BTreeMap::new();
    for number in 0..20 {
        let body = format!("body {number}");
        let message = stage.message(&body).set_tag("A").set_keys(vec![format!("k{number}")]);
        let message = message.set_properties([("color", "red")].into());
        sent.insert(producer.send(message.build()?).await?.message_id().to_owned(), body);
    }
    let found = stage.receive(&consumer, &all(), 20).await?;
    expect!(by_id(&found), sent);
    for message in &found {
        expect!(message.keys(), [text(message).replace("body ", "k")]);
        let color = message.properties().get("color").map(String::as_str);
        expect!((message.tag(), color, message.delivery_attempt()), (Some("A"), Some("red"), 1));
    }
    stage.nothing(&consumer, &all()).await?;
    producer.shutdown().await?;
    Ok(consumer.shutdown().await?)
}

fn by_id(messages: &[MessageView]) -> BTreeMap<String, String> {
    messages.iter().map(|message| (message.message_id().to_owned(), text(message))).collect()
}

/// Several messages in one call.
async fn batch(stage: &Stage) -> Outcome {
    let (producer, consumer) = (stage.producer().await?, stage.consumer().await?);
    let bodies: Vec<String> = (0..10).map(|number| format!("body {number}")).collect();
    let mut messages = Vec::new();
    for body in &bodies {
        messages.push(stage.message(body).build()?);
    }
    let receipts = producer.batch_send(messages).await?;
    let sent: BTreeMap<String, String> =
        receipts.iter().map(|receipt| receipt.message_id().to_owned()).zip(bodies).collect();
    expect!(sent.len(), 10);
    let found = stage.receive(&consumer, &all(), 10).await?;
    expect!(by_id(&found), sent);
    Ok(())
}

/// A message that is sent while a receive waits.
async fn long_polling(stage: &Stage) -> Outcome {
    let (producer, consumer) = (Arc::new(stage.producer().await?), stage.consumer().await?);
    for number in 0..5 {
        let body = number.to_string();
        let (producer, message) = (producer.clone(), stage.message(&body).build()?);
        let sending = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            producer.send(message).await
        });
        let found = stage.receive(&consumer, &all(), 1).await?;
        sending.await??;
        expect!(texts(&found), set(&[&body]));
    }
    Ok(())
}

/// A message that is not acknowledged comes again when its time of invisibility is over.
async fn redelivery(stage: &Stage) -> Outcome {
    let (producer, consumer) = (stage.producer().await?, stage.consumer().await?);
    producer.send(stage.message("again").build()?).await?;
    let (begin, invisible) = (Instant::now(), Duration::from_secs(10));
    let first = consumer.receive_with(&stage.topic, &all(), 32, invisible).await?;
    expect!(texts(&first), set(&["again"]));
    let second = stage.receive(&consumer, &all(), 1).await?;
    expect!(texts(&second), set(&["again"]));
    expect!(begin.elapsed() > invisible - Duration::from_secs(1), true);
    expect!((first[0].delivery_attempt(), second[0].delivery_attempt()), (1, 2));
    expect!(second[0].message_id(), first[0].message_id());
    stage.nothing(&consumer, &all()).await
}

async fn fifo(stage: &Stage) -> Outcome {
    let producer = stage.producer().await?;
    for number in 0..30 {
        let (body, group) = (format!("{number}").into_bytes(), format!("g{}", number % 3));
        producer.send(MessageBuilder::fifo_message_builder(&stage.topic, body, group).build()?).await?;
    }
    let consumer = stage.consumer().await?;
    let mut seen = BTreeMap::<String, Vec<usize>>::new();
    for message in stage.receive(&consumer, &all(), 30).await? {
        let group = message.message_group().unwrap_or_default().to_owned();
        seen.entry(group).or_default().push(text(&message).parse()?);
    }
    let ordered = (0..3).map(|group| (format!("g{group}"), (0..10).map(|index| index * 3 + group).collect()));
    expect!(seen, ordered.collect::<BTreeMap<String, Vec<usize>>>());
    Ok(())
}

async fn delay(stage: &Stage) -> Outcome {
    let (producer, consumer) = (stage.producer().await?, stage.consumer().await?);
    // This client states whole seconds.
    let due = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())? + 4;
    producer
        .send(MessageBuilder::delay_message_builder(&stage.topic, b"late".to_vec(), due).build()?)
        .await?;
    let found = stage.receive(&consumer, &all(), 1).await?;
    let came = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    expect!(texts(&found), set(&["late"]));
    expect!(came >= due, true);
    Ok(())
}

async fn transactions(stage: &Stage) -> Outcome {
    let checker = Box::new(|_: String, message: MessageView| match text(&message).as_str() {
        "asked and committed" => TransactionResolution::COMMIT,
        "asked and rolled back" => TransactionResolution::ROLLBACK,
        // A second decision would deliver a message twice.
        _ => TransactionResolution::UNKNOWN,
    });
    let (producer, consumer) = (stage.transaction_producer(checker).await?, stage.consumer().await?);
    for body in ["committed", "rolled back", "asked and committed", "asked and rolled back"] {
        let message = MessageBuilder::transaction_message_builder(&stage.topic, body.as_bytes().to_vec());
        let transaction = producer.send_transaction_message(message.build()?).await?;
        match body {
            "committed" => transaction.commit().await?,
            "rolled back" => transaction.rollback().await?,
            _ => {}
        }
    }
    let found = stage.receive(&consumer, &all(), 2).await?;
    expect!(texts(&found), set(&["asked and committed", "committed"]));
    stage.nothing(&consumer, &all()).await
}

async fn filtered(stage: &Stage, filter: FilterExpression) -> Outcome {
    let (producer, consumer) = (stage.producer().await?, stage.consumer().await?);
    for (body, tag, size) in [("0", "A", "10"), ("1", "B", "10"), ("2", "C", "1"), ("3", "A", "10")] {
        let message = stage.message(body).set_tag(tag).set_properties([("size", size)].into());
        producer.send(message.build()?).await?;
    }
    let found = stage.receive(&consumer, &filter, 3).await?;
    expect!(texts(&found), set(&["0", "1", "3"]));
    stage.nothing(&consumer, &filter).await
}

async fn large_bodies(stage: &Stage) -> Outcome {
    let (producer, consumer) = (stage.producer().await?, stage.consumer().await?);
    // This client receives answers of at most 4 MiB, the message's other fields included.
    let (large, too_large) = ("x".repeat((4 << 20) - 1024), "x".repeat((4 << 20) + 1));
    producer.send(stage.message(&large).build()?).await?;
    let found = stage.receive(&consumer, &all(), 1).await?;
    expect!(found.iter().map(|message| message.body().len()).collect::<Vec<_>>(), [large.len()]);
    expect!(text(&found[0]) == large, true);
    expect!(producer.send(stage.message(&too_large).build()?).await.is_err(), true);
    Ok(())
}

/// This client checks neither topics nor the kinds of their messages: the server refuses them.
async fn refusals(stage: &Stage) -> Outcome {
    let producer = stage.producer().await?;
    let message = MessageBuilder::fifo_message_builder(&stage.topic, b"of another kind".to_vec(), "group");
    let refused = producer.send(message.build()?).await.err().map(|error| error.to_string());
    expect!(refused.unwrap_or_default().contains("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"), true);
    let mut missing = ProducerOption::default();
    missing.set_topics(vec![format!("{}_missing", stage.topic)]);
    let refused = Producer::new(missing, stage.client())?.start().await.err().map(|error| error.to_string());
    expect!(refused.unwrap_or_default().contains("TOPIC_NOT_FOUND"), true);
    Ok(())
}

async fn run(name: &str, stage: &Stage) -> Outcome {
    match name {
        "simple" | "tls" => simple(stage).await,
        "batch" => batch(stage).await,
        "long-polling" => long_polling(stage).await,
        "redelivery" => redelivery(stage).await,
        "fifo" => fifo(stage).await,
        "delay" => delay(stage).await,
        "transactions" => transactions(stage).await,
        "tags" => filtered(stage, FilterExpression::new(FilterType::Tag, "A||B")).await,
        "sql" => {
            filtered(stage, FilterExpression::new(FilterType::Sql, "size > 5 AND TAGS IS NOT NULL")).await
        }
        "large-bodies" => large_bodies(stage).await,
        "refusals" => refusals(stage).await,
        _ => Err("no such scenario".into()),
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, _namesrv, run_id, names @ ..] = arguments.as_slice() else {
        return println!("{}", SCENARIOS.join("\n"));
    };
    let mut running = Vec::new();
    for name in names.iter().cloned() {
        let stage = Stage::new(endpoint, &name, run_id);
        running.push(tokio::spawn(async move {
            match run(&name, &stage).await {
                Ok(()) => println!("@ok {name}"),
                Err(error) => {
                    let reason: String = error.to_string().replace('\n', " ").chars().take(300).collect();
                    println!("@fail {name} {reason}");
                }
            }
        }));
    }
    for scenario in running {
        // A scenario that panicked has no line, which counts as failed.
        let _ = scenario.await;
    }
}
