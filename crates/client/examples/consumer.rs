//! Prints the messages of a topic until interrupted:
//! `cargo run -p vostok-client --example consumer -- 127.0.0.1:9876 FirstTopic`.

use client::{Client, Config, ConsumeFrom, ConsumeStatus, PushConfig, PushConsumer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), client::Error> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "FirstTopic".to_owned());
    let interrupted = async {
        // Without a handler for interrupts the program ends at once, which is as well.
        let _ = tokio::signal::ctrl_c().await;
    };
    run(&name_server, &topic, interrupted).await
}

/// Prints messages until `end`.
pub async fn run(name_server: &str, topic: &str, end: impl Future<Output = ()>) -> Result<(), client::Error> {
    let client = Client::start(Config::new(name_server))?;
    let config = PushConfig { from: ConsumeFrom::First, ..PushConfig::new("example_consumer", topic, "*") };
    let consumer = PushConsumer::start(&client, config, |messages| {
        for message in messages {
            println!(
                "{} {:?}: {}",
                message.message_id(),
                message.tag(),
                String::from_utf8_lossy(&message.body)
            );
        }
        ConsumeStatus::Done
    })
    .await?;
    println!("reading {} queues, interrupt to end", consumer.queues().len());
    end.await;

    consumer.shutdown().await;
    client.shutdown();
    Ok(())
}
