//! Sends ten messages and a batch: `cargo run -p vostok-client --example producer -- 127.0.0.1:9876 FirstTopic`.

use client::{Client, Config, Message, Producer, ProducerConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "FirstTopic".to_owned());
    run(&name_server, &topic).await
}

/// Sends to a cluster.
pub async fn run(name_server: &str, topic: &str) -> Result<(), client::Error> {
    let client = Client::start(Config::new(name_server))?;
    let producer = Producer::new(&client, ProducerConfig::new("example_producer"));
    for number in 0..10 {
        let message =
            Message::new(topic, format!("hello {number}")).tag("greeting").keys(format!("key{number}"));
        let sent = producer.send(&message).await?;
        println!("{} is number {} of queue {}", sent.message_id, sent.queue_offset, sent.queue.queue_id);
    }
    let batch: Vec<_> = (0..3).map(|number| Message::new(topic, format!("batched {number}"))).collect();
    let sent = producer.send_batch(&batch).await?;
    println!("a batch of three begins at number {} of queue {}", sent.queue_offset, sent.queue.queue_id);

    producer.shutdown().await;
    client.shutdown();
    Ok(())
}
