//! Orders that are paid, cancelled, or settled only when the broker asks:
//! `cargo run -p vostok-client --example transactions -- 127.0.0.1:9876 Orders`.

use client::{
    Client, Config, ConsumeFrom, ConsumeStatus, Decision, Error, Message, ProducerConfig, PushConfig,
    PushConsumer, TransactionProducer,
};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "Orders".to_owned());
    run(&name_server, &topic).await
}

/// Sends nine orders, of which three are paid at once and three later.
pub async fn run(name_server: &str, topic: &str) -> Result<(), Error> {
    let client = Client::start(Config::new(name_server))?;
    // What a broker that was not told asks: here the text knows, usually a database does.
    let producer = TransactionProducer::new(&client, ProducerConfig::new("example_orders"), |order| {
        if order.body.starts_with(b"settled later") { Decision::Commit } else { Decision::Rollback }
    })?;
    for number in 0..3 {
        let half = producer.begin(&Message::new(topic, format!("paid {number}"))).await?;
        half.commit().await?;
        let half = producer.begin(&Message::new(topic, format!("cancelled {number}"))).await?;
        half.rollback().await?;
        // Dropped without a word, as when the application dies.
        drop(producer.begin(&Message::new(topic, format!("settled later {number}"))).await?);
    }

    let (seen, mut orders) = tokio::sync::mpsc::unbounded_channel();
    let config = PushConfig { from: ConsumeFrom::First, ..PushConfig::new("example_shipping", topic, "*") };
    let consumer = PushConsumer::start(&client, config, move |messages| {
        for message in messages {
            drop(seen.send(String::from_utf8_lossy(&message.body).into_owned()));
        }
        ConsumeStatus::Done
    })
    .await?;
    let mut found = std::collections::BTreeSet::new();
    while found.len() < 6 {
        // Brokers ask after transactionTimeOut, 6 s, at their next look, which may be 30 s later.
        let order = tokio::time::timeout(Duration::from_secs(60), orders.recv()).await;
        let order = order.map_err(|_| Error::NoReply(Duration::from_secs(60)))?.unwrap_or_default();
        println!("shipping order {order}");
        assert!(!order.starts_with("cancelled"), "{order}");
        found.insert(order);
    }

    consumer.shutdown().await;
    producer.shutdown().await;
    client.shutdown();
    Ok(())
}
