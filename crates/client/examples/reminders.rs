//! Messages for a point in time, of which one is recalled, and a message delayed by a level. All of them are traced:
//! `cargo run -p vostok-client --example reminders -- 127.0.0.1:9876 Reminders`. Recalls need a broker with
//! `recallMessageEnable=true`. Traces need a broker with `traceTopicEnable=true` or `autoCreateTopicEnable`.

use client::{
    Client, Config, ConsumeFrom, ConsumeStatus, Error, Message, Producer, ProducerConfig, PushConfig,
    PushConsumer, TRACE_TOPIC,
};
use std::time::{Duration, Instant};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "Reminders".to_owned());
    run(&name_server, &topic).await
}

/// Sends three reminders and waits for those that are not recalled.
pub async fn run(name_server: &str, topic: &str) -> Result<(), Error> {
    let client = Client::start(Config::new(name_server))?;
    let trace = Some(TRACE_TOPIC.to_owned());
    let config = ProducerConfig { trace: trace.clone(), ..ProducerConfig::new("example_reminders") };
    let producer = Producer::new(&client, config);
    let begin = Instant::now();
    let soon = Duration::from_secs(6);
    producer.send(&Message::new(topic, "six seconds").deliver_after(soon)).await?;
    producer.send(&Message::new(topic, "level one, a second").delay_level(1)).await?;
    let unwanted = Message::new(topic, "taken back").deliver_after(soon);
    let sent = producer.send(&unwanted).await?;
    let handle = sent.recall_handle.unwrap_or_default();
    let recalled = producer.recall(topic, &handle).await?;
    println!("{recalled} is taken back");

    let (seen, mut reminders) = tokio::sync::mpsc::unbounded_channel();
    let config =
        PushConfig { from: ConsumeFrom::First, trace, ..PushConfig::new("example_reminded", topic, "*") };
    let consumer = PushConsumer::start(&client, config, move |messages| {
        for message in messages {
            drop(seen.send(String::from_utf8_lossy(&message.body).into_owned()));
        }
        ConsumeStatus::Done
    })
    .await?;
    for expected in ["level one, a second", "six seconds"] {
        let reminder = reminders.recv().await.unwrap_or_default();
        println!("{reminder}, after {:.1} s", begin.elapsed().as_secs_f64());
        assert_eq!(reminder, expected);
    }

    // Traces are sent before these return.
    consumer.shutdown().await;
    producer.shutdown().await;
    client.shutdown();
    Ok(())
}
