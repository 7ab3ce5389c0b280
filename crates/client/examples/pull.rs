//! Reads the queues of a topic at the application's own pace, here only messages that match an SQL condition: `cargo
//! run -p vostok-client --example pull -- 127.0.0.1:9876 Measurements`. The broker needs `enablePropertyFilter=true`.

use client::{Client, Config, Error, Expression, Message, Producer, ProducerConfig, PullConsumer};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "Measurements".to_owned());
    run(&name_server, &topic).await
}

/// Sends twenty measurements and reads the ten high measurements, from the position of the group.
pub async fn run(name_server: &str, topic: &str) -> Result<(), Error> {
    let client = Client::start(Config::new(name_server))?;
    let producer = Producer::new(&client, ProducerConfig::new("example_meters"));
    for value in 0..20 {
        let message = Message::new(topic, format!("{value} degrees")).property("degrees", value.to_string());
        producer.send(&message).await?;
    }

    let condition = Expression::Sql("degrees >= 10".to_owned());
    let consumer = PullConsumer::new(&client, "example_alarms", condition);
    let queues = consumer.queues(topic).await?;
    consumer.assign(&queues).await?;
    let mut found = 0;
    while found < 10 {
        let messages = consumer.poll(Duration::from_secs(10)).await?;
        for message in &messages {
            println!("alarm: {}", String::from_utf8_lossy(&message.body));
            assert_eq!(message.property("degrees").map(str::len), Some(2), "ten and more");
        }
        found += messages.len();
    }
    // The next start goes on behind these.
    consumer.commit().await?;
    for queue in &queues {
        // Or anywhere else: offsets and times can be sought.
        consumer.seek_to_time(queue, 0).await?;
    }

    producer.shutdown().await;
    client.shutdown();
    Ok(())
}
