//! Steps of several accounts, each consumed in its order:
//! `cargo run -p vostok-client --example orderly -- 127.0.0.1:9876 Accounts`.

use client::{
    Client, Config, ConsumeFrom, ConsumeStatus, Error, Message, Producer, ProducerConfig, PushConfig,
    PushConsumer,
};
use std::collections::BTreeMap;
use std::sync::Mutex;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "Accounts".to_owned());
    run(&name_server, &topic).await
}

/// Sends ten steps of each of eight accounts and checks the order they come in.
pub async fn run(name_server: &str, topic: &str) -> Result<(), Error> {
    let client = Client::start(Config::new(name_server))?;
    let producer = Producer::new(&client, ProducerConfig::new("example_accounts"));
    producer.send(&Message::new(topic, "0 0").tag("opening")).await?;
    let queues = producer.queues(topic).await?;
    for step in 1..=10 {
        for account in 0..8 {
            // All steps of an account go to one queue; within it they keep their order.
            let queue = &queues[account % queues.len()];
            producer.send_to(queue, &Message::new(topic, format!("{account} {step}")).tag("step")).await?;
        }
    }

    let (seen, mut steps) = tokio::sync::mpsc::unbounded_channel();
    let last: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let config = PushConfig { from: ConsumeFrom::First, ..PushConfig::new("example_books", topic, "step") };
    let consumer = PushConsumer::start_orderly(&client, config, move |messages| {
        for message in messages {
            let text = String::from_utf8_lossy(&message.body);
            let (account, step) = text.split_once(' ').unwrap_or_default();
            let step: u32 = step.parse().unwrap_or_default();
            let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let before = last.insert(account.to_owned(), step).unwrap_or_default();
            assert_eq!(before + 1, step, "account {account} went from step {before} to {step}");
            drop(seen.send(text.into_owned()));
        }
        ConsumeStatus::Done
    })
    .await?;
    for _ in 0..80 {
        println!("account and step {}", steps.recv().await.unwrap_or_default());
    }

    consumer.shutdown().await;
    producer.shutdown().await;
    client.shutdown();
    Ok(())
}
